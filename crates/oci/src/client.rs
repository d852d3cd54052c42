//! The verbs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use url::Url;
use windlass_http_client::{Deadline, Deadlines, Retries, Tls, is_loopback, printable};

use crate::authorization::Sessions;
use crate::challenge::Challenge;
use crate::docker_config::Credentials;
use crate::http::{Answer, Connections, Http, Request, malformed};
use crate::manifest::ACCEPT;
use crate::repository::is_tag;
use crate::{Digest, DockerChain, DockerConfig, Manifest, OciError, Reference, Repository};

/// Bytes that are read of an answer that is an error.
const MAX_REFUSAL: u64 = 16 << 10;

/// What a [`Client`] works under.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Where [`Login::Chain`] finds credentials.
    pub chain: Arc<DockerChain>,
    /// Registries (`host` or `host:port`) that may be spoken to without TLS, beside those on this machine; `*` is all.
    pub insecure: Vec<String>,
    /// How much is accepted.
    pub limits: Limits,
    /// How long is waited: 10 s for a connection, 10 s for each piece, 30 s in all.
    pub deadlines: Deadlines,
    /// How often is tried again: twice.
    pub retries: Retries,
    /// Requests at a time. 16.
    pub concurrency: usize,
    /// PEM certificates that are trusted beside the system's.
    pub ca_bundle: Option<PathBuf>,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            chain: Arc::new(DockerChain::from_environment()),
            insecure: Vec::new(),
            limits: Limits::default(),
            deadlines: Deadlines {
                read: Duration::from_secs(10),
                total: Duration::from_secs(30),
                ..Deadlines::default()
            },
            retries: Retries { times: 2, ..Retries::default() },
            concurrency: 16,
            ca_bundle: None,
        }
    }
}

/// How much of a registry's answers is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a manifest; registries accept 4 MiB.
    pub manifest_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { manifest_bytes: 4 << 20 }
    }
}

/// Whose credentials a call uses.
#[derive(Clone, Debug)]
pub enum Login {
    /// Docker's chain; nobody's where it has none for the registry.
    Chain,
    /// Those of a pull secret, whose helper programs are not run.
    Secret(Arc<DockerConfig>),
    /// Nobody's.
    Anonymous,
}

impl Login {
    fn fingerprint(&self) -> [u8; 32] {
        match self {
            Self::Chain => [1; 32],
            Self::Anonymous => [0; 32],
            Self::Secret(config) => config.fingerprint,
        }
    }
}

/// Access to registries. Cheap to clone; clones share connections, tokens and the bound on requests.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    connections: Connections,
}

struct Shared {
    config: ClientConfig,
    http: Http,
    sessions: Sessions,
}

/// What the requests of one call share.
struct Call<'a> {
    repository: &'a Repository,
    login: &'a Login,
    what: String,
    deadline: Deadline,
}

/// A whole answer.
struct Fetched {
    content: Bytes,
    /// Who answered.
    host: String,
    headers: HeaderMap,
}

impl Client {
    /// Access under `config`. Nothing is sent.
    ///
    /// # Errors
    /// [`OciError::SetUp`] for a bundle of certificates that cannot be read.
    pub fn new(config: ClientConfig) -> Result<Self, OciError> {
        let http = Http::new(&config.deadlines, config.concurrency, config.ca_bundle.as_deref())?;
        let connections = http.connections(&Tls::default())?;
        Ok(Self { shared: Arc::new(Shared { config, http, sessions: Sessions::default() }), connections })
    }

    /// A clone that trusts and shows `tls`, too: its certificate to the registry alone, its trust for wherever that
    /// leads.
    ///
    /// # Errors
    /// [`OciError::SetUp`] where a certificate and its key do not belong together.
    pub fn with_tls(&self, tls: &Tls) -> Result<Self, OciError> {
        Ok(Self { shared: Arc::clone(&self.shared), connections: self.shared.http.connections(tls)? })
    }

    /// HTTP requests sent so far, token services' and redirects' included.
    pub fn request_count(&self) -> u64 {
        self.shared.http.sent()
    }

    /// The manifest that a digest or tag names. Its bytes are verified.
    pub async fn manifest(
        &self,
        repository: &Repository,
        login: &Login,
        reference: &Reference,
    ) -> Result<Manifest, OciError> {
        let url = repository.url(&format!("manifests/{}", checked(reference)?));
        let call = self.call(repository, login, format!("manifest {reference} of {repository}"));
        let limit = self.shared.config.limits.manifest_bytes;
        let Fetched { content, host, headers } = self.fetch(&call, &url, Some(ACCEPT), limit).await?;
        // Where whoever asks has a span with such a field.
        tracing::Span::current().record("oci.manifest.bytes", content.len());
        let wrong = |found: Digest| OciError::WrongDigest {
            host: host.clone(),
            what: call.what.clone(),
            found: found.to_string(),
        };
        let digest = match reference {
            Reference::Digest(digest) => digest.clone(),
            // By whatever algorithm the registry files it under.
            Reference::Tag(_) => {
                let named = headers.get("docker-content-digest").and_then(|digest| digest.to_str().ok());
                named.and_then(|digest| digest.parse().ok()).unwrap_or_else(|| Digest::of(&content))
            }
        };
        digest.verify(&content).map_err(wrong)?;
        Manifest::read(digest, &content).map_err(|detail| malformed(&host, &call.what, &detail))
    }

