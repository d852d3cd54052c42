//! Bringing the hook at GitHub to what is wanted.

use std::time::Duration;

use windlass_api::conditions::{self, reasons, types};
use windlass_api::{Repository, WebhookStatus, annotations};
use windlass_github::{Delivery, ErrorKind, GithubError, Hook, HookRequest, Hooks};
use windlass_provisioner::Outcome;
use windlass_runtime::ObjectKey;

use super::failure::{CleanUpError, Failure};
use super::missed::{lost, missed};
use super::secret::{HookSecret, complete};
use super::{EVENTS, Wanted, every, is_as_wanted, is_old};
use crate::applied::Applied;
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::observe::Observed;

/// All that is known of a hook that was looked at.
struct HookCheck {
    /// The condition's status, reason and message.
    says: (bool, &'static str, String),
    /// The hook; nothing when there is none.
    webhook: Option<WebhookStatus>,
    /// The latest push that GitHub could not tell of, by its delivery.
    missed: Option<String>,
    /// How long until it is looked at again.
    again: Duration,
}

/// Brings the hook to what is wanted where that is due, and says how that went. Nothing about a hook is a failure of the
/// pass, but that the repository could not be given a Secret because somebody else wrote. What its specification leaves
/// out goes into it with the Secret's name; the repository is another one then.
pub(crate) async fn provision(
    controller: &Controller,
    key: &ObjectKey,
    observed: &Observed,
    applied: &mut Applied,
    why: Option<&'static str>,
) -> Result<Outcome, ReconcileError> {
    let is_hooked = why.is_some() && matches!(observed.hook, Wanted::Hook { .. });
    let (repositories, left_out) = (controller.repositories(&applied.current), applied.left_out.take());
    let completed =
        complete(&controller.clients.core, &repositories, &applied.current, left_out, is_hooked).await;
    let checked = match (completed, why) {
        (Ok(Some(completed)), _) => return Ok(applied.begin_anew(completed)),
        (Ok(None), None) => return Ok(Outcome::Ready),
        (Ok(None), Some(why)) => {
            tracing::debug!(repository = %key, why, "checking the webhook");
            check(controller, observed, &applied.current).await
        }
        (Err(error), _) if !is_hooked || error.is_conflict() || error.is_not_found() || error.is_fenced() => {
            return Err(ReconcileError::Call(error));
        }
        (Err(error), _) => Err(Failure::of_call(&error)),
    };
    let (generation, now) = (applied.current.metadata.generation, controller.clock.now());
    let checked = checked.unwrap_or_else(|failure| {
        let known = applied.current.status.webhook.clone();
        if known.as_ref().is_some_and(|webhook| webhook.id != 0 && is_old(webhook, now)) {
            controller.metrics.rotation_overdue(failure.reason);
        }
        controller.metrics.hook_failed(failure.reason);
        let message = format!("{}; until then the repository is polled", failure.message);
        let says = (false, failure.reason, message);
        HookCheck { says, webhook: known, missed: None, again: failure.again }
    });
    if let Some(delivery) = &checked.missed {
        tracing::debug!(repository = %key, delivery, "a delivery did not reach us");
    }
    applied.missed = controller.memory.hook_checked(key, generation, checked.again, checked.missed);
    applied.wanted.webhook = checked.webhook;
    let (holds, reason, message) = checked.says;
    let condition = conditions::new(types::WEBHOOK, holds, reason, message, generation, now);
    conditions::set(&mut applied.wanted.conditions, condition);
    applied.look_again(checked.again);
    Ok(Outcome::Ready)
}

async fn check(
    controller: &Controller,
    observed: &Observed,
    repository: &Repository,
) -> Result<HookCheck, Failure> {
    let (known, again) = (repository.status.webhook.clone(), every(controller.store.len()));
    match &observed.hook {
        Wanted::Unmanaged => {
            let says = (false, reasons::WEBHOOK_DISABLED, String::new());
            Ok(HookCheck { says, webhook: known, missed: None, again })
        }
        Wanted::None { reason, message } => {
            // A setting that is missing takes nothing away. What cannot be removed now is tried again.
            let goes = *reason != reasons::NO_PUBLIC_URL && known.as_ref().is_some_and(|hook| hook.id != 0);
            let is_gone = goes && remove(controller, repository).await.is_ok();
            let webhook = known.filter(|_| !is_gone);
            Ok(HookCheck { says: (false, reason, message.clone()), webhook, missed: None, again })
        }
        Wanted::Hook { url } => {
            // GitHub is told of the secret once more, which may be another one.
            let anew = observed.ages.secret_changed.is_some();
            let kept = keep(controller, repository, url, anew);
            let kept = tokio::time::timeout(controller.check_deadline, kept).await;
            let (webhook, missed) =
                kept.unwrap_or_else(|_elapsed| Err(Failure::of_silence(controller.check_deadline)))?;
            let message = format!("hook {} posts {} to {url}", webhook.id, EVENTS.join(" and "));
            let says = (true, reasons::WEBHOOK_CONFIGURED, message);
            Ok(HookCheck { says, webhook: Some(webhook), missed, again })
        }
    }
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
    let rotate = before.id != 0 && secret.own.is_some() && is_old(&before, now);
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
    } else if secret.has_previous {
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
