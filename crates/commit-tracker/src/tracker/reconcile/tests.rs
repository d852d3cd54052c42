use super::*;
use crate::changes::Commit;
use crate::given;

const KEY: &str = "main@sha1:5394cb7f48332b2de7c17dd8b8384bbc84b7e738";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_772_000_000 + seconds).unwrap()
}

/// A Kustomization that applied two revisions, a minute each.
fn view() -> View {
    let steps = vec![given::step("main@sha1:1", at(0)), given::step("main@sha1:2", at(60))];
    View { standing: given::standing(at(0), steps), source: None, has: None }
}

/// The first of them is accounted for.
fn entry() -> Entry {
    given::entry(at(-1000), &["main@sha1:1"])
}

fn commit(merged: Timestamp) -> Commit {
    Commit::new(KEY, merged)
}

#[test]
fn commits_of_a_history_with_nothing_in_common_count_from_what_was_applied_last_on() {
    let related = Changes::default();
    let unrelated = Changes { unrelated: true, ..Changes::default() };
    let last =
        |applied| Some(Box::new(LastApplied { commit: "a".into(), merged: at(0), applied: at(applied) }));
    let (first_sight, nothing) = (at(-5), given::entry(at(-1000), &[]));
    // Until something is accounted for, first sight alone counts.
    assert_eq!(floor(first_sight, None, &unrelated), Some(first_sight));
    assert_eq!(floor(first_sight, Some(&nothing), &unrelated), Some(first_sight));
    let known = entry();
    assert_eq!(floor(first_sight, Some(&known), &related), None);
    assert_eq!(floor(first_sight, Some(&known), &unrelated), Some(known.began));
    let applied = Entry { last: last(70), ..entry() };
    assert_eq!(floor(first_sight, Some(&applied), &unrelated), Some(at(70)));
    let before = Entry { last: last(-2000), ..entry() };
    assert_eq!(
        floor(first_sight, Some(&before), &unrelated),
        Some(known.began),
        "which is when series began"
    );
    let older = Changes { older: true, ..Changes::default() };
    assert_eq!(
        floor(first_sight, Some(&applied), &older),
        Some(first_sight),
        "it may have been there before"
    );
}

#[test]
fn what_came_of_a_revision_is_one_outcome_and_loss_is_told_before_all_else() {
    let view = view();
    let entry = entry();
    let outcome = |changes: &Changes, since: Option<i64>| {
        let step = &view.standing.steps[1];
        let measured = measure(step, changes, since.map(at));
        counted(
            nothing(&view, view.standing.source.as_ref().unwrap(), Some(&entry)),
            step,
            changes,
            &measured,
        )
        .outcome
    };
    let brought = |seconds: &[i64]| Changes {
        commits: seconds.iter().map(|merged| commit(at(*merged))).collect(),
        ..Changes::default()
    };
    let all = Changes { truncated: true, rewritten: true, incomplete: true, ..brought(&[0]) };
    for (changes, since, expected) in [
        (brought(&[0, 10]), None, Outcome::Measured),
        (brought(&[900]), None, Outcome::Measured),
        (brought(&[]), None, Outcome::Empty),
        (brought(&[0]), Some(5), Outcome::Baseline),
        (brought(&[0, 10]), Some(5), Outcome::Measured),
        (Changes { truncated: true, ..brought(&[0, 10]) }, Some(5), Outcome::Measured),
        (Changes { incomplete: true, ..brought(&[]) }, None, Outcome::Incomplete),
        (Changes { truncated: false, ..all.clone() }, None, Outcome::Rewritten),
        (all, None, Outcome::Truncated),
    ] {
        assert_eq!(outcome(&changes, since), Some(expected), "{changes:?}");
    }
}

#[test]
fn the_last_applied_commit_is_the_newest_with_a_date_that_can_be_one() {
    let view = view();
    let last = |merged: &[Timestamp]| {
        let changes =
            Changes { commits: merged.iter().map(|merged| commit(*merged)).collect(), ..Changes::default() };
        let step = &view.standing.steps[1];
        let measured = measure(step, &changes, None);
        let record =
            counted(nothing(&view, view.standing.source.as_ref().unwrap(), None), step, &changes, &measured);
        record.last.map(|last| (last.merged, last.applied))
    };
    let ready = at(60);
    assert_eq!(last(&[at(0), at(10)]), Some((at(10), ready)));
    assert_eq!(last(&[at(10), at(60 + 3601)]), Some((at(10), ready)), "nobody merges in the future");
    assert_eq!(last(&[Timestamp::UNIX_EPOCH]), None);
    assert_eq!(last(&[]), None);
}
