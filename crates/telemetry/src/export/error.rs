//! Why exporting could not be set up, and why an export failed.

/// Why exporting could not be set up.
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
    /// No exporter can be made of the settings, most likely for the certificates that there are.
    #[error("failed to set up the export to the collector {endpoint}")]
    SetUp {
        /// The endpoint, redacted.
        endpoint: String,
        /// What is wrong with them.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
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

/// Why a collector did not take a request, or not whole, by what that says of other requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// It does not answer, or asks for a pause: until that passes no other request fares better.
    #[error("no answer to use: {0}")]
    Unavailable(String),
    /// It takes no request of this signal from us: not allowed, or not served there.
    #[error("denied: {0}")]
    Denied(String),
    /// It did not take this request, nor would it if that were sent again; the next one may be taken.
    #[error("refused: {0}")]
    Refused(String),
    /// It took the request without some of its items, which it would not take if they were sent again.
    #[error("the collector rejected {items} of what it was sent: {message}")]
    Rejected {
        /// How many spans, log records or points.
        items: u64,
        /// Why, as the collector says it, in at most 200 characters.
        message: String,
    },
}

impl CollectorError {
    pub(super) fn set_up<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        endpoint: &str,
    ) -> impl Fn(E) -> Self {
        move |source| Self::SetUp { endpoint: endpoint.to_owned(), source: source.into() }
    }
}

impl ExportError {
    /// Items that were rejected; none where there are none.
    pub(super) fn rejected(items: i64, message: &str) -> Option<Self> {
        let items = u64::try_from(items).ok().filter(|items| *items > 0)?;
        Some(Self::Rejected { items, message: windlass_http_client::printable(message, 200) })
    }
}
