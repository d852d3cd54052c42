//! Doing what a delivery comes to: queue the job, note when it came.

use std::collections::BTreeMap;

use axum::response::Response;
use jiff::Timestamp;
use kube::Api;
use serde_json::{Value, json};
use windlass_api::{
    GROUP, Job, JobAction, JobSpec, Repository, WebhookResponse, annotations, jobs, labels, status,
};
use windlass_lease_queue::kube::{InsertError, insert};
use windlass_repository::webhook::Announced;
use windlass_runtime::{CallError, Part, json_patch_tested, merge_patch};

use super::decide::Decision;
use crate::answer::{Refusal, json as answer_json};
use crate::calls::CALL;
use crate::request::Target;
use crate::state::RepositoryApi;

/// How often it is noted at most that something came.
const NOTED_EVERY: i64 = 60_000;
/// How often a note that meets a newer version is tried.
const TRIES: usize = 5;

/// What the job of a delivery says of it: its number, and the span that it is.
pub(super) fn marks(announced: &Announced, traceparent: Option<String>) -> BTreeMap<String, String> {
    let delivery = announced.delivery().map(|id| (annotations::DELIVERY, id.to_owned()));
    let span = traceparent.map(|span| (annotations::TRACEPARENT, span));
    delivery.into_iter().chain(span).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Answers a delivery, having done what it asks for. `pushed` is the commit that the branch was moved to.
pub(super) async fn on(
    state: &RepositoryApi,
    target: &Target,
    repository: &Repository,
    marks: BTreeMap<String, String>,
    decision: Decision,
    pushed: Option<String>,
) -> Result<Response, Refusal> {
    let answering = async {
        match decision {
            Decision::Answer { code, message } => {
                let code_if_odd = if code == 200 { 0 } else { code.into() };
                Ok(answer_json(code, &WebhookResponse { code: code_if_odd, message, job: None }))
            }
            Decision::Queue { job } => queue(state, target, repository, marks, *job, pushed).await,
        }
    };
    // Beside one another: each waits for the disk, and the two writes can go there together.
    let (answered, noted) = tokio::join!(answering, note(state, target, repository));
    if let Err(error) = noted {
        tracing::debug!(repository = target.name, %error, "it was not noted that a delivery came");
    }
    answered
}

/// Queues the job, or finds the one that is there. One that runs may have looked at the branch before it moved: then the
/// repository is marked, and its operator has it pulled again afterwards.
async fn queue(
    state: &RepositoryApi,
    target: &Target,
    repository: &Repository,
    marks: BTreeMap<String, String>,
    job: JobSpec,
    pushed: Option<String>,
) -> Result<Response, Refusal> {
    let (pulls, name) = (job.action == JobAction::Pull, jobs::job_name(&target.name, &job));
    let (client, delivery) = (&state.provisioning, marks.get(annotations::DELIVERY).cloned());
    match insert(client, &target.namespace, &target.name, job, marks).await {
        Ok(job) => {
            tracing::info!(
                namespace = target.namespace,
                repository = target.name,
                job = job.metadata.name,
                delivery,
                "job queued by a webhook"
            );
            Ok(target.typed(202, "Job", &job))
        }
        Err(InsertError::AlreadyExists(_)) if pulls => {
            let api: Api<Job> = Api::namespaced(client.clone(), &target.namespace);
            let there = CALL.read(format!("get job {name}"), || api.get_opt(&name)).await?;
            if !there.as_ref().is_some_and(|job| job.spec.action == JobAction::Pull && !is_claimed(job)) {
                mark(state, target, repository, pushed.unwrap_or_default()).await?;
            }
            let message = "a pull has just ended, and another one follows".to_owned();
            let ended = WebhookResponse { code: 202, message, job: None };
            Ok(there.map_or_else(|| answer_json(202, &ended), |job| target.typed(202, "Job", &job)))
        }
        // The job that is there looks again when the branch has moved meanwhile.
        Err(InsertError::AlreadyExists(_)) => {
            let message = "the pull request is being looked at".to_owned();
            Ok(answer_json(202, &WebhookResponse { code: 202, message, job: None }))
        }
        Err(InsertError::Invalid(errors)) => Err(status::invalid(GROUP, "Job", &name, errors).into()),
        Err(error) => Err(error.into()),
    }
}

fn is_claimed(job: &Job) -> bool {
    job.metadata.labels.as_ref().is_some_and(|marks| marks.contains_key(labels::CLAIM))
}

/// Writes on the repository where its branch was pushed to while a pull was under way.
async fn mark(
    state: &RepositoryApi,
    target: &Target,
    repository: &Repository,
    pushed: String,
) -> Result<(), Refusal> {
    // The same commit twice, with another in between, is another push.
    let pushed = format!("{pushed}@{}", Timestamp::now().as_millisecond());
    let api: Api<Repository> = Api::namespaced(state.provisioning.clone(), &target.namespace);
    let patch = json!({"metadata": {"annotations": {annotations::PUSHED: pushed}}});
    let mut current = repository.clone();
    for _ in 0..TRIES {
        match merge_patch(&api, &current, Part::Object, patch.clone(), CALL).await {
            Ok(_) => return Ok(()),
            Err(error) if error.is_conflict() => {
                current = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
            }
            Err(_) => break,
        }
    }
    Err(status::service_unavailable("the push could not be noted; send it again", 1).into())
}

/// Notes in the status when a delivery came, once a minute at most.
async fn note(state: &RepositoryApi, target: &Target, repository: &Repository) -> Result<(), CallError> {
    let now = Timestamp::now().as_millisecond();
    let known = repository.status.webhook.as_ref();
    let last = known.map_or(0, |webhook| webhook.last_event);
    if (0..NOTED_EVERY).contains(&(now - last)) {
        return Ok(());
    }
    let operations: Vec<Value> = match known {
        None => vec![
            json!({"op": "test", "path": "/status/webhook", "value": null}),
            json!({"op": "add", "path": "/status/webhook", "value": {"lastEvent": now}}),
        ],
        Some(webhook) => vec![
            // Not into a hook that was made anew meanwhile.
            json!({"op": "test", "path": "/status/webhook", "value": webhook}),
            json!({"op": "add", "path": "/status/webhook/lastEvent", "value": now}),
        ],
    };
    let api: Api<Repository> = Api::namespaced(state.provisioning.clone(), &target.namespace);
    json_patch_tested(&api, repository, Part::Status, &operations, CALL).await.map(drop)
}
