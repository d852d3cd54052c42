//! What a receiver's status says: where deliveries are sent to, or why they cannot be.

use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client};
use serde_json::json;
use windlass_api::GoDuration;
use windlass_api::flux::{FINALIZER, REQUESTED_AT, Receiver, ReceiverSpec, ReceiverStatus};
use windlass_api::patch::merge_diff;
use windlass_runtime::{CallError, ObjectKey, Part, Requeue, merge_patch, remove_finalizer};
use windlass_telemetry::ErrorChain;

use super::filter::Filters;
use super::{Receivers, oidc, senders, webhook_path};
use crate::calls::CALL;
use crate::failure::types;
use crate::status::Conditions;

/// How often a Secret is looked at where the receiver does not say.
const INTERVAL: Duration = Duration::from_mins(10);

/// What came of looking at a receiver.
enum Found {
    /// Where deliveries are sent to.
    Path(String),
    /// There is no token; and why.
    NoToken(String),
    /// The specification is of no use: the reason, and what is wrong with it.
    Wrong(&'static str, String),
}

impl Receivers {
    /// Looks at one receiver, writing with `client`, and says when to do it again.
    pub(super) async fn reconcile(&self, client: &Client, key: &ObjectKey) -> Requeue {
        match self.pass(client, key).await {
            Ok(requeue) => requeue,
            Err(error) if error.is_conflict() || error.is_not_found() || error.is_fenced() => {
                Requeue::Backoff
            }
            Err(error) => {
                tracing::warn!(receiver = %key, error = %ErrorChain(&error), "reconcile failed");
                Requeue::Backoff
            }
        }
    }

    async fn pass(&self, client: &Client, key: &ObjectKey) -> Result<Requeue, CallError> {
        let Some(receiver) = self.objects.get(key) else { return Ok(Requeue::No) };
        let api: Api<Receiver> = Api::namespaced(client.clone(), &key.namespace);
        if receiver.metadata.deletion_timestamp.is_some() {
            // It was put there by Flux's controller, which may be gone.
            remove_finalizer(&api, &receiver, FINALIZER, CALL).await?;
            return Ok(Requeue::No);
        }
        if receiver.spec.suspend {
            return Ok(Requeue::No);
        }
        let found = match judge(&receiver.spec) {
            Err((reason, what)) => Found::Wrong(reason, what),
            Ok(()) => match self.shared(&receiver).await {
                Ok(shared) => Found::Path(webhook_path(&shared.token, &key.name, &key.namespace)),
                Err(why) => Found::NoToken(why),
            },
        };
        let now = Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default();
        let status = conclude(&receiver, &found, now);
        let json = |status: &ReceiverStatus| serde_json::to_value(status).unwrap_or_default();
        if let Some(patch) = merge_diff(&json(&receiver.status), &json(&status)) {
            merge_patch(&api, &receiver, Part::Status, json!({ "status": patch }), CALL).await?;
        }
        let interval = receiver.spec.interval.as_deref().and_then(|text| text.parse::<GoDuration>().ok());
        let interval = interval.and_then(GoDuration::to_std).filter(|it| !it.is_zero()).unwrap_or(INTERVAL);
        Ok(match found {
            Found::Path(_) => Requeue::After(interval),
            Found::NoToken(_) => Requeue::Backoff,
            Found::Wrong(..) => Requeue::No,
        })
    }
}

/// Whether the specification can be worked with; else the reason, and what is wrong with it.
fn judge(spec: &ReceiverSpec) -> Result<(), (&'static str, String)> {
    senders::judge(spec).map_err(|why| ("Unsupported", why))?;
    Filters::compile(spec).map_err(|why| ("InvalidCELExpression", why))?;
    oidc::judge(spec).map_err(|why| ("ValidationFailed", why))?;
    for provider in &spec.oidc_providers {
        let problem = |why| format!("spec.oidcProviders of {:?}: {why}", provider.issuer_url);
        oidc::Checks::compile(provider).map_err(|why| ("InvalidCELExpression", problem(why)))?;
    }
    Ok(())
}

pub(super) fn requested_at(receiver: &Receiver) -> Option<&str> {
    receiver.metadata.annotations.as_ref()?.get(REQUESTED_AT).map(String::as_str)
}

fn conclude(receiver: &Receiver, found: &Found, now: Timestamp) -> ReceiverStatus {
    let (before, generation) = (&receiver.status, receiver.metadata.generation);
    let mut say = Conditions::new(generation, now, &before.conditions);
    let mut after = ReceiverStatus { webhook_path: None, ..before.clone() };
    if let Some(asked) = requested_at(receiver) {
        after.last_handled_reconcile_at = Some(asked.to_owned());
    }
    match found {
        Found::Path(path) => {
            let message = format!("Receiver initialized for path: {path}");
            say.set(types::READY, "True", "Succeeded", &message);
            after.webhook_path = Some(path.clone());
        }
        Found::NoToken(why) => {
            say.set(types::RECONCILING, "True", "ProgressingWithRetry", why);
            say.set(types::READY, "False", "TokenNotFound", why);
        }
        Found::Wrong(reason, what) => {
            say.set(types::STALLED, "True", reason, what);
            say.set(types::READY, "False", reason, what);
        }
    }
    if !matches!(found, Found::NoToken(_)) {
        after.observed_generation = generation;
    }
    after.conditions = say.sorted();
    after
}
