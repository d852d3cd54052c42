//! `kustomize.toolkit.fluxcd.io/v1 Kustomization`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use windlass_api::GoDuration;

use super::metadata::Object;
use crate::SourceKind;
use crate::intern::interned;

/// How the message of `Ready` begins after a run that succeeded; the revision follows.
pub const APPLIED: &str = "Applied revision: ";

/// The reason of a run that succeeded, in conditions and in the history.
pub const SUCCEEDED: &str = "ReconciliationSucceeded";

/// How much of a condition's message is kept, in bytes: Flux writes up to 20,000.
const MESSAGE: usize = 1024;

/// What the tracker reads of a Kustomization.
pub type Kustomization = Object<Spec, Status>;

impl Kustomization {
    /// What the API server calls them.
    pub fn resource() -> ApiResource {
        ApiResource::from_gvk(&GroupVersionKind::gvk("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"))
    }
}

/// What a Kustomization asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// Where its manifests come from.
    pub source_ref: SourceRef,
    /// Nothing is reconciled while it is set.
    pub suspend: bool,
    /// Whether the health of all that is applied is waited for.
    pub wait: bool,
    #[serde(deserialize_with = "has_any")]
    health_checks: bool,
    /// The time between two runs.
    #[serde(deserialize_with = "duration")]
    pub interval: Option<Duration>,
    /// How long applying, and then waiting for health, may take.
    #[serde(deserialize_with = "duration")]
    pub timeout: Option<Duration>,
}

impl Spec {
    /// Whether a run waits for health before it is done.
    pub fn checks_health(&self) -> bool {
        self.wait || self.health_checks
    }

    /// How long a run waits for health at most.
    ///
    /// kustomize-controller: `Kustomization.GetTimeout`.
    pub fn health_timeout(&self) -> Duration {
        const SHORTEST: Duration = Duration::from_secs(30);
        let interval = self.interval.unwrap_or_default();
        self.timeout.unwrap_or_else(|| interval.saturating_sub(SHORTEST)).max(SHORTEST)
    }
}

/// The source that a Kustomization names, as it stands there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SourceRef {
    /// The kind; none where it is none that is known.
    #[serde(deserialize_with = "kind")]
    pub kind: Option<SourceKind>,
    /// The namespace, where it is not the Kustomization's own.
    #[serde(deserialize_with = "interned")]
    pub namespace: Option<Arc<str>>,
    /// The name.
    #[serde(deserialize_with = "interned")]
    pub name: Option<Arc<str>>,
}

/// What came of a Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, from = "RawStatus")]
pub struct Status {
    /// The revision of the last run that succeeded.
    pub last_applied_revision: Option<Arc<str>>,
    /// The revision of the origin that it was built from.
    pub last_applied_origin_revision: Option<Arc<str>>,
    /// The revision that a run fetched last.
    pub last_attempted_revision: Option<Arc<str>>,
    /// The condition `Ready`, unless it says no more than the newest of `history`.
    pub ready: Option<Box<Condition>>,
    /// The condition `Healthy`: there while a run waits for health, and after it.
    pub healthy: Option<Box<Condition>>,
    /// The last runs by what they applied and how they ended, newest first; at most five.
    pub history: Box<[Snapshot]>,
}

/// A condition's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known, or not yet.
    #[default]
    Unknown,
}

/// A condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Condition {
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why.
    #[serde(deserialize_with = "reason")]
    pub reason: Arc<str>,
    /// What happened; the beginning, where it is long.
    #[serde(deserialize_with = "message")]
    pub message: Box<str>,
    /// When its status, reason or message changed last. Whole seconds, rounded down.
    #[serde(rename = "lastTransitionTime")]
    pub transitioned: Option<Timestamp>,
}

/// The runs that built the same manifests and ended the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision of the last of these runs.
    pub revision: Option<Arc<str>>,
    /// The revision of the origin that it was built from.
    pub origin: Option<Arc<str>>,
    /// How they ended: a reason of the condition `Ready`.
    pub outcome: Outcome,
    /// When the first of them ended. Whole seconds, rounded down.
    pub first: Timestamp,
    /// When the last of them ended. Whole seconds, rounded down.
    pub last: Timestamp,
    /// How long the last of them took.
    pub duration: Option<Duration>,
    /// How many there were.
    pub total: u64,
}

