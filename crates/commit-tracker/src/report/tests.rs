use std::collections::{BTreeSet, HashSet};

use opentelemetry::{KeyValue, SpanId, TraceId};
use serde_json::Value;
use windlass_telemetry::{CapturedLog, FinishedSpan, LogFormat};

use super::*;
use crate::changes::{Commit, Problem};
use crate::given::{self, at};
use crate::measure;

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

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

fn one(merged: &str) -> Changes {
    Changes { commits: vec![Commit::new("aa", at(merged))], ..Changes::default() }
}

fn exported() -> Changes {
    let traced = |id, merged, traceparent: &str| Commit {
        traceparent: Some(traceparent.into()),
        ..Commit::new(id, at(merged))
    };
    let first = traced("aa", "09:00:00", &TRACEPARENT.replace("0af7", "1111"));
    Changes {
        commits: vec![first, traced("bb", "09:01:00", "nonsense")],
        exported_as: Some("cc".to_owned()),
        exported: Some(at("09:02:00")),
        build_link: Some("https://ci.example.org/runs/77".to_owned()),
        traceparent: Some(TRACEPARENT.to_owned()),
        ..Changes::default()
    }
}

/// Spans as text: each with what it is part of and when it was, what is known of it, what happened and what it is linked to.
fn told(spans: &[FinishedSpan]) -> String {
    let name = |trace: TraceId, id: SpanId| {
        let own = spans.iter().find(|span| (span.trace_id, span.span_id) == (trace, id));
        own.map_or_else(|| format!("{trace}-{id}"), |span| span.name.to_string())
    };
    let known = |attributes: &[KeyValue]| {
        let lines = attributes.iter().map(|known| format!("\n  {}={}", known.key, known.value));
        lines.collect::<String>()
    };
    let tell = |span: &FinishedSpan| {
        let parent = span.parent.map(|parent| name(span.trace_id, parent));
        let events = span.events.iter().map(|event| {
            let time = Timestamp::try_from(event.timestamp).unwrap();
            format!("\n  {} at {time}{}", event.name, known(&event.attributes))
        });
        let links = span.links.iter().map(|link| {
            let to = name(link.span_context.trace_id(), link.span_context.span_id());
            format!("\n  linked to {to}{}", known(&link.attributes))
        });
        let more = events.chain(links).collect::<String>();
        let (times, attributes) = (format!("{} to {}", span.start, span.end), known(&span.attributes));
        format!("{} {:?} of {parent:?}, {times}{attributes}{more}\n", span.name, span.kind)
    };
    spans.iter().map(tell).collect()
}

/// What is logged, as JSON.
fn lines(report: impl FnOnce()) -> Vec<Value> {
    let logged = CapturedLog::start(LogFormat::Json, "info").unwrap();
    report();
    serde_json::Deserializer::from_str(&logged.text()).into_iter().map(Result::unwrap).collect()
}

#[test]
fn both_traces_have_the_spans_attributes_times_and_links_that_they_had() {
    let spans = Fixture::new(exported()).spans();
    assert_eq!(told(&spans), include_str!("fixtures/spans.txt"));
    assert!(spans.iter().all(|span| span.scope == "tracker"));
}

#[test]
fn a_stage_that_is_not_known_has_no_span_nor_the_way_where_nothing_was_counted() {
    let mut fixture = Fixture::new(one("09:00:00"));
    fixture.measured.fetched = None;
    let names = |spans: &[FinishedSpan]| spans.iter().map(|span| span.name.to_string()).collect::<Vec<_>>();
    let work = ["reconcile", "getKustomization", "processDeploymentToolsCommits"];
    assert_eq!(names(&fixture.spans()), [work, ["revision", "stage.source", "stage.health"]].concat());
    let nothing = Fixture::new(Changes::default()).spans();
    assert_eq!((names(&nothing).as_slice(), nothing[0].links.len()), (&work.map(str::to_owned)[..], 0));
}

#[test]
fn what_is_reported_twice_is_the_same_and_another_revision_is_not() {
    let of = |revision: &str, uid: &str| {
        let mut fixture = Fixture::new(exported());
        fixture.standing.steps[0].revision = revision.parse().unwrap();
        fixture.standing.uid = uid.into();
        fixture.spans()
    };
    assert_eq!(of("v1", "1"), of("v1", "1"));
    let all = [of("v1", "1"), of("v2", "1"), of("v1", "2")].concat();
    let distinct: HashSet<_> = all.iter().map(|span| (span.trace_id, span.span_id)).collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn lines_have_the_texts_and_keys_of_the_original_and_what_is_odd_is_a_warning() {
    let nothing = Changes { commits: Vec::new(), ..exported() };
    // Without an exporter its durations are not told; of two, one commit is from the future.
    let reported = [exported(), one("09:00:00"), one("09:10:00"), nothing];
    let expected: Vec<Vec<Value>> = serde_json::from_str(include_str!("fixtures/lines.json")).unwrap();
    for (changes, expected) in reported.into_iter().zip(expected) {
        let lines = Fixture::new(changes).lines();
        for (line, expected) in lines.iter().zip(expected) {
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&line[key], value, "{key}: {lines:#?}");
            }
        }
    }
}

#[test]
fn the_line_that_the_guide_shows_has_the_keys_and_texts_of_a_written_one() {
    let guide = include_str!("../../../../docs/how-to/commit-tracker.md");
    let shown = guide.lines().find(|line| line.contains("calculated deployment times")).unwrap();
    let parts = |line: &Value| {
        let keys = line.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        (keys, ["level", "msg", "logger"].map(|key| line[key].clone()))
    };
    assert_eq!(
        parts(&serde_json::from_str(shown).unwrap()),
        parts(&Fixture::new(one("09:00:00")).lines()[0])
    );
}

#[test]
fn a_failure_is_an_error_in_both() {
    let fixture = Fixture::new(exported());
    let error = ChangesError::new(Problem::PayloadMissing, "the artifact has no payload");
    let lines = lines(|| Reporter::new(Spans::disabled()).failed(&fixture.work(), &error));
    assert_eq!((&lines[0]["level"], &lines[0]["problem"]), (&"error".into(), &"payload_missing".into()));
    assert_eq!(lines[0]["error"], "the artifact has no payload");
    let spans = spans::failed(&fixture.work(), &error);
    assert!(matches!(spans[0].status, opentelemetry::trace::Status::Error { .. }));
    assert_eq!(&*spans[0].events[0].name, "exception");
}
