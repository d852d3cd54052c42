//! `…/jobs`: queue a job, and read the ones that ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::json;
use windlass_api::{
    FieldError, GROUP, HistoricJob, Job, JobAction, JobSpec, Repository, jobs, labels, status,
};
use windlass_auth::Caller;
use windlass_lease_queue::kube::insert;
use windlass_runtime::ListRequest;

use crate::answer::Refusal;
use crate::author;
use crate::calls::CALL;
use crate::page::{Page, Position};
use crate::request::{Target, object_with, read, refuse_unless_usable};
use crate::state::RepositoryApi;

/// Jobs of the queue that are read at most.
const READ: u32 = 500;

/// Queues a job for the repository: 202 with the job. Grafana: `jobs.go`.
pub(crate) async fn create(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
    body: Body,
) -> Result<Response, Refusal> {
    let caller = target.admit(&state, caller.as_ref(), ("create", "jobs")).await?;
    let body = read(body).await?;
    let undecodable =
        |why: &str| status::bad_request(format!("error decoding provisioning.Job from request: {why}"));
    let mut unknown = Vec::new();
    let mut spec: JobSpec = object_with(&body, |field| unknown.push(format!("unknown field {field:?}")))
        .map_err(|error| undecodable(&error.to_string()))?;
    if !unknown.is_empty() {
        return Err(undecodable(&format!("strict decoding error: {}", unknown.join(", "))).into());
    }
    spec.repository.clone_from(&target.name);
    jobs::normalise(&mut spec).map_err(|error| status::bad_request(error.to_string()))?;

    let mut repository = target.repository(&state.provisioning).await?;
    if spec.action.is_orphan_cleanup() {
        refuse_unless_orphaned(&target, repository.as_ref())?;
    } else {
        repository = Some(refuse_unless_usable(&target, repository)?);
    }
    if spec.action == JobAction::PullRequest {
        return Err(status::bad_request("pull request jobs are created by webhooks only").into());
    }
    let mut errors = jobs::validate(&spec, None, &state.job_rules);
    errors.extend(repository.as_ref().and_then(|repository| jobs::refused_by(&spec, repository)));
    if !errors.is_empty() {
        return Err(invalid(&spec, errors));
    }

    let options = repository.as_ref().and_then(|repository| repository.spec.commit.as_ref());
    let marks = author::annotations(caller, options);
    let job = insert(&state.provisioning, &target.namespace, &target.name, spec, marks).await?;
    Ok(target.typed(202, "Job", &job))
}

/// The jobs of the repository: those that are queued or running, then those that ended, the newest first, a page of them
/// at a time (`limit`, `continue`). Works when the repository is gone.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    Query(query): Query<BTreeMap<String, String>>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("get", "jobs")).await?;
    let page = Page::parse(&query).map_err(status::bad_request)?;
    let (ended, next) = newest(&state, &target, &page).await?;
    // What became of each file is in the answer for the one job.
    let without_files = |mut job: HistoricJob| {
        job.status.files.clear();
        as_job(job)
    };
    let mut items = Vec::new();
    if page.after.is_none() {
        // One that has just ended may still be in the queue.
        let filed: Vec<String> = ended.iter().filter_map(original_uid).map(str::to_owned).collect();
        items = queued(&state.provisioning, &target).await?;
        items.retain(|job| job.metadata.uid.as_ref().is_none_or(|uid| !filed.contains(uid)));
    }
    items.extend(ended.into_iter().map(without_files));
    let metadata = next.map_or_else(|| json!({}), |next| json!({"continue": next.to_string()}));
    Ok(target.typed(200, "JobList", &json!({"metadata": metadata, "items": items})))
}

/// A job by its UID: as it ended, or else as it is in the queue.
pub(crate) async fn read_by_uid(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("get", "jobs")).await?;
    let well_formed = !target.uid.is_empty()
        && target.uid.len() <= 63
        && target.uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !well_formed {
        return Err(status::bad_request("the UID of a job has letters, digits and dashes only").into());
    }
    if let Some(job) = of_uid(&state, &target).await?.filter(|job| job.spec.repository == target.name) {
        return Ok(target.typed(200, "Job", &as_job(job)));
    }
    let mut queued = queued(&state.provisioning, &target).await?;
    queued.retain(|job| job.metadata.uid.as_deref() == Some(&target.uid));
    match queued.pop() {
        Some(job) => Ok(target.typed(200, "Job", &job)),
        None => Err(status::not_found(GROUP, "jobs", &target.uid).into()),
    }
}

