//! Why pushing could not be set up.

/// Why pushing could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectorError {
    /// The endpoint is no address of a collector.
    #[error(
        "failed to read the address of the collector {endpoint}, expected host:port, http://host:port or https://host:port"
    )]
    Address {
        /// The endpoint, redacted.
        endpoint: String,
    },
    /// TLS cannot be spoken with the certificates that there are.
    #[error("failed to set up TLS to the collector {endpoint}")]
    Tls {
        /// The endpoint, redacted.
        endpoint: String,
        /// What is wrong with them.
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
