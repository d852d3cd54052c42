//! Reports what was measured: log lines, and traces with the times at which things happened.
//!
//! A revision has two traces. The trace of the *tracker's work* has the original's spans: `reconcile`, with
//! `getKustomization`, `processDeploymentToolsCommits` and, where there is an exporter, `recordKubeManifestsMetrics`
//! below it, and what was asked of servers meanwhile, as it happens. The trace of the *revision's way* begins when its oldest counted commit was merged and ends when all was
//! healthy; below it is a span a stage that is known. The two link to each other, and the second to the build.
//!
//! Ids are made from the Kustomization's UID and the revision, and those of the work from the time as well, so that they
//! are known before a trace is.

mod ids;
mod lines;
mod stages;
#[cfg(test)]
mod tests;
mod work;

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId};
use windlass_telemetry::Spans;

use self::ids::{Ids, Trace};
use crate::changes::{Changes, ChangesError};
use crate::measure::Measured;
use crate::{Standing, Step};

/// The instrumentation scope, as the original names it.
const SCOPE: &str = "tracker";
/// The logger, as the original names it.
const LOGGER: &str = "flux-commit-tracker-controller";

/// Reports measurements. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter {
    spans: Spans,
}

/// A revision that was measured, and recorded.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'a> {
    /// The Kustomization.
    pub standing: &'a Standing,
    /// Its revision.
    pub step: &'a Step,
    /// What came with the revision.
    pub changes: &'a Changes,
    /// What was measured.
    pub measured: &'a Measured,
    /// When the tracker did it.
    pub worked: Worked,
}

/// A revision whose commits could not be found, for good.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The Kustomization.
    pub standing: &'a Standing,
    /// Its revision.
    pub step: &'a Step,
    /// Why.
    pub error: &'a ChangesError,
    /// When the tracker tried.
    pub worked: Worked,
}

/// When the tracker worked on a revision.
#[derive(Clone, Copy, Debug)]
pub struct Worked {
    /// It looked at the Kustomization.
    pub began: Timestamp,
    /// It knew the commits, or that they cannot be known.
    pub answered: Timestamp,
    /// It was done.
    pub ended: Timestamp,
}

impl Reporter {
    /// Records spans there, and writes log lines to the process's log.
    pub fn new(spans: Spans) -> Self {
        Self { spans }
    }

    /// Does what has to be done about a revision from `began` on, below the span that is reported of it then.
    pub async fn around<T>(
        &self,
        standing: &Standing,
        step: &Step,
        began: Timestamp,
        work: impl Future<Output = T>,
    ) -> T {
        let ids = ids_of(standing, step, Trace::Work(began));
        self.spans.around(ids.trace, ids.span(work::ROOT), work).await
    }

    /// Reports a revision that was measured: once its record was answered. Answers the trace of its way and the root of it,
    /// where there are any.
    pub fn measured(&self, of: &Measurement<'_>) -> Option<(TraceId, SpanId)> {
        let work = ids_of(of.standing, of.step, Trace::Work(of.worked.began));
        self.spans.within(work.trace, work.span("reconcile"), || lines::measured(of));
        if !self.spans.is_enabled() {
            return None;
        }
        let way = ids_of(of.standing, of.step, Trace::Stages);
        for span in work::measured(of, work, way).into_iter().chain(stages::spans(of, way, work)) {
            self.spans.record(span);
        }
        (of.measured.counted > 0).then(|| (way.trace, way.span(stages::ROOT)))
    }

    /// Reports a revision whose commits could not be found, once it was recorded that they could not.
    pub fn failed(&self, of: &Failure<'_>) {
        let ids = ids_of(of.standing, of.step, Trace::Work(of.worked.began));
        self.spans.within(ids.trace, ids.span("reconcile"), || lines::failed(of));
        if self.spans.is_enabled() {
            for span in work::failed(of, ids) {
                self.spans.record(span);
            }
        }
    }
}

fn ids_of(standing: &Standing, step: &Step, trace: Trace) -> Ids {
    Ids::new(&standing.uid, &step.revision, trace)
}

/// What both traces say of the Kustomization and its revision.
fn attributes(standing: &Standing, step: &Step) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("k8s.controller.name", "flux-commit-tracker"),
        KeyValue::new("k8s.resource.kind", "Kustomization"),
        KeyValue::new("k8s.resource.name", standing.key.name.clone()),
        KeyValue::new("k8s.namespace.name", standing.key.namespace.clone()),
        KeyValue::new("k8s.resource.uid", standing.uid.clone()),
        KeyValue::new("kustomization.revision", step.revision.to_string()),
    ];
    if let Some(source) = &standing.source {
        attributes.extend([
            KeyValue::new("k8s.source.kind", source.kind.name()),
            KeyValue::new("k8s.source.name", source.name.clone()),
            KeyValue::new("k8s.source.namespace", source.namespace.clone()),
        ]);
    }
    attributes
}

/// How many commits came with a revision.
fn commits(changes: &Changes) -> KeyValue {
    let count = i64::try_from(changes.commits.len()).unwrap_or(i64::MAX);
    KeyValue::new("kube_manifests.exporter.info.commits_exported", count)
}