/// `POST …/jobs/{uid}` means nothing.
pub(crate) async fn refuse_post(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("create", "jobs")).await?;
    Err(status::bad_request("can not post to a job UID").into())
}

/// Cleaning up after a repository needs it gone, or going.
fn refuse_unless_orphaned(target: &Target, repository: Option<&Repository>) -> Result<(), Refusal> {
    match repository {
        Some(repository) if repository.metadata.deletion_timestamp.is_none() => {
            Err(target.conflict(jobs::STILL_THERE))
        }
        _ => Ok(()),
    }
}

fn invalid(spec: &JobSpec, errors: Vec<FieldError>) -> Refusal {
    let name = jobs::job_name(&spec.repository, spec);
    status::invalid(GROUP, "Job", &name, errors).into()
}

/// One page of what ended, and where the next one begins. Only a page and a bit of it is in memory at a time.
async fn newest(
    state: &RepositoryApi,
    target: &Target,
    page: &Page,
) -> Result<(Vec<HistoricJob>, Option<Position>), Refusal> {
    // By position, since a list shows a record again when it reads a page once more.
    let found: Mutex<BTreeMap<Position, HistoricJob>> = Mutex::default();
    let add = |job: HistoricJob| {
        let position = Position::of(&job);
        if page.after.as_ref().is_none_or(|after| position > *after) {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.insert(position, job);
            if found.len() > page.limit + 1 {
                found.pop_last();
            }
        }
    };
    if let Some(loki) = &state.loki {
        // One more for the job that the page before ended with.
        let until = page.after.as_ref().map(Position::finished);
        let newest = loki.newest(&target.namespace, &target.name, until, page.limit + 2).await?;
        newest.into_iter().for_each(add);
    } else {
        let jobs: Api<HistoricJob> = Api::namespaced(state.provisioning.clone(), &target.namespace);
        let selector = format!("{}={}", labels::REPOSITORY, target.name);
        ListRequest::of(&jobs, "list the records of jobs", CALL)
            .labels(selector)
            .read(|text| serde_json::from_slice::<HistoricJob>(text).map(&add), || ())
            .await?;
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut last = None;
    if found.len() > page.limit {
        found.pop_last();
        last = found.last_key_value().map(|(position, _)| position.clone());
    }
    Ok((found.into_values().collect(), last))
}

/// The record of the job that the request names by its UID.
async fn of_uid(state: &RepositoryApi, target: &Target) -> Result<Option<HistoricJob>, Refusal> {
    if let Some(loki) = &state.loki {
        return Ok(loki.of_job(&target.namespace, &target.name, &target.uid).await?);
    }
    let jobs: Api<HistoricJob> = Api::namespaced(state.provisioning.clone(), &target.namespace);
    let selector = format!("{}={}", labels::ORIGINAL_UID, target.uid);
    let params = ListParams::default().labels(&selector);
    Ok(CALL.read("list the records of the job", || jobs.list(&params)).await?.items.pop())
}

/// The repository's jobs that have not ended, the oldest first.
async fn queued(client: &Client, target: &Target) -> Result<Vec<Job>, Refusal> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), &target.namespace);
    let selector = format!("{}={}", labels::REPOSITORY, target.name);
    let params = ListParams::default().labels(&selector).limit(READ);
    let mut found = CALL.read("list the jobs of the queue", || jobs.list(&params)).await?.items;
    found.retain(|job| job.spec.repository == target.name);
    found.sort_by(|one, other| {
        let key = |job: &Job| {
            (job.metadata.creation_timestamp.clone().map(|time| time.0), job.metadata.name.clone())
        };
        key(one).cmp(&key(other))
    });
    Ok(found)
}

fn original_uid(job: &HistoricJob) -> Option<&str> {
    job.metadata.labels.as_ref()?.get(labels::ORIGINAL_UID).map(String::as_str)
}

fn as_job(ended: HistoricJob) -> Job {
    Job { metadata: ended.metadata, spec: ended.spec, status: ended.status }
}
