//! `kustomize.toolkit.fluxcd.io/v1 Kustomization`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;
use serde::de::SeqAccess;

use super::lenient::{Count, Seed, Shape, lenient, object};
use super::metadata::{Metadata, watched};
use crate::SourceKind;

/// How the message of `Ready` begins after a run that succeeded; the revision follows.
pub const APPLIED: &str = "Applied revision: ";

/// Reasons that most conditions have: no copy of them is made.
const REASONS: [&str; 3] = ["ReconciliationSucceeded", "Succeeded", "Progressing"];

/// How much of a condition's message is kept, in bytes: Flux writes up to 20,000.
const MESSAGE: usize = 1024;

/// What the tracker reads of a Kustomization.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Kustomization {
    /// Which one it is.
    #[serde(deserialize_with = "lenient")]
    pub metadata: Metadata,
    /// What is asked for.
    #[serde(deserialize_with = "lenient")]
    pub spec: Spec,
    /// What came of it.
    #[serde(deserialize_with = "lenient")]
    pub status: Status,
}

watched!([] Kustomization);

impl Kustomization {
    /// What the API server calls them.
    pub fn resource() -> ApiResource {
        let kind = GroupVersionKind::gvk("kustomize.toolkit.fluxcd.io", "v1", "Kustomization");
        ApiResource::from_gvk_with_plural(&kind, "kustomizations")
    }
}

/// What a Kustomization asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// Where its manifests come from.
    #[serde(deserialize_with = "lenient")]
    pub source_ref: SourceRef,
    /// Nothing is reconciled while it is set.
    #[serde(deserialize_with = "lenient")]
    pub suspend: bool,
    /// Whether the health of all that is applied is waited for.
    #[serde(deserialize_with = "lenient")]
    pub wait: bool,
    #[serde(deserialize_with = "lenient")]
    health_checks: Count,
    /// The time between two runs.
    #[serde(deserialize_with = "lenient")]
    pub interval: Option<Duration>,
    /// How long applying, and then waiting for health, may take.
    #[serde(deserialize_with = "lenient")]
    pub timeout: Option<Duration>,
}

impl Spec {
    /// Whether a run waits for health before it is done.
    pub fn checks_health(&self) -> bool {
        self.wait || self.health_checks.0 > 0
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
    #[serde(deserialize_with = "lenient")]
    pub kind: Option<SourceKind>,
    /// The namespace, where it is not the Kustomization's own.
    #[serde(deserialize_with = "lenient")]
    pub namespace: Option<Box<str>>,
    /// The name.
    #[serde(deserialize_with = "lenient")]
    pub name: Option<Box<str>>,
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
    /// The condition `Ready`.
    pub ready: Option<Condition>,
    /// The condition `Healthy`: there while a run waits for health, and after it.
    pub healthy: Option<Box<Condition>>,
    /// The last runs by what they applied and how they ended, newest first; at most five.
    pub history: Box<[Snapshot]>,
}

/// A condition's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why.
    pub reason: Cow<'static, str>,
    /// What happened; the beginning, where it is long. Empty where it is [`APPLIED`] and the revision that was applied last.
    pub message: Box<str>,
    /// When its status, reason or message changed last. Whole seconds, rounded down.
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
    #[serde(deserialize_with = "lenient")]
    last_applied_revision: Option<Arc<str>>,
    #[serde(deserialize_with = "lenient")]
    last_applied_origin_revision: Option<Arc<str>>,
    #[serde(deserialize_with = "lenient")]
    last_attempted_revision: Option<Arc<str>>,
    #[serde(deserialize_with = "lenient")]
    conditions: Conditions,
    #[serde(deserialize_with = "lenient")]
    history: Vec<RawSnapshot>,
}

