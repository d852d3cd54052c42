//! Logs, traces and metrics on the wire.

use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId};
use tracing::instrument::WithSubscriber as _;
use windlass_otlp_receiver::{Receiver, Value};

use super::kit::{DEADLINE, PROTOCOLS, Set, options, start, start_with};
use crate::{FinishedSpan, LogFormat, TelemetryMode, traced};

#[tokio::test(flavor = "multi_thread")]
async fn all_three_signals_reach_a_collector_under_one_name() {
    for protocol in PROTOCOLS {
        all_three_signals_reach_a_collector(protocol).await;
    }
}

async fn all_three_signals_reach_a_collector(protocol: Set<'_>) {
    let collector = Receiver::start().unwrap();
    let (telemetry, written, _guard) = start_with(&options(TelemetryMode::Otlp, &collector.url()), protocol);
    let meter = telemetry.metrics().meter("tracker");
    meter.f64_histogram("export-time").with_unit("s").build().record(12.5, &[KeyValue::new("name", "apps")]);
    telemetry.metrics().meter("jobs").u64_counter("jobs_total").build().add(2, &[]);
    tracing::info_span!("reconcile", name = "apps").in_scope(|| tracing::info!(count = 3, "measured"));
    telemetry.shutdown(DEADLINE).await;

    collector.look(|received| {
        let span = received.spans_of("reconcile").next().unwrap();
        for (key, value) in [
            ("service.name", "windlass-test"),
            ("service.version", "1.2.3"),
            ("telemetry.sdk.language", "rust"),
            ("vcs.ref.head.revision", option_env!("WINDLASS_COMMIT").unwrap_or("unknown")),
            ("vcs.ref.head.name", option_env!("WINDLASS_BRANCH").unwrap_or("unknown")),
            ("process.pid", &std::process::id().to_string()),
            ("os.type", "linux"),
        ] {
            assert_eq!(span.resource.get(key).map(String::as_str), Some(value), "{key}: {:?}", span.resource);
        }
        for key in
            ["service.instance.id", "host.name", "host.arch", "process.executable.name", "process.owner"]
        {
            assert!(span.resource.contains_key(key), "no {key} in {:?}", span.resource);
        }
        let arguments = span.resource.keys().find(|key| key.contains("command"));
        assert_eq!(arguments, None, "a command line may carry tokens");

        let log = received.logs_of("measured").next().unwrap();
        assert_eq!((&log.trace_id, &log.span_id), (&span.trace_id, &span.span_id));
        assert_eq!(log.attributes["count"], "3");
        assert_eq!(log.resource, span.resource);

        let (series, sample) = received.of("export-time").next().unwrap();
        assert_eq!(series.resource, span.resource);
        assert_eq!(sample.unit, "s");
        let Value::Exponential { count: 1, sum: 12.5, max: None, .. } = sample.value else {
            panic!("no exponential histogram: {sample:?}");
        };
        assert!(matches!(
            received.of("jobs_total").next().unwrap().1.value,
            Value::Sum { monotonic: true, .. }
        ));
    });
    assert_eq!(written.text(), "", "the mode otlp writes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_of_work_says_how_it_ended() {
    let collector = Receiver::start().unwrap();
    let (telemetry, _written, _guard) = start(TelemetryMode::Otlp, &collector.url());
    let fine = traced(tracing::info_span!("fine"), async { Ok::<_, std::io::Error>(7) }).await;
    assert_eq!(fine.unwrap(), 7);
    let broken = std::io::Error::other("no more disk");
    let _ = traced(tracing::info_span!("broken"), async { Err::<(), _>(broken) }).await.unwrap_err();
    telemetry.shutdown(DEADLINE).await;

    collector.look(|received| {
        let status = |name| {
            let span = received.spans_of(name).next().unwrap();
            let exceptions: Vec<_> = span
                .events
                .iter()
                .filter_map(|event| event.attributes.get("exception.message").cloned())
                .collect();
            (span.status, span.status_message.clone(), exceptions.join(", "))
        };
        assert_eq!(status("fine"), ("ok", String::new(), String::new()));
        assert_eq!(status("broken"), ("error", "no more disk".to_owned(), "no more disk".to_owned()));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_span_keeps_its_ids_and_times() {
    let collector = Receiver::start().unwrap();
    let (telemetry, written, _guard) = start(TelemetryMode::StdoutLogsOtlp, &collector.url());
    let spans = telemetry.spans();
    let (trace, span, parent) = (TraceId::from(0xabc), SpanId::from(0x12), SpanId::from(0x11));
    let linked =
        SpanContext::new(0xfed_u128.into(), 0x99_u64.into(), TraceFlags::SAMPLED, true, <_>::default());
    let start = "2026-03-04T09:15:00Z".parse().unwrap();
    let end: jiff::Timestamp = "2026-03-04T09:16:01.5Z".parse().unwrap();
    spans.record(FinishedSpan {
        kind: SpanKind::Consumer,
        parent: Some(parent),
        attributes: vec![KeyValue::new("k8s.resource.name", "apps"), KeyValue::new("commits", 3)],
        events: vec![Event::new("applied", end.into(), vec![KeyValue::new("revision", "main@sha1:1")], 0)],
        links: vec![Link::new(linked, vec![KeyValue::new("build", "https://ci.example.org/7")], 0)],
        status: Status::error("not healthy"),
        ..FinishedSpan::new("tracker", "reconcile", (trace, span), (start, end))
    });
    spans.within(trace, span, || tracing::info!("calculated"));
    tracing::info!("outside");
    telemetry.shutdown(DEADLINE).await;

    collector.look(|received| {
        let told = received.spans_of("reconcile").next().unwrap();
        assert_eq!((told.scope.as_str(), told.kind), ("tracker", "consumer"));
        assert_eq!(told.trace_id, "00000000000000000000000000000abc");
        assert_eq!(told.span_id, "0000000000000012");
        assert_eq!(told.parent_span_id, "0000000000000011");
        assert_eq!((told.start, told.end), (1_772_615_700_000_000_000, 1_772_615_761_500_000_000));
        assert_eq!((told.status, told.status_message.as_str()), ("error", "not healthy"));
        assert_eq!(told.attributes["commits"], "3");
        assert_eq!(told.events[0].name, "applied");
        assert_eq!(told.events[0].time, told.end);
        assert_eq!(told.links[0].trace_id, "00000000000000000000000000000fed");
        assert_eq!(told.links[0].attributes["build"], "https://ci.example.org/7");
        assert_eq!(told.resource["service.name"], "windlass-test");

        let log = received.logs_of("calculated").next().unwrap();
        assert_eq!((&log.trace_id, &log.span_id), (&told.trace_id, &told.span_id));
        assert_eq!(received.logs_of("outside").next().unwrap().trace_id, "");
    });
    let lines = written.lines();
    assert_eq!(lines[0]["trace_id"], "00000000000000000000000000000abc", "{lines:?}");
    assert_eq!(lines[0]["span_id"], "0000000000000012");
    assert_eq!(lines[1].get("trace_id"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_around_a_span_is_its_child_also_in_a_task_of_its_own() {
    let collector = Receiver::start().unwrap();
    let (telemetry, _, _guard) = start(TelemetryMode::StdoutLogsOtlp, &collector.url());
    let (trace, span) = (TraceId::from(0xabc), SpanId::from(0x12));
    let work = async {
        let asked = async { tracing::info_span!("asked").in_scope(|| tracing::info!("asking")) };
        tokio::spawn(crate::carried(asked.with_current_subscriber())).await.unwrap();
    };
    telemetry.spans().around(trace, span, work).await;
    tracing::info_span!("another").in_scope(|| {});
    telemetry.shutdown(DEADLINE).await;
    collector.look(|received| {
        let asked = received.spans_of("asked").next().unwrap();
        assert_eq!(asked.trace_id, "00000000000000000000000000000abc");
        assert_eq!(asked.parent_span_id, "0000000000000012");
        assert_ne!(received.spans_of("another").next().unwrap().trace_id, asked.trace_id);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_names_its_span_where_spans_go_to_a_collector() {
    for format in [LogFormat::Json, LogFormat::Pretty { ansi: false }, LogFormat::Pretty { ansi: true }] {
        let collector = Receiver::start().unwrap();
        let (telemetry, written, guard) = start_with(
            &crate::TelemetryOptions { format, ..options(TelemetryMode::StdoutLogsOtlp, &collector.url()) },
            &[],
        );
        tracing::info_span!("reconcile").in_scope(|| tracing::info!("within"));
        tracing::info!("outside");
        telemetry.shutdown(DEADLINE).await;
        drop(guard);
        let (trace, span) = collector.look(|received| {
            let span = received.spans_of("reconcile").next().unwrap();
            (span.trace_id.clone(), span.span_id.clone())
        });
        let text = written.text();
        let mut lines = text.lines();
        let (within, outside) = (lines.next().unwrap(), lines.next().unwrap());
        assert!(within.contains("within") && within.contains(&trace) && within.contains(&span), "{text}");
        assert!(outside.contains("outside") && !outside.contains("trace_id"), "{text}");
        assert_eq!(text.contains('\u{1b}'), format == LogFormat::Pretty { ansi: true }, "{text}");
        assert_eq!(lines.next(), None, "{text}");
    }
    let (telemetry, written, _guard) = start(TelemetryMode::StdoutAll, "");
    tracing::info_span!("reconcile").in_scope(|| tracing::info!("within"));
    telemetry.shutdown(DEADLINE).await;
    let lines = written.lines();
    let line = lines.iter().find(|line| line["msg"] == "within").unwrap();
    assert_eq!(line.get("trace_id"), None, "{line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_is_a_level_in_any_case_and_breeds_nothing() {
    for filter in ["trace", "TRACE", "Trace"] {
        let collector = Receiver::start().unwrap();
        let mut options = options(TelemetryMode::StdoutLogsOtlp, &collector.url());
        filter.clone_into(&mut options.filter);
        let (telemetry, written, _guard) = start_with(&options, &[]);
        tracing::trace!("finest");
        telemetry.shutdown(DEADLINE).await;
        assert_eq!(written.count("finest"), 1, "{filter}: {}", written.text());
        let bodies =
            collector.look(|received| received.logs.iter().map(|log| log.body.clone()).collect::<Vec<_>>());
        assert_eq!(bodies, ["finest"], "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_holds_for_the_collector_as_for_the_output() {
    let collector = Receiver::start().unwrap();
    let mut options = options(TelemetryMode::StdoutLogsOtlp, &collector.url());
    "WARN,windlass_git=Debug".clone_into(&mut options.filter);
    let (telemetry, written, _guard) = start_with(&options, &[]);
    tracing::info!("too quiet");
    tracing::warn!("loud");
    tracing::debug!(target: "windlass_git", "asked for");
    telemetry.shutdown(DEADLINE).await;
    let mut bodies =
        collector.look(|received| received.logs.iter().map(|log| log.body.clone()).collect::<Vec<_>>());
    bodies.sort();
    assert_eq!(bodies, ["asked for", "loud"]);
    assert_eq!(written.lines().len(), 2, "{}", written.text());
}