    /// A blob of at most `max` bytes, verified. One that is larger costs no more than its head.
    pub async fn blob(
        &self,
        repository: &Repository,
        login: &Login,
        digest: &Digest,
        max: u64,
    ) -> Result<Bytes, OciError> {
        let url = repository.url(&format!("blobs/{digest}"));
        let call = self.call(repository, login, format!("blob {digest} of {repository}"));
        let Fetched { content, host, .. } = self.fetch(&call, &url, None, max).await?;
        digest.verify(&content).map_err(|found| OciError::WrongDigest {
            host,
            what: call.what.clone(),
            found: found.to_string(),
        })?;
        Ok(content)
    }

    fn call<'a>(&self, repository: &'a Repository, login: &'a Login, what: String) -> Call<'a> {
        Call { repository, login, what, deadline: self.shared.config.deadlines.begin() }
    }

    /// Gets a whole answer of at most `max` bytes; tries until it works, cannot, or time is up.
    async fn fetch(
        &self,
        call: &Call<'_>,
        url: &Url,
        accept: Option<&'static str>,
        max: u64,
    ) -> Result<Fetched, OciError> {
        let again = |error: &OciError| error.is_transient().then(|| error.retry_after().unwrap_or_default());
        let attempt = || async {
            let answer = self.get(call, url, accept).await?;
            let (host, headers) = (answer.host(), answer.headers().clone());
            Ok(Fetched { content: answer.body(max).await?, host, headers })
        };
        self.shared.config.retries.run(&call.deadline, again, attempt).await
    }

    /// Sends one request, and logs in where the registry wants it.
    async fn get(
        &self,
        call: &Call<'_>,
        url: &Url,
        accept: Option<&'static str>,
    ) -> Result<Answer, OciError> {
        self.check_insecure(call.repository)?;
        let Shared { http, sessions, .. } = &*self.shared;
        let road = (&self.connections, call.deadline);
        let session =
            sessions.of((call.repository.clone(), call.login.fingerprint(), self.connections.fingerprint));
        let (mut header, turn) = {
            let mut session = session.lock().await;
            let header = if session.is_stale() {
                let credentials = self.credentials(call).await?;
                Some(session.log_in(http, call.repository, &credentials, road).await?)
            } else {
                session.header()
            };
            (header, session.turn)
        };
        for last in [false, true] {
            let wanted = Request {
                what: &call.what,
                url: url.clone(),
                accept,
                authorization: header.as_ref(),
                form: None,
                repository: call.repository,
                connections: &self.connections,
                deadline: call.deadline,
            };
            let answer = http.send(wanted).await?.judged()?;
            if answer.status() != StatusCode::UNAUTHORIZED {
                return Ok(answer);
            }
            let offers = answer.headers().get_all(http::header::WWW_AUTHENTICATE);
            let challenge = Challenge::of(offers.iter().filter_map(|offer| offer.to_str().ok()));
            // Read to its end, so that the connection is used again; its place among the requests is given back.
            let _ = answer.body(MAX_REFUSAL).await;
            let mut session = session.lock().await;
            if last {
                session.forget();
                break;
            }
            let Some(challenge) = challenge else { break };
            if session.turn == turn {
                session.challenged(challenge);
            }
            // Another may have logged in meanwhile.
            header = match session.header() {
                Some(header) => Some(header),
                None => {
                    let credentials = self.credentials(call).await?;
                    Some(session.log_in(http, call.repository, &credentials, road).await?)
                }
            };
        }
        let (host, what) = (call.repository.registry(), call.what.clone());
        Err(OciError::Unauthorized { host, what, sent: header.is_some() })
    }

    async fn credentials(&self, call: &Call<'_>) -> Result<Credentials, OciError> {
        match call.login {
            Login::Chain => self.shared.config.chain.credentials(call.repository).await,
            Login::Secret(config) => {
                Ok(config.credentials(call.repository).cloned().unwrap_or(Credentials::Anonymous))
            }
            Login::Anonymous => Ok(Credentials::Anonymous),
        }
    }

    fn check_insecure(&self, repository: &Repository) -> Result<(), OciError> {
        let registry = repository.registry();
        let allowed = |entry: &String| {
            entry == "*" || *entry == registry || Some(entry.as_str()) == repository.base().host_str()
        };
        if !repository.is_insecure()
            || is_loopback(repository.base())
            || self.shared.config.insecure.iter().any(allowed)
        {
            return Ok(());
        }
        let detail = format!(
            "the source asks for a connection without TLS (spec.insecure), and {registry} is not among the registries \
             where that is allowed"
        );
        Err(OciError::Refused { url: format!("http://{repository}"), detail })
    }
}

/// A tag that may stand in a URL.
fn checked(reference: &Reference) -> Result<&Reference, OciError> {
    match reference {
        Reference::Tag(tag) if !is_tag(tag) => Err(OciError::Invalid {
            text: printable(tag, 160),
            what: "tag",
            detail: "expected letters, digits, dots, dashes and underscores".into(),
        }),
        good => Ok(good),
    }
}
