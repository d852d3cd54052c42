//! What the operator writes into a repository's status: only what changed, guarded by the version it looked at.

use jiff::Timestamp;
use kube::Api;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_api::{
    DeletionError, DeletionStatus, DeletionTarget, HealthErrorKind, HealthStatus, QuotaStatus, Repository,
    RepositoryStatus,
};
use windlass_resources::check::Checked;
use windlass_runtime::{CallError, Part, merge_patch};
use windlass_telemetry::ErrorChain;

use crate::finalize::FinalizeError;
use crate::reconcile::{CALL, Context};

/// Most resources that a blocked deletion names.
const MAX_NAMED: usize = 20;

/// Writes what a check found, and answers the repository as it is then.
pub(crate) async fn write_check(
    context: &Context,
    repository: &Repository,
    checked: &Checked,
) -> Result<Repository, CallError> {
    let now = context.clock.now();
    write(context, repository, |status, generation| {
        apply_check(status, generation, checked, now);
        status.quota = Some(QuotaStatus { updated_at: now.as_millisecond(), ..context.limits.clone() });
    })
    .await
}

/// What a check found, as status: health, the `Ready` condition, errors by field, and that the generation was looked at.
fn apply_check(status: &mut RepositoryStatus, generation: i64, checked: &Checked, now: Timestamp) {
    let success = checked.results.success;
    let details: Vec<String> = checked
        .results
        .errors
        .iter()
        .map(|error| error.detail.clone())
        .filter(|detail| !detail.is_empty())
        .collect();
    let message = match (success, details.first()) {
        (true, _) => messages::AVAILABLE.to_owned(),
        (false, Some(first)) => first.clone(),
        (false, None) => messages::UNAVAILABLE.to_owned(),
    };
    status.health = HealthStatus {
        healthy: success,
        error: (!success).then_some(HealthErrorKind::Health),
        checked: now.as_millisecond(),
        message: details,
    };
    status.field_errors.clone_from(&checked.results.errors);
    status.observed_generation = generation;
    let ready = conditions::new(types::READY, success, checked.reason, message, Some(generation), now);
    conditions::set(&mut status.conditions, ready);
}

/// Says what keeps a repository from being deleted.
pub(crate) async fn write_blocked(
    context: &Context,
    repository: &Repository,
    error: &FinalizeError,
) -> Result<(), CallError> {
    let text = ErrorChain(error).to_string();
    let now = context.clock.now();
    write(context, repository, |status, generation| {
        status.delete_error.clone_from(&text);
        status.deletion = Some(DeletionStatus {
            state: DeletionStatus::BLOCKED.to_owned(),
            finalizer: error.finalizer().to_owned(),
            message: text.clone(),
            errors: error
                .items()
                .iter()
                .take(MAX_NAMED)
                .map(|item| DeletionError {
                    code: item
                        .error
                        .as_ref()
                        .map(|failure| failure.reason.as_str().to_owned())
                        .unwrap_or_default(),
                    detail: item.error.as_ref().map(ToString::to_string).unwrap_or_default(),
                    finalizer: error.finalizer().to_owned(),
                    target: Some(DeletionTarget {
                        group: item.group().to_owned(),
                        resource: item
                            .kind
                            .as_ref()
                            .map_or_else(String::new, |kind| kind.resource.to_string()),
                        name: item.name.clone(),
                    }),
                })
                .collect(),
        });
        let message = format!("unable to delete repository: {text}");
        status.health.healthy = false;
        status.health.error = Some(HealthErrorKind::Health);
        status.health.message = vec![message.clone()];
        let ready =
            conditions::new(types::READY, false, reasons::UNAVAILABLE, message, Some(generation), now);
        conditions::set(&mut status.conditions, ready);
    })
    .await
    .map(|_written| ())
}

async fn write(
    context: &Context,
    repository: &Repository,
    change: impl FnOnce(&mut RepositoryStatus, i64),
) -> Result<Repository, CallError> {
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Repository> = Api::namespaced(context.clients.provisioning.clone(), namespace);
    let mut wanted = repository.status.clone();
    change(&mut wanted, repository.metadata.generation.unwrap_or_default());
    match repository.status.merge_patch(&wanted) {
        None => Ok(repository.clone()),
        Some(patch) => merge_patch(&api, repository, Part::Status, patch, CALL).await,
    }
}
