//! OTLP over HTTP: the client that the library's exporters and the cumulative one share.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use opentelemetry_http::{HttpClient, HttpError, ResponseBodyTooLarge};
use tokio::runtime::Handle;
use windlass_http_client::{Deadlines, Failure, Tls};

use super::error::CollectorError;
use super::settings::TlsFiles;

/// The target of the event that says why there was no answer: the library's own errors do not.
pub(super) const NETWORK: &str = "windlass_telemetry::export::http";
/// The most that is read of an answer, in bytes.
const MAX_ANSWER: u64 = 4 << 20;

/// Posts requests of one signal to a collector.
#[derive(Clone)]
pub(crate) struct HttpTransport {
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    timeout: Duration,
    /// Carries the requests: the SDK's threads have no reactor.
    runtime: Handle,
}

impl HttpTransport {
    /// Nothing is sent yet. `url` is valid, and `endpoint` is what of it may be shown.
    pub(super) fn new(
        (url, endpoint): (String, &str),
        headers: HeaderMap,
        timeout: Duration,
        files: &TlsFiles,
        runtime: &Handle,
    ) -> Result<Self, CollectorError> {
        let mut tls = Tls::default();
        if let Some(pem) = &files.authorities {
            tls = tls.trusting(pem).map_err(CollectorError::set_up(endpoint))?;
        }
        if let Some((certificate, key)) = &files.identity {
            let key = String::from_utf8_lossy(key).into_owned().into();
            tls = tls.showing(certificate, &key).map_err(CollectorError::set_up(endpoint))?;
        }
        let client = windlass_http_client::builder(&tls, timeout)
            .build()
            .map_err(|error| CollectorError::set_up(endpoint)(error.without_url()))?;
        Ok(Self { client, url, headers, timeout, runtime: runtime.clone() })
    }

    /// Where requests are posted.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Posts a body and reads the whole answer, within the timeout; from any thread.
    pub(super) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Response<Bytes>, Failure> {
        let request = self.client.post(&self.url).headers(headers).headers(self.headers.clone()).body(body);
        let (connect, read, total) = (self.timeout, self.timeout, self.timeout);
        let deadline = Deadlines { connect, read, total }.begin();
        let answered = self.runtime.spawn(async move {
            let answer = windlass_http_client::send(request, &deadline).await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            let mut response = Response::new(answer.body(MAX_ANSWER).await?);
            *response.status_mut() = status;
            *response.headers_mut() = headers;
            Ok(response)
        });
        answered.await.unwrap_or_else(|_| Err(Failure::Broken("the process is at its end".to_owned())))
    }
}

/// What a failure says, for a log line.
pub(super) fn describe(failure: &Failure) -> String {
    match failure {
        Failure::Refused(text) | Failure::Broken(text) => text.clone(),
        Failure::Timeout(limit) => format!("no answer within {limit:?}"),
        Failure::TooLarge(limit) => format!("an answer of more than {limit} bytes"),
    }
}

#[async_trait]
impl HttpClient for HttpTransport {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = request.into_parts();
        self.post(head.headers, body).await.map_err(|failure| {
            let error = describe(&failure);
            tracing::warn!(target: NETWORK, error);
            match failure {
                Failure::TooLarge(_) => ResponseBodyTooLarge::new().into(),
                _ => error.into(),
            }
        })
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").field("url", &self.url).finish_non_exhaustive()
    }
}
