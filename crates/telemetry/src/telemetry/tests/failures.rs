//! Collectors that are dead, slow or refusing: what is lost is counted and logged once, and nobody waits.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::logs::{LogRecord as _, Logger as _, LoggerProvider as _};
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_otlp::{LogExporter, SpanExporter};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLoggerProvider};
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use windlass_otlp_receiver::{Behaviour, Code, Received, Receiver, Signal};

use super::connections::Files;
use super::kit::{DEADLINE, Ledger, PROTOCOLS, Set, options, start, start_with};
use crate::export::connection::Connection;
use crate::export::queue::ITEMS;
use crate::export::report::{ExportReports, TARGET};
use crate::export::reported::Reported;
use crate::export::settings::{self, Collector};
use crate::variables::tests::variables;
use crate::{FinishedSpan, TelemetryMode};

/// Exporters of spans and log records, as the SDK would drive them.
struct Exporters {
    spans: Reported<SpanExporter>,
    logs: Reported<LogExporter>,
    reports: Arc<ExportReports>,
}

impl Exporters {
    /// To this collector, as if these variables were set.
    fn new(endpoint: &str, protocol: Set<'_>, others: Set<'_>) -> Self {
        let set: Vec<_> = protocol.iter().chain(others).copied().collect();
        let collector = Collector { endpoint: endpoint.to_owned(), insecure: true };
        let reports = Arc::new(ExportReports::default());
        let connect = |signal| {
            let made = Connection::new(signal, &collector, &variables(&set), &reports, &Handle::current());
            made.unwrap().unwrap()
        };
        let spans = connect(settings::Signal::Traces).span_exporter().unwrap();
        let logs = connect(settings::Signal::Logs).log_exporter().unwrap();
        Self { spans, logs, reports }
    }

    async fn spans(&self) -> OTelSdkResult {
        let ids = (TraceId::from(1), SpanId::from(1));
        let now = jiff::Timestamp::UNIX_EPOCH;
        let span = crate::spans::data(FinishedSpan::new("tracker", "reconcile", ids, (now, now)));
        self.spans.export(vec![span]).await
    }

