use super::*;
use crate::given::{self, second as at};

fn step(revision: &str, ready: i64) -> Step {
    given::step(revision, at(ready))
}

fn standing(created: i64, steps: Vec<Step>) -> Standing {
    given::standing(at(created), steps)
}

fn entry(accounted: &[&str]) -> Entry {
    given::entry(at(0), accounted)
}

/// When the ledger was begun.
const BEGAN: i64 = 100_000;

/// What is baseline and what is due, oldest first.
#[track_caller]
fn check(standing: &Standing, entry: Option<&Entry>, baseline: &[&str], due: &[&str]) {
    let plan = plan(standing, None, entry, at(BEGAN));
    let [own, own_due] = [&plan.baseline, &plan.due]
        .map(|steps| steps.iter().map(|step| step.revision.as_str()).collect::<Vec<_>>());
    assert_eq!((&*own, &*own_due), (baseline, due), "{standing:#?}");
}

#[test]
fn at_the_first_sight_what_was_there_before_the_tracker_is_baseline() {
    check(&standing(0, vec![step("a", BEGAN - 500), step("b", BEGAN - 100)]), None, &["a", "b"], &[]);
    check(&standing(0, vec![step("a", BEGAN - 500), step("b", BEGAN + 100)]), None, &["a"], &["b"]);
    // A new one's first revision counts from an hour before it was made.
    for (created, since) in [(BEGAN + 10_000, BEGAN + 6_400), (BEGAN + 10, BEGAN)] {
        let new = standing(created, vec![step("a", created + 10)]);
        check(&new, None, &[], &["a"]);
        assert_eq!(plan(&new, None, None, at(BEGAN)).since, at(since));
    }
    // What is left of a longer history begins with a baseline.
    let steps: Vec<_> = (1..=3).map(|index| step(&format!("r{index}"), BEGAN + 20_000 + index)).collect();
    let whole = standing(BEGAN + 10, steps.clone());
    check(&whole, None, &[], &["r1", "r2", "r3"]);
    check(&Standing { whole: false, ..whole.clone() }, None, &["r1"], &["r2", "r3"]);
    let last = Standing { whole: false, steps: steps[2..].to_vec(), ..whole };
    check(&last, None, &["r3"], &[]);
    // What is applied after the first sight of one that had applied nothing is due.
    check(&last, Some(&Entry { began: at(BEGAN + 20), ..entry(&[]) }), &[], &["r3"]);
    check(&last, Some(&Entry { began: at(BEGAN + 30_000), ..entry(&[]) }), &["r3"], &[]);
}

#[test]
fn what_comes_after_the_newest_accounted_revision_is_due_oldest_first() {
    for (steps, accounted, due) in [
        (&[("a", 1), ("b", 2), ("c", 3), ("d", 4)][..], &["a", "b"][..], &["c", "d"][..]),
        (&[("a", 1), ("b", 2)], &["b"], &[]),
        (&[("a", 1), ("b", 2)], &["long ago"], &["a", "b"]),
        // What could not be looked into is not due once a later revision is accounted for.
        (&[("a", 1), ("stuck", 2), ("c", 3)], &["a", "c"], &[]),
        // A roll-back, and forward again.
        (&[("b", 2), ("a", 1)], &["a", "b"], &[]),
        (&[("a", 1), ("b", 2), ("c", 5)], &["a", "b"], &["c"]),
        // What was applied and rolled back while nobody looked.
        (&[("a", 1), ("c", 5), ("b", 3)], &["a", "b"], &["c"]),
        (&[("a", 1), ("b", 1), ("c", 1)], &["b"], &["c"]),
        // What is applied now is due although its time is one from before.
        (&[("a", 1), ("b", 9), ("c", 5)], &["a", "b"], &["c"]),
    ] {
        let steps = steps.iter().map(|(revision, ready)| step(revision, *ready)).collect();
        check(&standing(0, steps), Some(&entry(accounted)), &[], due);
    }
    // What is remembered by its mark alone is not due again.
    let artifact = |number: u8| format!("latest@sha256:{number:064}");
    let older = vec![crate::ledger::mark_of(&format!("{:064}", 1))];
    let steps = [1, 2].map(|number| step(&artifact(number), number.into()));
    let back = Entry { older, ..entry(&["a"]) };
    check(&standing(0, steps.into()), Some(&back), &[], &[&artifact(2)]);
}

#[test]
fn what_may_stand_for_revisions_that_are_forgotten_has_an_estimated_time() {
    let replaced = Step { replaced: true, ..step("z", 5_000) };
    for (before, last, looking, estimated, why) in [
        ("a", &replaced, 10_000, true, "others may have built the same manifests"),
        ("a", &replaced, 1_000, false, "they would have been seen"),
        ("y", &step("z", 5_000), 10_000, true, "what came after `a` is forgotten"),
        ("a", &step("z", 5_000), 10_000, false, "nothing is between the two"),
    ] {
        let standing = standing(0, vec![step(before, 1), last.clone()]);
        let known = as_far_as_known(last, &standing, Some(&entry(&["a"])), at(looking));
        assert_eq!(known.estimated, estimated, "{why}");
    }
    let unseen = standing(0, vec![replaced.clone()]);
    assert!(as_far_as_known(&replaced, &unseen, None, at(0)).estimated, "nobody knows what was there before");
}

#[test]
fn what_the_source_has_and_nobody_applied_is_coming() {
    let accounted = entry(&["a", "b"]);
    let applied = |revisions: &[&str]| standing(0, revisions.iter().map(|name| step(name, 2)).collect());
    for (standing, has, is_coming) in [
        (applied(&["b"]), "c", true),
        // A roll-back of the source brings nothing; what is suspended ages too.
        (applied(&["b"]), "a", false),
        (Standing { suspended: true, ..applied(&["b"]) }, "c", true),
        (Standing { deleted: true, ..applied(&["b"]) }, "c", false),
        (applied(&["b", "c"]), "c", false),
    ] {
        let has = has.parse().unwrap();
        let coming = plan(&standing, Some(&has), Some(&accounted), at(BEGAN)).coming;
        assert_eq!(coming.is_some(), is_coming, "{standing:?}");
    }
}

#[test]
fn what_is_pending_keeps_its_times_until_it_is_looked_into() {
    let first_seen = Pending { step: step("b", 10), problem: Some(crate::changes::Problem::NotFound) };
    let forgotten = Pending { step: step("gone", 5), problem: None };
    let entry = Entry { pending: vec![forgotten.clone(), first_seen.clone()], ..entry(&["a"]) };
    let again = Step { seen: Some(at(9)), ..step("b", 900) };
    let standing = standing(0, vec![step("a", 1), again, step("c", 901)]);
    let due: Vec<_> = standing.steps[1..].iter().collect();
    let b = Pending { step: Step { seen: Some(at(9)), ..first_seen.step }, ..first_seen };
    let expected = [forgotten, b, Pending { step: step("c", 901), problem: None }];
    assert_eq!(pending(&due, &standing, Some(&entry), at(0)), expected);
}