#[derive(Default)]
struct Conditions {
    ready: Option<Condition>,
    healthy: Option<Box<Condition>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawCondition {
    #[serde(rename = "type", deserialize_with = "lenient")]
    name: Option<Box<str>>,
    #[serde(deserialize_with = "lenient")]
    status: ConditionStatus,
    #[serde(deserialize_with = "lenient")]
    reason: Reason,
    #[serde(deserialize_with = "lenient")]
    message: Message,
    #[serde(deserialize_with = "lenient")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSnapshot {
    #[serde(deserialize_with = "lenient")]
    first_reconciled: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    last_reconciled: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    last_reconciled_duration: Option<Duration>,
    #[serde(deserialize_with = "lenient")]
    last_reconciled_status: Option<Box<str>>,
    #[serde(deserialize_with = "lenient")]
    total_reconciliations: u64,
    #[serde(deserialize_with = "lenient")]
    metadata: RawSnapshotMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSnapshotMetadata {
    #[serde(deserialize_with = "lenient")]
    revision: Option<Arc<str>>,
    #[serde(deserialize_with = "lenient")]
    origin_revision: Option<Arc<str>>,
}

object!(Spec, SourceRef, Status, RawCondition, RawSnapshot, RawSnapshotMetadata);

#[derive(Default)]
struct Reason(Cow<'static, str>);

impl Shape<'_> for Reason {
    fn of_text(text: &str) -> Self {
        let known = REASONS.into_iter().find(|known| *known == text);
        Self(known.map_or_else(|| Cow::Owned(text.to_owned()), Cow::Borrowed))
    }
}

#[derive(Default)]
struct Message(Box<str>);

impl Shape<'_> for Message {
    fn of_text(text: &str) -> Self {
        Self(text[..text.floor_char_boundary(MESSAGE)].into())
    }
}

impl Shape<'_> for ConditionStatus {
    fn of_text(text: &str) -> Self {
        match text {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

impl<'de> Shape<'de> for Conditions {
    fn of_list<A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut conditions = Self::default();
        while let Some(raw) = list.next_element_seed(Seed::<RawCondition>::new())? {
            let condition = Condition {
                status: raw.status,
                reason: raw.reason.0,
                message: raw.message.0,
                transitioned: raw.last_transition_time,
            };
            match raw.name.as_deref() {
                Some("Ready") => conditions.ready = Some(condition),
                Some("Healthy") => conditions.healthy = Some(Box::new(condition)),
                _ => {}
            }
        }
        Ok(conditions)
    }
}

impl From<RawStatus> for Status {
    /// The same revisions stand in many places: they are kept once.
    fn from(raw: RawStatus) -> Self {
        let Conditions { mut ready, healthy } = raw.conditions;
        if let (Some(ready), Some(applied)) = (&mut ready, &raw.last_applied_revision)
            && ready.message.strip_prefix(APPLIED) == Some(applied)
        {
            ready.message = Box::default();
        }
        let mut texts = Vec::<Arc<str>>::new();
        let mut once = |text: Option<Arc<str>>| {
            let text = text?;
            match texts.iter().find(|known| **known == text) {
                Some(known) => Some(Arc::clone(known)),
                None => {
                    texts.push(Arc::clone(&text));
                    Some(text)
                }
            }
        };
        Self {
            last_applied_revision: once(raw.last_applied_revision),
            last_applied_origin_revision: once(raw.last_applied_origin_revision),
            last_attempted_revision: once(raw.last_attempted_revision),
            ready,
            healthy,
            history: raw
                .history
                .into_iter()
                .filter_map(|snapshot| {
                    let last = snapshot.last_reconciled.or(snapshot.first_reconciled)?;
                    Some(Snapshot {
                        revision: once(snapshot.metadata.revision),
                        origin: once(snapshot.metadata.origin_revision),
                        outcome: Outcome::of(snapshot.last_reconciled_status.as_deref()),
                        first: snapshot.first_reconciled.unwrap_or(last),
                        last,
                        duration: snapshot.last_reconciled_duration,
                        total: snapshot.total_reconciliations,
                    })
                })
                .collect(),
        }
    }
}

impl Outcome {
    /// From a snapshot's `lastReconciledStatus`.
    fn of(reason: Option<&str>) -> Self {
        match reason {
            Some("ReconciliationSucceeded") => Self::Succeeded,
            Some("HealthCheckFailed") => Self::Unhealthy,
            _ => Self::Failed,
        }
    }
}
