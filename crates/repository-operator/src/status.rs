//! Writing a repository's status: once a pass, and only what this operator says in it.
//!
//! Two write a repository's status: this operator, and whoever runs its pull. Neither may undo or hold up the other, so a
//! write is a JSON patch of single fields whose `test`s say what it was made from: which object, which state of a pull is
//! replaced, and which condition stands where. When a test fails, the repository is read again and the same findings are
//! written into what is there now; nobody's source is asked for that once more.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{
    DeletionError, DeletionStatus, DeletionTarget, Repository, RepositoryStatus, WebhookStatus,
};
use windlass_runtime::{CallError, EventType, Note, Part, json_patch_tested, merge_patch};
use windlass_telemetry::ErrorChain;

use crate::applied::Applied;
use crate::controller::{CALL, Controller, name};
use crate::error::{FinalizeError, Obstacle, ReconcileError};
use crate::timing::HEALTHY_FOR;
use crate::unhealthy::{Failure, be_unhealthy};

/// Most resources that a blocked deletion names.
const MAX_NAMED: usize = 20;
/// How often a write that meets a newer version is tried.
const TRIES: usize = 4;
/// The conditions that are ours.
const CONDITIONS: [&str; 6] = [
    types::READY,
    types::PATH_CONFLICT,
    types::NAMESPACE_QUOTA,
    types::WEBHOOK,
    types::TOKEN,
    types::WRITABLE,
];
/// The other fields that are ours, by their place in the status.
const FIELDS: [&str; 12] = [
    "/observedGeneration",
    "/fieldErrors",
    "/health",
    "/quota",
    "/webhook",
    "/token",
    "/deletion",
    "/deleteError",
    "/sync/state",
    "/sync/started",
    "/sync/incremental",
    "/sync/checked",
];

/// Writes what the pass found out, and answers the repository as it is then. Nothing is sent when nothing changed.
pub(crate) async fn write(
    controller: &Controller,
    applied: &Applied,
) -> Result<Arc<Repository>, ReconcileError> {
    let api = controller.repositories(&applied.current);
    let before = &applied.before.status;
    let mut current = Arc::clone(&applied.current);
    for attempt in 1.. {
        let merged = merged(&current.status, before, &applied.wanted);
        if merged == current.status || is_recently_said(&merged, &current.status) {
            return Ok(current);
        }
        // Where a list or the whole status may not be there yet, only the version of the object can guard a write.
        let whole = attempt > 1 || current.status.conditions.is_empty();
        let written = if whole {
            match current.status.merge_patch(&merged) {
                Some(patch) => merge_patch(&api, &*current, Part::Status, patch, CALL).await,
                None => return Ok(current),
            }
        } else {
            json_patch_tested(&api, &*current, Part::Status, &operations(&current.status, &merged), CALL)
                .await
        };
        match written {
            Ok(written) => {
                for note in notes(before, &written.status) {
                    controller.events.record(&written, note);
                }
                return Ok(Arc::new(written));
            }
            Err(error) if attempt < TRIES && is_overtaken(&error) => {
                let name = name(&current);
                let read = CALL.read(format!("read repository {name}"), || api.get(name)).await;
                let read = read.map_err(ReconcileError::Call)?;
                if read.metadata.uid != current.metadata.uid {
                    return Err(ReconcileError::Call(error));
                }
                current = Arc::new(read);
            }
            Err(error) => return Err(ReconcileError::Call(error)),
        }
    }
    Ok(current)
}

/// Whether there is nothing new but times, and those that are said are young: a look at a source that finds nothing is
/// worth no write, which would be told to everybody who watches. This process remembers it.
fn is_recently_said(merged: &RepositoryStatus, said: &RepositoryStatus) -> bool {
    let mut same = merged.clone();
    same.health.checked = said.health.checked;
    same.sync.checked = said.sync.checked;
    if let (Some(quota), Some(said)) = (&mut same.quota, &said.quota) {
        quota.updated_at = said.updated_at;
    }
    let lasts = i64::try_from(HEALTHY_FOR.as_millis()).unwrap_or(i64::MAX);
    let age = merged.health.checked.saturating_sub(said.health.checked);
    said.health.healthy && (0..lasts).contains(&age) && same == *said
}

/// A test failed (422), or the version is another one.
fn is_overtaken(error: &CallError) -> bool {
    error.is_conflict() || error.code() == Some(422)
}

/// `fresh` with what this operator wants to say. A pull that moved on since `before` says itself how it stands.
fn merged(
    fresh: &RepositoryStatus,
    before: &RepositoryStatus,
    wanted: &RepositoryStatus,
) -> RepositoryStatus {
    let mut merged = RepositoryStatus {
        observed_generation: wanted.observed_generation,
        field_errors: wanted.field_errors.clone(),
        health: wanted.health.clone(),
        quota: wanted.quota.clone(),
        token: wanted.token.clone(),
        deletion: wanted.deletion.clone(),
        delete_error: wanted.delete_error.clone(),
        webhook: webhook(fresh.webhook.as_ref(), before.webhook.as_ref(), wanted.webhook.as_ref()),
        ..fresh.clone()
    };
    for kind in CONDITIONS {
        if let Some(condition) = conditions::find(&wanted.conditions, kind) {
            conditions::set(&mut merged.conditions, condition.clone());
        }
    }
    if fresh.sync == before.sync {
        merged.sync.clone_from(&wanted.sync);
    }
    merged
}

