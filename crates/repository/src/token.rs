//! Where tokens come from, and the Secret that a repository's own is read from.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};
use windlass_api::Repository;
use windlass_api::conditions::reasons;
use windlass_api::secret_use::{self, SecretRefusal};

/// The key of a `Secret` that holds a repository's access token.
pub const TOKEN_KEY: &str = "token";
/// The key of a `Secret` that holds what a repository's webhook signs deliveries with.
pub const WEBHOOK_SECRET_KEY: &str = "webhookSecret";
/// The key beside it that holds what was used before, while the secret is being changed.
pub const PREVIOUS_WEBHOOK_SECRET_KEY: &str = "previousWebhookSecret";

/// How long reading a Secret may take.
const SECRET_DEADLINE: Duration = Duration::from_secs(10);

/// A token, and who it stands for.
#[derive(Clone, Debug)]
pub struct Token {
    /// What is sent.
    pub value: SecretString,
    /// When it ends; nothing for one that does not say.
    pub expires: Option<Timestamp>,
    /// Who it stands for: the same for every token that this one is renewed by, and different for others. What was
    /// fetched with one token serves the next of the same identity. Nothing for one that is known by its value alone.
    pub cache_identity: Option<String>,
}

/// Something that tokens come from.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// A token that can be used now; nothing when the repository is read without one.
    async fn token(&self) -> Result<Option<Token>, TokenError>;
}

/// The token that a repository's `secure.token` refers to, or that a repository which is not stored brings along.
pub struct SecretToken<'a> {
    core: &'a Client,
    repository: &'a Repository,
}

impl<'a> SecretToken<'a> {
    /// The token of `repository`, its Secret read through `core`.
    pub fn new(core: &'a Client, repository: &'a Repository) -> Self {
        Self { core, repository }
    }

    /// The value of the Secret, if the repository may use it.
    async fn read(&self, name: &str) -> Result<Token, TokenError> {
        let mut found = of_repository(self.core, self.repository, name).await?;
        let identity = found.metadata.uid.take();
        let value =
            text_of(&mut found, TOKEN_KEY).ok_or_else(|| TokenError::NoToken { secret: name.to_owned() })?;
        Ok(Token { value, expires: None, cache_identity: identity })
    }
}

/// What deliveries of a repository's webhook may be signed with: the secret that `secure.webhookSecret` names and, while
/// it is being changed, the one before.
pub struct WebhookSecrets(Vec<SecretString>);

