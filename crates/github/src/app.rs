//! A GitHub App: the signed claim that it is itself.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use octocrab::jsonwebtoken::{self, Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use windlass_http_client::printable;

use crate::{Access, ErrorKind, Permissions, TokenRequest};

/// An installation of a GitHub App, and the App's key.
#[derive(Clone)]
pub struct App {
    id: String,
    installation: u64,
    key: EncodingKey,
    request: TokenRequest,
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
    #[error("the private key is no RSA key in PEM form: {detail}")]
    Key {
        /// What is wrong with it; no part of the key.
        detail: String,
    },
}

impl App {
    /// The App with this ID (or client ID) and RSA key (PEM, PKCS#1 or PKCS#8; line ends may be written as `\n`; or base64
    /// of the PEM), as it is installed under this ID. The tokens of its installation read contents, and no more, unless
    /// [`requesting`](Self::requesting) says otherwise: whoever finds one can do no more.
    pub fn new(id: &str, installation: &str, key: &SecretString) -> Result<Self, AppError> {
        let id = id.trim();
        if id.is_empty() || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.') {
            return Err(AppError::Id { id: printable(id, 50) });
        }
        let installation = installation
            .trim()
            .parse()
            .map_err(|_| AppError::Installation { id: printable(installation, 50) })?;
        let pem = pem_of(key);
        let key = EncodingKey::from_rsa_pem(pem.expose_secret().as_bytes())
            .map_err(|error| AppError::Key { detail: error.to_string() })?;
        let request = TokenRequest {
            permissions: Permissions::new([("contents", Access::Read)]),
            repositories: Vec::new(),
        };
        Ok(Self { id: id.to_owned(), installation, key, request })
    }

    /// The App itself, of whose installations none is known yet: to ask for
    /// [`Apps::installation_of`](crate::Apps::installation_of), and for nothing else.
    pub fn of_no_installation(id: &str, key: &SecretString) -> Result<Self, AppError> {
        Self::new(id, "0", key)
    }

    /// The same, with tokens for what `request` says.
    #[must_use]
    pub fn requesting(self, request: TokenRequest) -> Self {
        Self { request, ..self }
    }

    /// The installation's ID.
    pub(crate) fn installation(&self) -> u64 {
        self.installation
    }

    /// What tokens of the installation are for.
    pub(crate) fn request(&self) -> &TokenRequest {
        &self.request
    }

    /// The claim to be the App, good for nine minutes from `now` on. It begins a minute earlier: GitHub refuses a
    /// claim from the future, and clocks differ.
    ///
    /// Signed here and not by octocrab, which takes numbers for IDs only: GitHub recommends the client ID.
    pub(crate) fn claim(&self, now: Timestamp) -> Result<SecretString, ErrorKind> {
        let now = now.as_second();
        let claims = Claims { iat: now - 60, exp: now + 540, iss: &self.id };
        let signed = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key);
        signed.map(SecretString::from).map_err(|error| ErrorKind::Sign(error.to_string()))
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

/// The PEM, as it is or out of base64.
fn pem_of(key: &SecretString) -> SecretString {
    let text = key.expose_secret().trim();
    let packed: String = text.split_ascii_whitespace().collect();
    let unpacked = STANDARD.decode(packed).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let pem = unpacked.as_deref().map_or(text, str::trim);
    SecretString::from(pem.replace("\\n", "\n"))
}

#[derive(Serialize)]
struct Claims<'a> {
    iat: i64,
    exp: i64,
    iss: &'a str,
}
