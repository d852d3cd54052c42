use super::*;
use crate::tracker::reconcile::tests::view;
use crate::tracker::sources::Version;

#[test]
fn what_was_tried_is_tried_again_when_somebody_may_have_mended_it() {
    let states = States::default();
    let first = view(&[1, 2]);
    let [one, two] = [0, 1].map(|place| first.standing.steps[place].revision.clone());
    assert!(!states.was_tried(&first, &one));
    states.tried(&first, &one);
    states.tried(&first, &two);
    assert!(states.was_tried(&first, &one) && states.was_tried(&first, &two));
    assert!(states.was_tried(&view(&[1, 2]), &one), "nothing changed");

    let mut edited = view(&[1, 2]);
    let mut kustomization = (*edited.kustomization).clone();
    kustomization.metadata.generation = 2;
    edited.kustomization = kustomization.into();
    let mut moved = view(&[1, 2]);
    moved.source_version = Some(Version { generation: 2, ..Version::default() });
    let mut gone = view(&[1, 2]);
    gone.source_version = None;
    for changed in [&edited, &moved, &gone, &view(&[1, 2, 3])] {
        assert!(!states.was_tried(changed, &one) && !states.was_tried(changed, &two));
    }
    // What was tried before the change does not count after it.
    states.tried(&edited, &two);
    assert!(states.was_tried(&edited, &two) && !states.was_tried(&edited, &one));
    assert!(!states.was_tried(&first, &two));
    states.forget("1");
    assert!(!states.was_tried(&edited, &two));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_missing_is_waited_for_a_while_and_anew_once_it_was_there() {
    let states = States::default();
    assert_eq!(states.missing_for("1"), Some(MISSING));
    tokio::time::advance(MISSING / 2).await;
    assert_eq!(states.missing_for("1"), Some(MISSING / 2));
    assert_eq!(states.missing_for("2"), Some(MISSING), "each waits for its own");
    tokio::time::advance(MISSING / 2).await;
    assert_eq!(states.missing_for("1"), None);
    tokio::time::advance(MISSING).await;
    assert_eq!(states.missing_for("1"), None, "it stays so");
    states.found("1");
    assert_eq!(states.missing_for("1"), Some(MISSING));
    states.forget("2");
    assert_eq!(states.missing_for("2"), Some(MISSING));
}

#[test]
fn the_longest_of_a_revision_is_its_exemplar() {
    let observed = [(Instrument::EndToEnd, 3.0), (Instrument::EndToEnd, 9.0), (Instrument::StageApply, 1.0)];
    let example = Example::new((TraceId::from(7), SpanId::from(8)), Timestamp::UNIX_EPOCH, &observed);
    let of = |instrument| example.of(instrument).map(|exemplar| exemplar.value);
    assert_eq!((of(Instrument::EndToEnd), of(Instrument::StageApply)), (Some(9.0), Some(1.0)));
    assert_eq!(of(Instrument::Export), None);
}

#[test]
fn what_lasts_is_news_once_and_again_when_it_was_over() {
    let states = States::default();
    let news = |topic, text| states.is_news("1", topic, text);
    assert!(news(Topic::Standing, Some("a")) && !news(Topic::Standing, Some("a")));
    assert!(news(Topic::Recording, Some("a")), "each topic for itself");
    assert!(!news(Topic::Standing, None) && news(Topic::Standing, Some("a")));
    states.forget("1");
    assert!(news(Topic::Recording, Some("a")));
    assert_eq!(states.now("1").waiting, Waiting::Untracked);
}
