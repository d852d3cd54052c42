//! A GitHub App: the signed claim that it is itself, and the tokens of its installation.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::GithubError;

/// How long before its end a token is replaced. They live an hour.
const MARGIN: Duration = Duration::from_mins(5);
/// How long a refusal of the App is believed before GitHub is asked again.
const REFUSED: Duration = Duration::from_mins(1);

/// An installation of a GitHub App, and the App's key.
#[derive(Clone)]
pub struct App {
    id: String,
    installation: u64,
    key: EncodingKey,
}

/// An App cannot be made of what was given.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// No ID.
    #[error("{id:?} is neither an App's ID nor its client ID")]
    Id {
        /// What was given.
        id: String,
    },
    /// No installation.
    #[error("{id:?} is no installation's ID: it is a number")]
    Installation {
        /// What was given.
        id: String,
    },
    /// No private key.
    #[error("the private key is no RSA key in PEM form")]
    Key {
        /// What is wrong with it.
        #[source]
        source: jsonwebtoken::errors::Error,
    },
}

impl App {
    /// The App with this ID (or client ID) and RSA key (PEM, PKCS#1 or PKCS#8; line ends may be written as `\n`), as it
    /// is installed under this ID.
    pub fn new(id: &str, installation: &str, key: &SecretString) -> Result<Self, AppError> {
        let id = id.trim();
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.') {
            return Err(AppError::Id { id: windlass_http_client::printable(id, 50) });
        }
        let installation = installation
            .trim()
            .parse()
            .map_err(|_| AppError::Installation { id: windlass_http_client::printable(installation, 50) })?;
        let pem = SecretString::from(key.expose_secret().trim().replace("\\n", "\n"));
        let key = EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes())
            .map_err(|source| AppError::Key { source })?;
        Ok(Self { id: id.to_owned(), installation, key })
    }

    /// The installation's ID.
    pub(crate) fn installation(&self) -> u64 {
        self.installation
    }

    /// The claim to be the App, good for nine minutes from `now` on. It begins a minute earlier: GitHub refuses a
    /// claim from the future, and clocks differ.
    pub(crate) fn claim(&self, now: Timestamp) -> Result<SecretString, GithubError> {
        let now = now.as_second();
        let claims = Claims { iat: now - 60, exp: now + 540, iss: &self.id };
        let signed = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        signed.map(SecretString::from).map_err(|error| GithubError::SetUp {
            action: "sign the claim of the GitHub App",
            detail: error.to_string(),
        })
    }
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("id", &self.id)
            .field("installation", &self.installation)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    iat: i64,
    exp: i64,
    iss: &'a str,
}

/// GitHub's answer to the wish for a token.
#[derive(Deserialize)]
pub(crate) struct Minted {
    #[serde(deserialize_with = "secret")]
    token: SecretString,
    expires_at: Timestamp,
}

fn secret<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}

/// The token of an installation, replaced before it ends.
pub(crate) struct InstallationToken {
    pub(crate) app: App,
    state: Mutex<State>,
}

enum State {
    None,
    Token { token: SecretString, renew: Instant },
    Refused { error: GithubError, until: Instant },
}

impl InstallationToken {
    pub(crate) fn new(app: App) -> Self {
        Self { app, state: Mutex::new(State::None) }
    }

    /// The token; `mint` is called when there is none that is good for a while, once for all who wait. It answers
    /// what GitHub answered, and GitHub's time.
    pub(crate) async fn current<F>(&self, mint: impl FnOnce() -> F) -> Result<SecretString, GithubError>
    where
        F: Future<Output = Result<(Minted, Option<Timestamp>), GithubError>>,
    {
        let mut state = self.state.lock().await;
        match &*state {
            State::Token { token, renew } if Instant::now() < *renew => return Ok(token.clone()),
            State::Refused { error, until } if Instant::now() < *until => return Err(error.clone()),
            _ => {}
        }
        match mint().await {
            Ok((minted, now)) => {
                // By GitHub's own clock where it tells: ours may be wrong by more than a token lives.
                let left = minted.expires_at.duration_since(now.unwrap_or_else(Timestamp::now));
                let left = Duration::try_from(left).unwrap_or_default();
                let renew = Instant::now() + left.saturating_sub(MARGIN.min(left / 2));
                *state = State::Token { token: minted.token.clone(), renew };
                Ok(minted.token)
            }
            Err(error) => {
                if !error.is_transient() {
                    let until = Instant::now() + REFUSED;
                    *state = State::Refused { error: error.clone(), until };
                }
                Err(error)
            }
        }
    }

    /// GitHub refused `token`: it is not used again.
    pub(crate) async fn forget(&self, token: &SecretString) {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Token { token: held, .. } if held.expose_secret() == token.expose_secret())
        {
            *state = State::None;
        }
    }
}
