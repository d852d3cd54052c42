//! The way of one signal to a collector: requests over gRPC, and what their answers mean.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Extensions, Request, Status};
use tonic_types::StatusExt as _;

use super::error::CollectorError;
use super::fate::{Fate, Outcomes};
use super::settings::{Collector, Signal};
use crate::variables::Variables;

/// How long is waited before a collector that does not answer is asked again; doubled each time.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such wait, but for a collector that asks for more patience.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a batch is sent again.
const RETRIES: usize = 3;
/// How much is shown of what a collector says, in characters.
const SHOWN: usize = 200;

/// One of the three services of a collector.
pub(crate) trait Service: Clone + Send + Sync + 'static {
    /// What it is for.
    const SIGNAL: Signal;
    /// What it takes.
    type Request: Clone + Send + 'static;

    /// The service at the end of a connection.
    fn over(channel: Channel, gzip: bool) -> Self;

    /// Sends a request; what of it the collector rejected, where it took the rest.
    fn export(
        &mut self,
        request: Request<Self::Request>,
    ) -> impl Future<Output = Result<Option<Rejected>, Status>> + Send;
}

/// What of a request a collector did not take.
pub(crate) struct Rejected {
    items: u64,
    why: String,
}

macro_rules! service {
    ($client:ident, $signal:expr, $request:ident, $rejected:ident) => {
        impl Service for $client<Channel> {
            const SIGNAL: Signal = $signal;
            type Request = $request;

            fn over(channel: Channel, gzip: bool) -> Self {
                let client = Self::new(channel);
                if !gzip {
                    return client;
                }
                client.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip)
            }

            async fn export(&mut self, request: Request<$request>) -> Result<Option<Rejected>, Status> {
                let part = $client::export(self, request).await?.into_inner().partial_success;
                Ok(part.and_then(|part| {
                    let items = u64::try_from(part.$rejected).ok().filter(|items| *items > 0)?;
                    Some(Rejected { items, why: part.error_message })
                }))
            }
        }
    };
}

service!(TraceServiceClient, Signal::Traces, ExportTraceServiceRequest, rejected_spans);
service!(LogsServiceClient, Signal::Logs, ExportLogsServiceRequest, rejected_log_records);
service!(MetricsServiceClient, Signal::Metrics, ExportMetricsServiceRequest, rejected_data_points);

/// Why a request failed, by what that says of others.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Nobody answers, or asks for patience: it may pass, and until then no other request fares better.
    Passing {
        /// What happened.
        error: OTelSdkError,
        /// What the collector asks to wait for.
        after: Duration,
    },
    /// The collector does not want to hear from us.
    Unwanted(OTelSdkError),
    /// This request was not taken. OTLP wants it dropped; the next one may be taken.
    Refused(OTelSdkError),
    /// Of this request so many items were not taken; nor would they be if they were sent again.
    Rejected(u64, OTelSdkError),
}

impl Failed {
    pub(crate) fn error(&self) -> &OTelSdkError {
        match self {
            Self::Passing { error, .. }
            | Self::Unwanted(error)
            | Self::Refused(error)
            | Self::Rejected(_, error) => error,
        }
    }

    pub(crate) fn into_error(self) -> OTelSdkError {
        match self {
            Self::Passing { error, .. }
            | Self::Unwanted(error)
            | Self::Refused(error)
            | Self::Rejected(_, error) => error,
        }
    }
}

/// A collector, for one signal.
pub(crate) struct Client<S> {
    service: S,
    headers: MetadataMap,
    /// For an answer, all attempts together.
    limit: Duration,
    /// Carries the connection, and what waits for it: the SDK's threads have no reactor.
    runtime: Handle,
    fate: Fate,
}

impl<S: Service> Client<S> {
    /// Nothing is sent yet, and nobody has to be there. Must be called on the runtime.
    pub(crate) fn new(
        collector: &Collector,
        variables: Variables<'_>,
        outcomes: &Arc<Outcomes>,
        runtime: &Handle,
    ) -> Result<Self, CollectorError> {
        let url = collector.url(S::SIGNAL, variables);
        let shown = crate::redact_url(&url);
        let limit = S::SIGNAL.timeout(variables);
        // What the library says of a URL may quote it, with what is in it.
        let endpoint = Endpoint::from_shared(url)
            .map_err(|_quoting| CollectorError::Address { endpoint: shown.clone() })?
            .timeout(limit);
        let uri = endpoint.uri();
        // A collector that asks for credentials is sent headers.
        let user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        let endpoint = match uri.scheme_str().filter(|_| !user) {
            Some("http") => endpoint,
            Some("https") => {
                let tls = S::SIGNAL.tls(variables)?;
                let failed = |source| CollectorError::Tls { endpoint: shown.clone(), source };
                endpoint.tls_config(tls).map_err(failed)?
            }
            _ => return Err(CollectorError::Address { endpoint: shown }),
        };
        Ok(Self {
            service: S::over(endpoint.connect_lazy(), S::SIGNAL.gzip(variables)),
            headers: S::SIGNAL.headers(variables),
            limit,
            runtime: runtime.clone(),
            fate: outcomes.exporter(S::SIGNAL, shown),
        })
    }

