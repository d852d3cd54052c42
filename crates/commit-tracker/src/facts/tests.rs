use serde_json::{Value, json};

use super::*;
use crate::given::{at, read};

const OLD: &str = "main@sha1:1111111111111111111111111111111111111111";
const NEW: &str = "main@sha1:2222222222222222222222222222222222222222";

fn snapshot(revision: &str, outcome: &str, first: &str, last: &str, total: u64, took: &str) -> Value {
    json!({
        "digest": "sha256:x", "lastReconciledStatus": outcome, "totalReconciliations": total,
        "firstReconciled": at(first), "lastReconciled": at(last),
        "lastReconciledDuration": took, "metadata": {"revision": revision},
    })
}

fn succeeded(revision: &str, first: &str, last: &str, total: u64) -> Value {
    snapshot(revision, "ReconciliationSucceeded", first, last, total, "250ms")
}

fn kustomization(applied: &str, history: &[Value]) -> Kustomization {
    saying(json!({"lastAppliedRevision": applied, "history": history}))
}

fn saying(status: Value) -> Kustomization {
    let spec = json!({"interval": "10m", "sourceRef": {"kind": "GitRepository", "name": "repo"}});
    let metadata = json!({"name": "apps", "namespace": "team", "uid": "u"});
    read(json!({"metadata": metadata, "spec": spec, "status": status}))
}

/// The source, which had this revision at that time.
fn source(revision: &str, seen: &str) -> Source {
    read(json!({
        "metadata": {"name": "repo", "namespace": "team"},
        "status": {"artifact": {"revision": revision, "lastUpdateTime": at(seen)}},
    }))
}

