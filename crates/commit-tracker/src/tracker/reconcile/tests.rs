use super::*;
use crate::changes::Commit;
use crate::given::{self, second as at};

fn brought(merged: &[Timestamp]) -> Changes {
    let commits = merged.iter().map(|merged| Commit::new("5394cb7f", *merged)).collect();
    Changes { commits, ..Changes::default() }
}

/// What is recorded of a revision that was applied a minute on, where commits count from then on.
fn recorded(changes: &Changes, since: Option<i64>) -> Record {
    let step = given::step("main@sha1:2", at(60));
    let view = View { standing: given::standing(at(0), vec![step.clone()]), source: None, has: None };
    let known = nothing(&view, view.standing.source.as_ref().unwrap(), None);
    counted(known, &step, changes, &measure(&step, changes, since.map(at)))
}

#[test]
fn commits_count_from_what_was_there_before_where_the_history_does_not_tell() {
    let known = given::entry(at(-1000), &["main@sha1:1"]);
    let after = |applied: i64| {
        let last = LastApplied { commit: "a".into(), merged: at(0), applied: at(applied) };
        Some(Entry { last: Some(Box::new(last)), ..known.clone() })
    };
    let unrelated = Changes { unrelated: true, ..Changes::default() };
    let older = Changes { older: true, ..Changes::default() };
    for (entry, changes, floor_at, why) in [
        (None, &unrelated, Some(-5), "at the first sight"),
        (Some(given::entry(at(-1000), &[])), &unrelated, Some(-5), "until something is accounted for"),
        (Some(known.clone()), &Changes::default(), None, "all that is new counts"),
        (Some(known.clone()), &unrelated, Some(-1000), "since its series began"),
        (after(70), &unrelated, Some(70), "since what was applied last"),
        (after(-2000), &unrelated, Some(-1000), "since its series began"),
        (after(70), &older, Some(-5), "it may have been there before"),
    ] {
        assert_eq!(floor(at(-5), entry.as_ref(), changes), floor_at.map(at), "{why}");
    }
}

#[test]
fn what_came_of_a_revision_is_one_outcome_and_loss_is_told_before_all_else() {
    let [none, one, two] = [brought(&[]), brought(&[at(0)]), brought(&[at(0), at(10)])];
    let all = Changes { truncated: true, rewritten: true, incomplete: true, ..one.clone() };
    for (changes, since, expected) in [
        (two.clone(), None, Outcome::Measured),
        (brought(&[at(900)]), None, Outcome::Measured),
        (none.clone(), None, Outcome::Empty),
        (one, Some(5), Outcome::Baseline),
        (two.clone(), Some(5), Outcome::Measured),
        (Changes { truncated: true, ..two }, Some(5), Outcome::Measured),
        (Changes { incomplete: true, ..none }, None, Outcome::Incomplete),
        (Changes { truncated: false, ..all.clone() }, None, Outcome::Rewritten),
        (all, None, Outcome::Truncated),
    ] {
        assert_eq!(recorded(&changes, since).outcome, Some(expected), "{changes:?}");
    }
}

#[test]
fn the_last_applied_commit_is_the_newest_with_a_date_that_can_be_one() {
    for (merged, last) in [
        (vec![at(0), at(10)], Some(at(10))),
        // Nobody merges in the future.
        (vec![at(10), at(60 + 3601)], Some(at(10))),
        (vec![Timestamp::UNIX_EPOCH], None),
        (vec![], None),
    ] {
        let told = recorded(&brought(&merged), None).last.map(|last| (last.merged, last.applied));
        assert_eq!(told, last.map(|merged| (merged, at(60))), "{merged:?}");
    }
}