    /// How it goes.
    pub(crate) fn fate(&self) -> &Fate {
        &self.fate
    }

    /// Sends a request once.
    pub(crate) async fn request(&self, request: S::Request) -> Result<(), Failed> {
        let request = Request::from_parts(self.headers.clone(), Extensions::new(), request);
        let mut service = self.service.clone();
        // The connection knows the limit for an answer; this one also covers what comes before it is connected.
        match timeout(self.limit, service.export(request)).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(rejected))) => Err(of_rejected(&rejected)),
            Ok(Err(status)) => Err(of_status(&status)),
            Err(_) => {
                Err(Failed::Passing { error: OTelSdkError::Timeout(self.limit), after: Duration::ZERO })
            }
        }
    }

    /// Sends a request, again while there is hope and time for it.
    async fn insist(&self, request: S::Request) -> Result<(), Failed> {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        for _ in 0..RETRIES {
            match self.request(request.clone()).await {
                Err(Failed::Passing { error, after }) => {
                    let wait = pause.max(after);
                    if begun.elapsed().saturating_add(wait) >= self.limit {
                        return Err(Failed::Passing { error, after });
                    }
                    sleep(wait).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                answered => return answered,
            }
        }
        let left = self.limit.saturating_sub(begun.elapsed());
        let late = || Failed::Passing { error: OTelSdkError::Timeout(self.limit), after: Duration::ZERO };
        timeout(left, self.request(request)).await.unwrap_or_else(|_| Err(late()))
    }

    /// Sends a batch of so many items from any thread, and notes how that went. It is not sent again.
    pub(crate) async fn deliver(self: &Arc<Self>, request: S::Request, items: usize) -> OTelSdkResult {
        let client = Arc::clone(self);
        let sent = self.runtime.spawn(async move { client.insist(request).await }).await;
        // The process is at its end.
        let Ok(sent) = sent else { return Err(OTelSdkError::AlreadyShutdown) };
        self.fate.note(&sent, items);
        match sent {
            // It was delivered; what the collector did of it is not ours to repeat.
            Ok(()) | Err(Failed::Rejected(..)) => Ok(()),
            Err(failed) => Err(failed.into_error()),
        }
    }
}

fn of_rejected(rejected: &Rejected) -> Failed {
    let Rejected { items, why } = rejected;
    let why: String = why.chars().take(SHOWN).collect();
    let error = format!("the collector rejected {items} of what it was sent: {why}");
    Failed::Rejected(*items, OTelSdkError::InternalFailure(error))
}

/// What OTLP makes of a status.
fn of_status(status: &Status) -> Failed {
    let error = OTelSdkError::InternalFailure(said(status));
    let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    match status.code() {
        // Without a word about when to come back, it was too large.
        Code::ResourceExhausted if after.is_none() => Failed::Refused(error),
        Code::Unavailable
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::OutOfRange
        | Code::DataLoss => Failed::Passing { error, after: after.unwrap_or_default() },
        Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => Failed::Unwanted(error),
        _ => Failed::Refused(error),
    }
}

/// What a status says: the code, and the cause where it is this side's. What the other side writes may echo a token.
fn said(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => format!("{:?}: {}", status.code(), crate::ErrorChain(source)),
        None => format!("{:?}", status.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_is_none_is_refused_without_what_is_in_it() {
        for endpoint in
            ["https://u:hunter2@bad host", "http://u:hunter2@host:4317", "u:hunter2@host", "ftp://x"]
        {
            let collector = Collector { endpoint: endpoint.to_owned(), insecure: true };
            let (outcomes, runtime) = (Arc::default(), Handle::current());
            let made =
                Client::<TraceServiceClient<Channel>>::new(&collector, &|_: &str| None, &outcomes, &runtime);
            let error = made.err().expect(endpoint);
            let text = format!("{} {error:?}", crate::ErrorChain(&error));
            assert!(text.contains("failed to read the address of the collector"), "{text}");
            assert!(!text.contains("u:hunter2"), "{text}");
        }
        let fine = Collector { endpoint: "HTTP://Collector:4317".to_owned(), insecure: false };
        let (outcomes, runtime) = (Arc::default(), Handle::current());
        Client::<TraceServiceClient<Channel>>::new(&fine, &|_: &str| None, &outcomes, &runtime).unwrap();
    }
}
