//! The way to a collector for one signal, over gRPC or over HTTP, and the library's exporters that use it.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Uri};
use opentelemetry_otlp::{
    Compression, ExporterBuildError, LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig,
    WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::metrics::Temporality;
use tokio::runtime::Handle;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::error::CollectorError;
use super::http::HttpTransport;
use super::report::{ExportReporter, ExportReports};
use super::reported::Reported;
use super::settings::{Collector, Signal, TlsFiles};
use crate::variables::Variables;

/// How requests of one signal reach a collector.
pub(crate) struct Connection {
    pub(super) transport: Transport,
    /// What goes with each request. (An [`HttpTransport`] adds them itself.)
    pub(super) headers: HeaderMap,
    /// For an answer.
    pub(super) timeout: Duration,
    pub(super) gzip: bool,
    signal: Signal,
    /// The collector, as it may be shown.
    endpoint: String,
    reports: Arc<ExportReports>,
}

/// What carries requests.
#[derive(Clone)]
pub(crate) enum Transport {
    /// OTLP over gRPC.
    Grpc(Channel),
    /// OTLP over HTTP, as protobuf.
    Http(HttpTransport),
}

impl Connection {
    /// The connection that settings and variables ask for; none where they turn the signal off. Nothing is sent yet, and
    /// nobody has to be there. Must be called on the runtime.
    pub(crate) fn new(
        signal: Signal,
        collector: &Collector,
        variables: Variables<'_>,
        reports: &Arc<ExportReports>,
        runtime: &Handle,
    ) -> Result<Option<Self>, CollectorError> {
        if !signal.is_wanted(variables) {
            return Ok(None);
        }
        let url = collector.url(signal, variables);
        let uri = parse(&url)?;
        let endpoint = origin(&uri);
        let (headers, timeout) = (signal.headers(variables), signal.timeout(variables));
        let files = if uri.scheme_str() == Some("https") {
            signal.tls_files(variables)?
        } else {
            TlsFiles::default()
        };
        let transport = match signal.protocol(variables) {
            Protocol::Grpc => Transport::Grpc(channel(uri, timeout, files, &endpoint)?),
            _ => Transport::Http(HttpTransport::new(
                (url, &endpoint),
                headers.clone(),
                timeout,
                &files,
                runtime,
            )?),
        };
        let gzip = signal.gzip(variables);
        Ok(Some(Self { transport, headers, timeout, gzip, signal, endpoint, reports: Arc::clone(reports) }))
    }

    /// Who counts and logs how the exports of one exporter go.
    pub(crate) fn reporter(&self) -> Arc<ExportReporter> {
        self.reports.reporter(self.signal, self.endpoint.clone())
    }

    /// The library's exporter of spans.
    pub(crate) fn span_exporter(&self) -> Result<Reported<SpanExporter>, CollectorError> {
        self.reported(match &self.transport {
            Transport::Grpc(channel) => self.grpc(SpanExporter::builder().with_tonic(), channel).build(),
            Transport::Http(http) => self.http(SpanExporter::builder().with_http(), http).build(),
        })
    }

    /// The library's exporter of log records.
    pub(crate) fn log_exporter(&self) -> Result<Reported<LogExporter>, CollectorError> {
        self.reported(match &self.transport {
            Transport::Grpc(channel) => self.grpc(LogExporter::builder().with_tonic(), channel).build(),
            Transport::Http(http) => self.http(LogExporter::builder().with_http(), http).build(),
        })
    }

    /// The library's exporter of the process's metrics, which are asked for like this.
    pub(crate) fn metric_exporter(
        &self,
        temporality: Temporality,
    ) -> Result<Reported<MetricExporter>, CollectorError> {
        let builder = MetricExporter::builder().with_temporality(temporality);
        self.reported(match &self.transport {
            Transport::Grpc(channel) => self.grpc(builder.with_tonic(), channel).build(),
            Transport::Http(http) => self.http(builder.with_http(), http).build(),
        })
    }

    fn grpc<B: WithExportConfig + WithTonicConfig>(&self, builder: B, channel: &Channel) -> B {
        let builder = builder
            .with_protocol(Protocol::Grpc)
            .with_timeout(self.timeout)
            .with_metadata(MetadataMap::from_headers(self.headers.clone()))
            .with_channel(channel.clone());
        if self.gzip { builder.with_compression(Compression::Gzip) } else { builder }
    }

    fn http<B: WithExportConfig + WithHttpConfig>(&self, builder: B, http: &HttpTransport) -> B {
        let builder = builder
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(self.timeout)
            .with_endpoint(http.url())
            .with_http_client(http.clone());
        if self.gzip { builder.with_compression(Compression::Gzip) } else { builder }
    }

    fn reported<E>(&self, built: Result<E, ExporterBuildError>) -> Result<Reported<E>, CollectorError> {
        let exporter = built.map_err(CollectorError::set_up(&self.endpoint))?;
        Ok(Reported::new(exporter, self.reporter()))
    }
}

/// Reads a collector's URL: `http` or `https`, and without user-info, since credentials are sent as headers.
fn parse(url: &str) -> Result<Uri, CollectorError> {
    // What a library says of a URL may quote it, with what is in it.
    let refused = || CollectorError::Address { endpoint: crate::redact_url(url) };
    let uri: Uri = url.parse().map_err(|_quoting| refused())?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'));
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    if known && authority.is_some() { Ok(uri) } else { Err(refused()) }
}

/// Scheme, host and port: one collector may take each signal under a path of its own.
fn origin(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", uri.scheme_str().unwrap_or_default())
}

fn channel(uri: Uri, timeout: Duration, files: TlsFiles, endpoint: &str) -> Result<Channel, CollectorError> {
    let secure = uri.scheme_str() == Some("https");
    let mut channel = Endpoint::from(uri).connect_timeout(timeout).timeout(timeout);
    if secure {
        let mut tls = match files.authorities {
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((certificate, key)) = files.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        channel = channel.tls_config(tls).map_err(CollectorError::set_up(endpoint))?;
    }
    Ok(channel.connect_lazy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(endpoint: &str) -> Result<Option<Connection>, CollectorError> {
        let collector = Collector { endpoint: endpoint.to_owned(), insecure: true };
        Connection::new(Signal::Traces, &collector, &|_: &str| None, &Arc::default(), &Handle::current())
    }

    #[tokio::test]
    async fn an_address_that_is_none_is_refused_without_what_is_in_it() {
        for endpoint in [
            "https://u:hunter2@bad host",
            "http://u:hunter2@host:4317",
            "u:hunter2@host",
            "ftp://x",
            "http://",
        ] {
            let error = connect(endpoint).err().expect(endpoint);
            let text = format!("{} {error:?}", crate::ErrorChain(&error));
            assert!(text.contains("failed to read the address of the collector"), "{text}");
            assert!(!text.contains("u:hunter2"), "{text}");
        }
        connect("HTTP://Collector:4317").unwrap();
    }
}
