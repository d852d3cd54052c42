use super::*;
use crate::given;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

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

#[track_caller]
fn check(standing: &Standing, entry: Option<&Entry>, baseline: &[&str], due: &[&str]) {
    let plan = plan(standing, None, entry, at(BEGAN));
    let shown = |steps: &[&Step]| steps.iter().map(|step| step.revision.to_string()).collect::<Vec<_>>();
    assert_eq!((shown(&plan.baseline), shown(&plan.due)), (owned(baseline), owned(due)));
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn what_was_applied_before_the_ledger_began_is_baseline_without_a_question() {
    let old = standing(0, vec![step("a", BEGAN - 500), step("b", BEGAN - 100)]);
    check(&old, None, &["a", "b"], &[]);
    let since = standing(0, vec![step("a", BEGAN - 500), step("b", BEGAN + 100)]);
    check(&since, None, &["a"], &["b"]);
}

#[test]
fn a_new_kustomizations_first_revision_counts_from_an_hour_before_it_was_made() {
    let new = standing(BEGAN + 10_000, vec![step("a", BEGAN + 10_010)]);
    check(&new, None, &[], &["a"]);
    assert_eq!(plan(&new, None, None, at(BEGAN)).since, at(BEGAN + 6_400));
    let soon = standing(BEGAN + 10, vec![step("a", BEGAN + 20)]);
    assert_eq!(plan(&soon, None, None, at(BEGAN)).since, at(BEGAN));
}

#[test]
fn what_is_left_of_a_longer_history_begins_with_a_baseline() {
    let steps = |from| (from..=3).map(|index| step(&format!("r{index}"), BEGAN + 20_000 + index)).collect();
    let cut = standing(BEGAN + 10, steps(1));
    check(&cut, None, &[], &["r1", "r2", "r3"]);
    let cut = Standing { whole: false, ..cut };
    check(&cut, None, &["r1"], &["r2", "r3"]);
    let one = Standing { whole: false, ..standing(BEGAN + 10, steps(3)) };
    check(&one, None, &["r3"], &[]);
}

#[test]
fn what_is_applied_after_the_first_sight_of_one_that_had_applied_nothing_is_due() {
    let late = Standing { whole: false, ..standing(BEGAN + 10, vec![step("a", BEGAN + 20_000)]) };
    let seen = Entry { began: at(BEGAN + 20), ..entry(&[]) };
    check(&late, Some(&seen), &[], &["a"]);
    let seen_later = Entry { began: at(BEGAN + 30_000), ..entry(&[]) };
    check(&late, Some(&seen_later), &["a"], &[]);
}

#[test]
fn what_comes_after_the_newest_accounted_revision_is_due_oldest_first() {
    let steps = vec![step("a", 1), step("b", 2), step("c", 3), step("d", 4)];
    check(&standing(0, steps.clone()), Some(&entry(&["a", "b"])), &[], &["c", "d"]);
    check(&standing(0, steps.clone()), Some(&entry(&["d"])), &[], &[]);
    check(&standing(0, steps), Some(&entry(&["long ago"])), &[], &["a", "b", "c", "d"]);
}

#[test]
fn what_could_not_be_looked_into_is_not_due_once_a_later_revision_is_accounted_for() {
    let steps = vec![step("a", 1), step("stuck", 2), step("c", 3)];
    check(&standing(0, steps), Some(&entry(&["a", "c"])), &[], &[]);
}

#[test]
fn a_roll_back_and_forward_again_brings_nothing_new() {
    let back = standing(0, vec![step("b", 2), step("a", 1)]);
    check(&back, Some(&entry(&["a", "b"])), &[], &[]);
    let forward = standing(0, vec![step("a", 1), step("b", 2), step("c", 5)]);
    check(&forward, Some(&entry(&["a", "b"])), &[], &["c"]);
}

#[test]
fn what_was_applied_and_rolled_back_while_nobody_looked_is_due() {
    let steps = vec![step("a", 1), step("c", 5), step("b", 3)];
    check(&standing(0, steps), Some(&entry(&["a", "b"])), &[], &["c"]);
    let same_second = vec![step("a", 1), step("b", 1), step("c", 1)];
    check(&standing(0, same_second), Some(&entry(&["b"])), &[], &["c"]);
}

#[test]
fn what_is_applied_now_is_due_although_its_time_is_an_estimate_from_before() {
    let steps = vec![step("a", 1), step("b", 9), Step { estimated: true, ..step("c", 5) }];
    check(&standing(0, steps), Some(&entry(&["a", "b"])), &[], &["c"]);
}

#[test]
fn what_may_stand_for_revisions_that_are_forgotten_has_an_estimated_time() {
    let estimated = |steps: &[Step], known: &str, looking: i64| {
        let standing = standing(0, steps.to_vec());
        as_far_as_known(steps.last().unwrap(), &standing, Some(&entry(&[known])), at(looking)).estimated
    };
    let replaced = Step { replaced: true, ..step("z", 5_000) };
    assert!(
        estimated(&[step("a", 1), replaced.clone()], "a", 10_000),
        "others may have built the same manifests"
    );
    assert!(!estimated(&[step("a", 1), replaced.clone()], "a", 1_000), "they would have been seen");
    assert!(estimated(&[step("y", 1), step("z", 5_000)], "a", 10_000), "what came after `a` is forgotten");
    assert!(!estimated(&[step("a", 1), step("z", 5_000)], "a", 10_000), "nothing is between the two");
    let unseen = standing(0, vec![replaced.clone()]);
    assert!(as_far_as_known(&replaced, &unseen, None, at(0)).estimated, "nobody knows what was there before");
}

#[test]
fn what_the_source_has_and_nobody_applied_is_coming() {
    let entry = entry(&["a", "b"]);
    let has: Revision = "c".parse().unwrap();
    let coming = |standing: &Standing, has: &Revision| {
        plan(standing, Some(has), Some(&entry), at(BEGAN)).coming.is_some()
    };
    let mut standing = standing(0, vec![step("b", 2)]);
    assert!(coming(&standing, &has));
    assert!(!coming(&standing, &"a".parse().unwrap()), "a roll back of the source brings nothing");
    standing.suspended = true;
    assert!(coming(&standing, &has), "what is suspended ages too");
    standing.deleted = true;
    assert!(!coming(&standing, &has));
    standing.deleted = false;
    standing.steps.push(step("c", 3));
    assert!(!coming(&standing, &has), "it is applied");
}

#[test]
fn what_is_pending_keeps_its_times_until_it_is_looked_into() {
    let mut entry = entry(&["a"]);
    let first_seen = Pending { step: step("b", 10), problem: Some(crate::changes::Problem::NotFound) };
    let forgotten = Pending { step: step("gone", 5), problem: None };
    entry.pending = vec![forgotten.clone(), first_seen.clone()];
    let standing =
        standing(0, vec![step("a", 1), Step { seen: Some(at(9)), ..step("b", 900) }, step("c", 901)]);
    let due: Vec<_> = standing.steps[1..].iter().collect();
    let pending = pending(&due, &standing, Some(&entry), at(0));
    let b = Pending { step: Step { seen: Some(at(9)), ..first_seen.step }, ..first_seen };
    assert_eq!(pending, [forgotten, b, Pending { step: step("c", 901), problem: None }]);
}
