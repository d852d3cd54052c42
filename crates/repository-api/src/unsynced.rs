//! `GET …/unsynced`: what is in a repository and not in the API, page by page.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Api;
use serde::Deserialize;
use windlass_api::{FileOutcome, HistoricJob, Repository, UnsyncedList, status};
use windlass_auth::Caller;

use crate::answer::Refusal;
use crate::calls::CALL;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Files a page, where the caller does not say.
const LIMIT: usize = 500;

/// As of lists of objects.
#[derive(Deserialize)]
pub(crate) struct Page {
    limit: Option<usize>,
    #[serde(default, rename = "continue")]
    token: String,
}

/// Every file and folder that the last pull left out, by path. The repository's status lists the first of them; where
/// there are more, they are read from the record of that pull.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("get", "unsynced")).await?;
    let Query(page) = page.map_err(|error| status::bad_request(error.body_text()))?;
    let repository = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
    let started = repository.status.sync.started;
    let first = page.first(started)?;
    let (files, count) = files(&state, &target, &repository).await?;
    let limit = page.limit.filter(|limit| *limit > 0).unwrap_or(LIMIT);
    let items: Vec<FileOutcome> = files.into_iter().skip(first).take(limit).collect();
    let next = first + items.len();
    let left = count.saturating_sub(next);
    let metadata = ListMeta {
        // Nothing can be shown of what the record has no room for, but that there is more.
        continue_: (left > 0 && !items.is_empty()).then(|| format!("{started}.{next}")),
        remaining_item_count: (left > 0).then(|| i64::try_from(left).unwrap_or(i64::MAX)),
        ..ListMeta::default()
    };
    Ok(target.typed(200, "UnsyncedList", &UnsyncedList { metadata, items }))
}

impl Page {
    /// Where the page begins: the token says of which pull, and how many files are behind it.
    fn first(&self, started: i64) -> Result<usize, Refusal> {
        if self.token.is_empty() {
            return Ok(0);
        }
        let parts = self.token.split_once('.');
        let parsed =
            parts.and_then(|(of, first)| Some((of.parse::<i64>().ok()?, first.parse::<usize>().ok()?)));
        match parsed {
            None => Err(status::bad_request("the continue token is not one of this list").into()),
            Some((of, first)) if of == started => Ok(first),
            Some(_) => {
                let message = "another pull has begun since the first page; list again from the start";
                Err(status::error(410, "Expired", message).into())
            }
        }
    }
}

/// The files that are known, and how many there are in all.
async fn files(
    state: &RepositoryApi,
    target: &Target,
    repository: &Repository,
) -> Result<(Vec<FileOutcome>, usize), Refusal> {
    let Some(unsynced) = &repository.status.unsynced else { return Ok((Vec::new(), 0)) };
    let count = usize::try_from(unsynced.count).unwrap_or(0);
    if unsynced.items.len() < count && !unsynced.record.is_empty() {
        let record = match &state.loki {
            Some(loki) => loki.of_name(&target.namespace, &target.name, &unsynced.record).await?,
            None => {
                let records: Api<HistoricJob> =
                    Api::namespaced(state.provisioning.clone(), &target.namespace);
                let get = || records.get_opt(&unsynced.record);
                CALL.read(format!("get record {}", unsynced.record), get).await?
            }
        };
        // A record may lack them, where it would have been too long.
        if let Some(record) = record.filter(|record| !record.status.files.is_empty()) {
            let mut files = record.status.files;
            files.retain(|file| file.reason != FileOutcome::REPAIRED);
            return Ok((files, count));
        }
    }
    Ok((unsynced.items.clone(), count))
}
