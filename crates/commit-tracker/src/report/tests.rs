use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanKind;
use serde_json::{Value, json};
use windlass_telemetry::{FinishedSpan, LogFormat, init_thread};

use super::lines::LOGGER;
use super::*;
use crate::changes::{Commit, Problem};
use crate::{given, measure};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn at(time: &str) -> Timestamp {
    format!("2026-03-04T{time}Z").parse().unwrap()
}

struct Fixture {
    standing: Standing,
    changes: Changes,
    measured: Measured,
}

impl Fixture {
    fn new(changes: Changes) -> Self {
        let step = Step {
            seen: Some(at("09:02:30")),
            fetched: Some(at("09:03:00")),
            applied: Some(at("09:03:10")),
            health_checked: true,
            ..given::step("latest@sha256:55609f", at("09:04:00.5"))
        };
        let measured = measure(&step, &changes, None);
        let standing = given::standing(at("08:00:00"), vec![step]);
        Self { standing, changes, measured }
    }

    fn work(&self) -> Work<'_> {
        let [began, answered, ended] = ["09:04:01", "09:04:02", "09:04:03"].map(at);
        Work { standing: &self.standing, step: &self.standing.steps[0], began, answered, ended }
    }

    fn spans(&self) -> Vec<FinishedSpan> {
        let (of, changes, measured) = (self.work(), &self.changes, &self.measured);
        let way = Ids::way(&of.standing.uid, &of.step.revision);
        let stages = spans::way(&of, changes, measured, way);
        spans::work(&of, changes, measured, way).into_iter().chain(stages).collect()
    }

    fn lines(&self) -> Vec<Value> {
        let reporter = Reporter::new(Spans::disabled());
        lines(|| assert!(reporter.measured(&self.work(), &self.changes, &self.measured).is_none()))
    }
}

fn commit(id: &str, merged: &str) -> Commit {
    Commit::new(id, at(merged))
}

fn exported() -> Changes {
    Changes {
        commits: vec![
            Commit {
                traceparent: Some(TRACEPARENT.replace("0af7", "1111").into()),
                ..commit("aa", "09:00:00")
            },
            Commit { traceparent: Some("nonsense".into()), ..commit("bb", "09:01:00") },
        ],
        exported_as: Some("cc".to_owned()),
        exported: Some(at("09:02:00")),
        build_link: Some("https://ci.example.org/runs/77".to_owned()),
        traceparent: Some(TRACEPARENT.to_owned()),
        ..Changes::default()
    }
}

fn find<'a>(spans: &'a [FinishedSpan], name: &str) -> &'a FinishedSpan {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name} in {spans:#?}"))
}

fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.unwrap_or_else(|| panic!("no {key} in {attributes:#?}")).value.to_string()
}

/// Where lines of the log are kept.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is logged, as JSON.
fn lines(report: impl FnOnce()) -> Vec<Value> {
    let kept = Kept::default();
    let writer = kept.clone();
    let logging = init_thread(LogFormat::Json, "info", move || writer.clone()).unwrap();
    report();
    drop(logging);
    let written = kept.0.lock().unwrap();
    serde_json::Deserializer::from_slice(&written).into_iter().map(Result::unwrap).collect()
}

#[test]
fn the_work_has_the_spans_and_attributes_of_the_original() {
    let spans = Fixture::new(exported()).spans();
    let root = find(&spans, "reconcile");
    assert_eq!((root.kind.clone(), root.parent, root.scope), (SpanKind::Consumer, None, "tracker"));
    let names =
        ["reconcile", "getKustomization", "processDeploymentToolsCommits", "recordKubeManifestsMetrics"];
    let told = names.map(|name| {
        let span = find(&spans, name);
        let parent = (name != "reconcile").then_some(root.span_id);
        assert_eq!((span.parent, span.trace_id), (parent, root.trace_id), "{name}");
        let attributes = span.attributes.iter().map(|own| format!("\n  {}={}", own.key, own.value));
        format!("{name} {:?}{}\n", span.kind, attributes.collect::<Vec<_>>().concat())
    });
    assert_eq!(
        told.concat(),
        "reconcile Consumer
  k8s.controller.name=flux-commit-tracker
  k8s.resource.kind=Kustomization
  k8s.resource.name=shop
  k8s.namespace.name=apps
  k8s.resource.uid=1
  kustomization.revision=latest@sha256:55609f
  k8s.source.kind=GitRepository
  k8s.source.name=fleet
  k8s.source.namespace=apps
  repo.kube_manifests.hash=cc
getKustomization Client
  k8s.resource.uid=1
processDeploymentToolsCommits Internal
  kube_manifests.exporter.info.commits_exported=2
recordKubeManifestsMetrics Internal
  repo.kube_manifests.commit_time=2026-03-04T09:02:00Z
"
    );
}

