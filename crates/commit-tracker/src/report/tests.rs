use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use opentelemetry::trace::SpanKind;
use serde_json::Value;
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

#[test]
fn the_way_is_linked_to_the_traces_that_its_counted_commits_name() {
    let named = |digit: &str| TRACEPARENT.replace("0af7", digit);
    let with = |id: &str, merged: &str, traceparent: &str| Commit {
        traceparent: Some(traceparent.into()),
        ..commit(id, merged)
    };
    let changes = Changes {
        commits: vec![
            with("aa", "09:00:00", &named("1111")),
            with("bb", "09:00:30", "nonsense"),
            commit("cc", "09:00:40"),
            with("dd", "09:01:00", &named("2222")),
            with("skewed", "11:00:00", &named("3333")),
        ],
        ..Changes::default()
    };
    let spans = Fixture::new(changes).spans();
    let way = spans.iter().find(|span| span.name == spans::WAY).unwrap();
    let links = way.links.iter().filter_map(|link| {
        let hash = link.attributes.iter().find(|own| own.key.as_str() == "repo.deployment_tools.hash")?;
        Some((hash.value.to_string(), link.span_context.trace_id().to_string()[..4].to_owned()))
    });
    let expected = [("aa", "1111"), ("dd", "2222")].map(|(id, trace)| (id.to_owned(), trace.to_owned()));
    assert_eq!(links.collect::<Vec<_>>(), expected);
}

