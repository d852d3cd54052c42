//! The token exchange: what a registry is sent so that it answers, remembered for each repository and login.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use http::StatusCode;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::time::Instant;
use url::Url;
use url::form_urlencoded::Serializer;
use windlass_http_client::{Deadline, is_loopback, printable};

use crate::challenge::Challenge;
use crate::docker_config::{Credentials, basic};
use crate::http::{Connections, Http, Request, authority};
use crate::{OciError, Repository};

/// Repositories whose sessions are remembered.
const MAX_SESSIONS: usize = 16_384;
/// Bytes of a token service's answer.
const MAX_TOKEN: u64 = 64 << 10;
/// How long a token holds when its service does not say (the specification's).
const TOKEN_FRESH: Duration = Duration::from_mins(1);
/// How long before its end a token is used no more.
const TOKEN_MARGIN: Duration = Duration::from_secs(10);

/// Which session: a repository, and fingerprints of who asks and of what the connection trusts and shows.
pub(crate) type Key = (Repository, [u8; 32], Option<[u8; 32]>);

/// Sessions by repository and login.
#[derive(Default)]
pub(crate) struct Sessions {
    sessions: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Session>>>>,
}

/// What a repository's registry wants to see, and what it is shown.
#[derive(Default)]
pub(crate) struct Session {
    challenge: Option<Challenge>,
    header: Option<(HeaderValue, Option<Instant>)>,
    /// How often it was made anew: who waited for another's log-in sees that it was done.
    pub(crate) turn: u64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Sessions {
    pub(crate) fn of(&self, key: Key) -> Arc<tokio::sync::Mutex<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(&key) {
            sessions.clear();
        }
        Arc::clone(sessions.entry(key).or_default())
    }
}

impl Session {
    /// What to send, if that is known and still good.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let (header, until) = self.header.as_ref()?;
        until.is_none_or(|until| Instant::now() < until).then(|| header.clone())
    }

    /// Whether a token ran out, so that asking without one would be in vain.
    pub(crate) fn is_stale(&self) -> bool {
        self.challenge.is_some() && self.header().is_none()
    }

    /// The registry asks for this.
    pub(crate) fn challenged(&mut self, challenge: Challenge) {
        self.challenge = Some(challenge);
        self.forget();
    }

    /// What was sent is no good.
    pub(crate) fn forget(&mut self) {
        self.header = None;
        self.turn += 1;
    }

    /// Gets what the registry asked for: what to send now, however soon it runs out.
    pub(crate) async fn log_in(
        &mut self,
        http: &Http,
        repository: &Repository,
        credentials: &Credentials,
        (connections, deadline): (&Connections, Deadline),
    ) -> Result<HeaderValue, OciError> {
        let missing = || OciError::Unauthorized {
            host: repository.registry(),
            what: repository.to_string(),
            sent: false,
        };
        let (header, until) = match (self.challenge.as_ref().ok_or_else(missing)?, credentials) {
            (_, Credentials::RegistryToken(token)) => (bearer(token, repository)?, None),
            (Challenge::Basic, Credentials::Basic { user, password }) => {
                (sensitive(&basic(user, password), repository)?, None)
            }
            (Challenge::Basic, _) => return Err(missing()),
            (Challenge::Bearer { realm, service, scope }, credentials) => {
                let exchange =
                    TokenExchange { realm, service: service.as_deref(), scope: scope.as_deref(), repository };
                exchange.token(http, credentials, (connections, deadline)).await?
            }
        };
        self.header = Some((header.clone(), until));
        Ok(header)
    }
}

struct TokenExchange<'a> {
    realm: &'a str,
    service: Option<&'a str>,
    scope: Option<&'a str>,
    repository: &'a Repository,
}