#[test]
fn the_way_has_a_span_a_stage_and_links_to_the_build_and_to_the_work() {
    let spans = Fixture::new(exported()).spans();
    let (work, way) = (find(&spans, "reconcile"), find(&spans, "revision"));
    assert_eq!((way.start, way.end), (at("09:00:00"), at("09:04:00.5")));
    for (name, from, to) in [
        ("stage.export", "09:00:00", "09:02:00"),
        ("stage.source", "09:02:00", "09:02:30"),
        ("stage.fetch", "09:02:30", "09:03:00"),
        ("stage.apply", "09:03:00", "09:03:10"),
        ("stage.health", "09:03:10", "09:04:00.5"),
    ] {
        let stage = find(&spans, name);
        assert_eq!((stage.start, stage.end), (at(from), at(to)), "{name}");
        assert_eq!((stage.trace_id, stage.parent), (way.trace_id, Some(way.span_id)));
    }
    let merged: Vec<_> = way.events.iter().map(|event| (&*event.name, event.timestamp)).collect();
    assert_eq!(merged, [("merged", at("09:00:00").into()), ("merged", at("09:01:00").into())]);
    let links = |span: &FinishedSpan| -> Vec<_> {
        span.links.iter().map(|link| (link.span_context.trace_id(), link.span_context.span_id())).collect()
    };
    assert_eq!(links(work), [(way.trace_id, way.span_id)]);
    // And to the trace that a counted commit names.
    let [(build, _), (made, _), back] = links(way)[..] else { panic!("{way:#?}") };
    assert_eq!(build.to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(made.to_string(), "1111651916cd43dd8448eb211c80319c");
    assert_eq!(attribute(&way.links[1].attributes, "repo.deployment_tools.hash"), "aa");
    assert_eq!(back, (work.trace_id, work.span_id));
    assert_eq!(attribute(&way.attributes, "cicd.pipeline.run.url.full"), "https://ci.example.org/runs/77");
}

#[test]
fn a_stage_that_is_not_known_has_no_span_nor_the_way_where_nothing_was_counted() {
    let mut fixture = Fixture::new(Changes { commits: vec![commit("aa", "09:00:00")], ..Changes::default() });
    fixture.measured.fetched = None;
    let names = |spans: &[FinishedSpan]| spans.iter().map(|span| span.name.to_string()).collect::<Vec<_>>();
    let work = ["reconcile", "getKustomization", "processDeploymentToolsCommits"];
    let way = ["revision", "stage.source", "stage.health"];
    assert_eq!(names(&fixture.spans()), [work, way].concat());
    let nothing = Fixture::new(Changes::default()).spans();
    assert_eq!((names(&nothing).as_slice(), nothing[0].links.len()), (&work.map(str::to_owned)[..], 0));
}

#[test]
fn what_is_reported_twice_is_the_same_and_another_revision_is_not() {
    let of = |revision: &str, uid: &str| {
        let mut fixture = Fixture::new(exported());
        fixture.standing.steps[0].revision = revision.parse().unwrap();
        fixture.standing.uid = uid.to_owned();
        fixture.spans()
    };
    assert_eq!(of("v1", "1"), of("v1", "1"));
    let all = [of("v1", "1"), of("v2", "1"), of("v1", "2")].concat();
    let distinct: HashSet<_> = all.iter().map(|span| (span.trace_id, span.span_id)).collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn lines_have_the_texts_and_keys_of_the_original_and_what_is_odd_is_a_warning() {
    const END_TO_END: &str = "duration.e2e_deployment_tools_commit_to_flux_apply_seconds";
    const EXPORT: &str = "duration.deployment_tools_commit_to_kube_manifests_commit_seconds";
    const APPLY: &str = "duration.kube_manifests_commit_to_flux_apply_seconds";
    let one = |merged: &str| Changes { commits: vec![commit("aa", merged)], ..Changes::default() };
    let times = "calculated deployment times";
    for (changes, line, expected) in [
        (
            exported(),
            0,
            json!({"msg": times, "level": "info", "logger": LOGGER, "name": "shop", "namespace": "apps",
                "repo.deployment_tools.hash": "aa", "repo.deployment_tools.time": "2026-03-04T09:00:00Z",
                END_TO_END: 240.5, EXPORT: 120.0, APPLY: 120.5}),
        ),
        (exported(), 1, json!({"msg": times, "repo.deployment_tools.hash": "bb"})),
        (exported(), 2, json!({"msg": "successfully processed kustomization event", "commits.counted": 2})),
        // Without an exporter its durations are not told.
        (one("09:00:00"), 0, json!({END_TO_END: 240.5, EXPORT: null, APPLY: null})),
        // A commit from the future.
        (
            one("09:10:00"),
            0,
            json!({"level": "warn", "repo.deployment_tools.hash": "aa", END_TO_END: -359.5}),
        ),
        // An export of nothing.
        (
            Changes { commits: Vec::new(), ..exported() },
            0,
            json!({"level": "warn", "msg": "exporter-info contains no deployment-tools commits"}),
        ),
    ] {
        let lines = Fixture::new(changes).lines();
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&lines[line][key], value, "{key}: {lines:#?}");
        }
    }
}

#[test]
fn a_failure_is_an_error_in_both() {
    let fixture = Fixture::new(exported());
    let error = ChangesError::new(Problem::PayloadMissing, "the artifact has no payload");
    let lines = lines(|| Reporter::new(Spans::disabled()).failed(&fixture.work(), &error));
    assert_eq!((&lines[0]["level"], &lines[0]["problem"]), (&"error".into(), &"payload_missing".into()));
    assert_eq!(lines[0]["error"], "the artifact has no payload");
    let spans = spans::failed(&fixture.work(), &error);
    let root = find(&spans, "reconcile");
    assert!(matches!(root.status, opentelemetry::trace::Status::Error { .. }));
    assert_eq!(&*root.events[0].name, "exception");
}