/// Checks when revisions were ready. Of the history: revision, first and last run, and how many. Of the source, when it
/// had the newest one. Expected are revisions and times; `~` is an estimate.
#[track_caller]
fn check(history: &[&str], seen: Option<&str>, expected: &[&str]) {
    let revision = |name: &str| if name == "new" { NEW } else { OLD };
    let run = |text: &&str| {
        let [name, first, last, total] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        succeeded(revision(name), first, last, total.parse().unwrap())
    };
    let object = kustomization(NEW, &history.iter().map(run).collect::<Vec<_>>());
    let source = seen.map(|seen| source(NEW, seen));
    let steps = standing(&object, source.as_ref()).steps.into_iter().map(|step| {
        let name = if step.revision.as_str() == NEW { "new" } else { "old" };
        format!("{name} {}{}", if step.estimated { "~" } else { "" }, step.ready)
    });
    let expected = expected.iter().map(|text| {
        let (start, time) = text.split_at(text.find(|c: char| c.is_ascii_digit()).unwrap());
        format!("{start}{}", at(time))
    });
    assert_eq!(steps.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{history:?} {source:?}");
}

#[test]
fn a_revision_is_ready_at_the_end_of_its_own_first_run() {
    // Whatever runs follow.
    let history = ["new 09:00:00 10:30:00 10", "old 08:00:00 08:50:00 6"];
    for seen in [Some("08:59:58"), None] {
        check(&history, seen, &["old 08:00:00.5", "new 09:00:00.5"]);
    }
    // One that changes no manifests has a run of its own among those of others, also within a second.
    check(&["new 09:00:00 09:25:00 4"], Some("09:24:58"), &["new 09:25:00.5"]);
    check(&["new 09:00:00 09:00:01 2"], Some("09:00:00"), &["new 09:00:01.5"]);
    check(&["new 09:00:00 09:00:02 2"], Some("09:00:01"), &["new 09:00:02.5"]);
    // A clock of the source that is a little ahead does no harm.
    check(&["new 09:00:00 09:30:00 4"], Some("09:00:01"), &["new 09:00:00.5"]);
    // What was applied within the second in which it was seen was so before later runs.
    check(&["new 09:00:00 09:05:00 2"], Some("09:00:00"), &["new 09:00:00.5"]);
    // When interval runs followed it, its own run is estimated.
    check(&["new 09:00:00 09:55:00 7"], Some("09:24:58"), &["new ~09:24:58.75"]);
    // A revert is not ready when what it reverts to was.
    let history = ["new 08:00:00 09:05:00 5", "old 09:00:00 09:00:00 1"];
    check(&history, None, &["old 09:00:00.5", "new 09:05:00.5"]);
}

#[test]
fn a_step_says_when_its_own_run_fetched_unless_interval_runs_have_overwritten_that() {
    let ran = |last, total| vec![succeeded(NEW, "09:00:00", last, total)];
    // A run that failed to apply began to fetch.
    let failed = snapshot(NEW, "ReconciliationFailed", "09:00:00", "09:05:00", 3, "100ms");
    let fails = vec![succeeded(NEW, "09:10:00", "09:10:00", 1), failed];
    for (history, seen, fetched, ready) in [
        (ran("09:00:00", 1), None, Some("09:00:00.25"), "09:00:00.5"),
        (ran("09:00:00", 2), None, None, "09:00:00.5"),
        (ran("09:25:00", 4), Some("09:24:58"), Some("09:25:00.25"), "09:25:00.5"),
        (fails, None, Some("09:00:00.4"), "09:10:00.5"),
    ] {
        let step =
            &standing(&kustomization(NEW, &history), seen.map(|seen| source(NEW, seen)).as_ref()).steps[0];
        assert_eq!((step.fetched, step.ready, step.applied), (fetched.map(at), at(ready), Some(at(ready))));
    }
    let garbage = kustomization("garbage", &[succeeded("garbage", "09:00:00", "09:00:00", 1)]);
    let step = &standing(&garbage, None).steps[0];
    assert_eq!((step.revision.as_str(), step.ready), ("garbage", at("09:00:00.5")));
}

#[test]
fn the_first_revision_is_known_as_such_by_its_time_or_by_its_only_run() {
    let only = succeeded(NEW, "12:00:00", "12:00:00", 1);
    let often = succeeded(NEW, "09:00:00", "12:00:00", 18);
    let old = succeeded(OLD, "09:00:00", "12:30:00", 20);
    let failures = (1..5).map(|hour| {
        let time = format!("0{hour}:00:00");
        snapshot(OLD, "ReconciliationFailed", &time, &time, 1, "1s")
    });
    let full = std::iter::once(only.clone()).chain(failures).collect();
    for (created, history, is_seen, whole, why) in [
        ("08:00:00", vec![only.clone()], false, true, "it was applied late, and once"),
        ("08:30:00", vec![often.clone()], true, true, "in its first hour"),
        ("07:00:00", vec![often.clone()], true, false, "another may have built the same before"),
        ("08:30:00", vec![often], false, false, "it may have been as late as its last run"),
        ("07:00:00", vec![old, only], false, false, "something else was run before"),
        ("11:59:00", full, false, false, "the history is full"),
    ] {
        let mut object = kustomization(NEW, &history);
        object.metadata.created = Some(at(created));
        let source = is_seen.then(|| source(NEW, "08:59:58"));
        assert_eq!(standing(&object, source.as_ref()).whole, whole, "{why}");
    }
}

#[test]
fn without_history_the_condition_says_when_unless_it_is_ahead_or_interval_runs_moved_it() {
    // As kustomize-controller before 1.7 wrote it.
    for (applied, transitioned, seen, expected) in [
        (NEW, "09:00:10", Some("09:00:00"), Some(("09:00:10.5", false))),
        (NEW, "09:00:10", None, Some(("09:00:10.5", false))),
        (NEW, "09:30:10", Some("09:00:00"), Some(("09:00:00.5", true))),
        (OLD, "09:00:10", None, None),
    ] {
        let ready = json!({"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded",
            "message": format!("Applied revision: {NEW}"), "lastTransitionTime": at(transitioned)});
        let object = saying(json!({"lastAppliedRevision": applied, "conditions": [ready]}));
        let steps = standing(&object, seen.map(|seen| source(NEW, seen)).as_ref()).steps;
        let told = steps.first().map(|step| (step.ready, step.estimated));
        assert_eq!(told, expected.map(|(time, estimated)| (at(time), estimated)), "{applied} {transitioned}");
    }
}

/// A status that kustomize-controller 1.9.5 wrote, recorded by the end-to-end test `what_flux_writes_is_read_…`, with
/// the times at which its revisions were seen to be ready.
struct Recorded {
    standing: Standing,
    seen_ready: std::collections::BTreeMap<String, Timestamp>,
}

impl Recorded {
    fn read(name: &str) -> Self {
        let file = format!("{}/src/facts/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let mut value: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let source: Source = read(value["source"].take());
        let standing = standing(&read(value["kustomization"].take()), Some(&source));
        Self { standing, seen_ready: read(value["seen_ready"].take()) }
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

#[test]
fn recorded_revisions_are_ready_when_they_were_and_failures_are_told() {
    let names = "changes-first changes-second-after-a-run changes-identical changes-reverted intervals-first \
        fails-fixed suspended-suspended";
    for recorded in names.split_whitespace().map(Recorded::read) {
        let step = recorded.last();
        assert_eq!((step.estimated, step.health_checked), (false, false), "{step:#?}");
        assert_eq!((step.applied, recorded.standing.failing.as_ref()), (Some(step.ready), None));
    }
    assert!(Recorded::read("suspended-suspended").standing.suspended);
    assert!(Recorded::read("intervals-identical").last().estimated);
    let failed = Recorded::read("fails-failed").standing;
    assert_eq!(failed.source.unwrap().to_string(), "GitRepository team/fails", "in its own namespace");
    assert!(failed.attempted.is_some() && failed.steps.is_empty());
    assert!(failed.failing.unwrap().starts_with("ReconciliationFailed: "));
}

#[test]
fn recorded_health_checks_tell_when_all_was_applied() {
    let waiting = Recorded::read("waits-waiting").standing;
    assert_eq!((waiting.steps, waiting.failing), (Vec::new(), None));
    let waited = |step: &Step| step.ready.duration_since(step.applied.unwrap()).as_secs();
    let healthy = Recorded::read("waits-healthy");
    let step = healthy.last();
    // Health is looked at every five seconds.
    assert!((4..10).contains(&waited(step)) && step.fetched < step.applied, "{step:#?}");
    let later = Recorded::read("waits-healthy-after-a-run");
    assert_eq!((later.last().ready, later.last().applied), (step.ready, None));
    // The first run waited for thirty seconds in vain.
    let late = Recorded::read("late-healthy");
    assert!(waited(late.last()) >= 30, "{:#?}", late.last());
}
