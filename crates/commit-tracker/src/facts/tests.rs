use serde_json::{Value, json};

use super::*;
use crate::SourceKind;

const OLD: &str = "main@sha1:1111111111111111111111111111111111111111";
const NEW: &str = "main@sha1:2222222222222222222222222222222222222222";

/// A time of the day that all this happens on.
fn at(time: &str) -> Timestamp {
    format!("2026-03-04T{time}Z").parse().unwrap()
}

fn snapshot(revision: &str, outcome: &str, first: &str, last: &str, total: u64, took: &str) -> Value {
    json!({
        "digest": "sha256:x", "lastReconciledStatus": outcome, "totalReconciliations": total,
        "firstReconciled": format!("2026-03-04T{first}Z"), "lastReconciled": format!("2026-03-04T{last}Z"),
        "lastReconciledDuration": took, "metadata": {"revision": revision},
    })
}

fn succeeded(revision: &str, first: &str, last: &str, total: u64) -> Value {
    snapshot(revision, "ReconciliationSucceeded", first, last, total, "250ms")
}

fn kustomization(applied: &str, history: &[Value]) -> Kustomization {
    read(json!({
        "metadata": {"name": "apps", "namespace": "team", "uid": "u"},
        "spec": {"interval": "10m", "sourceRef": {"kind": "GitRepository", "name": "repo"}},
        "status": {"lastAppliedRevision": applied, "history": history},
    }))
}

fn read(value: Value) -> Kustomization {
    serde_json::from_value(value).unwrap()
}

fn source(revision: &str, seen: &str) -> Source {
    serde_json::from_value(json!({
        "metadata": {"name": "repo", "namespace": "team"},
        "status": {"artifact": {"revision": revision, "lastUpdateTime": format!("2026-03-04T{seen}Z")}},
    }))
    .unwrap()
}

/// Revision, ready, estimated.
fn steps(kustomization: &Kustomization, source: Option<&Source>) -> Vec<(String, Timestamp, bool)> {
    let steps = standing(kustomization, source).steps.into_iter();
    steps.map(|step| (step.revision.to_string(), step.ready, step.estimated)).collect()
}

#[test]
fn a_revision_is_ready_at_the_end_of_its_first_run_whatever_runs_follow() {
    let history = [succeeded(NEW, "09:00:00", "10:30:00", 10), succeeded(OLD, "08:00:00", "08:50:00", 6)];
    let object = kustomization(NEW, &history);
    let expected = [(OLD.to_owned(), at("08:00:00.5"), false), (NEW.to_owned(), at("09:00:00.5"), false)];
    assert_eq!(steps(&object, Some(&source(NEW, "08:59:58"))), expected);
    assert_eq!(steps(&object, None), expected);
}

