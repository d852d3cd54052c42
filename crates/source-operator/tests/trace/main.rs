//! The traces and metrics of passes, as a collector gets them. Telemetry is the process's, so that this is a program of its
//! own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../it/world.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod world;

use std::time::Duration;

use serde_json::json;
use windlass_otlp_receiver::{Received, Receiver, Span};
use windlass_source_operator::METRICS;
use windlass_telemetry::{
    Collector, LogFormat, LogOutput, Telemetry, TelemetryMode, TelemetryOptions, metrics_differences,
};

use crate::world::{World, put};

/// The names of the spans below each pass over a source, in the order in which the passes and their stages began.
fn passes(received: &Received, source: &str) -> Vec<Vec<String>> {
    let sorted = |mut spans: Vec<Span>| {
        spans.sort_by_key(|span| span.start);
        spans
    };
    let is_of_it = |span: &&Span| span.attributes["source"] == source;
    let all = sorted(received.spans_of("reconcile").filter(is_of_it).cloned().collect());
    assert!(all.iter().all(|span| span.parent_span_id.is_empty()), "{all:#?}");
    let stages = |pass: &Span| {
        let is_below = |span: &&Span| {
            (&span.trace_id, &span.parent_span_id) == (&pass.trace_id, &pass.span_id)
                && span.kind == "internal"
        };
        sorted(received.spans.iter().filter(is_below).cloned().collect())
    };
    let told = |span: Span| match span.status {
        "error" => format!("{}: {}", span.name, span.status_message),
        _ => span.name,
    };
    all.iter().map(|pass| stages(pass).into_iter().map(told).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_is_a_trace_of_its_stages_and_every_metric_of_the_reference_is_told() {
    let collector = Receiver::start().unwrap();
    let telemetry = Telemetry::start(&TelemetryOptions {
        mode: TelemetryMode::StdoutLogsOtlp,
        format: LogFormat::Json,
        filter: "info".to_owned(),
        output: LogOutput::Stdout,
        collector: Collector { endpoint: collector.url(), insecure: true },
        service: "windlass-test".to_owned(),
        version: "1",
        exponential: &[],
    })
    .unwrap();
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let process = world.start().await;
    world.create("app", json!({})).await;
    world.ready("app", &commit).await;
    world.request("app", "1").await;
    let is_handled = |at: &'static str| {
        move |object: &windlass_api::flux::GitRepository| {
            object.status.last_handled_reconcile_at.as_deref() == Some(at)
        }
    };
    world.when("the request is handled", "app", is_handled("1")).await;
    world.create("twin", json!({})).await;
    world.ready("twin", &commit).await;
    world.create("lost", json!({"ref": {"branch": "absent"}})).await;
    let (_, why) = world.failed("lost", "GitOperationFailed").await;

    let metrics = process.context.metrics.render().unwrap();
    process.stop().await;
    telemetry.shutdown(Duration::from_secs(30)).await;
    collector.look(|received| {
        let first = ["observe", "list_refs", "fetch", "pack", "publish", "write_status"];
        let without_news = ["observe", "list_refs", "write_status"];
        assert_eq!(passes(received, "default/app"), [&first[..], &without_news]);
        // What its twin wants was fetched and packed before.
        let shared = ["observe", "list_refs", "publish", "write_status"];
        assert_eq!(passes(received, "default/twin"), [shared]);
        let failing = ["observe".to_owned(), format!("list_refs: {why}"), "write_status".to_owned()];
        assert_eq!(passes(received, "default/lost")[0], failing);
        // Lines of the log are found from the span, and the other way round.
        let stored = received.logs_of("stored an artifact").next().unwrap();
        assert!(received.spans_of("reconcile").any(|span| span.span_id == stored.span_id));
    });

    let has = |series: &str| assert!(metrics.contains(series), "{series}: {metrics}");
    has("windlass_source_stage_duration_seconds_count{stage=\"pack\"} 1\n");
    has("windlass_source_stage_duration_seconds_count{stage=\"publish\"} 2\n");
    has("windlass_source_cache_accesses_total{cache=\"archives\",result=\"hit\"} 1\n");
    has("windlass_source_cache_accesses_total{cache=\"archives\",result=\"miss\"} 1\n");
    has("grafana_provisioning_git_client_fetched_bytes_total{");
    let is_ours = |line: &&str| {
        let name = line.strip_prefix("# TYPE ").unwrap_or(line);
        name.starts_with("gotk_") || name.starts_with("windlass_source_")
    };
    let ours = metrics.lines().filter(is_ours).collect::<Vec<_>>().join("\n");
    assert_eq!(metrics_differences(METRICS, &ours), Vec::<String>::new(), "{ours}");
}
