//! The spans of both traces: that of the tracker's work, as the original has them, and that of a revision's way, a span a
//! stage.

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, SpanKind, Status};
use windlass_telemetry::{ErrorChain, FinishedSpan};

use super::Work;
use super::ids::{Ids, linked};
use crate::changes::{Changes, ChangesError};
use crate::measure::{CommitOutcome, Measured};

/// The instrumentation scope, as the original names it.
const SCOPE: &str = "tracker";
/// The root of the work.
pub(super) const WORK: &str = "reconcile";
/// The root of the way.
pub(super) const WAY: &str = "revision";
/// Commits that the way names at most: the newest.
const MAX_EVENTS: usize = 128;

/// The work on a revision that was measured, the root first.
pub(super) fn work(of: &Work<'_>, changes: &Changes, measured: &Measured, way: Ids) -> Vec<FinishedSpan> {
    let ids = of.ids();
    let mut root = work_root(of, Status::Ok);
    root.attributes.extend(exported_as(changes));
    if measured.counted > 0 {
        root.links.push(way.link(WAY));
    }
    let mut process = child(ids, WORK, "processDeploymentToolsCommits", (of.answered, of.ended));
    process.attributes.push(commits(changes));
    let mut spans = vec![root, get(of), process];
    if let Some(exported) = changes.exported {
        let mut record = child(ids, WORK, "recordKubeManifestsMetrics", (of.answered, of.ended));
        record.attributes.push(KeyValue::new("repo.kube_manifests.commit_time", exported.to_string()));
        spans.push(record);
    }
    spans
}

/// The work on a revision whose commits could not be found, the root first.
pub(super) fn failed(of: &Work<'_>, error: &ChangesError) -> Vec<FinishedSpan> {
    let message = ErrorChain(error).to_string();
    let mut root = work_root(of, Status::error(message.clone()));
    let exception = vec![
        KeyValue::new("exception.type", error.problem.name()),
        KeyValue::new("exception.message", message),
    ];
    root.events.push(Event::new("exception", of.answered.into(), exception, 0));
    vec![root, get(of)]
}

/// The way of a revision, the root first; nothing where nothing of it was counted.
pub(super) fn way(of: &Work<'_>, changes: &Changes, measured: &Measured, ids: Ids) -> Vec<FinishedSpan> {
    let counted = measured.commits.iter().filter(|commit| commit.outcome == CommitOutcome::Counted);
    let counted: Vec<_> = counted.map(|measured| &measured.commit).collect();
    let Some(merged) = counted.iter().map(|commit| commit.merged).min() else { return Vec::new() };
    let ready = measured.ready.unwrap_or(of.step.ready);

    let mut root = span(ids, WAY, (merged, ready));
    root.attributes = attributes(of);
    root.attributes.push(commits(changes));
    root.attributes.push(KeyValue::new("kustomization.ready_is_estimated", measured.estimated));
    root.attributes.extend(exported_as(changes));
    root.attributes
        .extend(changes.build_link.clone().map(|url| KeyValue::new("cicd.pipeline.run.url.full", url)));
    root.links.extend(changes.traceparent.as_deref().and_then(linked));
    for commit in &counted[counted.len().saturating_sub(MAX_EVENTS)..] {
        let hash = KeyValue::new("repo.deployment_tools.hash", commit.id.clone());
        if let Some(mut link) = commit.traceparent.as_deref().and_then(linked) {
            link.attributes.push(hash.clone());
            root.links.push(link);
        }
        root.events.push(Event::new("merged", commit.merged.into(), vec![hash], 0));
    }
    root.links.push(of.ids().link(WORK));

    let healthy = Some(ready).filter(|_| of.step.health_checked);
    let stages = [
        ("stage.export", Some(merged), changes.exported),
        ("stage.source", changes.exported.or(Some(merged)), measured.seen),
        ("stage.fetch", measured.seen, measured.fetched),
        ("stage.apply", measured.fetched, measured.applied),
        ("stage.health", measured.applied, healthy),
    ];
    let mut spans = vec![root];
    spans.extend(stages.into_iter().filter_map(|(name, from, to)| {
        let (from, to) = (from?, to?);
        // Less than no time within a second is rounding, as it is for the histograms; more is two clocks.
        crate::measure::seconds(from, to)?;
        Some(child(ids, WAY, name, (from, to)))
    }));
    spans
}

fn work_root(of: &Work<'_>, status: Status) -> FinishedSpan {
    let (kind, attributes) = (SpanKind::Consumer, attributes(of));
    FinishedSpan { kind, attributes, status, ..span(of.ids(), WORK, (of.began, of.ended)) }
}

/// The Kustomization is read from memory, which takes no time.
fn get(of: &Work<'_>) -> FinishedSpan {
    let attributes = vec![KeyValue::new("k8s.resource.uid", of.standing.uid.clone())];
    let span = child(of.ids(), WORK, "getKustomization", (of.began, of.began));
    FinishedSpan { kind: SpanKind::Client, attributes, ..span }
}

fn child(ids: Ids, parent: &str, name: &'static str, times: (Timestamp, Timestamp)) -> FinishedSpan {
    FinishedSpan { parent: Some(ids.span(parent)), ..span(ids, name, times) }
}

fn span(ids: Ids, name: &'static str, (from, to): (Timestamp, Timestamp)) -> FinishedSpan {
    let span = FinishedSpan::new(SCOPE, name, (ids.trace, ids.span(name)), (from, to.max(from)));
    FinishedSpan { status: Status::Ok, ..span }
}

/// What both traces say of the Kustomization and its revision.
fn attributes(Work { standing, step, .. }: &Work<'_>) -> Vec<KeyValue> {
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

fn exported_as(changes: &Changes) -> Option<KeyValue> {
    changes.exported_as.clone().map(|hash| KeyValue::new("repo.kube_manifests.hash", hash))
}