#[test]
fn the_only_run_tells_its_start() {
    let step = &standing(&kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:00:00", 1)]), None).steps[0];
    assert_eq!(step.fetched, Some(at("09:00:00.25")));
    assert_eq!((step.applied, step.health_checked), (Some(step.ready), false));
}

#[test]
fn what_interval_runs_have_overwritten_is_absent() {
    let step = &standing(&kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:10:00", 2)]), None).steps[0];
    assert_eq!(step.fetched, None);
    assert_eq!(step.applied, Some(at("09:00:00.5")));
    // So it is within the same second.
    let step = &standing(&kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:00:00", 2)]), None).steps[0];
    assert_eq!((step.fetched, step.ready), (None, at("09:00:00.5")));
}

#[test]
fn a_revision_that_changes_no_manifests_is_ready_at_the_end_of_its_own_run() {
    let object = kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:25:00", 4)]);
    let step = &standing(&object, Some(&source(NEW, "09:24:58"))).steps[0];
    assert_eq!((step.ready, step.estimated), (at("09:25:00.5"), false));
    assert_eq!(step.fetched, Some(at("09:25:00.25")));
}

#[test]
fn so_it_is_when_it_follows_within_a_second() {
    let object = kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:00:01", 2)]);
    assert_eq!(steps(&object, Some(&source(NEW, "09:00:00"))), [(NEW.to_owned(), at("09:00:01.5"), false)]);
    let object = kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:00:02", 2)]);
    assert_eq!(steps(&object, Some(&source(NEW, "09:00:01"))), [(NEW.to_owned(), at("09:00:02.5"), false)]);
}

#[test]
fn a_clock_of_the_source_that_is_a_little_ahead_does_no_harm() {
    let object = kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:30:00", 4)]);
    assert_eq!(steps(&object, Some(&source(NEW, "09:00:01"))), [(NEW.to_owned(), at("09:00:00.5"), false)]);
}

#[test]
fn a_revision_that_was_applied_within_the_second_in_which_it_was_seen_was_so_before_later_runs() {
    let object = kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:05:00", 2)]);
    assert_eq!(steps(&object, Some(&source(NEW, "09:00:00"))), [(NEW.to_owned(), at("09:00:00.5"), false)]);
}

#[test]
fn when_interval_runs_followed_it_its_own_run_is_estimated() {
    let object = kustomization(NEW, &[succeeded(NEW, "09:00:00", "09:55:00", 7)]);
    let expected = [(NEW.to_owned(), at("09:24:58.75"), true)];
    assert_eq!(steps(&object, Some(&source(NEW, "09:24:58"))), expected);
}

#[test]
fn a_revert_is_not_ready_when_what_it_reverts_to_was() {
    let history = [succeeded(NEW, "08:00:00", "09:05:00", 5), succeeded(OLD, "09:00:00", "09:00:00", 1)];
    let expected = [(OLD.to_owned(), at("09:00:00.5"), false), (NEW.to_owned(), at("09:05:00.5"), false)];
    assert_eq!(steps(&kustomization(NEW, &history), None), expected);
}

#[test]
fn the_first_revision_is_known_as_such_by_its_time_or_by_its_only_run() {
    let whole = |created: &str, history: &[Value], source: Option<&Source>| {
        let mut object = kustomization(NEW, history);
        object.metadata.created = Some(at(created));
        standing(&object, source).whole
    };
    let only = succeeded(NEW, "12:00:00", "12:00:00", 1);
    assert!(whole("08:00:00", std::slice::from_ref(&only), None), "it was applied late, and once");
    let often = succeeded(NEW, "09:00:00", "12:00:00", 18);
    let seen = source(NEW, "08:59:58");
    assert!(whole("08:30:00", std::slice::from_ref(&often), Some(&seen)), "in its first hour");
    assert!(
        !whole("07:00:00", std::slice::from_ref(&often), Some(&seen)),
        "another may have built the same before"
    );
    assert!(
        !whole("08:30:00", std::slice::from_ref(&often), None),
        "it may have been as late as its last run"
    );
    let old = succeeded(OLD, "09:00:00", "12:30:00", 20);
    assert!(!whole("07:00:00", &[old, only.clone()], None), "something else was run before");
    let failures = (1..5).map(|hour| {
        let time = format!("0{hour}:00:00");
        snapshot(OLD, "ReconciliationFailed", &time, &time, 1, "1s")
    });
    assert!(!whole("11:59:00", &[vec![only], failures.collect()].concat(), None), "the history is full");
}

#[test]
fn a_run_that_failed_to_apply_began_to_fetch() {
    let history = [
        succeeded(NEW, "09:10:00", "09:10:00", 1),
        snapshot(NEW, "ReconciliationFailed", "09:00:00", "09:05:00", 3, "100ms"),
        succeeded(OLD, "08:00:00", "08:50:00", 6),
    ];
    let step = standing(&kustomization(NEW, &history), None).steps.pop().unwrap();
    assert_eq!(step.fetched, Some(at("09:00:00.4")));
    assert_eq!((step.ready, step.applied), (at("09:10:00.5"), Some(at("09:10:00.5"))));
}

#[test]
fn an_object_that_was_never_applied_has_no_steps() {
    let object = read(json!({
        "metadata": {"name": "apps", "namespace": "team"},
        "spec": {"suspend": true, "sourceRef": {"kind": "Bucket", "name": "b", "namespace": "other"}},
        "status": {
            "lastAttemptedRevision": NEW,
            "conditions": [{"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "no such file"}],
            "history": [snapshot(NEW, "ReconciliationFailed", "09:00:00", "09:05:00", 3, "100ms")],
        },
    }));
    let standing = standing(&object, None);
    assert_eq!(standing.steps, []);
    assert_eq!(standing.attempted, Some(NEW.parse().unwrap()));
    assert_eq!(standing.failing.as_deref(), Some("BuildFailed: no such file"));
    assert!(standing.suspended);
    let source = standing.source.unwrap();
    assert_eq!((source.kind, &*source.namespace, &*source.name), (SourceKind::Bucket, "other", "b"));
}

#[test]
fn a_source_without_a_namespace_is_in_that_of_the_kustomization() {
    let source = standing(&kustomization(NEW, &[]), None).source.unwrap();
    assert_eq!((&*source.namespace, &*source.name), ("team", "repo"));
}

/// As kustomize-controller before 1.7 wrote it.
fn without_history(applied: &str, message: &str, transitioned: &str) -> Kustomization {
    read(json!({
        "metadata": {"name": "apps", "namespace": "team"},
        "spec": {"interval": "10m"},
        "status": {"lastAppliedRevision": applied, "conditions": [{
            "type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "message": message,
            "lastTransitionTime": format!("2026-03-04T{transitioned}Z"),
        }]},
    }))
}

#[test]
fn without_history_the_condition_says_when() {
    let object = without_history(NEW, &format!("Applied revision: {NEW}"), "09:00:10");
    let expected = [(NEW.to_owned(), at("09:00:10.5"), false)];
    assert_eq!(steps(&object, Some(&source(NEW, "09:00:00"))), expected);
    assert_eq!(steps(&object, None), expected);
}

#[test]
fn without_history_a_condition_that_interval_runs_moved_is_not_believed() {
    let object = without_history(NEW, &format!("Applied revision: {NEW}"), "09:30:10");
    assert_eq!(steps(&object, Some(&source(NEW, "09:00:00"))), [(NEW.to_owned(), at("09:00:00.5"), true)]);
}

#[test]
fn a_condition_that_is_ahead_of_the_status_is_not_taken_for_its_revision() {
    let object = without_history(OLD, &format!("Applied revision: {NEW}"), "09:00:10");
    assert_eq!(steps(&object, None), []);
}

#[test]
fn a_malformed_revision_is_a_step_too() {
    let object = kustomization("garbage", &[succeeded("garbage", "09:00:00", "09:00:00", 1)]);
    assert_eq!(steps(&object, None), [("garbage".to_owned(), at("09:00:00.5"), false)]);
}

/// A status that kustomize-controller 1.9.5 wrote, recorded by the end-to-end test `what_flux_writes_is_read_…`, with
/// the times at which its revisions were seen to be ready.
struct Recorded {
    standing: Standing,
    seen_ready: std::collections::BTreeMap<String, Timestamp>,
}

impl Recorded {
    fn read(text: &str) -> Self {
        let mut value: Value = serde_json::from_str(text).unwrap();
        let source: Source = serde_json::from_value(value["source"].take()).unwrap();
        let kustomization = read(value["kustomization"].take());
        Self {
            standing: standing(&kustomization, Some(&source)),
            seen_ready: serde_json::from_value(value["seen_ready"].take()).unwrap(),
        }
    }

    /// The last step, which was ready when it was seen to be.
    #[track_caller]
    fn last(&self) -> &Step {
        let step = self.standing.steps.last().unwrap();
        let off = step.ready.duration_since(self.seen_ready[step.revision.as_str()]).abs();
        assert!(off < SignedDuration::from_secs(1), "{off} {step:#?} {:#?}", self.seen_ready);
        step
    }
}

macro_rules! recorded {
    ($name:literal) => {
        Recorded::read(include_str!(concat!("fixtures/", $name, ".json")))
    };
}

#[test]
fn recorded_revisions_are_ready_when_they_were() {
    for recorded in [
        recorded!("changes-first"),
        recorded!("changes-second-after-a-run"),
        recorded!("changes-identical"),
        recorded!("changes-reverted"),
        recorded!("intervals-first"),
        recorded!("fails-fixed"),
        recorded!("suspended-suspended"),
    ] {
        let step = recorded.last();
        assert_eq!((step.estimated, step.health_checked), (false, false), "{step:#?}");
        assert_eq!(step.applied, Some(step.ready));
    }
}

#[test]
fn recorded_failures_are_told() {
    let failed = recorded!("fails-failed").standing;
    assert!(failed.failing.is_some_and(|failing| failing.starts_with("ReconciliationFailed: ")));
    assert_eq!(failed.steps, []);
    let fixed = recorded!("fails-fixed").standing;
    assert_eq!(fixed.failing, None);
    assert!(recorded!("suspended-suspended").standing.suspended);
}

#[test]
fn recorded_interval_runs_after_identical_manifests_leave_an_estimate() {
    let recorded = recorded!("intervals-identical");
    assert!(recorded.last().estimated);
}

#[test]
fn recorded_health_checks_tell_when_all_was_applied() {
    let waiting = recorded!("waits-waiting").standing;
    assert_eq!((waiting.steps, waiting.failing), (Vec::new(), None));
    let healthy = recorded!("waits-healthy");
    let step = healthy.last();
    let waited = step.ready.duration_since(step.applied.unwrap());
    // Health is looked at every five seconds.
    assert!(waited > SignedDuration::from_secs(4) && waited < SignedDuration::from_secs(10), "{step:#?}");
    assert!(step.fetched < step.applied);
    let later = recorded!("waits-healthy-after-a-run");
    assert_eq!((later.last().ready, later.last().applied), (step.ready, None));
    // The first run waited for thirty seconds in vain.
    let late = recorded!("late-healthy");
    let waited = late.last().ready.duration_since(late.last().applied.unwrap());
    assert!(waited > SignedDuration::from_secs(30), "{:#?}", late.last());
}
