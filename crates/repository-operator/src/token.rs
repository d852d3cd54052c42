//! The token of a repository whose credentials come from a connection: one of the App's installation, for that repository
//! alone. Grafana: `controller/token_refresh.go`.
//!
//! It is kept in a Secret of ours, which goes with the repository and which `secure.token` names, so that everyone who
//! reads the repository finds it where tokens are. It is replaced long before it ends: whoever has read it keeps it for
//! as long as a job may take. One pass at a time works on a repository, so there is one new token at a time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use windlass_api::conditions::reasons;
use windlass_api::{Connection, Repository, TokenStatus};
use windlass_github::{Access, ErrorKind, InstallationToken, Permissions, TokenRequest};
use windlass_repository::TOKEN_KEY;
use windlass_runtime::{CallError, Part, merge_patch};

use crate::connections::{Asked, Failure, explain, needed};
use crate::controller::{CALL, Controller, name, namespace};
use crate::owned_secret::owned_secret;

/// How long before its end a token is replaced: longer than a job may take. Never more than half its life, or a new one
/// would be due for replacement itself.
const MARGIN: Duration = Duration::from_mins(25);
/// How long until it is tried again, where nobody says how long.
const AGAIN: Duration = Duration::from_mins(1);

/// Why there is no new token.
#[derive(Debug)]
pub(crate) struct NoToken {
    pub(crate) failure: Failure,
    /// How long until it is tried again.
    pub(crate) again: Duration,
}

/// A new token.
pub(crate) struct Renewed {
    /// The repository, which names the token's Secret now.
    pub(crate) repository: Repository,
    pub(crate) status: TokenStatus,
}

/// How long until a token is replaced.
pub(crate) fn renewed_in(status: &TokenStatus, now: Timestamp) -> Duration {
    let millis =
        |from: i64, to: i64| Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0));
    if status.expiration == 0 {
        return Duration::MAX;
    }
    let life = millis(status.last_updated, status.expiration);
    // A machine whose clock is far behind does not wait longer than the token lives.
    let left = millis(now.as_millisecond(), status.expiration).min(life);
    left.saturating_sub(MARGIN.min(life / 2))
}

/// Gets a new token, stores it, and has the repository name it. The inner error is a fact about the connection.
pub(crate) async fn renew(
    controller: &Controller,
    repository: &Repository,
) -> Result<Result<Renewed, NoToken>, CallError> {
    let minted = tokio::time::timeout(controller.check_deadline, mint(controller, repository)).await;
    let minted = minted.unwrap_or_else(|_elapsed| {
        let detail =
            format!("GitHub gave no token within {:?}; it is asked again", controller.check_deadline);
        Err(no_token(reasons::SERVICE_UNAVAILABLE, detail))
    });
    let token = match minted {
        Ok(token) => token,
        Err(failure) => return Ok(Err(failure)),
    };
    let now = controller.clock.now().as_millisecond();
    let life = i64::try_from(token.lifetime.as_millis()).unwrap_or(i64::MAX);
    // By this machine's clock, which is what it is compared with.
    let status = TokenStatus { last_updated: now, expiration: now.saturating_add(life) };
    keep(&controller.clients.core, repository, &token.token).await?;
    let mut current = repository.clone();
    if repository.secure.token.name != own_name(repository) {
        let patch = json!({"secure": {"token": {"name": own_name(repository)}}});
        let api = controller.repositories(repository);
        current = merge_patch(&api, repository, Part::Object, patch, CALL).await?;
    }
    tracing::debug!(repository = name(repository), "got a token by way of the connection");
    Ok(Ok(Renewed { repository: current, status }))
}

fn no_token(reason: &'static str, detail: String) -> NoToken {
    NoToken { failure: Failure::new(reason, "spec.connection.name", detail), again: AGAIN }
}

