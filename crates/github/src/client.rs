//! GitHub's API, as one user or App.

use std::fmt;
use std::sync::Arc;

use octocrab::{FromResponse, Octocrab};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use windlass_http_client::RateLeft;

use crate::service::{GithubService, Identity, InstallationTokens, Transport, authorization};
use crate::{Credentials, ErrorKind, GithubError, Options, OptionsError, RepositoryName};

/// GitHub's API, as one user or App. Clones share everything.
#[derive(Clone)]
pub struct Github {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Arc<Transport>,
    service: GithubService,
    octocrab: Octocrab,
    /// As the App itself, and the installation's ID.
    app: Option<(Octocrab, u64)>,
    max_file: u64,
}

impl Github {
    /// A client of the API that `options` name. It calls nothing yet.
    ///
    /// Authorities are the system's and those of the options; `SSL_CERT_FILE` adds to them. Proxies are those of the
    /// environment, except for loopback addresses.
    ///
    /// # Errors
    /// [`OptionsError`]; also where it is made outside a Tokio runtime, which it needs as long as it lives.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        let transport = Arc::new(Transport::new(&options)?);
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(OptionsError::Runtime);
        }
        let mut as_app = None;
        let identity = match options.credentials {
            Credentials::Anonymous => Identity::Anonymous,
            Credentials::Token(token) => {
                let token = SecretString::from(token.expose_secret().trim());
                authorization(&token).map_err(|()| OptionsError::Token)?;
                Identity::Token(token)
            }
            Credentials::App(app) => {
                let (installation, request) = (app.installation(), app.request().clone());
                let service = GithubService::new(Arc::clone(&transport), Identity::App(app), options.cache);
                let octocrab = service.octocrab();
                as_app = Some((octocrab.clone(), installation));
                let transport = Arc::clone(&transport);
                Identity::Installation(Box::new(InstallationTokens::new(
                    octocrab,
                    transport,
                    installation,
                    request,
                )))
            }
        };
        let service = GithubService::new(Arc::clone(&transport), identity, options.cache);
        let octocrab = service.octocrab();
        let max_file = options.max_file;
        Ok(Self { inner: Arc::new(Inner { transport, service, octocrab, app: as_app, max_file }) })
    }

    /// What GitHub said last that is left of its rate limit to these credentials; nothing before it did.
    pub fn rate_left(&self) -> Option<RateLeft> {
        self.inner.transport.rate_left()
    }

    /// Requests sent so far, retries and tokens' included.
    pub fn sent(&self) -> u64 {
        self.inner.transport.sent()
    }

    /// The repository that `url` names, if it is one of this API's: github.com's for `api.github.com`.
    pub fn repository_at(&self, url: &str) -> Option<RepositoryName> {
        RepositoryName::of_url(url, self.web_host())
    }

    /// Where the repositories of this API are read with Git: `github.com` for `api.github.com`.
    pub fn web_host(&self) -> &str {
        let host = self.inner.transport.base().host_str().unwrap_or_default();
        host.strip_prefix("api.").unwrap_or(host)
    }

    /// The URL of the API, without a slash at its end.
    pub fn api(&self) -> &str {
        self.inner.transport.base().as_str().trim_end_matches('/')
    }

    /// What sends requests, for others who ask the same API as somebody else over the same connections.
    pub fn http(&self) -> reqwest::Client {
        self.inner.transport.http()
    }

    /// Whether there are credentials.
    pub fn has_credentials(&self) -> bool {
        self.inner.service.has_credentials()
    }

    /// A token to read repositories with over Git, as the password of `x-access-token`; none without credentials. An
    /// App's is minted and renewed as its requests need it.
    pub async fn git_token(&self) -> Result<Option<SecretString>, GithubError> {
        self.inner.service.token().await
    }

    /// As the App, and its installation; nothing if the credentials are none of an App.
    pub(crate) fn as_app(&self) -> Option<(&Octocrab, u64)> {
        self.inner.app.as_ref().map(|(app, installation)| (app, *installation))
    }

    /// As the installation, where the credentials are an App's.
    pub(crate) fn octocrab(&self) -> &Octocrab {
        &self.inner.octocrab
    }

    /// `host:port`.
    pub fn host(&self) -> &str {
        self.inner.transport.host()
    }

    /// The way to the API.
    pub(crate) fn transport(&self) -> &Transport {
        &self.inner.transport
    }

    /// GitHub's words without the secrets that it was sent, for a message.
    pub(crate) fn printable(&self, text: &str, max: usize) -> String {
        self.transport().printable(text, max)
    }

    /// Bytes that a file may have.
    pub(crate) fn max_file(&self) -> u64 {
        self.inner.max_file
    }

    /// Reads `route`, percent-encoded, while `action` is being done.
    pub(crate) async fn get<T: FromResponse>(
        &self,
        action: &str,
        route: String,
        query: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<T, GithubError> {
        self.octocrab().get(route, query).await.map_err(|error| self.error(action, error))
    }

    /// The failure of a call of octocrab's that was made to do `action`.
    pub(crate) fn error(&self, action: &str, error: octocrab::Error) -> GithubError {
        self.transport().of_octocrab(error).during(action)
    }

    /// An answer that makes no sense.
    pub(crate) fn malformed(&self, action: &str, detail: impl ToString) -> GithubError {
        let kind = ErrorKind::Malformed(self.printable(&detail.to_string(), 200));
        GithubError::new(self.host(), kind).during(action)
    }
}

impl fmt::Debug for Github {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Github").field("api", &self.inner.transport.base().as_str()).finish_non_exhaustive()
    }
}
