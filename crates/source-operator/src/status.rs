//! What an object's status says after a pass: conditions in Flux's order and words, from the outcome alone (pure), and the
//! one write that brings it there.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windlass_api::conditions;
use windlass_api::flux::{GitRepository, GitRepositoryStatus};
use windlass_api::patch::merge_diff;
use windlass_http_client::printable;
use windlass_runtime::{CallError, Part, merge_patch};

use crate::annotations::requested_at;
use crate::apply::Done;
use crate::calls::CALL;
use crate::conditions::is_known;
use crate::controller::Controller;
use crate::failure::{Failure, NextTry, types};

/// The longest message that a condition takes, in characters.
const MAX_MESSAGE: usize = 32_768;
/// In which order conditions stand.
const ORDER: [&str; 8] = [
    types::STALLED,
    types::RECONCILING,
    types::READY,
    types::STORAGE_FAILED,
    types::FETCH_FAILED,
    types::INCLUDE_UNAVAILABLE,
    types::ARTIFACT_IN_STORAGE,
    types::SOURCE_VERIFIED,
];

/// How a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PassOutcome {
    /// The artifact is what is wanted.
    Stored(Done),
    /// Nothing was looked at.
    Suspended,
    /// The artifact may be what is wanted or not; if `stored`, it is served still.
    Failed { failure: Failure, stored: bool },
}

/// Now, in whole seconds, as conditions have it.
pub(crate) fn now(controller: &Controller) -> Timestamp {
    Timestamp::from_second(controller.clock.now().as_second()).unwrap_or_default()
}

/// The status after a pass over `object`.
pub(crate) fn conclude(object: &GitRepository, outcome: &PassOutcome, now: Timestamp) -> GitRepositoryStatus {
    let before = &object.status;
    let generation = object.metadata.generation;
    let mut after = before.clone();
    if let Some(asked) = requested_at(object) {
        after.last_handled_reconcile_at = Some(asked.to_owned());
    }
    let mut say = Conditions::new(generation, now, &before.conditions);
    match outcome {
        PassOutcome::Suspended => {
            after.conditions.retain(|condition| condition.type_ != types::STALLED);
            if !after.conditions.is_empty() {
                after.observed_generation = generation;
            }
            return after;
        }
        PassOutcome::Stored(done) => {
            let message = format!("stored artifact for revision '{}'", done.artifact.revision);
            say.set(types::READY, "True", "Succeeded", &message);
            say.set(types::ARTIFACT_IN_STORAGE, "True", "Succeeded", &message);
            after.observed_generation = generation;
            after.artifact = Some(done.artifact.clone());
            if done.made {
                after.included_artifacts.clone_from(&done.included);
                after.observed_ignore.clone_from(&object.spec.ignore);
                after.observed_recurse_submodules = object.spec.recurse_submodules;
                after.observed_include.clone_from(&object.spec.include);
                after.observed_sparse_checkout.clone_from(&object.spec.sparse_checkout);
            }
            after.source_verification_mode = done.verified.as_ref().map(|it| it.mode.name().to_owned());
            if let Some(verified) = &done.verified {
                say.set(types::SOURCE_VERIFIED, "True", "Succeeded", &verified.message);
            }
        }
        PassOutcome::Failed { failure, stored } => {
            if failure.next_try == NextTry::Stall {
                say.set(types::STALLED, "True", failure.reason, &failure.message);
                after.observed_generation = generation;
            } else {
                say.set(types::RECONCILING, "True", "ProgressingWithRetry", &failure.message);
            }
            say.set(types::READY, "False", failure.reason, &failure.message);
            let status = if failure.condition == types::SOURCE_VERIFIED { "False" } else { "True" };
            say.set(failure.condition, status, failure.reason, &failure.message);
            if *stored {
                let kept = conditions::find(&before.conditions, types::ARTIFACT_IN_STORAGE);
                say.all.extend(kept.cloned());
                // It speaks for the artifact that is served still.
                let verified = conditions::find(&before.conditions, types::SOURCE_VERIFIED);
                let verified = verified.filter(|it| it.status == "True" && failure.condition != it.type_);
                say.all.extend(verified.cloned());
            } else {
                after.artifact = None;
            }
        }
    }
    after.conditions = say.sorted();
    after
}

/// The conditions of an object after a pass.
pub(crate) struct Conditions<'a> {
    generation: Option<i64>,
    now: Timestamp,
    before: &'a [Condition],
    all: Vec<Condition>,
}

impl<'a> Conditions<'a> {
    /// None so far; `before` are those that it has.
    pub(crate) fn new(generation: Option<i64>, now: Timestamp, before: &'a [Condition]) -> Self {
        Self { generation, now, before, all: Vec::new() }
    }

    /// The time is of the last change of status, reason or message.
    pub(crate) fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        debug_assert!(
            is_known(kind, status, reason),
            "{kind}={status} {reason} is not described: add it to the table of conditions"
        );
        let message = printable(message, MAX_MESSAGE - 1);
        let known = conditions::find(self.before, kind)
            .filter(|known| known.status == status && known.reason == reason && known.message == message);
        let since = known.map_or(Time(self.now), |known| known.last_transition_time.clone());
        self.all.push(Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: self.generation,
            last_transition_time: since,
        });
    }

    /// In Flux's order.
    pub(crate) fn sorted(mut self) -> Vec<Condition> {
        let place = |condition: &Condition| ORDER.iter().position(|kind| *kind == condition.type_);
        self.all.sort_by_key(place);
        self.all
    }
}