/// How the runs of a snapshot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was applied, and healthy where that was waited for.
    Succeeded,
    /// What was applied did not become healthy in time.
    Unhealthy,
    /// Something failed before.
    Failed,
}

/// The status as it is written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStatus {
    #[serde(deserialize_with = "interned")]
    last_applied_revision: Option<Arc<str>>,
    #[serde(deserialize_with = "interned")]
    last_applied_origin_revision: Option<Arc<str>>,
    #[serde(deserialize_with = "interned")]
    last_attempted_revision: Option<Arc<str>>,
    conditions: Vec<RawCondition>,
    history: Vec<RawSnapshot>,
}

#[derive(Deserialize)]
struct RawCondition {
    #[serde(rename = "type")]
    name: Box<str>,
    #[serde(flatten)]
    condition: Condition,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSnapshot {
    first_reconciled: Timestamp,
    last_reconciled: Timestamp,
    #[serde(deserialize_with = "duration")]
    last_reconciled_duration: Option<Duration>,
    last_reconciled_status: Box<str>,
    total_reconciliations: u64,
    metadata: RawSnapshotMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSnapshotMetadata {
    #[serde(deserialize_with = "interned")]
    revision: Option<Arc<str>>,
    #[serde(deserialize_with = "interned")]
    origin_revision: Option<Arc<str>>,
}

/// A duration as Go writes it; none below zero.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Option::<GoDuration>::deserialize(deserializer).map(|duration| duration.and_then(GoDuration::to_std))
}

/// A kind that is known: later versions of Flux may have others.
fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SourceKind>, D::Error> {
    String::deserialize(deserializer).map(|name| SourceKind::of(&name))
}

/// Whether a list holds anything.
fn has_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Vec::<IgnoredAny>::deserialize(deserializer).map(|list| !list.is_empty())
}

fn reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    interned(deserializer).map(Option::unwrap_or_default)
}

fn message<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<str>, D::Error> {
    let message = String::deserialize(deserializer)?;
    Ok(message[..message.floor_char_boundary(MESSAGE)].into())
}

impl From<RawStatus> for Status {
    fn from(raw: RawStatus) -> Self {
        let named = |name: &str| {
            let found = raw.conditions.iter().find(|condition| &*condition.name == name);
            found.map(|found| Box::new(found.condition.clone()))
        };
        let of_applied = |snapshot: &RawSnapshot| {
            &*snapshot.last_reconciled_status == SUCCEEDED
                && snapshot.metadata.revision == raw.last_applied_revision
        };
        let (ready, healthy) = (named("Ready"), named("Healthy"));
        let says_more = |ready: &Condition| {
            ready.status != ConditionStatus::True || !raw.history.first().is_some_and(of_applied)
        };
        let ready = ready.filter(|ready| says_more(ready));
        Self {
            last_applied_revision: raw.last_applied_revision,
            last_applied_origin_revision: raw.last_applied_origin_revision,
            last_attempted_revision: raw.last_attempted_revision,
            ready,
            healthy,
            history: raw
                .history
                .into_iter()
                .map(|snapshot| Snapshot {
                    revision: snapshot.metadata.revision,
                    origin: snapshot.metadata.origin_revision,
                    outcome: Outcome::of(&snapshot.last_reconciled_status),
                    first: snapshot.first_reconciled,
                    last: snapshot.last_reconciled,
                    duration: snapshot.last_reconciled_duration,
                    total: snapshot.total_reconciliations,
                })
                .collect(),
        }
    }
}

impl Outcome {
    /// From a snapshot's `lastReconciledStatus`.
    fn of(reason: &str) -> Self {
        match reason {
            SUCCEEDED => Self::Succeeded,
            "HealthCheckFailed" => Self::Unhealthy,
            _ => Self::Failed,
        }
    }
}
