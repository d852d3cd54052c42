//! The token of an installation: minted once for all who need it, replaced before it ends.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use octocrab::models::apps::CreateInstallationAccessToken;
use octocrab::{FromResponse as _, Octocrab};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::sync::Mutex;
use tokio::time::Instant;
use windlass_http_client::server_time;

use super::transport::Transport;
use crate::{ErrorKind, GithubError, InstallationToken, Permissions, TokenRequest};

/// How long before its end a token is replaced. They live an hour.
const MARGIN: Duration = Duration::from_mins(5);
/// How long a refusal of the App is believed before GitHub is asked again.
const REFUSED: Duration = Duration::from_mins(1);

/// GitHub's answer, as far as it is used.
#[derive(Deserialize)]
struct Minted {
    #[serde(deserialize_with = "secret")]
    token: SecretString,
    expires_at: Timestamp,
    #[serde(default)]
    permissions: Permissions,
}

fn secret<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}

/// Mints a token of `installation` through `app`, octocrab as the App.
///
/// Not octocrab's `installation_and_token`: it asks for all permissions, and two at once mint two.
pub(crate) async fn mint(
    app: &Octocrab,
    transport: &Transport,
    installation: u64,
    request: &TokenRequest,
) -> Result<InstallationToken, GithubError> {
    let action = format!("get a token of the App's installation {installation}");
    let failed = |error| transport.of_octocrab(error).during(&action);
    let body = CreateInstallationAccessToken {
        repositories: (!request.repositories.is_empty()).then(|| request.repositories.clone()),
        repository_ids: None,
        permissions: Some(request.permissions.to_wire()).filter(|permissions| !permissions.is_empty()),
    };
    let route = format!("/app/installations/{installation}/access_tokens");
    let response = app._post(route, Some(&body)).await.map_err(failed)?;
    // By GitHub's own clock where it tells: ours may be wrong by more than a token lives.
    let now = server_time(response.headers()).unwrap_or_else(Timestamp::now);
    // Not the deserializer's own message: it could quote the token.
    let minted = Minted::from_response(response)
        .await
        .map_err(|_| transport.error(ErrorKind::Malformed("it holds no token".to_owned())).during(&action))?;
    tracing::debug!(installation, "got a token of the App's installation");
    Ok(InstallationToken {
        token: minted.token,
        expires_at: minted.expires_at,
        lifetime: Duration::try_from(minted.expires_at.duration_since(now)).unwrap_or_default(),
        permissions: minted.permissions,
    })
}

/// The token of an installation.
pub(crate) struct InstallationTokens {
    app: Octocrab,
    transport: Arc<Transport>,
    installation: u64,
    request: TokenRequest,
    state: Mutex<State>,
}

enum State {
    None,
    Token { token: SecretString, renew: Instant },
    Refused { error: GithubError, until: Instant },
}

impl InstallationTokens {
    /// Those of `installation`, minted with `request` through `app`, octocrab as the App.
    pub(crate) fn new(
        app: Octocrab,
        transport: Arc<Transport>,
        installation: u64,
        request: TokenRequest,
    ) -> Self {
        Self { app, transport, installation, request, state: Mutex::new(State::None) }
    }

    /// A token that is good for a while, the same for all who need one.
    pub(crate) async fn current(&self) -> Result<SecretString, GithubError> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Token { token, renew } if Instant::now() < *renew => return Ok(token.clone()),
            State::Refused { error, until } if Instant::now() < *until => return Err(error.clone()),
            _ => {}
        }
        match mint(&self.app, &self.transport, self.installation, &self.request).await {
            Ok(InstallationToken { token, lifetime, .. }) => {
                let renew = Instant::now() + lifetime.saturating_sub(MARGIN.min(lifetime / 2));
                *state = State::Token { token: token.clone(), renew };
                Ok(token)
            }
            Err(error) => {
                if !error.is_transient() {
                    *state = State::Refused { error: error.clone(), until: Instant::now() + REFUSED };
                }
                Err(error)
            }
        }
    }

    /// GitHub refused `token`: it is not used again.
    pub(crate) async fn forget(&self, token: &SecretString) {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Token { token: kept, .. } if kept.expose_secret() == token.expose_secret())
        {
            *state = State::None;
        }
    }
}
