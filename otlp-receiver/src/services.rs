//! The three services, over gRPC and over HTTP with protobuf.

use std::io::Read as _;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response as HttpResponse};
use axum::routing::post;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use tonic::codec::CompressionEncoding;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::service::Routes;
use tonic::{Code, Extensions, Request, Response, Status};

use crate::server::State;
use crate::{Headers, Received, Signal};

/// Why something was rejected.
const SAID: &str = "too many, as it was told to say";
/// The largest request that is taken over HTTP, in bytes; it is gRPC's own limit, too.
const MAX_REQUEST: usize = 4 << 20;
/// What OTLP over HTTP is sent as, and answered with.
const PROTOBUF: &str = "application/x-protobuf";

/// Both protocols on one port.
pub(crate) fn router(state: &Arc<State>) -> Router {
    let service = Service(Arc::clone(state));
    let gzip = CompressionEncoding::Gzip;
    let grpc = Routes::new(TraceServiceServer::new(service.clone()).accept_compressed(gzip))
        .add_service(LogsServiceServer::new(service.clone()).accept_compressed(gzip))
        .add_service(MetricsServiceServer::new(service.clone()).accept_compressed(gzip));
    let (traces, logs, metrics) = (service.clone(), service.clone(), service);
    let http = Router::new()
        .route(
            "/v1/traces",
            post(move |headers, body| {
                over_http(headers, body, async move |request| TraceService::export(&traces, request).await)
            }),
        )
        .route(
            "/v1/logs",
            post(move |headers, body| {
                over_http(headers, body, async move |request| LogsService::export(&logs, request).await)
            }),
        )
        .route(
            "/v1/metrics",
            post(move |headers, body| {
                over_http(headers, body, async move |request| MetricsService::export(&metrics, request).await)
            }),
        )
        .layer(DefaultBodyLimit::max(MAX_REQUEST));
    grpc.into_axum_router().merge(http)
}

/// Serves a request over HTTP as if it had come over gRPC.
async fn over_http<Q: Message + Default, A: Message>(
    headers: HeaderMap,
    body: Bytes,
    serve: impl AsyncFnOnce(Request<Q>) -> Result<Response<A>, Status>,
) -> HttpResponse {
    if headers.get(CONTENT_TYPE).is_none_or(|kind| kind != PROTOBUF) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let mut plain = Vec::new();
    let body = match headers.get(CONTENT_ENCODING) {
        None => body,
        Some(encoding) if encoding == "gzip" => match GzDecoder::new(&*body).read_to_end(&mut plain) {
            Ok(_) => plain.into(),
            Err(_) => return StatusCode::BAD_REQUEST.into_response(),
        },
        Some(_) => return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response(),
    };
    let Ok(request) = Q::decode(body) else { return StatusCode::BAD_REQUEST.into_response() };
    let metadata = MetadataMap::from_headers(headers);
    match serve(Request::from_parts(metadata, Extensions::new(), request)).await {
        Ok(answer) => ([(CONTENT_TYPE, PROTOBUF)], answer.into_inner().encode_to_vec()).into_response(),
        Err(status) => status_of(status.code()).into_response(),
    }
}

/// The status of HTTP that means what a code of gRPC does.
fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unimplemented | Code::NotFound => StatusCode::NOT_FOUND,
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[derive(Clone)]
struct Service(Arc<State>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let headers = headers(request.metadata());
        let keep = |received: &mut Received| received.take_traces(request.into_inner());
        let rejected_spans = self.0.take(Signal::Traces, headers, keep).await?;
        let partial_success = (rejected_spans > 0)
            .then(|| ExportTracePartialSuccess { rejected_spans, error_message: SAID.to_owned() });
        Ok(Response::new(ExportTraceServiceResponse { partial_success }))
    }
}

#[tonic::async_trait]
impl LogsService for Service {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let headers = headers(request.metadata());
        let keep = |received: &mut Received| received.take_logs(request.into_inner());
        let rejected_log_records = self.0.take(Signal::Logs, headers, keep).await?;
        let partial_success = (rejected_log_records > 0)
            .then(|| ExportLogsPartialSuccess { rejected_log_records, error_message: SAID.to_owned() });
        Ok(Response::new(ExportLogsServiceResponse { partial_success }))
    }
}

#[tonic::async_trait]
impl MetricsService for Service {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let headers = headers(request.metadata());
        let of_request = headers.clone();
        let keep = |received: &mut Received| received.take_metrics(request.into_inner(), of_request);
        let rejected_data_points = self.0.take(Signal::Metrics, headers, keep).await?;
        let partial_success = (rejected_data_points > 0)
            .then(|| ExportMetricsPartialSuccess { rejected_data_points, error_message: SAID.to_owned() });
        Ok(Response::new(ExportMetricsServiceResponse { partial_success }))
    }
}

fn headers(metadata: &MetadataMap) -> Headers {
    metadata
        .iter()
        .filter_map(|entry| match entry {
            KeyAndValueRef::Ascii(key, value) => Some((key.to_string(), value.to_str().ok()?.to_owned())),
            KeyAndValueRef::Binary(..) => None,
        })
        .collect()
}
