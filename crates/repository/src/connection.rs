//! GitHub Apps of connections: which App, where, and the Secret that its key is read from.

use kube::Client;
use secrecy::SecretString;
use url::Url;
use windlass_api::conditions::reasons;
use windlass_api::{Connection, ConnectionType, secret_use};
use windlass_github::AppError;

use crate::token::{read_secret, text_of};
use crate::{GithubOpenError, TokenError};

/// The key of a `Secret` that holds the private key of a connection's App.
pub const PRIVATE_KEY_KEY: &str = "privateKey";

/// Why a connection's App cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionOpenError {
    /// It is of a type that nobody here knows how to use.
    #[error(
        "connections of type \"{}\" are not supported yet; use \"github\" or \"githubEnterprise\", or give each \
         repository a token",
        kind.as_str()
    )]
    Unsupported {
        /// The type.
        kind: ConnectionType,
    },
    /// The settings of its type are missing.
    #[error("{field} is missing; give the App's appID and installationID there")]
    NoSettings {
        /// The field.
        field: &'static str,
    },
    /// The server's URL is none.
    #[error("spec.githubEnterprise.serverUrl is no URL of a server; write https://HOST")]
    Server,
    /// There is no key.
    #[error("the connection has no private key; set secure.privateKey")]
    NoKey,
    /// The key's Secret cannot be used.
    #[error("secret {secret:?} named by secure.privateKey.name {why}")]
    KeySecret {
        /// The Secret's name.
        secret: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The key's Secret could not be read.
    #[error(transparent)]
    Read(TokenError),
    /// It is no App.
    #[error(transparent)]
    App(AppError),
    /// A repository is on another server than the connection's App.
    #[error("the repository is on another server than its connection's App; use a connection of that server")]
    OtherServer,
    /// The API cannot be asked.
    #[error(transparent)]
    Github(#[from] GithubOpenError),
}

impl ConnectionOpenError {
    /// The condition reason for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unsupported { .. }
            | Self::NoSettings { .. }
            | Self::Server
            | Self::OtherServer
            | Self::App(AppError::Id { .. } | AppError::Installation { .. }) => reasons::INVALID_SPEC,
            Self::NoKey | Self::KeySecret { .. } | Self::App(AppError::Key { .. }) => {
                reasons::AUTHENTICATION_FAILED
            }
            Self::Read(error) => error.reason(),
            Self::Github(error) => error.reason(),
        }
    }

    /// The connection's field that causes it; `spec.TYPE.…` for those of its type.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => "spec.type",
            Self::NoSettings { field } => field,
            Self::Server | Self::OtherServer | Self::Github(_) => "spec.githubEnterprise.serverUrl",
            Self::NoKey | Self::KeySecret { .. } | Self::Read(_) | Self::App(AppError::Key { .. }) => {
                "secure.privateKey"
            }
            Self::App(AppError::Id { .. }) => "spec.github.appID",
            Self::App(AppError::Installation { .. }) => "spec.github.installationID",
        }
    }
}

/// An App, as a connection names it.
pub(crate) struct Installed<'a> {
    pub(crate) app: &'a str,
    pub(crate) installation: &'a str,
    /// URL of the API.
    pub(crate) api: String,
}

impl<'a> Installed<'a> {
    /// The App of a connection. `public` is the URL of github.com's API.
    pub(crate) fn of(connection: &'a Connection, public: &str) -> Result<Self, ConnectionOpenError> {
        let spec = &connection.spec;
        match spec.kind {
            ConnectionType::Github => {
                let missing = ConnectionOpenError::NoSettings { field: "spec.github" };
                let settings = spec.github.as_ref().ok_or(missing)?;
                let api = public.to_owned();
                Ok(Self { app: &settings.app_id, installation: &settings.installation_id, api })
            }
            ConnectionType::GithubEnterprise => {
                let missing = ConnectionOpenError::NoSettings { field: "spec.githubEnterprise" };
                let settings = spec.github_enterprise.as_ref().ok_or(missing)?;
                let server = Url::parse(&settings.server_url).map_err(|_| ConnectionOpenError::Server)?;
                if !server.origin().is_tuple() {
                    return Err(ConnectionOpenError::Server);
                }
                let api = format!("{}/api/v3", settings.server_url.trim_end_matches('/'));
                Ok(Self { app: &settings.app_id, installation: &settings.installation_id, api })
            }
            kind => Err(ConnectionOpenError::Unsupported { kind }),
        }
    }
}

/// The private key that `secure.privateKey` refers to.
pub(crate) async fn private_key(
    core: &Client,
    connection: &Connection,
) -> Result<SecretString, ConnectionOpenError> {
    let name = connection.secure.private_key.name.as_str();
    if name.is_empty() {
        return Err(ConnectionOpenError::NoKey);
    }
    let namespace = connection.metadata.namespace.as_deref().unwrap_or("default");
    let unusable = |why: String| ConnectionOpenError::KeySecret { secret: name.to_owned(), why };
    let found = read_secret(core, namespace, (PRIVATE_KEY_KEY, name), |meta, kind| {
        secret_use::check_connection(meta, kind, connection)
    });
    let mut found = found.await.map_err(|error| match error {
        TokenError::Missing { .. } => unusable("was not found; create it".to_owned()),
        TokenError::Name { .. } => unusable("is no name of a Secret; correct it".to_owned()),
        TokenError::Refused { refusal, .. } => unusable(format!("may not be used: {refusal}")),
        error => ConnectionOpenError::Read(error),
    })?;
    text_of(&mut found, PRIVATE_KEY_KEY)
        .ok_or_else(|| unusable(format!("has no text under the key {PRIVATE_KEY_KEY:?}; add it")))
}
