//! The [`Store`] over a client.

use std::future::Future;
use std::time::Duration;

use ::kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use ::kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use ::kube::{Api, Client};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_api::{GROUP, VERSION, annotations, labels};

use super::convert;
use crate::store::{
    Change, HistoryEntry, HistoryPage, Key, NewRecord, Precondition, Record, Store, StoreError,
};

const PAGE: u32 = 500;
const MANAGER: &str = "windlass";

/// Jobs and historic jobs behind a client. Each call has a deadline; the client is expected not to retry by itself.
#[derive(Clone)]
pub struct KubeStore {
    client: Client,
    /// The one namespace that is listed; all when there is none.
    namespace: Option<String>,
    jobs: ApiResource,
    history: ApiResource,
    deadline: Duration,
}

impl KubeStore {
    /// The queue that `client` reaches, with 10 s for each call.
    pub fn new(client: Client) -> Self {
        let resource = |kind, plural| {
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, kind), plural)
        };
        Self {
            client,
            namespace: None,
            jobs: resource("Job", "jobs"),
            history: resource("HistoricJob", "historicjobs"),
            deadline: Duration::from_secs(10),
        }
    }

    /// With another deadline for each call. It should be well below the time between two renewals of a lease.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Keeps to one namespace: lists nothing outside it.
    #[must_use]
    pub fn within(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(str::to_owned);
        self
    }

    /// What is listed: one namespace, or all.
    fn listed(&self, kind: &ApiResource) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        }
    }

    fn jobs(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.jobs)
    }

    fn history(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.history)
    }

    async fn list_all(
        &self,
        jobs: &Api<DynamicObject>,
        params: ListParams,
    ) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        let mut page = params.limit(PAGE);
        loop {
            let listed = self.call(jobs.list(&page)).await?;
            records.extend(listed.items.into_iter().map(convert::from_object));
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(records),
            }
        }
    }

    async fn call<T>(&self, call: impl Future<Output = ::kube::Result<T>> + Send) -> Result<T, StoreError> {
        match tokio::time::timeout(self.deadline, call).await {
            Ok(answer) => answer.map_err(failure),
            Err(_) => Err(StoreError::Timeout(self.deadline)),
        }
    }
}

impl std::fmt::Debug for KubeStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeStore").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for KubeStore {
    async fn get(&self, key: &Key) -> Result<Record, StoreError> {
        let jobs = self.jobs(&key.namespace);
        self.call(jobs.get(&key.name)).await.map(convert::from_object)
    }

    async fn list(&self) -> Result<Vec<Record>, StoreError> {
        self.list_all(&self.listed(&self.jobs), ListParams::default()).await
    }

    async fn list_claimed(&self, namespace: &str) -> Result<Vec<Record>, StoreError> {
        // Without a resourceVersion: what is read is as new as the request.
        self.list_all(&self.jobs(namespace), ListParams::default().labels(labels::CLAIM)).await
    }

    async fn patch(&self, key: &Key, expected: &Precondition, change: &Change) -> Result<Record, StoreError> {
        let jobs = self.jobs(&key.namespace);
        let (params, patch) = (
            PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() },
            merge(expected, change),
        );
        self.call(jobs.patch(&key.name, &params, &Patch::Merge(&patch))).await.map(convert::from_object)
    }

    async fn delete(&self, key: &Key, expected: &Precondition) -> Result<(), StoreError> {
        let jobs = self.jobs(&key.namespace);
        let preconditions = Preconditions {
            uid: Some(expected.uid.clone()),
            resource_version: Some(expected.version.clone()),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.call(jobs.delete(&key.name, &params)).await.map(drop)
    }

    async fn history_create(&self, record: NewRecord) -> Result<(), StoreError> {
        let history = self.history(&record.key.namespace);
        let mut object = DynamicObject::new(&record.key.name, &self.history).within(&record.key.namespace);
        object.metadata.labels = Some(record.labels);
        object.metadata.annotations = (!record.annotations.is_empty()).then_some(record.annotations);
        object.data = json!({"spec": record.spec, "status": record.status});
        let params = PostParams { field_manager: Some(MANAGER.into()), ..PostParams::default() };
        self.call(history.create(&params, &object)).await.map(drop)
    }

    async fn history_contains(&self, key: &Key) -> Result<bool, StoreError> {
        let history = self.history(&key.namespace);
        self.call(history.get_opt(&key.name)).await.map(|found| found.is_some())
    }

    async fn history_page(&self, next: Option<String>) -> Result<HistoryPage, StoreError> {
        let mut params = ListParams::default().limit(PAGE);
        params.continue_token = next;
        let listed = self.call(self.listed(&self.history).list_metadata(&params)).await?;
        let entries = listed.items.into_iter().map(|object| history_entry(object.metadata)).collect();
        Ok(HistoryPage { entries, next: listed.metadata.continue_.filter(|token| !token.is_empty()) })
    }

    async fn history_delete(&self, key: &Key, uid: &str) -> Result<(), StoreError> {
        let history = self.history(&key.namespace);
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.call(history.delete(&key.name, &params)).await.map(drop)
    }
}

/// The guarded JSON merge patch of a change.
fn merge(expected: &Precondition, change: &Change) -> Value {
    let mut metadata = json!({"uid": expected.uid, "resourceVersion": expected.version});
    if !change.labels.is_empty() {
        let labels: Map<_, _> =
            change.labels.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
        metadata["labels"] = Value::Object(labels);
    }
    let mut patch = json!({"metadata": metadata});
    if let Some(status) = &change.status {
        patch["status"] = status.clone();
    }
    patch
}

fn history_entry(metadata: ObjectMeta) -> HistoryEntry {
    let key = convert::key(&metadata);
    let mut labels = metadata.labels.unwrap_or_default();
    let bytes =
        metadata.annotations.and_then(|annotations| annotations.get(annotations::BYTES)?.parse().ok());
    HistoryEntry {
        key,
        uid: metadata.uid.unwrap_or_default(),
        job_uid: labels.remove(labels::ORIGINAL_UID).unwrap_or_default(),
        repository: labels.remove(labels::REPOSITORY).unwrap_or_default(),
        created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        bytes,
    }
}

fn failure(error: ::kube::Error) -> StoreError {
    let ::kube::Error::Api(status) = &error else { return StoreError::Unavailable(Box::new(error)) };
    match status.code {
        404 => StoreError::NotFound,
        409 if status.reason == "AlreadyExists" => StoreError::AlreadyExists,
        409 => StoreError::Conflict,
        400 | 403 | 405 | 406 | 413 | 415 | 422 => StoreError::Refused(status.message.clone()),
        _ => StoreError::Unavailable(Box::new(error)),
    }
}
