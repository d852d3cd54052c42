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
mod spans;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use opentelemetry::trace::{SpanId, TraceId};
use windlass_telemetry::Spans;

use self::ids::Ids;
use crate::changes::{Changes, ChangesError};
use crate::measure::Measured;
use crate::{Standing, Step};

/// Reports measurements. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reporter {
    spans: Spans,
}

/// What the tracker did about a revision, and when.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// The Kustomization.
    pub standing: &'a Standing,
    /// Its revision.
    pub step: &'a Step,
    /// When it looked at the Kustomization.
    pub began: Timestamp,
    /// When it knew the commits, or that they cannot be known.
    pub answered: Timestamp,
    /// When it was done.
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
        asked: impl Future<Output = T>,
    ) -> T {
        let ids = Ids::work(&standing.uid, &step.revision, began);
        self.spans.around(ids.trace, ids.span(spans::WORK), asked).await
    }

    /// Reports a revision that was measured: once its record was answered. Answers the trace of its way and the root of it,
    /// where there are any.
    pub fn measured(
        &self,
        of: &Work<'_>,
        changes: &Changes,
        measured: &Measured,
    ) -> Option<(TraceId, SpanId)> {
        let work = of.ids();
        self.spans.within(work.trace, work.span(spans::WORK), || lines::measured(of, changes, measured));
        if !self.spans.is_enabled() {
            return None;
        }
        let way = Ids::way(&of.standing.uid, &of.step.revision);
        let work = spans::work(of, changes, measured, way).into_iter();
        for span in work.chain(spans::way(of, changes, measured, way)) {
            self.spans.record(span);
        }
        (measured.counted > 0).then(|| (way.trace, way.span(spans::WAY)))
    }

    /// Reports a revision whose commits could not be found, once it was recorded that they could not.
    pub fn failed(&self, of: &Work<'_>, error: &ChangesError) {
        let ids = of.ids();
        self.spans.within(ids.trace, ids.span(spans::WORK), || lines::failed(of, error));
        if self.spans.is_enabled() {
            for span in spans::failed(of, error) {
                self.spans.record(span);
            }
        }
    }
}

impl Work<'_> {
    /// Of the trace of the work.
    fn ids(&self) -> Ids {
        Ids::work(&self.standing.uid, &self.step.revision, self.began)
    }
}