fn exported() -> Changes {
    Changes {
        commits: vec![commit("aa", "09:00:00"), commit("bb", "09:01:00")],
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

fn attribute(span: &FinishedSpan, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
    found.unwrap_or_else(|| panic!("no {key} in {span:#?}")).value.to_string()
}

/// What is logged, as JSON.
fn lines(report: impl FnOnce()) -> Vec<Value> {
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
    let kept = Kept::default();
    let writer = kept.clone();
    let logging = init_thread(LogFormat::Json, "info", move || writer.clone()).unwrap();
    report();
    drop(logging);
    let written = kept.0.lock().unwrap().clone();
    String::from_utf8(written).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_work_has_the_spans_and_attributes_of_the_original() {
    let spans = Fixture::new(exported()).spans();
    let root = find(&spans, "reconcile");
    assert_eq!((root.kind.clone(), root.parent, root.scope), (SpanKind::Consumer, None, "tracker"));
    for (key, value) in [
        ("k8s.controller.name", "flux-commit-tracker"),
        ("k8s.resource.kind", "Kustomization"),
        ("k8s.resource.name", "shop"),
        ("k8s.namespace.name", "apps"),
        ("k8s.resource.uid", "1"),
        ("k8s.source.kind", "GitRepository"),
        ("k8s.source.name", "fleet"),
        ("k8s.source.namespace", "apps"),
        ("repo.kube_manifests.hash", "cc"),
    ] {
        assert_eq!(attribute(root, key), value);
    }
    assert!(attribute(root, "kustomization.revision").starts_with("latest@sha256:55609f"));
    let children = [
        ("getKustomization", SpanKind::Client, "k8s.resource.uid", "1"),
        (
            "processDeploymentToolsCommits",
            SpanKind::Internal,
            "kube_manifests.exporter.info.commits_exported",
            "2",
        ),
        (
            "recordKubeManifestsMetrics",
            SpanKind::Internal,
            "repo.kube_manifests.commit_time",
            "2026-03-04T09:02:00Z",
        ),
    ];
    for (name, kind, key, value) in children {
        let child = find(&spans, name);
        assert_eq!((child.kind.clone(), child.parent), (kind, Some(root.span_id)), "{name}");
        assert_eq!(attribute(child, key), value);
        assert_eq!(child.trace_id, root.trace_id);
    }
}

#[test]
fn the_way_has_a_span_a_stage_with_the_times_at_which_it_happened() {
    let spans = Fixture::new(exported()).spans();
    let root = find(&spans, "revision");
    assert_eq!((root.start, root.end), (at("09:00:00"), at("09:04:00.5")));
    for (name, from, to) in [
        ("stage.export", "09:00:00", "09:02:00"),
        ("stage.source", "09:02:00", "09:02:30"),
        ("stage.fetch", "09:02:30", "09:03:00"),
        ("stage.apply", "09:03:00", "09:03:10"),
        ("stage.health", "09:03:10", "09:04:00.5"),
    ] {
        let stage = find(&spans, name);
        assert_eq!((stage.start, stage.end), (at(from), at(to)), "{name}");
        assert_eq!((stage.trace_id, stage.parent), (root.trace_id, Some(root.span_id)));
    }
    let merged: Vec<_> = root.events.iter().map(|event| (&*event.name, event.timestamp)).collect();
    assert_eq!(merged, [("merged", at("09:00:00").into()), ("merged", at("09:01:00").into())]);
}

#[test]
fn a_stage_that_is_not_known_has_no_span() {
    let mut fixture = Fixture::new(Changes { commits: vec![commit("aa", "09:00:00")], ..Changes::default() });
    fixture.measured.fetched = None;
    let spans = fixture.spans();
    for absent in ["stage.export", "stage.fetch", "stage.apply", "recordKubeManifestsMetrics"] {
        assert!(spans.iter().all(|span| span.name != absent), "{absent}");
    }
    assert_eq!(find(&spans, "stage.source").start, at("09:00:00"));
    // Where nothing was counted there is no way.
    let spans = Fixture::new(Changes::default()).spans();
    assert!(spans.iter().all(|span| span.name != "revision"));
    assert!(find(&spans, "reconcile").links.is_empty());
}

#[test]
fn the_way_links_to_the_build_and_to_the_work() {
    let spans = Fixture::new(exported()).spans();
    let (work, way) = (find(&spans, "reconcile"), find(&spans, "revision"));
    let links = |span: &FinishedSpan| -> Vec<_> {
        span.links.iter().map(|link| (link.span_context.trace_id(), link.span_context.span_id())).collect()
    };
    assert_eq!(links(work), [(way.trace_id, way.span_id)]);
    let [(build, _), back] = links(way)[..] else { panic!("{way:#?}") };
    assert_eq!(build.to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(back, (work.trace_id, work.span_id));
    assert_eq!(attribute(way, "cicd.pipeline.run.url.full"), "https://ci.example.org/runs/77");
}

#[test]
fn what_is_reported_twice_is_the_same_and_another_revision_is_not() {
    let [first, again] = [Fixture::new(exported()).spans(), Fixture::new(exported()).spans()];
    assert_eq!(first, again);
    let mut other = Fixture::new(exported());
    other.standing.steps[0].revision = "v1".parse().unwrap();
    let mut other_object = Fixture::new(exported());
    other_object.standing.uid = "another".to_owned();
    let ids: Vec<_> = [&first, &other.spans(), &other_object.spans()]
        .iter()
        .flat_map(|spans| spans.iter().map(|span| (span.trace_id, span.span_id)))
        .collect();
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 3 * first.len());
}

#[test]
fn each_commit_that_was_counted_has_a_line_with_the_keys_of_the_original() {
    let lines = Fixture::new(exported()).lines();
    let [first, second, whole] = &lines[..] else { panic!("{lines:#?}") };
    assert_eq!(first["msg"], "calculated deployment times");
    assert_eq!((&first["level"], &first["logger"]), (&"info".into(), &LOGGER.into()));
    assert_eq!((&first["name"], &first["namespace"]), (&"shop".into(), &"apps".into()));
    assert_eq!(first["repo.deployment_tools.hash"], "aa");
    assert_eq!(first["repo.deployment_tools.time"], "2026-03-04T09:00:00Z");
    assert_eq!(first["duration.e2e_deployment_tools_commit_to_flux_apply_seconds"], 240.5);
    assert_eq!(first["duration.deployment_tools_commit_to_kube_manifests_commit_seconds"], 120.0);
    assert_eq!(first["duration.kube_manifests_commit_to_flux_apply_seconds"], 120.5);
    assert_eq!(second["repo.deployment_tools.hash"], "bb");
    assert_eq!(whole["msg"], "successfully processed kustomization event");
    assert_eq!(whole["commits.counted"], 2);
}

#[test]
fn what_is_odd_is_told_as_that() {
    let logged = |changes: Changes| Fixture::new(changes).lines();
    let one = |merged: &str| Changes { commits: vec![commit("aa", merged)], ..Changes::default() };
    // Without an exporter its durations are not told.
    let lines = logged(one("09:00:00"));
    assert_eq!(lines[0]["duration.e2e_deployment_tools_commit_to_flux_apply_seconds"], 240.5);
    for absent in [
        "duration.deployment_tools_commit_to_kube_manifests_commit_seconds",
        "duration.kube_manifests_commit_to_flux_apply_seconds",
    ] {
        assert_eq!(lines[0][absent], Value::Null);
    }
    // A commit from the future.
    let lines = logged(one("09:10:00"));
    assert_eq!((&lines[0]["level"], &lines[0]["repo.deployment_tools.hash"]), (&"warn".into(), &"aa".into()));
    assert_eq!(lines[0]["duration.e2e_deployment_tools_commit_to_flux_apply_seconds"], -359.5);
    // An export of nothing.
    let lines = logged(Changes { commits: Vec::new(), ..exported() });
    let expected = (&"exporter-info contains no deployment-tools commits".into(), &"warn".into());
    assert_eq!((&lines[0]["msg"], &lines[0]["level"]), expected);
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
