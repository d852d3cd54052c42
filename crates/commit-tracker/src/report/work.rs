//! The trace of the tracker's work, with the spans of the original.

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, SpanKind, Status};
use windlass_telemetry::{ErrorChain, FinishedSpan};

use super::ids::Ids;
use super::{SCOPE, Work, attributes, commits, stages};
use crate::changes::{Changes, ChangesError};
use crate::measure::{CommitOutcome, Measured};

/// The root.
pub(super) const ROOT: &str = "reconcile";

/// The spans of a revision that was measured, the root first.
pub(super) fn measured(of: &Work<'_>, changes: &Changes, measured: &Measured, way: Ids) -> Vec<FinishedSpan> {
    let mut root = root(of, Status::Ok);
    root.attributes
        .extend(changes.exported_as.clone().map(|hash| KeyValue::new("repo.kube_manifests.hash", hash)));
    if measured.commits.iter().any(|commit| commit.outcome == CommitOutcome::Counted) {
        root.links.push(way.link(stages::ROOT));
    }
    let mut process = child(of, "processDeploymentToolsCommits", (of.answered, of.ended));
    process.attributes.push(commits(changes));
    let mut spans = vec![root, get(of), process];
    if let Some(exported) = changes.exported {
        let mut record = child(of, "recordKubeManifestsMetrics", (of.answered, of.ended));
        record.attributes.push(KeyValue::new("repo.kube_manifests.commit_time", exported.to_string()));
        spans.push(record);
    }
    spans
}

/// The spans of a revision whose commits could not be found, the root first.
pub(super) fn failed(of: &Work<'_>, error: &ChangesError) -> Vec<FinishedSpan> {
    let message = ErrorChain(error).to_string();
    let mut root = root(of, Status::error(message.clone()));
    let exception = vec![
        KeyValue::new("exception.type", error.problem.name()),
        KeyValue::new("exception.message", message),
    ];
    root.events.push(Event::new("exception", of.answered.into(), exception, 0));
    vec![root, get(of)]
}

fn root(of: &Work<'_>, status: Status) -> FinishedSpan {
    FinishedSpan {
        kind: SpanKind::Consumer,
        parent: None,
        attributes: attributes(of),
        status,
        ..child(of, ROOT, (of.began, of.ended))
    }
}

/// The Kustomization is read from memory, which takes no time.
fn get(of: &Work<'_>) -> FinishedSpan {
    let uid = KeyValue::new("k8s.resource.uid", of.standing.uid.clone());
    let span = child(of, "getKustomization", (of.began, of.began));
    FinishedSpan { kind: SpanKind::Client, attributes: vec![uid], ..span }
}

fn child(of: &Work<'_>, name: &'static str, (began, ended): (Timestamp, Timestamp)) -> FinishedSpan {
    let ids = of.ids();
    FinishedSpan {
        parent: Some(ids.span(ROOT)),
        status: Status::Ok,
        ..FinishedSpan::new(SCOPE, name, (ids.trace, ids.span(name)), (began, ended.max(began)))
    }
}
