use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::resource::v1::Resource as WireResource;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tracing::subscriber::DefaultGuard;

use tracing_subscriber::fmt::writer::BoxMakeWriter;

use super::*;

/// Long enough for anything on this machine, and an end all the same.
const DEADLINE: Duration = Duration::from_secs(30);

/// What a collector was sent, as decoded from the wire.
#[derive(Clone, Default)]
struct Received {
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    logs: Arc<Mutex<Vec<ExportLogsServiceRequest>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
    /// While this has no permit and is open, nothing of traces is answered.
    gate: Option<Arc<Semaphore>>,
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        if let Some(gate) = &self.gate {
            // Opened by closing it.
            let _ = gate.acquire().await;
        }
        self.traces.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Received {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        self.logs.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Received {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.metrics.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// A collector on a free port.
async fn collector() -> (Received, SocketAddr) {
    serve(Received::default()).await
}

async fn serve(received: Received) -> (Received, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(received.clone()))
        .add_service(LogsServiceServer::new(received.clone()))
        .add_service(MetricsServiceServer::new(received.clone()))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);
    (received, address)
}

/// What a process wrote to its output.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn lines(&self) -> Vec<serde_json::Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Telemetry of one test, on this thread. (Exporters work on threads of their own: what those log is not seen here,
/// unless the subscriber is the process's.)
fn start(mode: TelemetryMode, endpoint: &str) -> (Telemetry, Written, DefaultGuard) {
    let written = Written::default();
    let options = TelemetryOptions {
        mode,
        format: LogFormat::Json,
        filter: "info".to_owned(),
        output: LogOutput::Stdout,
        collector: Collector { endpoint: endpoint.to_owned(), insecure: true },
        service: "windlass-test".to_owned(),
        version: "1.2.3",
        exponential: &["tracker"],
    };
    let writer = written.clone();
    let output = Output::new(BoxMakeWriter::new(move || writer.clone()));
    let (telemetry, layers) = Telemetry::build(&options, &output).unwrap();
    let guard = tracing::subscriber::set_default(Registry::default().with(layers));
    (telemetry, written, guard)
}

fn attribute(resource: Option<&WireResource>, key: &str) -> String {
    let found = resource.unwrap().attributes.iter().find(|attribute| attribute.key == key);
    match found.unwrap().value.clone().unwrap().value.unwrap() {
        Any::StringValue(text) => text,
        other => format!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_three_signals_reach_a_collector_under_one_name() {
    let (received, address) = collector().await;
    let (telemetry, written, _guard) = start(TelemetryMode::Otlp, &address.to_string());
    let meter = telemetry.metrics().meter("tracker");
    meter.f64_histogram("export-time").with_unit("s").build().record(12.5, &[KeyValue::new("name", "apps")]);
    telemetry.metrics().meter("jobs").u64_counter("jobs_total").build().add(2, &[]);
    tracing::info_span!("reconcile", name = "apps").in_scope(|| tracing::info!(count = 3, "measured"));
    telemetry.shutdown(DEADLINE).await;

    let traces = received.traces.lock().unwrap();
    let span = &traces[0].resource_spans[0].scope_spans[0].spans[0];
    assert_eq!(span.name, "reconcile");
    assert_eq!(attribute(traces[0].resource_spans[0].resource.as_ref(), "service.name"), "windlass-test");
    assert_eq!(attribute(traces[0].resource_spans[0].resource.as_ref(), "service.version"), "1.2.3");

    let logs = received.logs.lock().unwrap();
    let record = &logs[0].resource_logs[0].scope_logs[0].log_records[0];
    assert_eq!(record.body.clone().unwrap().value, Some(Any::StringValue("measured".to_owned())));
    assert_eq!(record.trace_id, span.trace_id);
    assert_eq!(record.span_id, span.span_id);

    let metrics = received.metrics.lock().unwrap();
    let all: Vec<_> = metrics
        .iter()
        .flat_map(|request| &request.resource_metrics)
        .flat_map(|resource| &resource.scope_metrics)
        .flat_map(|scope| &scope.metrics)
        .collect();
    let of = |name: &str| all.iter().find(|metric| metric.name == name).unwrap();
    let Some(Data::ExponentialHistogram(histogram)) = &of("export-time").data else {
        panic!("no exponential histogram: {:?}", of("export-time"));
    };
    assert_eq!(of("export-time").unit, "s");
    assert_eq!((histogram.data_points[0].count, histogram.data_points[0].sum), (1, Some(12.5)));
    assert_eq!(histogram.data_points[0].max, None);
    assert!(matches!(of("jobs_total").data, Some(Data::Sum(_))));
    assert_eq!(written.text(), "", "the mode otlp writes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exporters_say_of_themselves_is_not_exported() {
    let (received, address) = collector().await;
    let (telemetry, written, _guard) = start(TelemetryMode::StdoutLogsOtlp, &address.to_string());
    tracing::info!(target: "tonic::transport", "of the transport");
    tracing::info!(target: "opentelemetry_sdk::logs", "of the SDK");
    tracing::warn!(target: TARGET, "of a lost collector");
    tracing::info!("of us");
    telemetry.shutdown(DEADLINE).await;

    let logs = received.logs.lock().unwrap();
    let bodies: Vec<_> = logs
        .iter()
        .flat_map(|request| &request.resource_logs[0].scope_logs)
        .flat_map(|scope| &scope.log_records)
        .map(|record| record.body.clone().unwrap().value.unwrap())
        .collect();
    assert_eq!(bodies, [Any::StringValue("of us".to_owned())]);
    assert_eq!(written.lines().len(), 4, "{}", written.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_collector_is_counted_and_said_once() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outcomes = Outcomes::new(&format!("http://{nobody}"));
    let exporters =
        Exporters::new(&Collector { endpoint: nobody.to_string(), insecure: true }, &outcomes).unwrap();
    let (_telemetry, written, _guard) = start(TelemetryMode::StdoutLogs, "");
    for _ in 0..3 {
        opentelemetry_sdk::trace::SpanExporter::export(&exporters.spans, Vec::new()).await.unwrap_err();
    }
    assert_eq!(outcomes.failures(), 3);
    let said: Vec<_> = written
        .lines()
        .into_iter()
        .filter(|line| line["msg"].as_str().unwrap().contains("collector"))
        .collect();
    assert_eq!(said.len(), 1, "{}", written.text());
    assert_eq!(said[0]["endpoint"], format!("http://{nobody}"));
    assert_eq!(said[0]["level"], "warn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_does_not_hold_up_the_end() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (telemetry, written, _guard) =
        start(TelemetryMode::StdoutLogsOtlp, &silent.local_addr().unwrap().to_string());
    tracing::info_span!("lost").in_scope(|| tracing::info!("lost too"));
    telemetry.shutdown(Duration::from_millis(100)).await;
    assert!(written.text().contains("telemetry was not sent to its end within 100ms"), "{}", written.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_beyond_the_queue_are_dropped_while_a_collector_does_not_answer() {
    const FLOOD: usize = 20 * SPAN_QUEUE;
    let gate = Arc::new(Semaphore::new(0));
    let (received, address) = serve(Received { gate: Some(Arc::clone(&gate)), ..Received::default() }).await;
    let (telemetry, _written, _guard) = start(TelemetryMode::Otlp, &address.to_string());
    for number in 0..FLOOD {
        tracing::info_span!("flood", number).in_scope(|| ());
    }
    gate.close();
    telemetry.shutdown(DEADLINE).await;
    let traces = received.traces.lock().unwrap();
    let spans: usize = traces
        .iter()
        .flat_map(|request| &request.resource_spans)
        .flat_map(|resource| &resource.scope_spans)
        .map(|scope| scope.spans.len())
        .sum();
    // What was queued, and the batch that was under way.
    assert!((1..=2 * SPAN_QUEUE).contains(&spans), "{spans} of {FLOOD} spans were kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn traces_and_metrics_can_be_lines_of_output() {
    let (telemetry, written, _guard) = start(TelemetryMode::StdoutAll, "");
    telemetry
        .metrics()
        .meter("jobs")
        .u64_counter("jobs_total")
        .build()
        .add(2, &[KeyValue::new("action", "pull")]);
    tracing::info_span!("reconcile", name = "apps").in_scope(|| tracing::info!("measured"));
    telemetry.shutdown(DEADLINE).await;

    let lines = written.lines();
    let span = lines.iter().find(|line| line["msg"] == "span").unwrap();
    assert_eq!(span["span"], "reconcile");
    assert_eq!(span["attributes"]["name"], "apps");
    let metric = lines.iter().find(|line| line["metric"] == "jobs_total").unwrap();
    assert_eq!(metric["points"], serde_json::json!([{ "attributes": { "action": "pull" }, "value": 2 }]));
    assert!(lines.iter().any(|line| line["msg"] == "measured"));
}

#[test]
fn a_collector_needs_a_runtime() {
    let options = TelemetryOptions {
        mode: TelemetryMode::Otlp,
        format: LogFormat::Json,
        filter: "info".to_owned(),
        output: LogOutput::Stdout,
        collector: Collector { endpoint: String::new(), insecure: true },
        service: "windlass-test".to_owned(),
        version: "1.2.3",
        exponential: &[],
    };
    let output = Output::new(BoxMakeWriter::new(std::io::sink));
    assert!(matches!(Telemetry::build(&options, &output), Err(TelemetryError::NoRuntime)));
}