    async fn logs(&self) -> OTelSdkResult {
        let provider = SdkLoggerProvider::builder().build();
        let mut record = provider.logger("tracker").create_log_record();
        record.set_observed_timestamp(std::time::SystemTime::UNIX_EPOCH);
        let scope = InstrumentationScope::builder("tracker").build();
        self.logs.export(LogBatch::new(&[(&record, &scope)])).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exporting_logs_is_not_exported() {
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        let options = options(TelemetryMode::StdoutLogsOtlp, &collector.url());
        let (telemetry, written, _guard) = start_with(&options, protocol);
        tracing::info!(target: "tonic::transport", "of the transport");
        tracing::warn!(target: "opentelemetry-otlp", "of the exporter");
        tracing::warn!(target: TARGET, "of a lost collector");
        tracing::info!("of us");
        telemetry.shutdown(DEADLINE).await;

        let bodies =
            collector.look(|received| received.logs.iter().map(|log| log.body.clone()).collect::<Vec<_>>());
        assert_eq!(bodies, ["of us"]);
        // An exporter's own lines are many; what is of use in them is logged once, by us.
        assert_eq!(written.lines().len(), 3, "{}", written.text());
        assert_eq!(written.count("of the exporter"), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_libraries_log_is_written_for_who_asks() {
    let mut options = options(TelemetryMode::StdoutLogs, "");
    "info,opentelemetry=warn".clone_into(&mut options.filter);
    let (_telemetry, written, _guard) = start_with(&options, &[]);
    tracing::warn!(target: "opentelemetry_sdk", "of the SDK");
    assert_eq!(written.count("of the SDK"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_collector_is_counted_and_logged_once() {
    for protocol in PROTOCOLS {
        // Connections wait in its queue for ever.
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = nobody.local_addr().unwrap();
        let exporters =
            Exporters::new(&address.to_string(), protocol, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "20")]);
        let (_telemetry, written, _guard) = start(TelemetryMode::StdoutLogs, "");
        for _ in 0..3 {
            exporters.spans().await.unwrap_err();
            exporters.logs().await.unwrap_err();
        }
        assert_eq!(exporters.reports.failures(), 6);
        let lines = written.lines();
        assert_eq!(lines.len(), 1, "{}", written.text());
        assert_eq!(lines[0]["msg"].as_str().unwrap().find("failed to reach the collector"), Some(0));
        assert_eq!(lines[0]["endpoint"], format!("http://{address}"));
        assert_eq!(lines[0]["level"], "warn");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_nobody_vouches_for_is_sent_nothing_and_the_line_says_why() {
    for protocol in PROTOCOLS {
        let (collector, other) = (Receiver::start_with_tls().unwrap(), Receiver::start_with_tls().unwrap());
        let files = Files::of(&other);
        let exporters = Exporters::new(
            &collector.url(),
            protocol,
            &[("OTEL_EXPORTER_OTLP_CERTIFICATE", &files.path("ca"))],
        );
        let (_telemetry, written, _guard) = start(TelemetryMode::StdoutLogs, "");
        exporters.spans().await.unwrap_err();
        assert_eq!(collector.look(|received| received.spans.len()), 0);
        let line = &written.lines()[0];
        assert!(line["error"].as_str().unwrap().contains("invalid peer certificate"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_wants_no_logs_is_logged_once() {
    for (protocol, code) in PROTOCOLS.into_iter().zip(["Unimplemented", "404"]) {
        let collector = Receiver::start().unwrap();
        collector.behave_to(Signal::Logs, Behaviour::Refuse(Code::Unimplemented));
        let exporters = Exporters::new(&collector.url(), protocol, &[]);
        let (_telemetry, written, _guard) = start(TelemetryMode::StdoutLogs, "");
        for _ in 0..10 {
            exporters.logs().await.unwrap_err();
            exporters.spans().await.unwrap();
        }
        assert_eq!(exporters.reports.failures(), 10);
        let lines = written.lines();
        assert_eq!(lines.len(), 1, "{}", written.text());
        assert_eq!(written.count("did not take all"), 1, "{}", written.text());
        assert!(lines[0]["error"].as_str().unwrap().contains(code), "{}", lines[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collector_rejects_is_logged_once_and_does_not_fail_the_batch() {
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        collector.behave(Behaviour::Reject(1));
        let exporters = Exporters::new(&collector.url(), protocol, &[]);
        let (telemetry, written, _guard) = start(TelemetryMode::StdoutLogs, "");
        exporters.reports.count_with(&telemetry.metrics().meter("telemetry"));
        for _ in 0..3 {
            exporters.spans().await.unwrap();
            exporters.logs().await.unwrap();
        }
        assert_eq!(exporters.reports.failures(), 6);
        let lines = written.lines();
        assert_eq!(lines.len(), 2, "one a signal: {}", written.text());
        for line in lines {
            let error = line["error"].as_str().unwrap();
            assert!(error.contains("rejected 1 of what it was sent: too many"), "{line}");
        }
        let text = telemetry.metrics().render().unwrap();
        for signal in ["traces", "logs"] {
            let counted = format!("otel_lost_items_total{{reason=\"rejected\",signal=\"{signal}\"}} 3");
            assert!(text.contains(&counted), "no {counted} in {text}");
        }
        assert_eq!(
            collector.look(|received| (received.spans.len(), received.logs.len())),
            (3, 3),
            "once each"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn points_that_a_collector_rejects_are_counted() {
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        collector.behave(Behaviour::Reject(1));
        let options = options(TelemetryMode::Otlp, &collector.url());
        let interval = [protocol[0], ("OTEL_METRIC_EXPORT_INTERVAL", "20")];
        let (telemetry, _written, _guard) = start_with(&options, &interval);
        telemetry.metrics().meter("jobs").u64_counter("jobs_total").build().add(1, &[]);
        let counted = async {
            let rejected = r#"otel_lost_items_total{reason="rejected",signal="metrics"}"#;
            while !telemetry.metrics().render().unwrap().contains(rejected) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, counted).await.unwrap();
        telemetry.shutdown(DEADLINE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_does_not_hold_up_the_end() {
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        collector.behave(Behaviour::Hang);
        let options = options(TelemetryMode::StdoutLogsOtlp, &collector.url());
        let (telemetry, written, _guard) = start_with(&options, protocol);
        telemetry.metrics().add_source(Ledger::of(3));
        tracing::info_span!("lost").in_scope(|| tracing::info!("lost too"));
        telemetry.shutdown(Duration::from_millis(100)).await;
        let text = written.text();
        assert!(text.contains("telemetry was not sent to its end within 100ms"), "{text}");
        assert!(text.contains("failed to send everything to the collector within 100ms"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_hangs_at_the_end_holds_up_no_other_and_no_line_of_output() {
    let signals = [Signal::Logs, Signal::Traces, Signal::Metrics];
    for (protocol, hanging) in PROTOCOLS.into_iter().flat_map(|it| signals.map(|signal| (it, signal))) {
        let collector = Receiver::start().unwrap();
        collector.behave_to(hanging, Behaviour::Hang);
        let options = options(TelemetryMode::StdoutAllOtlp, &collector.url());
        let (telemetry, written, _guard) = start_with(&options, protocol);
        telemetry.metrics().meter("jobs").u64_counter("jobs_total").build().add(2, &[]);
        tracing::info_span!("reconcile").in_scope(|| tracing::info!("measured"));
        let ended = tokio::spawn(telemetry.shutdown(DEADLINE));

        let came = |received: &Received| {
            [
                (Signal::Logs, received.logs_of("measured").next().is_some()),
                (Signal::Traces, received.spans_of("reconcile").next().is_some()),
                (Signal::Metrics, received.of("jobs_total").next().is_some()),
            ]
        };
        let others = |received: &Received| {
            came(received).iter().all(|(signal, came)| *came || *signal == hanging).then_some(())
        };
        collector.until(DEADLINE, others).await.unwrap_or_else(|| panic!("{hanging:?} holds up others"));
        for told in ["span", "metric"] {
            let lines = async {
                while written.count(told) == 0 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(DEADLINE, lines).await.unwrap_or_else(|_| panic!("no line of a {told}"));
        }
        // Nothing was given up so far: the one that hung arrives, too.
        collector.behave(Behaviour::Answer);
        ended.await.unwrap();
        let all = collector.look(came);
        assert!(all.iter().all(|(_, came)| *came), "{hanging:?}: {all:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_beyond_the_queue_are_dropped_while_a_collector_does_not_answer() {
    const FLOOD: usize = 4 * ITEMS;
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        collector.behave(Behaviour::Hang);
        let options = options(TelemetryMode::Otlp, &collector.url());
        let (telemetry, _written, _guard) = start_with(&options, protocol);
        for number in 0..FLOOD {
            tracing::info_span!("flood", number).in_scope(|| ());
        }
        let text = telemetry.metrics().render().unwrap();
        let lost = text.lines().find_map(|line| {
            line.strip_prefix(r#"otel_lost_items_total{reason="queue_full",signal="traces"} "#)
        });
        let lost: usize = lost.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
        assert_eq!(lost, FLOOD - ITEMS, "nothing left the queue meanwhile");
        collector.behave(Behaviour::Answer);
        telemetry.shutdown(DEADLINE).await;
        assert_eq!(collector.look(|received| received.spans.len()), ITEMS);
    }
}
