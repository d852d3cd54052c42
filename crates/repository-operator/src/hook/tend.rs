//! Bringing the hook at GitHub to what is wanted.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{Repository, WebhookStatus, annotations};
use windlass_github::{Delivery, ErrorKind, GithubError, Hook, HookRequest, Hooks};
use windlass_repository::GithubOpenError;
use windlass_runtime::CallError;

use super::failure::Failure;
use super::missed::{lost, missed};
use super::secret::{HookSecret, complete};
use super::{EVENTS, Wanted, every, is_as_wanted, is_old};
use crate::controller::Controller;

/// What tending came to.
pub(crate) enum Tended {
    /// What the specification left out was filled in: the repository is another one now, and is looked at anew.
    Completed(Box<Repository>),
    /// All that is known of the hook.
    Known {
        /// The condition.
        condition: Box<Condition>,
        /// The hook; nothing when there is none.
        webhook: Option<WebhookStatus>,
        /// The latest push that GitHub could not tell of, by its delivery.
        missed: Option<String>,
        /// How long until it is looked at again.
        again: Duration,
    },
}

/// Why the hook of a repository that goes is still there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CleanUpError {
    /// GitHub's API cannot be asked.
    #[error(
        "failed to remove the webhook; set a valid token, or annotate the repository with {}=true to leave it there",
        annotations::FORCE_DELETE
    )]
    Open(#[source] GithubOpenError),
    /// GitHub refuses or does not answer.
    #[error(
        "failed to remove the webhook; annotate the repository with {}=true to leave it there",
        annotations::FORCE_DELETE
    )]
    Github(#[source] GithubError),
}

/// Brings the hook to what is wanted, and says how that went. Nothing about a hook is a failure of the pass, but that the
/// repository could not be given a Secret because somebody else wrote. What its specification leaves out goes into it with
/// the Secret's name. `anew` has GitHub told of the secret once more, which may be another one.
pub(crate) async fn tend(
    controller: &Controller,
    repository: &Repository,
    wanted: &Wanted,
    left_out: Option<Value>,
    anew: bool,
) -> Result<Tended, CallError> {
    let generation = repository.metadata.generation;
    let now = controller.clock.now();
    let say = |holds, reason: &str, message: String| {
        Box::new(conditions::new(types::WEBHOOK, holds, reason, message, generation, now))
    };
    let known = repository.status.webhook.clone();
    let regular = every(controller.store.len());
    let url = match wanted {
        Wanted::Hook { url } => url,
        Wanted::Unmanaged => {
            let condition = say(false, reasons::WEBHOOK_DISABLED, String::new());
            return Ok(Tended::Known { condition, webhook: known, missed: None, again: regular });
        }
        Wanted::None { reason, message } => {
            let condition = say(false, reason, message.clone());
            // A setting that is missing takes nothing away. What cannot be removed now is tried again.
            let goes = *reason != reasons::NO_PUBLIC_URL && known.as_ref().is_some_and(|hook| hook.id != 0);
            let is_gone = goes && remove(controller, repository).await.is_ok();
            let webhook = known.filter(|_| !is_gone);
            return Ok(Tended::Known { condition, webhook, missed: None, again: regular });
        }
    };
    let repositories = controller.repositories(repository);
    let deadline = controller.check_deadline;
    match complete(&controller.clients.core, &repositories, repository, left_out, true).await {
        Ok(None) => {}
        Ok(Some(completed)) => return Ok(Tended::Completed(Box::new(completed))),
        Err(error) if error.is_conflict() || error.is_not_found() || error.is_fenced() => return Err(error),
        Err(error) => return Ok(failed(controller, Failure::of_call(&error), known, &say)),
    }
    let kept = match tokio::time::timeout(deadline, keep(controller, repository, url, anew)).await {
        Ok(kept) => kept,
        Err(_elapsed) => Err(Failure::of_silence(deadline)),
    };
    Ok(match kept {
        Ok((webhook, missed)) => {
            let message = format!("hook {} posts {} to {url}", webhook.id, EVENTS.join(" and "));
            let condition = say(true, reasons::WEBHOOK_CONFIGURED, message);
            Tended::Known { condition, webhook: Some(webhook), missed, again: regular }
        }
        Err(failure) => {
            if known.as_ref().is_some_and(|webhook| webhook.id != 0 && is_old(webhook, now)) {
                controller.metrics.rotation_overdue(failure.reason);
            }
            failed(controller, failure, known, &say)
        }
    })
}

fn failed(
    controller: &Controller,
    failure: Failure,
    known: Option<WebhookStatus>,
    say: &impl Fn(bool, &str, String) -> Box<Condition>,
) -> Tended {
    controller.metrics.hook_failed(failure.reason);
    let message = format!("{}; until then the repository is polled", failure.message);
    let condition = say(false, failure.reason, message);
    Tended::Known { condition, webhook: known, missed: None, again: failure.again }
}

