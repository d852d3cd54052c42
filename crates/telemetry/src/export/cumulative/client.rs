//! Requests with cumulative series, and what their answers mean.

use std::io::Write as _;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use prost::Message as _;
use tokio::time::timeout;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Extensions, Request, Status};

use crate::export::connection::{Connection, Transport};
use crate::export::error::ExportError;
use crate::export::http::{HttpTransport, describe};
use crate::export::report::ExportReporter;

/// Sends metrics to a collector.
pub(super) struct Client {
    connection: Connection,
    pub(super) reporter: Arc<ExportReporter>,
}

impl Client {
    pub(super) fn new(connection: Connection) -> Self {
        Self { reporter: connection.reporter(), connection }
    }

    /// Sends a request once.
    pub(super) async fn request(&self, request: ExportMetricsServiceRequest) -> Result<(), ExportError> {
        let answered = async {
            match &self.connection.transport {
                Transport::Grpc(channel) => self.over_grpc(channel.clone(), request).await,
                Transport::Http(http) => self.over_http(http, &request).await,
            }
        };
        // The transports know the timeout for an answer; this one also covers what comes before they are connected.
        let limit = self.connection.timeout;
        let late = |_| ExportError::Unavailable(format!("no answer within {limit:?}"));
        let answer = timeout(limit, answered).await.map_err(late)??;
        let rejected = answer
            .partial_success
            .and_then(|partial| ExportError::rejected(partial.rejected_data_points, &partial.error_message));
        rejected.map_or(Ok(()), Err)
    }

    async fn over_grpc(
        &self,
        channel: Channel,
        request: ExportMetricsServiceRequest,
    ) -> Result<ExportMetricsServiceResponse, ExportError> {
        let mut service = MetricsServiceClient::new(channel);
        if self.connection.gzip {
            let gzip = CompressionEncoding::Gzip;
            service = service.send_compressed(gzip).accept_compressed(gzip);
        }
        let metadata = MetadataMap::from_headers(self.connection.headers.clone());
        let request = Request::from_parts(metadata, Extensions::new(), request);
        service.export(request).await.map(tonic::Response::into_inner).map_err(|status| of_grpc(&status))
    }

    async fn over_http(
        &self,
        http: &HttpTransport,
        request: &ExportMetricsServiceRequest,
    ) -> Result<ExportMetricsServiceResponse, ExportError> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut body = request.encode_to_vec();
        if self.connection.gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            body = compressed(&body).map_err(|error| ExportError::Refused(error.to_string()))?;
        }
        let response = http
            .post(headers, body.into())
            .await
            .map_err(|failure| ExportError::Unavailable(describe(&failure)))?;
        if response.status().is_success() {
            // An answer that is none was one to a request that was taken.
            return Ok(ExportMetricsServiceResponse::decode(response.into_body()).unwrap_or_default());
        }
        Err(of_http(response.status()))
    }
}

fn compressed(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(body)?;
    encoder.finish()
}

/// What OTLP makes of a gRPC status.
fn of_grpc(status: &Status) -> ExportError {
    // What the other side writes may echo a token.
    let message = match std::error::Error::source(status) {
        Some(source) => format!("{:?}: {}", status.code(), crate::ErrorChain(source)),
        None => format!("{:?}", status.code()),
    };
    match status.code() {
        Code::Unavailable
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::DataLoss => ExportError::Unavailable(message),
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => ExportError::Denied(message),
        // An exhausted resource among them: what is too large is refused so.
        _ => ExportError::Refused(message),
    }
}

/// What OTLP makes of an HTTP status that is no success.
fn of_http(status: StatusCode) -> ExportError {
    let message = status.to_string();
    match status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => ExportError::Unavailable(message),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
            ExportError::Denied(message)
        }
        _ => ExportError::Refused(message),
    }
}
