//! Which API, as whom, and within which bounds.

use std::sync::Arc;

use windlass_http_client::{AddressPolicy, Deadlines, HostRates, Retries, Tls};

use crate::Credentials;

/// Which API to call, as whom, and within which bounds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API's base URL: [`Options::PUBLIC_API`], or `https://HOST/api/v3` of a GitHub Enterprise Server. Plain
    /// `http:` is for loopback addresses only.
    pub api: String,
    /// As whom.
    pub credentials: Credentials,
    /// Which addresses the API may have; any if there is no policy. Set one where somebody else than the operator's
    /// owner names the API. Proxies of the environment are then not used: they would connect unjudged.
    pub addresses: Option<AddressPolicy>,
    /// What is sent through; it resolves names, and is not judged.
    pub proxy: Option<reqwest::Proxy>,
    /// Authorities that are trusted beside the system's, and a client certificate.
    pub tls: Tls,
    /// What sends requests, where connections are shared with other clients of this API: theirs ([`Github::http`](crate::Github::http)).
    /// Addresses, proxy and authorities are then theirs too.
    pub http: Option<reqwest::Client>,
    /// How long to wait; 10 s for a connection, 30 s for each piece, a minute in all.
    pub deadlines: Deadlines,
    /// How often to try again when the server fails (5xx) or cannot be reached; four times.
    pub retries: Retries,
    /// Requests a second, together with others who have the same. No limit of ours without.
    pub rates: Option<Arc<HostRates>>,
    /// Bytes that a file may have.
    pub max_file: u64,
    /// Bytes that kept answers may take in memory.
    pub cache: usize,
}

impl Options {
    /// github.com's API.
    pub const PUBLIC_API: &str = "https://api.github.com";

    /// github.com's API, with the usual bounds: files up to 16 MiB, 8 MiB of kept answers.
    pub fn new(credentials: Credentials) -> Self {
        Self {
            api: Self::PUBLIC_API.to_owned(),
            credentials,
            addresses: None,
            proxy: None,
            tls: Tls::default(),
            http: None,
            deadlines: Deadlines::default(),
            retries: Retries::default(),
            rates: None,
            max_file: 16 << 20,
            cache: 8 << 20,
        }
    }
}
