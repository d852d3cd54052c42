//! The five modes: what each sends where.

use tracing_subscriber::fmt::writer::BoxMakeWriter;
use windlass_otlp_receiver::Receiver;

use super::kit::{DEADLINE, Ledger, PROTOCOLS, Set, options, start, start_with};
use crate::log::Output;
use crate::{Telemetry, TelemetryError, TelemetryMode};

/// What was seen of a mode: logs, traces, the process's metrics and a source's, on the output and at a collector.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    output: [bool; 4],
    collector: [bool; 4],
}

async fn seen(mode: TelemetryMode, protocol: Set<'_>) -> Seen {
    let collector = Receiver::start().unwrap();
    let (telemetry, written, _guard) = start_with(&options(mode, &collector.url()), protocol);
    telemetry.metrics().add_source(Ledger::of(2));
    telemetry.metrics().meter("jobs").u64_counter("jobs_total").build().add(2, &[]);
    tracing::info_span!("reconcile").in_scope(|| tracing::info!("measured"));
    let scraped = telemetry.metrics().render().unwrap();
    assert!(scraped.contains("\njobs_total 2\n"), "{mode}: {scraped}");
    assert!(scraped.contains("\nledger_commits_total{"), "{mode}: {scraped}");
    telemetry.shutdown(DEADLINE).await;

    let lines = written.lines();
    let has = |key: &str, value: &str| lines.iter().any(|line| line[key] == value);
    let output = [
        has("msg", "measured"),
        has("span", "reconcile"),
        has("metric", "jobs_total"),
        has("metric", "ledger.commits"),
    ];
    let collector = collector.look(|received| {
        [
            received.logs_of("measured").next().is_some(),
            received.spans_of("reconcile").next().is_some(),
            received.of("jobs_total").next().is_some(),
            received.of("ledger.commits").next().is_some(),
        ]
    });
    Seen { output, collector }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mode_sends_each_signal_where_its_name_says() {
    let (all, none, logs) = ([true; 4], [false; 4], [true, false, false, false]);
    for (mode, output, collector) in [
        (TelemetryMode::StdoutLogs, logs, none),
        (TelemetryMode::StdoutAll, all, none),
        (TelemetryMode::StdoutLogsOtlp, logs, all),
        (TelemetryMode::StdoutAllOtlp, all, all),
        (TelemetryMode::Otlp, none, all),
    ] {
        for protocol in PROTOCOLS {
            assert_eq!(seen(mode, protocol).await, Seen { output, collector }, "{mode} {protocol:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_output_says_what_a_span_or_metric_says() {
    let (telemetry, written, _guard) = start(TelemetryMode::StdoutAll, "");
    telemetry.metrics().add_source(Ledger::of(1));
    let counter = telemetry.metrics().meter("jobs").u64_counter("jobs_total").build();
    counter.add(2, &[opentelemetry::KeyValue::new("action", "pull")]);
    tracing::info_span!("reconcile", name = "apps").in_scope(|| tracing::info!("measured"));
    telemetry.shutdown(DEADLINE).await;

    let lines = written.lines();
    let span = lines.iter().find(|line| line["msg"] == "span").unwrap();
    assert_eq!(span["span"], "reconcile");
    assert_eq!(span["attributes"]["name"], "apps");
    let of = |name: &str| lines.iter().find(|line| line["metric"] == name).unwrap();
    let own = &of("jobs_total")["points"];
    assert_eq!(*own, serde_json::json!([{ "attributes": { "action": "pull" }, "value": 2 }]));
    let of_source = of("ledger.export-time");
    assert_eq!(of_source["service.instance.id"], "the-ledger");
    assert_eq!(
        of_source["points"],
        serde_json::json!([{
            "attributes": { "k8s.resource.name": "thing-0" }, "count": 3, "sum": 100.5,
            "start": "2023-11-14T22:13:20.000000Z",
        }])
    );
}

#[test]
fn exporting_needs_a_runtime() {
    for mode in [TelemetryMode::Otlp, TelemetryMode::StdoutAll] {
        let output = Output::new(BoxMakeWriter::new(std::io::sink));
        let built = Telemetry::build(&options(mode, ""), &output, &|_: &str| None);
        assert!(matches!(built, Err(TelemetryError::NoRuntime)), "{mode}");
    }
}