/// Writes the status where it is another one; nothing is sent when it is not.
pub(crate) async fn write(
    controller: &Controller,
    object: &GitRepository,
    status: &GitRepositoryStatus,
) -> Result<(), CallError> {
    if object.status == *status {
        return Ok(());
    }
    let json = |status: &GitRepositoryStatus| serde_json::to_value(status).unwrap_or_default();
    let Some(patch) = merge_diff(&json(&object.status), &json(status)) else { return Ok(()) };
    let patch = serde_json::json!({ "status": patch });
    let api = controller.api(object);
    merge_patch(&api, object, Part::Status, patch, CALL).await.map(drop)
}

#[cfg(test)]
mod tests {
    use windlass_api::flux::Artifact;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn object() -> GitRepository {
        let mut object = GitRepository::default();
        object.metadata.generation = Some(3);
        object
    }

    fn done(revision: &str) -> PassOutcome {
        let artifact = Artifact {
            path: "a/b/c/d".to_owned(),
            url: "http://x/a/b/c/d".to_owned(),
            revision: revision.to_owned(),
            digest: "sha256:00".to_owned(),
            last_update_time: Time(at(1)),
            size: Some(1),
            metadata: [].into(),
        };
        PassOutcome::Stored(Done { artifact, included: Vec::new(), verified: None, made: true })
    }

    fn shown(status: &GitRepositoryStatus) -> Vec<String> {
        let line = |c: &Condition| {
            format!("{}={} {} {}", c.type_, c.status, c.reason, c.last_transition_time.0.as_second())
        };
        status.conditions.iter().map(line).collect()
    }

    /// Flux's own checker of statuses, as far as one status tells: `pkg/runtime/conditions/check`.
    fn check(object: &GitRepository, status: &GitRepositoryStatus) {
        let is = |kind: &str| conditions::is_true(&status.conditions, kind);
        let ready = conditions::find(&status.conditions, types::READY).expect("Ready is always there");
        if ready.status == "True" {
            for negative in [types::STALLED, types::RECONCILING, types::FETCH_FAILED, types::STORAGE_FAILED] {
                assert!(!is(negative), "{negative} while Ready");
            }
            assert_eq!(status.observed_generation, object.metadata.generation);
        }
        assert!(!(is(types::STALLED) && is(types::RECONCILING)));
        assert!(status.conditions.iter().all(|one| one.observed_generation <= object.metadata.generation));
        assert!(status.conditions.iter().all(|one| !one.reason.is_empty()));
    }

    #[test]
    fn a_status_says_how_the_pass_ended_and_since_when() {
        let mut object = object();
        let mut step = |outcome: &PassOutcome, second| {
            object.status = conclude(&object, outcome, at(second));
            check(&object, &object.status);
            (shown(&object.status), object.status.clone())
        };
        let failed = |next_try, stored| PassOutcome::Failed {
            failure: Failure { next_try, ..Failure::fetch("GitOperationFailed", "no\nway") },
            stored,
        };
        let (lines, status) = step(&failed(NextTry::Retry, false), 10);
        assert_eq!(
            lines,
            [
                "Reconciling=True ProgressingWithRetry 10",
                "Ready=False GitOperationFailed 10",
                "FetchFailed=True GitOperationFailed 10"
            ]
        );
        assert_eq!((status.observed_generation, status.artifact), (None, None));
        assert_eq!(status.conditions[0].message, "no way");
        let (lines, status) = step(&done("main@sha1:1"), 20);
        assert_eq!(lines, ["Ready=True Succeeded 20", "ArtifactInStorage=True Succeeded 20"]);
        assert_eq!(status.observed_generation, Some(3));
        let (lines, _) = step(&done("main@sha1:1"), 30);
        assert_eq!(lines, ["Ready=True Succeeded 20", "ArtifactInStorage=True Succeeded 20"]);
        let (lines, status) = step(&failed(NextTry::Stall, true), 40);
        assert_eq!(
            lines,
            [
                "Stalled=True GitOperationFailed 40",
                "Ready=False GitOperationFailed 40",
                "FetchFailed=True GitOperationFailed 40",
                "ArtifactInStorage=True Succeeded 20"
            ]
        );
        assert!(status.artifact.is_some(), "it is served still");
        let (lines, _) = step(&failed(NextTry::Wait, false), 50);
        assert_eq!(lines.len(), 3);
        let (lines, status) = step(&done("main@sha1:2"), 60);
        assert_eq!(lines[0], "Ready=True Succeeded 60");
        assert_eq!(status.conditions[0].message, "stored artifact for revision 'main@sha1:2'");
    }

    #[test]
    fn a_suspended_object_keeps_what_it_has_and_answers_who_asked() {
        let mut object = object();
        object.status = conclude(&object, &done("main@sha1:1"), at(1));
        let annotation = (windlass_api::flux::REQUESTED_AT.to_owned(), "now".to_owned());
        object.metadata.annotations = Some([annotation].into());
        object.metadata.generation = Some(4);
        let status = conclude(&object, &PassOutcome::Suspended, at(2));
        assert_eq!(status.last_handled_reconcile_at.as_deref(), Some("now"));
        assert_eq!((status.observed_generation, status.conditions), (Some(4), object.status.conditions));
    }
}