async fn mint(controller: &Controller, repository: &Repository) -> Result<InstallationToken, NoToken> {
    let connection_name = repository.spec.connection_name();
    let core = &controller.clients.core;
    let api: Api<Connection> =
        Api::namespaced(controller.clients.provisioning.clone(), namespace(repository));
    let read = CALL.read(format!("read connection {connection_name}"), || api.get_opt(connection_name)).await;
    let connection = read
        .map_err(|error| {
            no_token(reasons::SERVICE_UNAVAILABLE, windlass_telemetry::ErrorChain(&error).to_string())
        })?
        .ok_or_else(|| {
            let detail =
                format!("there is no connection {connection_name:?}; create it, or name another one");
            no_token(reasons::INVALID_SPEC, detail)
        })?;
    let of_connection = |failure: &Failure| {
        no_token(failure.reason, format!("connection {connection_name:?}: {}", failure.message()))
    };
    let opened = controller.opener.app_for(core, &connection, repository).await;
    let at_github = opened.map_err(|error| of_connection(&Failure::of_open(&error, &connection)))?;
    let apps = at_github.api.apps().ok_or_else(|| {
        no_token(reasons::INVALID_SPEC, format!("connection {connection_name:?} is no App's"))
    })?;
    let permissions = if repository.spec.workflows.is_empty() {
        Permissions::new([("contents", Access::Read), ("metadata", Access::Read)])
    } else {
        needed()
    };
    let request = TokenRequest { permissions, repositories: vec![at_github.name.name().to_owned()] };
    apps.token(&request).await.map_err(|error| match error.kind() {
        ErrorKind::Unprocessable(detail) => no_token(
            reasons::PERMISSION_DENIED,
            format!(
                "connection {connection_name:?}: its App gives no token for {} ({detail}); select the repository in the \
                 App's installation, and grant what the connection says is missing",
                at_github.name
            ),
        ),
        _ => {
            let again = error.retry_after().unwrap_or(AGAIN).max(AGAIN);
            NoToken { again, ..of_connection(&explain(&error, &connection, Asked::Token)) }
        }
    })
}

/// The name of the Secret that we make for a repository.
pub(crate) fn own_name(repository: &Repository) -> String {
    format!("token-{}", repository.metadata.uid.as_deref().unwrap_or_default())
}

async fn keep(core: &Client, repository: &Repository, token: &SecretString) -> Result<(), CallError> {
    let secrets: Api<Secret> = Api::namespaced(core.clone(), namespace(repository));
    let name_of = own_name(repository);
    let data =
        BTreeMap::from([(TOKEN_KEY.to_owned(), ByteString(token.expose_secret().as_bytes().to_vec()))]);
    if repository.secure.token.name == name_of {
        let found = CALL.read("read the token's secret".to_owned(), || secrets.get_opt(&name_of)).await?;
        if let Some(found) = found {
            return merge_patch(&secrets, &found, Part::Object, json!({"data": data}), CALL).await.map(drop);
        }
    }
    let secret = owned_secret(repository, name_of.clone(), data.clone());
    let params = PostParams::default();
    match CALL.write("store the token".to_owned(), || secrets.create(&params, &secret)).await {
        // An earlier pass ended before the repository named it.
        Err(error) if error.is_already_exists() => {
            let found = CALL.read("read the token's secret".to_owned(), || secrets.get(&name_of)).await?;
            merge_patch(&secrets, &found, Part::Object, json!({"data": data}), CALL).await.map(drop)
        }
        made => made.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_a_job_before_its_end_and_never_at_once() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let token =
            |minutes: i64| TokenStatus { last_updated: 60_000, expiration: 60_000 + minutes * 60_000 };
        let left = |life, now| renewed_in(&token(life), at(now)).as_secs() / 60;
        assert_eq!((left(60, 1), left(60, 30), left(60, 36), left(60, 100)), (35, 6, 0, 0));
        assert_eq!((left(10, 1), left(10, 6)), (5, 0), "half of a short life");
        assert_eq!(left(60, -600), 35, "a clock that is behind");
        let forever = TokenStatus { last_updated: 1, expiration: 0 };
        assert_eq!(renewed_in(&forever, at(1)), Duration::MAX);
    }
}