#[derive(Deserialize)]
struct Grant {
    #[serde(default)]
    token: Option<SecretString>,
    #[serde(default)]
    access_token: Option<SecretString>,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl TokenExchange<'_> {
    async fn token(
        &self,
        http: &Http,
        credentials: &Credentials,
        (connections, deadline): (&Connections, Deadline),
    ) -> Result<(HeaderValue, Option<Instant>), OciError> {
        let mut realm = self.realm()?;
        let pull = format!("repository:{}:pull", self.repository.name());
        // A challenge may ask for more than a reader needs.
        let scope = self.scope.filter(|scope| scope.contains(self.repository.name())).unwrap_or(&pull);
        let (mut authorization, mut form) = (None, None);
        match credentials {
            Credentials::IdentityToken(token) => {
                let mut fields = Serializer::new(String::new());
                fields.append_pair("grant_type", "refresh_token").append_pair("client_id", "windlass");
                fields.append_pair("service", self.service.unwrap_or_default()).append_pair("scope", scope);
                form = Some(fields.append_pair("refresh_token", token.expose_secret()).finish());
            }
            other => {
                let mut query = realm.query_pairs_mut();
                query.append_pair("scope", scope);
                if let Some(service) = self.service {
                    query.append_pair("service", service);
                }
                if let Credentials::Basic { user, password } = other {
                    authorization = Some(sensitive(&basic(user, password), self.repository)?);
                }
            }
        }
        let sent = authorization.is_some() || form.is_some();
        let what = format!("a token for {}", self.repository);
        let asked = Instant::now();
        let authorization = authorization.as_ref();
        let repository = self.repository;
        let wanted = Request {
            what: &what,
            url: realm,
            accept: None,
            authorization,
            form,
            repository,
            connections,
            deadline,
        };
        let answer = http.send(wanted).await?.judged()?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            return Err(OciError::Unauthorized { host: answer.host(), what, sent });
        }
        let wrong = answer.malformed("there is no token in it");
        // Serde's words could quote the token.
        let grant: Grant =
            serde_json::from_slice(&answer.body(MAX_TOKEN).await?).map_err(|_| wrong_answer(&wrong))?;
        let fresh = grant.expires_in.map_or(TOKEN_FRESH, Duration::from_secs).min(Duration::from_hours(24));
        let margin = TOKEN_MARGIN.min(fresh / 2);
        let token = grant.token.or(grant.access_token).filter(|token| !token.expose_secret().is_empty());
        let header = bearer(&token.ok_or(wrong)?, self.repository)?;
        Ok((header, Some(asked + fresh.saturating_sub(margin))))
    }

    /// The token service's URL. Passwords go there, so it has TLS unless the registry itself has none.
    fn realm(&self) -> Result<Url, OciError> {
        let refuse = |detail: &str| OciError::Refused {
            url: printable(self.realm, 200),
            detail: format!("{} names it as its token service, and {detail}", self.repository.registry()),
        };
        let url = Url::parse(self.realm).map_err(|_| refuse("it is no URL"))?;
        let same_host = url.host_str() == self.repository.base().host_str();
        match url.scheme() {
            "https" => Ok(url),
            "http" if self.repository.is_insecure() && (same_host || is_loopback(&url)) => Ok(url),
            _ => Err(refuse(&format!("{} is not asked without TLS", authority(&url)))),
        }
    }
}

fn wrong_answer(like: &OciError) -> OciError {
    match like {
        OciError::Malformed { host, what, .. } => {
            crate::http::malformed(host, what, "it is not a token's JSON")
        }
        _ => OciError::SetUp { detail: "a token's answer".into() },
    }
}

fn bearer(token: &SecretString, repository: &Repository) -> Result<HeaderValue, OciError> {
    sensitive(&format!("Bearer {}", token.expose_secret()).into(), repository)
}

fn sensitive(text: &SecretString, repository: &Repository) -> Result<HeaderValue, OciError> {
    let mut value = HeaderValue::try_from(text.expose_secret()).map_err(|_| OciError::ReadCredentials {
        place: format!("the entry of {}", repository.registry()),
        detail: "they have characters that no header may have".into(),
    })?;
    value.set_sensitive(true);
    Ok(value)
}
