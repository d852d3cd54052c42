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
use windlass_runtime::{CallError, CallOptions, Retry};

/// The key of a `Secret` that holds a repository's access token.
pub const TOKEN_KEY: &str = "token";
/// The key of a `Secret` that holds what a repository's webhook signs deliveries with.
pub const WEBHOOK_SECRET_KEY: &str = "webhookSecret";
/// The key beside it that holds what was used before, while the secret is being changed.
pub const PREVIOUS_WEBHOOK_SECRET_KEY: &str = "previousWebhookSecret";

/// The key of a `Secret` that holds what a repository's commits are signed with.
pub const SIGNING_KEY_KEY: &str = "commitSigningKey";

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
        let mut found = of_repository(self.core, self.repository, ("token", name)).await?;
        let identity = found.metadata.uid.take();
        let value =
            text_of(&mut found, TOKEN_KEY).ok_or_else(|| TokenError::NoToken { secret: name.to_owned() })?;
        Ok(Token { value, expires: None, cache_identity: identity })
    }
}

/// What deliveries of a repository's webhook may be signed with: the secret that `secure.webhookSecret` names and, while
/// it is being changed, the one before.
pub struct WebhookSecrets {
    values: Vec<SecretString>,
    metadata: ObjectMeta,
}

impl WebhookSecrets {
    /// Reads them from their Secret.
    pub async fn read(core: &Client, repository: &Repository) -> Result<Self, TokenError> {
        let name = repository.secure.webhook_secret.name.as_str();
        let mut found = of_repository(core, repository, ("webhookSecret", name)).await?;
        let keys = [WEBHOOK_SECRET_KEY, PREVIOUS_WEBHOOK_SECRET_KEY];
        let secrets: Vec<SecretString> = keys.iter().filter_map(|key| text_of(&mut found, key)).collect();
        let usable = |secret: &SecretString| !secret.expose_secret().is_empty();
        if secrets.iter().any(usable) {
            Ok(Self { values: secrets.into_iter().filter(usable).collect(), metadata: found.metadata })
        } else {
            Err(TokenError::NoWebhookSecret { secret: name.to_owned() })
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &SecretString> {
        self.values.iter()
    }

    /// Of the Secret that they are in.
    pub fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// The private key that `secure.commitSigningKey` refers to; nothing if it refers to none.
pub(crate) async fn signing_key(
    core: &Client,
    repository: &Repository,
) -> Result<Option<SecretString>, TokenError> {
    let field = &repository.secure.commit_signing_key;
    match (&field.create, field.name.as_str()) {
        (Some(value), _) => Ok(Some(value.clone())),
        (None, "") => Ok(None),
        (None, name) => {
            let mut found = of_repository(core, repository, (SIGNING_KEY_KEY, name)).await?;
            let missing = || TokenError::NoSigningKey { secret: name.to_owned() };
            text_of(&mut found, SIGNING_KEY_KEY).map(Some).ok_or_else(missing)
        }
    }
}

/// The Secret that a field of `secure` names, if the repository may use it.
async fn of_repository(
    core: &Client,
    repository: &Repository,
    (field, name): (&'static str, &str),
) -> Result<Secret, TokenError> {
    let namespace = repository.metadata.namespace.as_deref().unwrap_or("default");
    let may = |meta: &ObjectMeta, kind: Option<&str>| secret_use::check(meta, kind, repository);
    read_secret(core, namespace, (field, name), may).await
}

/// The Secret of a namespace, if `may` lets it be used: this check is the one that counts where the API server has no
/// admission of ours.
pub(crate) async fn read_secret(
    core: &Client,
    namespace: &str,
    (field, name): (&'static str, &str),
    may: impl Fn(&ObjectMeta, Option<&str>) -> Result<(), SecretRefusal>,
) -> Result<Secret, TokenError> {
    let secret = || name.to_owned();
    // A name goes into the path of a request: one with a slash would lead to another namespace.
    if !windlass_api::is_secret_name(name) {
        return Err(TokenError::Name { field, secret: secret() });
    }
    let secrets: Api<Secret> = Api::namespaced(core.clone(), namespace);
    // An API server that is started again meanwhile costs a moment, not the job.
    let call = CallOptions::new(SECRET_DEADLINE).retried(Retry::RESTART);
    let asked = call.read(format!("read secret {name:?}"), || secrets.get_opt(name));
    let found = tokio::time::timeout(SECRET_DEADLINE, asked)
        .await
        .map_err(|_elapsed| TokenError::Timeout { secret: secret() })?
        .map_err(|error| TokenError::Read(Box::new(error)))?
        .ok_or_else(|| TokenError::Missing { field, secret: secret() })?;
    may(&found.metadata, found.type_.as_deref()).map_err(|refusal| TokenError::Refused {
        field,
        secret: secret(),
        refusal,
    })?;
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

/// Why a repository's token, or another of its secrets, could not be had.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// `secure.token.name` is no name that a Secret can have.
    #[error("{secret:?} in secure.{field}.name is no name of a Secret; correct it")]
    Name {
        /// The field of `secure` that names it.
        field: &'static str,
        /// What stands there.
        secret: String,
    },
    /// `secure.token.name` names a Secret that is not there.
    #[error("secret {secret:?} named by secure.{field}.name was not found; create it, or set a new value")]
    Missing {
        /// The field of `secure` that names it.
        field: &'static str,
        /// The Secret's name.
        secret: String,
    },
    /// The Secret is another's.
    #[error("secret {secret:?} named by secure.{field}.name may not be used: {refusal}")]
    Refused {
        /// The field of `secure` that names it.
        field: &'static str,
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
    /// The Secret has no usable value under [`SIGNING_KEY_KEY`].
    #[error("secret {secret:?} has no text under the key \"commitSigningKey\"; add one")]
    NoSigningKey {
        /// The Secret's name.
        secret: String,
    },
    /// The API did not give the Secret.
    #[error(transparent)]
    Read(Box<CallError>),
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
            | Self::NoSigningKey { .. }
            | Self::Refused { .. } => reasons::AUTHENTICATION_FAILED,
            Self::Read(_) | Self::Timeout { .. } => reasons::SERVICE_UNAVAILABLE,
        }
    }

    /// The HTTP status that a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::Name { .. } => 422,
            Self::Missing { .. }
            | Self::NoToken { .. }
            | Self::NoWebhookSecret { .. }
            | Self::NoSigningKey { .. } => 401,
            Self::Refused { .. } => 403,
            Self::Read(_) | Self::Timeout { .. } => 503,
        }
    }
}