/// The hook as it should be, made so, and the latest push that did not reach us.
async fn keep(
    controller: &Controller,
    repository: &Repository,
    url: &str,
    anew: bool,
) -> Result<(WebhookStatus, Option<String>), Failure> {
    let (core, now) = (&controller.clients.core, controller.clock.now());
    let at_github =
        controller.opener.github(core, repository).await.map_err(|error| Failure::of_open(&error))?;
    let hooks = at_github.api.hooks(&at_github.name);
    let failed = |error: GithubError| Failure::of_github(&error, url);
    let mut secret = HookSecret::read(core, repository).await.map_err(|error| Failure::of_secret(&error))?;
    let before = repository.status.webhook.clone().unwrap_or_default();
    let rotate = before.id != 0 && secret.is_ours() && is_old(&before, now);
    if rotate {
        secret.change(core, repository).await.map_err(|error| Failure::of_call(&error))?;
    }
    // What the specification says may be another secret.
    let said = conditions::find(&repository.status.conditions, types::WEBHOOK);
    let settled = !anew
        && !secret.is_new
        && said.is_some_and(|said| {
            said.status == "True" && said.observed_generation == repository.metadata.generation
        });
    let request = HookRequest {
        url: url.to_owned(),
        secret: secret.value.clone(),
        events: EVENTS.map(str::to_owned).to_vec(),
    };
    let found = match u64::try_from(before.id).ok().filter(|id| *id != 0) {
        None => None,
        Some(id) => match hooks.get(id).await {
            Ok(hook) => Some(hook),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => None,
            Err(error) => return Err(failed(error)),
        },
    };
    let (hook, changed) = match found {
        None => (make_or_adopt(&hooks, &request).await.map_err(failed)?, true),
        Some(hook) if rotate || !settled || !is_as_wanted(&hook, url) => {
            (hooks.edit(hook.id, &request).await.map_err(failed)?, true)
        }
        Some(hook) => (hook, false),
    };
    if changed {
        tracing::info!(repository = repository.metadata.name, hook = hook.id, "the webhook was set up");
    } else if secret.has_previous() {
        secret.drop_previous(core, repository).await.map_err(|error| Failure::of_call(&error))?;
    }
    // The log is worth having, but the hook stands without it: deliveries of one that was made just now are none.
    let lost = match hooks.deliveries(hook.id).await {
        Ok(deliveries) => {
            tell_again(&hooks, hook.id, &lost(&deliveries)).await;
            missed(&deliveries).map(|delivery| delivery.guid.clone())
        }
        Err(error) => {
            tracing::debug!(repository = repository.metadata.name, %error, "the log of deliveries could not be read");
            None
        }
    };
    let webhook = WebhookStatus {
        id: i64::try_from(hook.id).unwrap_or_default(),
        url: url.to_owned(),
        subscribed_events: EVENTS.map(str::to_owned).to_vec(),
        last_rotated: if rotate || before.last_rotated == 0 {
            now.as_millisecond()
        } else {
            before.last_rotated
        },
        ..before
    };
    Ok((webhook, lost))
}

/// Has GitHub make these deliveries again. What cannot be asked for now is, at the next look.
async fn tell_again(hooks: &Hooks<'_>, hook: u64, lost: &[&Delivery]) {
    for delivery in lost {
        match hooks.redeliver(hook, delivery.id).await {
            Ok(()) => tracing::info!(
                hook,
                delivery = delivery.guid,
                "GitHub is asked for a delivery that did not come"
            ),
            Err(error) => {
                tracing::debug!(hook, delivery = delivery.guid, %error, "a delivery cannot be asked for again");
                return;
            }
        }
    }
}

/// Makes the hook, or takes over the one that posts to the same URL: it is ours, and we lost its number.
async fn make_or_adopt(hooks: &Hooks<'_>, request: &HookRequest) -> Result<Hook, GithubError> {
    match hooks.create(request).await {
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists(_)) => {
            let all = hooks.list().await?;
            let same = all.iter().find(|hook| hook.url.as_deref() == Some(request.url.as_str()));
            match same {
                Some(hook) => hooks.edit(hook.id, request).await,
                None => Err(error),
            }
        }
        made => made,
    }
}

/// Removes the hook, if there is one. One that is gone, and one that the token is not accepted for any more, are left.
pub(crate) async fn remove(controller: &Controller, repository: &Repository) -> Result<(), CleanUpError> {
    let id = repository.status.webhook.as_ref().map_or(0, |webhook| webhook.id);
    let Some(id) = u64::try_from(id).ok().filter(|id| *id != 0) else { return Ok(()) };
    let marks = repository.metadata.annotations.as_ref();
    let forced =
        marks.and_then(|marks| marks.get(annotations::FORCE_DELETE)).is_some_and(|value| value == "true");
    let result = match controller.opener.github(&controller.clients.core, repository).await {
        Err(error) => Err(CleanUpError::Open(error)),
        Ok(at_github) => match at_github.api.hooks(&at_github.name).delete(id).await {
            Ok(()) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::NotFound { .. } | ErrorKind::Unauthorized { .. } => Ok(()),
                _ => Err(CleanUpError::Github(error)),
            },
        },
    };
    if let Err(error) = &result
        && forced
    {
        tracing::warn!(repository = repository.metadata.name, error = %windlass_telemetry::ErrorChain(error), "the webhook is left there");
        return Ok(());
    }
    result
}
