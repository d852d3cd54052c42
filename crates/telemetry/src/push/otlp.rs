//! The OTLP exporters: one for each signal, over gRPC to one endpoint.

use std::sync::Arc;

use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, SpanExporter, WithExportConfig as _,
    WithTonicConfig as _,
};

use super::settings::{Collector, Signal, Variables};
use super::watched::{Outcomes, Watched};

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
    /// The endpoint cannot be connected to.
    #[error("failed to set up the connection to the collector {endpoint}")]
    Connect {
        /// The endpoint, redacted.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: tonic::transport::Error,
    },
    /// A file that a variable names cannot be read.
    #[error("failed to read {path}, which {variable} names")]
    ReadFile {
        /// The file.
        path: String,
        /// The variable.
        variable: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// There is a client's certificate without its key, or the other way round.
    #[error(
        "failed to set up TLS to the collector: OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and \
         OTEL_EXPORTER_OTLP_CLIENT_KEY go together"
    )]
    HalfIdentity,
}

/// The three exporters. Nothing is sent yet; must be called on a Tokio runtime, which carries their connections.
pub(crate) struct Exporters {
    pub(crate) spans: Watched<SpanExporter>,
    pub(crate) logs: Watched<LogExporter>,
    pub(crate) metrics: Watched<MetricExporter>,
}

impl Exporters {
    pub(crate) fn new(
        collector: &Collector,
        variables: Variables<'_>,
        outcomes: &Arc<Outcomes>,
    ) -> Result<Self, CollectorError> {
        let failed = |source| CollectorError::Build { endpoint: collector.shown(variables), source };
        macro_rules! exporter {
            ($exporter:ty, $signal:expr) => {{
                let url = collector.url($signal, variables);
                let mut builder = <$exporter>::builder().with_tonic().with_endpoint(url);
                if let Some(tls) = collector.tls($signal, variables)? {
                    builder = builder.with_tls_config(tls);
                }
                Watched::new(builder.build().map_err(failed)?, outcomes)
            }};
        }
        Ok(Self {
            spans: exporter!(SpanExporter, Signal::Traces),
            logs: exporter!(LogExporter, Signal::Logs),
            metrics: exporter!(MetricExporter, Signal::Metrics),
        })
    }
}
