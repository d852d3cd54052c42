//! One pass over one connection.

use std::time::Duration;

use kube::Api;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_api::{Connection, ConnectionStatus, finalizers};
use windlass_auth::ApiClients;
use windlass_runtime::{
    CallError, Disposition, ObjectKey, Part, Requeue, add_finalizers, merge_patch, remove_finalizer,
};
use windlass_telemetry::ErrorChain;

use super::check::{check, ids};
use super::lead::{Connections, referred_to};
use crate::controller::CALL;
use crate::timing::health_lasts;
use crate::unhealthy::{Failure, healthy, unhealthy};

/// How long until a connection is looked at again that a call was refused for, and would be again.
const REFUSED: Duration = Duration::from_mins(5);

/// Brings one connection forward and says when to look at it again. Failures are logged here, once.
pub(super) async fn reconcile(of: &Connections, clients: &ApiClients, key: &ObjectKey) -> Requeue {
    match pass(of, clients, key).await {
        Ok(requeue) => requeue,
        Err(error) if error.is_conflict() || error.is_not_found() || error.is_fenced() => Requeue::Backoff,
        Err(error) => {
            tracing::warn!(connection = %key, error = %ErrorChain(&error), "reconcile failed");
            match error.disposition() {
                Disposition::AwaitChange => Requeue::After(REFUSED),
                Disposition::Retry | Disposition::Fatal => Requeue::Backoff,
            }
        }
    }
}

async fn pass(of: &Connections, clients: &ApiClients, key: &ObjectKey) -> Result<Requeue, CallError> {
    let Some(connection) = of.store.get(key) else { return Ok(Requeue::No) };
    // Until all repositories are known, nobody knows that none refers to it: their coming brings it again.
    if !of.repositories.is_synced() {
        return Ok(Requeue::No);
    }
    let repositories = of.repositories.list_in(&key.namespace);
    let is_referred_to = repositories.iter().any(|it| referred_to(it).as_ref() == Some(key));
    let api: Api<Connection> = Api::namespaced(clients.provisioning.clone(), &key.namespace);
    let finalizer = finalizers::REFERENCED_BY_REPOSITORIES;
    let is_going = connection.metadata.deletion_timestamp.is_some();
    let current = match is_referred_to {
        true if is_going => return Ok(Requeue::No),
        true => add_finalizers(&api, &*connection, &[finalizer.to_owned()], CALL).await?,
        false => remove_finalizer(&api, &*connection, finalizer, CALL).await?,
    };
    if is_going {
        return Ok(Requeue::No);
    }
    let left = due_in(&current, of.clock.now().as_millisecond());
    if !of.take_rekeyed(key) && !left.is_zero() {
        return Ok(Requeue::After(left));
    }
    let began = Instant::now();
    let checked = match of.opener.app(&clients.core, &current).await {
        Err(error) => Err(Failure::of_open(&error, &current)),
        Ok(github) => match github.apps() {
            Some(apps) => {
                tokio::time::timeout(of.deadline, check(&apps, &current)).await.unwrap_or_else(|_| {
                    let detail = format!("GitHub did not answer within {:?}; it is asked again", of.deadline);
                    Err(Failure::new(reasons::SERVICE_UNAVAILABLE, "spec.type", detail))
                })
            }
            None => Ok(()),
        },
    };
    of.metrics.checked("connection", checked.is_ok(), began.elapsed());
    let wanted = status(&current, &checked, of.clock.now());
    if let Err(failure) = &checked {
        tracing::info!(connection = %key, reason = failure.reason, error = failure.message(), "the connection is not healthy");
    }
    merge_patch(&api, &current, Part::Status, patch(&wanted), CALL).await?;
    Ok(Requeue::After(health_lasts(checked.is_ok())))
}

/// How long until the connection is checked. A time that lies ahead is some other clock's, and is not believed.
fn due_in(connection: &Connection, now: i64) -> Duration {
    let status = &connection.status;
    let age = u64::try_from(now.saturating_sub(status.health.checked)).map(Duration::from_millis);
    match age {
        Ok(age)
            if status.health.checked != 0
                && Some(status.observed_generation) == connection.metadata.generation =>
        {
            health_lasts(status.health.healthy).saturating_sub(age)
        }
        _ => Duration::ZERO,
    }
}

/// What the status says after a check.
fn status(connection: &Connection, checked: &Result<(), Failure>, now: jiff::Timestamp) -> ConnectionStatus {
    let generation = connection.metadata.generation;
    let mut wanted = connection.status.clone();
    wanted.observed_generation = generation.unwrap_or_default();
    let mut say = |kind, holds, reason: &str, message: String| {
        conditions::set(
            &mut wanted.conditions,
            conditions::new(kind, holds, reason, message, generation, now),
        );
    };
    match checked {
        Ok(()) => {
            let (app, installation) = ids(connection);
            say(types::READY, true, reasons::AVAILABLE, messages::AVAILABLE.to_owned());
            let message = format!("installation {installation} of App {app} gives tokens");
            say(types::TOKEN, true, reasons::TOKEN_VALID, message);
            wanted.field_errors.clear();
            wanted.health = healthy(now);
        }
        Err(failure) => {
            say(types::READY, false, failure.reason, failure.message().to_owned());
            say(types::TOKEN, false, reasons::TOKEN_INVALID, failure.message().to_owned());
            wanted.field_errors.clone_from(&failure.errors);
            wanted.health = unhealthy(&failure.errors, now);
        }
    }
    wanted
}

/// The whole status: this is its one writer.
fn patch(wanted: &ConnectionStatus) -> Value {
    let health = &wanted.health;
    json!({"status": {
        "observedGeneration": wanted.observed_generation,
        "conditions": wanted.conditions,
        "fieldErrors": wanted.field_errors,
        "health": {"healthy": health.healthy, "checked": health.checked, "error": health.error, "message": health.message},
    }})
}
