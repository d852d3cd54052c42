//! What is sent to a collector, and why there is none.

/// What is sent, as a collector behaves to each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Points of metrics.
    Metrics,
}

impl Signal {
    pub(crate) const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];
}

/// Why a collector did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The port, or what serves it, could not be had.
    #[error("failed to listen on 127.0.0.1:{port}")]
    Listen {
        /// The port; 0 for any.
        port: u16,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The certificate could not be made.
    #[error("failed to make a certificate")]
    Certificate(#[source] rcgen::Error),
    /// TLS could not be set up.
    #[error("failed to set up TLS")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}
