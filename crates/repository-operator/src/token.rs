//! The token of a repository whose credentials come from a connection: one of the App's installation, for that repository
//! alone. Grafana: `controller/token_refresh.go`.
//!
//! It is kept in a Secret of ours, which goes with the repository and which `secure.token` names, so that everyone who
//! reads the repository finds it where tokens are. It is replaced long before it ends: whoever has read it keeps it for
//! as long as a job may take. One pass at a time works on a repository, so there is one new token at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use tokio::time::Instant;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{Connection, Repository, TokenStatus};
use windlass_github::{Access, ErrorKind, InstallationToken, Permissions, TokenRequest};
use windlass_provisioner::{Outcome, Reason};
use windlass_repository::TOKEN_KEY;
use windlass_runtime::{CallError, ObjectKey, Part, merge_patch};

use crate::applied::Applied;
use crate::bring_up::TokenWanted;
use crate::connections::{Asked, explain, needed};
use crate::controller::{CALL, Controller, namespace};
use crate::error::ReconcileError;
use crate::owned_secret::owned_secret;
use crate::timing::renewed_in;
use crate::unhealthy::{Failure, be_unhealthy};

/// How long until it is tried again, where nobody says how long.
const AGAIN: Duration = Duration::from_mins(1);

/// The shortest life of a token that is believed. GitHub's live an hour: one that seems to have ended when it comes was judged by a wrong clock.
const SHORTEST_LIFE: i64 = 5_000;

/// Why there is no new token.
#[derive(Debug)]
struct NoToken {
    failure: Failure,
    /// How long until it is tried again.
    again: Duration,
}

/// Gets a new token, stores it, and has the repository name it. Without one that is good the pass waits: there is nothing
/// to ask the source with.
pub(crate) async fn provision(
    controller: &Controller,
    key: &ObjectKey,
    applied: &mut Applied,
    why: TokenWanted,
) -> Result<Outcome, ReconcileError> {
    tracing::debug!(repository = %key, %why, "getting a token");
    controller.metrics.token_wanted(why);
    let (began, repository) = (Instant::now(), Arc::clone(&applied.current));
    let minted = tokio::time::timeout(controller.check_deadline, mint(controller, &repository)).await;
    let minted = minted.unwrap_or_else(|_elapsed| {
        let detail =
            format!("GitHub gave no token within {:?}; it is asked again", controller.check_deadline);
        Err(no_token(reasons::SERVICE_UNAVAILABLE, detail))
    });
    let token = match minted {
        Ok(token) => token,
        Err(failed) => {
            controller.metrics.token(Some(failed.failure.reason), began.elapsed());
            return Ok(do_without(controller, key, applied, failed));
        }
    };
    let asked = controller.clock.now().as_millisecond();
    let life = i64::try_from(token.lifetime.as_millis()).unwrap_or(i64::MAX);
    // By this machine's clock, which is what it is compared with.
    let status = TokenStatus { last_updated: asked, expiration: asked.saturating_add(life) };
    let current = keep(controller, &repository, &token.token).await.map_err(ReconcileError::Call)?;
    controller.metrics.token(None, began.elapsed());
    tracing::debug!(repository = %key, "got a token by way of the connection");
    let (now, generation) = (controller.clock.now(), current.metadata.generation);
    let again = replaced_in(&status, now);
    controller.memory.token_asked(key, &current, again, false);
    let until = Timestamp::from_millisecond(status.expiration).unwrap_or(Timestamp::MAX);
    let message = format!("Token valid until {}", until.round(jiff::Unit::Second).unwrap_or(until));
    let said = conditions::new(types::TOKEN, true, reasons::TOKEN_VALID, message, generation, now);
    conditions::set(&mut applied.wanted.conditions, said);
    applied.wanted.token = Some(status);
    applied.look_again(again);
    if generation != repository.metadata.generation {
        return Ok(applied.begin_anew(current));
    }
    applied.current = Arc::new(current);
    Ok(Outcome::Ready)
}

/// How long until a token that was given just now is replaced: never at once because a clock is wrong.
fn replaced_in(status: &TokenStatus, now: Timestamp) -> Duration {
    let is_believed = status.expiration.saturating_sub(status.last_updated) >= SHORTEST_LIFE;
    if is_believed { renewed_in(status, now) } else { AGAIN }
}

/// Says that there is no new token: the one before is used for as long as it is good.
fn do_without(controller: &Controller, key: &ObjectKey, applied: &mut Applied, failed: NoToken) -> Outcome {
    let (NoToken { failure, again }, repository) = (failed, &applied.current);
    let (now, generation) = (controller.clock.now(), repository.metadata.generation);
    controller.memory.token_asked(key, repository, again, true);
    let status = &mut applied.wanted;
    let token = status.token.as_ref().filter(|_| repository.secure.token.is_set());
    let ends = token.map(|token| token.expiration);
    let has_ended = ends.is_some_and(|ends| ends != 0 && ends <= now.as_millisecond());
    let reason = if has_ended { reasons::TOKEN_EXPIRED } else { reasons::TOKEN_INVALID };
    let said = conditions::new(types::TOKEN, false, reason, failure.message(), generation, now);
    conditions::set(&mut status.conditions, said);
    let is_good = ends.is_some() && !has_ended;
    if !is_good {
        be_unhealthy(status, failure, generation, now);
        status.observed_generation = generation.unwrap_or_default();
    }
    applied.look_again(again);
    if is_good {
        return Outcome::Ready;
    }
    Outcome::wait(Reason::DependencyNotReady, "there is no token").after(again)
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

/// Stores the token, and answers the repository, which names it.
async fn keep(
    controller: &Controller,
    repository: &Repository,
    token: &SecretString,
) -> Result<Repository, CallError> {
    let secrets: Api<Secret> = Api::namespaced(controller.clients.core.clone(), namespace(repository));
    let own = own_name(repository);
    let data =
        BTreeMap::from([(TOKEN_KEY.to_owned(), ByteString(token.expose_secret().as_bytes().to_vec()))]);
    let secret = owned_secret(repository, own.clone(), data.clone());
    let params = PostParams::default();
    let mut found = None;
    if repository.secure.token.name == own {
        found = CALL.read("read the token's secret".to_owned(), || secrets.get_opt(&own)).await?;
    }
    if found.is_none() {
        match CALL.write("store the token".to_owned(), || secrets.create(&params, &secret)).await {
            // An earlier pass ended before the repository named it.
            Err(error) if error.is_already_exists() => {
                found = Some(CALL.read("read the token's secret".to_owned(), || secrets.get(&own)).await?);
            }
            made => drop(made?),
        }
    }
    if let Some(found) = found {
        merge_patch(&secrets, &found, Part::Object, json!({"data": data}), CALL).await?;
    }
    if repository.secure.token.name == own {
        return Ok(repository.clone());
    }
    let patch = json!({"secure": {"token": {"name": own}}});
    merge_patch(&controller.repositories(repository), repository, Part::Object, patch, CALL).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_seems_to_have_ended_when_it_comes_is_not_replaced_at_once() {
        let at = |millis: i64| Timestamp::from_millisecond(millis).unwrap();
        let left = |life: i64| {
            replaced_in(&TokenStatus { last_updated: 60_000, expiration: 60_000 + life }, at(60_000))
        };
        assert_eq!((left(0), left(4_999)), (AGAIN, AGAIN));
        assert_eq!(left(6_000), Duration::from_secs(3));
        assert_eq!(left(3_600_000), Duration::from_mins(35));
    }
}
