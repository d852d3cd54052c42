//! The trace of the tracker's work, with the spans of the original.

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, SpanKind, Status};
use windlass_telemetry::{ErrorChain, FinishedSpan};

use super::ids::Ids;
use super::{Failure, Measurement, SCOPE, attributes, commits, stages};
use crate::measure::CommitOutcome;
use crate::{Standing, Step};

/// The root.
pub(super) const ROOT: &str = "reconcile";

/// The spans of a revision that was measured, the root first.
pub(super) fn measured(of: &Measurement<'_>, ids: Ids, way: Ids) -> Vec<FinishedSpan> {
    let Measurement { standing, step, changes, measured, worked, .. } = *of;
    let mut root = root(ids, standing, step, (worked.began, worked.ended), Status::Ok);
    root.attributes.extend(hash(changes.exported_as.as_deref()));
    if measured.commits.iter().any(|commit| commit.outcome == CommitOutcome::Counted) {
        root.links.push(way.link(stages::ROOT));
    }
    let mut process =
        child(ids, "processDeploymentToolsCommits", (worked.answered, worked.ended), Status::Ok);
    process.attributes.push(commits(changes));
    let mut spans = vec![root, get(ids, standing, worked.began), process];
    if let Some(exported) = changes.exported {
        let mut record =
            child(ids, "recordKubeManifestsMetrics", (worked.answered, worked.ended), Status::Ok);
        record.attributes.push(KeyValue::new("repo.kube_manifests.commit_time", exported.to_string()));
        spans.push(record);
    }
    spans
}

/// The spans of a revision whose commits could not be found, the root first.
pub(super) fn failed(of: &Failure<'_>, ids: Ids) -> Vec<FinishedSpan> {
    let Failure { standing, step, error, worked } = *of;
    let message = ErrorChain(error).to_string();
    let mut root = root(ids, standing, step, (worked.began, worked.ended), Status::error(message.clone()));
    let exception = vec![
        KeyValue::new("exception.type", error.problem.name()),
        KeyValue::new("exception.message", message),
    ];
    root.events.push(Event::new("exception", worked.answered.into(), exception, 0));
    vec![root, get(ids, standing, worked.began)]
}

fn root(
    ids: Ids,
    standing: &Standing,
    step: &Step,
    (began, ended): (Timestamp, Timestamp),
    status: Status,
) -> FinishedSpan {
    FinishedSpan {
        kind: SpanKind::Consumer,
        attributes: attributes(standing, step),
        status,
        ..FinishedSpan::new(SCOPE, ROOT, (ids.trace, ids.span(ROOT)), (began, ended.max(began)))
    }
}

/// The Kustomization is read from memory, which takes no time.
fn get(ids: Ids, standing: &Standing, at: Timestamp) -> FinishedSpan {
    let uid = KeyValue::new("k8s.resource.uid", standing.uid.clone());
    FinishedSpan {
        kind: SpanKind::Client,
        attributes: vec![uid],
        ..child(ids, "getKustomization", (at, at), Status::Ok)
    }
}

fn child(
    ids: Ids,
    name: &'static str,
    (began, ended): (Timestamp, Timestamp),
    status: Status,
) -> FinishedSpan {
    let times = (began, ended.max(began));
    FinishedSpan {
        parent: Some(ids.span(ROOT)),
        status,
        ..FinishedSpan::new(SCOPE, name, (ids.trace, ids.span(name)), times)
    }
}

fn hash(exported_as: Option<&str>) -> Option<KeyValue> {
    exported_as.map(|hash| KeyValue::new("repo.kube_manifests.hash", hash.to_owned()))
}
