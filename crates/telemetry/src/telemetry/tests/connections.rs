//! What variables say of the connection to a collector: where it is, headers, compression, certificates.

use windlass_otlp_receiver::{Headers, Received, Receiver, Signal};

use super::kit::{DEADLINE, Ledger, PROTOCOLS, Set, options, start_with};
use crate::TelemetryMode;

/// Files with an authority's certificate, a client's and its key.
pub(super) struct Files(tempfile::TempDir);

impl Files {
    pub(super) fn of(collector: &Receiver) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let (certificate, key) = collector.identity().unwrap();
        for (name, pem) in [("ca", collector.authority().unwrap()), ("crt", certificate), ("key", key)] {
            std::fs::write(files.0.path().join(name), pem).unwrap();
        }
        files
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// Exports a span, a log record, the process's metrics and those of a source, as if these variables were set.
async fn export(endpoint: &str, set: Set<'_>) -> String {
    let (telemetry, written, _guard) = start_with(&options(TelemetryMode::StdoutLogsOtlp, endpoint), set);
    telemetry.metrics().add_source(Ledger::of(2));
    telemetry.metrics().meter("jobs").u64_counter("jobs_total").build().add(2, &[]);
    tracing::info_span!("reconcile").in_scope(|| tracing::info!("measured"));
    telemetry.shutdown(DEADLINE).await;
    written.text()
}

/// All that [`export`] sends came.
fn came(received: &Received) -> [bool; 4] {
    [
        received.logs_of("measured").next().is_some(),
        received.spans_of("reconcile").next().is_some(),
        received.of("jobs_total").next().is_some(),
        received.of("ledger.commits").next().is_some(),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_compression_and_certificates_hold_for_every_signal() {
    for (protocol, encoding) in PROTOCOLS.into_iter().zip(["grpc-encoding", "content-encoding"]) {
        let collector = Receiver::start_with_mutual_tls().unwrap();
        let files = Files::of(&collector);
        let (ca, certificate, key) = (files.path("ca"), files.path("crt"), files.path("key"));
        let address = collector.address().to_string();
        let mut set = vec![
            ("OTEL_EXPORTER_OTLP_INSECURE", "false"),
            ("OTEL_EXPORTER_OTLP_CERTIFICATE", &*ca),
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", &*certificate),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", &*key),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ];
        set.extend(protocol);
        let output = export(&address, &set).await;
        collector.look(|received| {
            assert_eq!(came(received), [true; 4], "{protocol:?}: {output}");
            for signal in [Signal::Traces, Signal::Logs, Signal::Metrics] {
                let of_signal = |(of, headers): &(Signal, Headers)| (*of == signal).then(|| headers.clone());
                let all: Vec<_> = received.headers.iter().filter_map(of_signal).collect();
                assert!(!all.is_empty());
                for headers in all {
                    assert_eq!(headers["x-tenant"], "a b", "{signal:?} {headers:?}");
                    assert_eq!(headers[encoding], "gzip", "{signal:?} {headers:?}");
                }
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_signal_goes_where_and_how_its_own_variables_say() {
    let [traces, logs, metrics] = [(); 3].map(|()| Receiver::start().unwrap());
    let over_http = format!("{}/v1/logs", logs.url());
    export(
        "",
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &traces.url()),
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", &over_http),
            ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", &metrics.url()),
        ],
    )
    .await;
    assert_eq!(traces.look(came), [false, true, false, false]);
    assert_eq!(logs.look(came), [true, false, false, false]);
    assert_eq!(metrics.look(came), [false, false, true, true]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_is_turned_off_goes_nowhere() {
    let collector = Receiver::start().unwrap();
    export(&collector.url(), &[("OTEL_TRACES_EXPORTER", "none")]).await;
    assert_eq!(collector.look(came), [true, false, true, true]);
    export(&collector.url(), &[("OTEL_SDK_DISABLED", "true")]).await;
    assert_eq!(collector.look(|received| received.logs_of("measured").count()), 1);
}
