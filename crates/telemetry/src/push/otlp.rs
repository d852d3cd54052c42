//! The OTLP exporters: one for each signal, over gRPC to one endpoint.

use std::sync::Arc;

use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, SpanExporter, WithExportConfig as _,
    WithTonicConfig as _,
};

use super::watched::{Outcomes, Watched};
use crate::redact_url;

/// The variable that names the authorities of the collector's certificate, PEM.
const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CERTIFICATE";

/// Where a collector listens.
#[derive(Clone, Debug)]
pub struct Collector {
    /// `host:port`, or a URL. Empty: `OTEL_EXPORTER_OTLP_ENDPOINT`, or else `http://localhost:4317`.
    pub endpoint: String,
    /// Plain gRPC, where the endpoint does not say `http` or `https` itself.
    pub insecure: bool,
}

impl Collector {
    /// The endpoint as a URL; none leaves it to the `OTEL_…` variables.
    pub(crate) fn url(&self) -> Option<String> {
        let endpoint = self.endpoint.trim();
        if endpoint.is_empty() {
            return None;
        }
        if endpoint.contains("://") {
            return Some(endpoint.to_owned());
        }
        Some(format!("{}://{endpoint}", if self.insecure { "http" } else { "https" }))
    }

    /// The endpoint as log lines name it.
    pub(crate) fn shown(&self) -> String {
        self.url().unwrap_or_else(|| {
            std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT")
                .unwrap_or_else(|_| "http://localhost:4317".to_owned())
        })
    }
}

/// Why pushing could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// The endpoint or a header cannot be used.
    #[error("failed to set up the export to the collector {endpoint}")]
    Build {
        /// The endpoint, redacted.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: ExporterBuildError,
    },
    /// The file of `OTEL_EXPORTER_OTLP_CERTIFICATE` cannot be read.
    #[error("failed to read {path}, which OTEL_EXPORTER_OTLP_CERTIFICATE names")]
    ReadCertificate {
        /// The file.
        path: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// The three exporters. Nothing is sent yet; must be called on a Tokio runtime, which carries their connections.
pub(crate) struct Exporters {
    pub(crate) spans: Watched<SpanExporter>,
    pub(crate) logs: Watched<LogExporter>,
    pub(crate) metrics: Watched<MetricExporter>,
}

impl Exporters {
    pub(crate) fn new(collector: &Collector, outcomes: &Arc<Outcomes>) -> Result<Self, CollectorError> {
        let url = collector.url();
        let failed = |source| CollectorError::Build { endpoint: redact_url(&collector.shown()), source };
        let tls = if collector.shown().starts_with("https://") { Some(tls()?) } else { None };
        macro_rules! exporter {
            ($exporter:ty) => {{
                let mut builder = <$exporter>::builder().with_tonic();
                if let Some(url) = &url {
                    builder = builder.with_endpoint(url.clone());
                }
                if let Some(tls) = &tls {
                    builder = builder.with_tls_config(tls.clone());
                }
                Watched::new(builder.build().map_err(failed)?, outcomes)
            }};
        }
        Ok(Self {
            spans: exporter!(SpanExporter),
            logs: exporter!(LogExporter),
            metrics: exporter!(MetricExporter),
        })
    }
}

fn tls() -> Result<ClientTlsConfig, CollectorError> {
    let Some(path) = std::env::var(CERTIFICATE).ok().filter(|path| !path.is_empty()) else {
        return Ok(ClientTlsConfig::new().with_native_roots());
    };
    match std::fs::read(&path) {
        Ok(pem) => Ok(ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))),
        Err(source) => Err(CollectorError::ReadCertificate { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(endpoint: &str, insecure: bool) -> Option<String> {
        Collector { endpoint: endpoint.to_owned(), insecure }.url()
    }

    #[test]
    fn an_endpoint_without_a_scheme_gets_one() {
        assert_eq!(url("localhost:4317", true).unwrap(), "http://localhost:4317");
        assert_eq!(url("collector:4317", false).unwrap(), "https://collector:4317");
        assert_eq!(url("https://collector:4317", true).unwrap(), "https://collector:4317");
        assert_eq!(url("", true), None);
    }
}