/// The hook as this operator knows it, with what deliveries said meanwhile.
fn webhook(
    fresh: Option<&WebhookStatus>,
    before: Option<&WebhookStatus>,
    wanted: Option<&WebhookStatus>,
) -> Option<WebhookStatus> {
    if before == wanted {
        return fresh.cloned();
    }
    let last_event = fresh.map_or(0, |fresh| fresh.last_event);
    wanted.map(|wanted| WebhookStatus { last_event, ..wanted.clone() })
}

/// The difference as operations of a JSON patch, each beside the test that it needs.
fn operations(before: &RepositoryStatus, after: &RepositoryStatus) -> Vec<Value> {
    let json = |status: &RepositoryStatus| serde_json::to_value(status).unwrap_or_default();
    let (old, new) = (json(before), json(after));
    let mut operations = Vec::new();
    for field in FIELDS {
        let path = format!("/status{field}");
        let (old, new) = (old.pointer(field), new.pointer(field));
        if old == new {
            continue;
        }
        // These two have other writers, too.
        if matches!(field, "/sync/state" | "/webhook") {
            operations.push(json!({"op": "test", "path": path, "value": old}));
        }
        operations.push(match new {
            Some(value) => json!({"op": "add", "path": path, "value": value}),
            None => json!({"op": "remove", "path": path}),
        });
    }
    for kind in CONDITIONS {
        let Some(condition) = conditions::find(&after.conditions, kind) else { continue };
        match before.conditions.iter().position(|found| found.type_ == kind) {
            Some(at) if before.conditions[at] != *condition => {
                operations.push(
                    json!({"op": "test", "path": format!("/status/conditions/{at}/type"), "value": kind}),
                );
                operations.push(
                    json!({"op": "replace", "path": format!("/status/conditions/{at}"), "value": condition}),
                );
            }
            Some(_) => {}
            None => operations.push(json!({"op": "add", "path": "/status/conditions/-", "value": condition})),
        }
    }
    operations
}

/// The Events that tell of a change: that the repository, or its webhook, fails for another reason than before, or works
/// again.
fn notes(before: &RepositoryStatus, after: &RepositoryStatus) -> Vec<Note> {
    let note = |kind, reason: &str, action: &str, text| Note {
        kind,
        reason: reason.to_owned(),
        action: action.to_owned(),
        text,
    };
    let mut notes = Vec::new();
    let (was, is) = (before.health.healthy, after.health.healthy);
    if let Some(ready) = conditions::find(&after.conditions, types::READY) {
        let (reason, message) = (&ready.reason, &ready.message);
        let is_news = || {
            conditions::find(&before.conditions, types::READY).is_none_or(|before| before.reason != *reason)
        };
        if is && !was && before.health.checked != 0 {
            let text = "the repository is healthy again".to_owned();
            notes.push(note(EventType::Normal, "Healthy", "CheckHealth", text));
        } else if !is && (was || is_news()) {
            let text = format!("the repository is not healthy ({reason}): {message}");
            notes.push(note(EventType::Warning, "Unhealthy", "CheckHealth", text));
        }
    }
    match (webhook_failure(before), webhook_failure(after)) {
        (was, Some(is)) if was.is_none_or(|was| was.reason != is.reason) => {
            let text = format!("the webhook fails ({}): {}", is.reason, is.message);
            notes.push(note(EventType::Warning, "WebhookFailed", "CheckWebhook", text));
        }
        (Some(_), None) if conditions::is_true(&after.conditions, types::WEBHOOK) => {
            let text = "the webhook works again".to_owned();
            notes.push(note(EventType::Normal, "WebhookRestored", "CheckWebhook", text));
        }
        _ => {}
    }
    notes
}

/// What is said of a webhook that fails; nothing where there should be none.
fn webhook_failure(status: &RepositoryStatus) -> Option<&Condition> {
    conditions::find(&status.conditions, types::WEBHOOK).filter(|said| {
        let is_wanted = !matches!(
            said.reason.as_str(),
            reasons::WEBHOOK_DISABLED | reasons::NO_PUBLIC_URL | reasons::READ_ONLY
        );
        said.status == "False" && is_wanted
    })
}

/// Says what keeps a repository from being deleted. What says so already is left as it is.
pub(crate) fn report_blocked(
    status: &mut RepositoryStatus,
    error: &FinalizeError,
    generation: Option<i64>,
    now: Timestamp,
) {
    let text = ErrorChain(error).to_string();
    let items = if let Obstacle::Items(items) = &error.obstacle { items.as_slice() } else { &[] };
    let errors = items.iter().take(MAX_NAMED).map(|item| DeletionError {
        code: item.error.as_ref().map(|failure| failure.reason.as_str().to_owned()).unwrap_or_default(),
        detail: item.error.as_ref().map(ToString::to_string).unwrap_or_default(),
        finalizer: error.finalizer.to_owned(),
        target: Some(DeletionTarget {
            group: item.group().to_owned(),
            resource: item.kind.as_ref().map_or_else(String::new, |kind| kind.resource.to_string()),
            name: item.name.clone(),
        }),
    });
    let deletion = DeletionStatus {
        state: DeletionStatus::BLOCKED.to_owned(),
        finalizer: error.finalizer.to_owned(),
        message: text.clone(),
        errors: errors.collect(),
    };
    if status.deletion.as_ref() == Some(&deletion) {
        return;
    }
    let detail = format!("unable to delete repository: {text}");
    let failure = Failure::of_kind("", reasons::UNAVAILABLE, "", detail);
    let (field_errors, checked) = (std::mem::take(&mut status.field_errors), status.health.checked);
    be_unhealthy(status, failure, generation, now);
    (status.field_errors, status.health.checked) = (field_errors, checked);
    status.deletion = Some(deletion);
    status.delete_error = text;
}

#[cfg(test)]
mod tests;
