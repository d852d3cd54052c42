//! The trace of a revision's way: a span a stage, with the times at which they happened.

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, Status};
use windlass_telemetry::FinishedSpan;

use super::ids::{Ids, linked};
use super::{SCOPE, Work, attributes, commits};
use crate::changes::Changes;
use crate::measure::{CommitOutcome, Measured};

/// The root.
pub(super) const ROOT: &str = "revision";

/// Commits that the root names at most: the newest.
const MAX_EVENTS: usize = 128;

/// The spans, the root first; none when nothing of the revision was counted.
pub(super) fn spans(of: &Work<'_>, changes: &Changes, measured: &Measured, ids: Ids) -> Vec<FinishedSpan> {
    let counted = measured.commits.iter().filter(|commit| commit.outcome == CommitOutcome::Counted);
    let counted: Vec<_> = counted.map(|measured| &measured.commit).collect();
    let Some(merged) = counted.iter().map(|commit| commit.merged).min() else { return Vec::new() };
    let ready = measured.ready.unwrap_or(of.step.ready);

    let mut root = span(ids, ROOT, merged, ready);
    root.attributes = attributes(of);
    root.attributes.push(commits(changes));
    root.attributes.push(KeyValue::new("kustomization.ready_is_estimated", measured.estimated));
    root.attributes
        .extend(changes.exported_as.clone().map(|hash| KeyValue::new("repo.kube_manifests.hash", hash)));
    root.attributes
        .extend(changes.build_link.clone().map(|url| KeyValue::new("cicd.pipeline.run.url.full", url)));
    let newest = counted.iter().skip(counted.len().saturating_sub(MAX_EVENTS));
    root.events = newest
        .map(|commit| {
            let hash = KeyValue::new("repo.deployment_tools.hash", commit.id.clone());
            Event::new("merged", commit.merged.into(), vec![hash], 0)
        })
        .collect();
    root.links.extend(changes.traceparent.as_deref().and_then(linked));
    let newest = counted.iter().skip(counted.len().saturating_sub(MAX_EVENTS));
    root.links.extend(newest.filter_map(|commit| {
        let mut link = linked(commit.traceparent.as_deref()?)?;
        link.attributes.push(KeyValue::new("repo.deployment_tools.hash", commit.id.clone()));
        Some(link)
    }));
    root.links.push(of.ids().link(super::work::ROOT));

    let healthy = Some(ready).filter(|_| of.step.health_checked);
    let stages = [
        ("stage.export", Some(merged), changes.exported),
        ("stage.source", changes.exported.or(Some(merged)), measured.seen),
        ("stage.fetch", measured.seen, measured.fetched),
        ("stage.apply", measured.fetched, measured.applied),
        ("stage.health", measured.applied, healthy),
    ];
    let stages = stages.into_iter().filter_map(|(name, from, to)| {
        let (from, to) = (from?, to?);
        // Less than no time within a second is rounding, as it is for the histograms; more is two clocks.
        crate::measure::seconds(from, to)?;
        let parent = Some(ids.span(ROOT));
        Some(FinishedSpan { parent, ..span(ids, name, from, to.max(from)) })
    });
    let stages: Vec<_> = stages.collect();
    std::iter::once(root).chain(stages).collect()
}

fn span(ids: Ids, name: &'static str, from: Timestamp, to: Timestamp) -> FinishedSpan {
    let to = to.max(from);
    FinishedSpan {
        status: Status::Ok,
        ..FinishedSpan::new(SCOPE, name, (ids.trace, ids.span(name)), (from, to))
    }
}