impl WebhookSecrets {
    /// Reads them from their Secret.
    pub async fn read(core: &Client, repository: &Repository) -> Result<Self, TokenError> {
        let name = repository.secure.webhook_secret.name.as_str();
        let mut found = of_repository(core, repository, name).await?;
        let keys = [WEBHOOK_SECRET_KEY, PREVIOUS_WEBHOOK_SECRET_KEY];
        let secrets: Vec<SecretString> = keys.iter().filter_map(|key| text_of(&mut found, key)).collect();
        let usable = |secret: &SecretString| !secret.expose_secret().is_empty();
        if secrets.iter().any(usable) {
            Ok(Self(secrets.into_iter().filter(usable).collect()))
        } else {
            Err(TokenError::NoWebhookSecret { secret: name.to_owned() })
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &SecretString> {
        self.0.iter()
    }
}

/// The Secret, if the repository may use it.
async fn of_repository(core: &Client, repository: &Repository, name: &str) -> Result<Secret, TokenError> {
    let namespace = repository.metadata.namespace.as_deref().unwrap_or("default");
    let may = |meta: &ObjectMeta, kind: Option<&str>| secret_use::check(meta, kind, repository);
    read_secret(core, (namespace, name), may).await
}

/// The Secret of a namespace, if `may` lets it be used: this check is the one that counts where the API server has no
/// admission of ours.
pub(crate) async fn read_secret(
    core: &Client,
    (namespace, name): (&str, &str),
    may: impl Fn(&ObjectMeta, Option<&str>) -> Result<(), SecretRefusal>,
) -> Result<Secret, TokenError> {
    let secret = || name.to_owned();
    // A name goes into the path of a request: one with a slash would lead to another namespace.
    if !secret_use::is_secret_name(name) {
        return Err(TokenError::Name { secret: secret() });
    }
    let secrets: Api<Secret> = Api::namespaced(core.clone(), namespace);
    let found = tokio::time::timeout(SECRET_DEADLINE, secrets.get_opt(name))
        .await
        .map_err(|_elapsed| TokenError::Timeout { secret: secret() })?
        .map_err(|source| TokenError::Read { secret: secret(), source: Box::new(source) })?
        .ok_or_else(|| TokenError::Missing { secret: secret() })?;
    may(&found.metadata, found.type_.as_deref())
        .map_err(|refusal| TokenError::Refused { secret: secret(), refusal })?;
    Ok(found)
}

pub(crate) fn text_of(secret: &mut Secret, key: &str) -> Option<SecretString> {
    let value = secret.data.as_mut()?.remove(key)?;
    String::from_utf8(value.0).ok().map(SecretString::from)
}

#[async_trait]
impl TokenSource for SecretToken<'_> {
    async fn token(&self) -> Result<Option<Token>, TokenError> {
        let field = &self.repository.secure.token;
        let token = match (&field.create, field.name.as_str()) {
            (Some(value), _) => Token { value: value.clone(), expires: None, cache_identity: None },
            (None, "") => return Ok(None),
            (None, name) => self.read(name).await?,
        };
        Ok(Some(token).filter(|token| !token.value.expose_secret().is_empty()))
    }
}

/// Why a repository's token could not be had.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// `secure.token.name` is no name that a Secret can have.
    #[error("{secret:?} in secure.token.name is no name of a Secret; correct it")]
    Name {
        /// What stands there.
        secret: String,
    },
    /// `secure.token.name` names a Secret that is not there.
    #[error("secret {secret:?} named by secure.token.name was not found; create it, or set a new token")]
    Missing {
        /// The Secret's name.
        secret: String,
    },
    /// The Secret is another's.
    #[error("secret {secret:?} named by secure.token.name may not be used: {refusal}")]
    Refused {
        /// The Secret's name.
        secret: String,
        /// Why, and what to do.
        refusal: SecretRefusal,
    },
    /// The Secret has no usable value under [`TOKEN_KEY`].
    #[error("secret {secret:?} has no text under the key \"token\"; add one")]
    NoToken {
        /// The Secret's name.
        secret: String,
    },
    /// The Secret has no usable value under [`WEBHOOK_SECRET_KEY`].
    #[error("secret {secret:?} has no text under the key \"webhookSecret\"; add one")]
    NoWebhookSecret {
        /// The Secret's name.
        secret: String,
    },
    /// The API did not give the Secret.
    #[error("failed to read secret {secret:?}")]
    Read {
        /// The Secret's name.
        secret: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API took too long to give the Secret.
    #[error("failed to read secret {secret:?} within {SECRET_DEADLINE:?}")]
    Timeout {
        /// The Secret's name.
        secret: String,
    },
}

impl TokenError {
    /// The condition reason for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name { .. } => reasons::INVALID_SPEC,
            Self::Missing { .. }
            | Self::NoToken { .. }
            | Self::NoWebhookSecret { .. }
            | Self::Refused { .. } => reasons::AUTHENTICATION_FAILED,
            Self::Read { .. } | Self::Timeout { .. } => reasons::SERVICE_UNAVAILABLE,
        }
    }

    /// The HTTP status that a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::Name { .. } => 422,
            Self::Missing { .. } | Self::NoToken { .. } | Self::NoWebhookSecret { .. } => 401,
            Self::Refused { .. } => 403,
            Self::Read { .. } | Self::Timeout { .. } => 503,
        }
    }
}
