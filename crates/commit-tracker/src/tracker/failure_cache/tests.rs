use super::*;
use crate::tracker::reconcile::tests::view;
use crate::tracker::sources::Version;

#[test]
fn what_was_tried_is_tried_again_when_somebody_may_have_mended_it() {
    let failures = FailureCache::default();
    let first = view(&[1, 2]);
    let [one, two] = [0, 1].map(|place| first.standing.steps[place].revision.clone());
    assert!(!failures.was_tried(&first, &one));
    failures.tried(&first, &one);
    failures.tried(&first, &two);
    assert!(failures.was_tried(&first, &one) && failures.was_tried(&first, &two));
    assert!(failures.was_tried(&view(&[1, 2]), &one), "nothing changed");

    let mut edited = view(&[1, 2]);
    let mut kustomization = (*edited.kustomization).clone();
    kustomization.metadata.generation = 2;
    edited.kustomization = kustomization.into();
    let mut moved = view(&[1, 2]);
    moved.source_version = Some(Version { generation: 2, ..Version::default() });
    let mut gone = view(&[1, 2]);
    gone.source_version = None;
    for changed in [&edited, &moved, &gone, &view(&[1, 2, 3])] {
        assert!(!failures.was_tried(changed, &one) && !failures.was_tried(changed, &two));
    }
    // What was tried before the change does not count after it.
    failures.tried(&edited, &two);
    assert!(failures.was_tried(&edited, &two) && !failures.was_tried(&edited, &one));
    assert!(!failures.was_tried(&first, &two));
    failures.forget("1");
    assert!(!failures.was_tried(&edited, &two));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_missing_is_waited_for_a_while_and_anew_once_it_was_there() {
    let failures = FailureCache::default();
    assert_eq!(failures.missing_for("1"), Some(MISSING));
    tokio::time::advance(MISSING / 2).await;
    assert_eq!(failures.missing_for("1"), Some(MISSING / 2));
    assert_eq!(failures.missing_for("2"), Some(MISSING), "each waits for its own");
    tokio::time::advance(MISSING / 2).await;
    assert_eq!(failures.missing_for("1"), None);
    tokio::time::advance(MISSING).await;
    assert_eq!(failures.missing_for("1"), None, "it stays so");
    failures.found("1");
    assert_eq!(failures.missing_for("1"), Some(MISSING));
    failures.forget("2");
    assert_eq!(failures.missing_for("2"), Some(MISSING));
}
