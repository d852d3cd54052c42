//! A repository in memory, an API server in process, and a record of every request between them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_api::SyncTarget;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::Caller;
use windlass_git::{Change, ChangeKind, Diff, EntryKind, Limits};
use windlass_repository::Reader;
use windlass_resources::apply::{self, Job, Options, Summary};
use windlass_resources::plan::Retry;
use windlass_resources::plan::{self, Incremental};
use windlass_resources::{
    Clients, FurtherKinds, ItemResult, Managed, Plan, SyncContext, TakeOver, folders, managed,
};

use crate::test_reader::{self, Files, id};

/// Answers a request in the server's place, or lets it pass.
pub(crate) type Fault = Box<dyn Fn(&Method, &str) -> Option<StatusCode> + Send + Sync>;

pub(crate) struct World {
    pub(crate) clients: Clients,
    pub(crate) context: SyncContext,
    pub(crate) files: Files,
    pub(crate) options: Options,
    pub(crate) cancel: CancellationToken,
    pub(crate) take_over: TakeOver,
    /// Those of the repository's reader.
    pub(crate) limits: Limits,
    /// Every content that there ever was, as Git would keep it.
    past: Files,
    requests: Arc<Mutex<Vec<String>>>,
    fault: Arc<Mutex<Option<Fault>>>,
}

/// What a sync did.
#[derive(Debug)]
pub(crate) struct Synced {
    pub(crate) summary: Summary,
    pub(crate) results: Vec<ItemResult>,
    /// `METHOD resource/name` of everything that was sent, in order.
    pub(crate) requests: Vec<String>,
}

impl Synced {
    /// `METHOD resource/name` of everything but reading.
    pub(crate) fn writes(&self) -> Vec<&str> {
        self.requests.iter().map(String::as_str).filter(|request| !request.starts_with("GET")).collect()
    }

    /// `action path`, and for what failed the reason, sorted.
    pub(crate) fn outcomes(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .results
            .iter()
            .map(|item| match &item.error {
                None => format!("{} {}", item.action.as_str(), item.path),
                Some(failure) => format!("{} {}: {}", item.action.as_str(), item.path, failure.reason),
            })
            .collect();
        lines.sort();
        lines
    }

    pub(crate) fn failure(&self, path: &str) -> &windlass_resources::Failure {
        let item = self.results.iter().find(|item| item.path == path && item.error.is_some());
        item.and_then(|item| item.error.as_ref()).unwrap_or_else(|| panic!("{path} failed: {self:#?}"))
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::allowing(&[])
    }

    /// A world whose settings allow these kinds, too.
    pub(crate) fn allowing(kinds: &[&str]) -> Self {
        let store = in_memory(&StoreOptions::default()).unwrap();
        let server = ApiServer::builder(store).crds(windlass_api::crds::all()).build().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let fault = Arc::new(Mutex::new(None::<Fault>));
        let (record, faults) = (requests.clone(), fault.clone());
        let router = server.router().layer(axum::middleware::from_fn(move |request: Request, next: Next| {
            let (record, faults) = (record.clone(), faults.clone());
            async move { watched(request, next, &record, &faults).await }
        }));
        let client = client_of(router, Caller::system("tests"));
        Self { requests, fault, ..Self::over(client, "default", kinds) }
    }

    /// A world over any API server. Its requests are not recorded.
    pub(crate) fn over(client: kube::Client, namespace: &str, kinds: &[&str]) -> Self {
        let allowed = kinds.iter().map(|kind| kind.parse().unwrap()).collect();
        Self {
            clients: Clients { further: FurtherKinds::new(client.clone(), allowed), ..Clients::same(client) },
            context: SyncContext {
                namespace: namespace.to_owned(),
                repository: "test6".to_owned(),
                title: "Test six".to_owned(),
                target: SyncTarget::Instance,
            },
            files: Files::new(),
            options: Options::default(),
            cancel: CancellationToken::new(),
            take_over: TakeOver::default(),
            limits: Limits::default(),
            past: Files::new(),
            requests: Arc::default(),
            fault: Arc::default(),
        }
    }

    /// A world whose repository holds these dashboards: path and name, the title being both.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let mut world = Self::new();
        for (path, name) in files {
            world.write(path, &dashboard(name, &format!("{name} in {path}")));
        }
        world
    }

    pub(crate) fn write(&mut self, path: &str, content: &str) -> &mut Self {
        self.past.insert(format!("{}:{content}", self.past.len()), content.as_bytes().to_vec());
        self.files.insert(path.to_owned(), content.as_bytes().to_vec());
        self
    }

    pub(crate) fn remove(&mut self, path: &str) -> &mut Self {
        self.files.remove(path).unwrap_or_else(|| panic!("{path} is there"));
        self
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> &mut Self {
        let content = self.files.remove(from).unwrap_or_else(|| panic!("{from} is there"));
        self.files.insert(to.to_owned(), content);
        self
    }

    pub(crate) fn fail(&self, fault: impl Fn(&Method, &str) -> Option<StatusCode> + Send + Sync + 'static) {
        *self.fault.lock().unwrap() = Some(Box::new(fault));
    }

    pub(crate) fn heal(&self) {
        *self.fault.lock().unwrap() = None;
    }

    fn reader(&self) -> Arc<dyn Reader> {
        test_reader::reader(&self.past, self.limits.clone())
    }

    pub(crate) async fn managed(&self) -> Managed {
        managed::list(&self.clients, &self.context.namespace, &self.context.repository).await.unwrap()
    }

    pub(crate) async fn plan(&self) -> Plan {
        let managed = self.managed().await;
        let (reader, tree) = (self.reader(), test_reader::tree(&self.files));
        let metadata =
            folders::read_metadata(&*reader, &tree, &managed, &self.context, &self.cancel).await.unwrap();
        plan::full(&tree, &managed, &metadata, &self.context)
    }

    pub(crate) async fn apply(&self, plan: Plan) -> Synced {
        self.apply_with(plan, |_| {}, || true).await
    }

    pub(crate) async fn apply_with(
        &self,
        plan: Plan,
        on_result: impl Fn(&ItemResult) + Send + Sync + 'static,
        may_write: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Synced {
        self.requests.lock().unwrap().clear();
        let results = Arc::new(Mutex::new(Vec::new()));
        let collected = results.clone();
        let job = Job {
            reader: self.reader(),
            clients: self.clients.clone(),
            context: self.context.clone(),
            options: self.options,
            cancel: self.cancel.clone(),
            may_write: Arc::new(may_write),
            take_over: self.take_over.clone(),
            on_result: Arc::new(move |item| {
                on_result(&item);
                collected.lock().unwrap().push(item);
            }),
        };
        let summary = apply::run(plan, job).await;
        let results = std::mem::take(&mut *results.lock().unwrap());
        Synced { summary, results, requests: self.requests.lock().unwrap().clone() }
    }

    pub(crate) async fn sync(&self) -> Synced {
        self.apply(self.plan().await).await
    }

    /// Syncs what changed since the repository held `old`.
    pub(crate) async fn sync_from(&self, old: &Files) -> Synced {
        self.sync_from_and_retry(old, &[]).await
    }

    /// The same, and tries again these files, which have not changed.
    pub(crate) async fn sync_from_and_retry(&self, old: &Files, retry: &[&str]) -> Synced {
        let retry =
            Retry { files: retry.iter().map(|path| (*path).to_owned()).collect(), ..Retry::default() };
        let (reader, tree) = (self.reader(), test_reader::tree(&self.files));
        let none = Managed::default();
        let metadata =
            folders::read_metadata(&*reader, &tree, &none, &self.context, &self.cancel).await.unwrap();
        match plan::incremental(&diff(old, &self.files), &tree, &metadata, &retry, &self.context) {
            Incremental::Plan(plan) => self.apply(*plan).await,
            Incremental::NeedsFull(why) => panic!("a plan: {why}"),
        }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    pub(crate) fn dashboards(&self) -> Api<DynamicObject> {
        self.api("dashboard.grafana.app", "Dashboard", "dashboards")
    }

    pub(crate) fn client(&self) -> kube::Client {
        self.clients.dashboards.clone()
    }

    pub(crate) fn folders(&self) -> Api<DynamicObject> {
        self.api("folder.grafana.app", "Folder", "folders")
    }

    fn api(&self, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, "v1beta1", kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::namespaced_with(self.clients.dashboards.clone(), &self.context.namespace, &resource)
    }

    /// Everything in the API without what the server adds: by kind and name.
    pub(crate) async fn state(&self) -> BTreeMap<String, Value> {
        let mut state = BTreeMap::new();
        for (kind, api) in [("folder", self.folders()), ("dashboard", self.dashboards())] {
            for object in api.list(&ListParams::default()).await.unwrap() {
                let name = object.metadata.name.unwrap();
                let mut annotations = object.metadata.annotations;
                // How often an object was written depends on how it came to be what it is.
                if let Some(all) = &mut annotations {
                    all.remove(windlass_api::annotations::WRITTEN_GENERATION);
                }
                let value = json!({
                    "labels": object.metadata.labels,
                    "annotations": annotations,
                    "spec": object.data["spec"],
                });
                state.insert(format!("{kind}/{name}"), value);
            }
        }
        state
    }
}

async fn watched(
    request: Request,
    next: Next,
    record: &Mutex<Vec<String>>,
    fault: &Mutex<Option<Fault>>,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let before = if path.starts_with("/api/") { 5 } else { 6 };
    let target = path.splitn(before + 1, '/').nth(before).unwrap_or(&path).to_owned();
    record.lock().unwrap().push(format!("{method} {target}"));
    let injected = fault.lock().unwrap().as_ref().and_then(|fault| fault(&method, &target));
    match injected {
        // Stands for a server that never answers.
        Some(StatusCode::REQUEST_TIMEOUT) => std::future::pending().await,
        Some(code) => {
            let status = json!({
                "apiVersion": "v1", "kind": "Status", "status": "Failure",
                "code": code.as_u16(), "message": "injected", "reason": "",
            });
            (code, axum::Json(status)).into_response()
        }
        None => next.run(request).await,
    }
}

pub(crate) fn dashboard(name: &str, title: &str) -> String {
    json!({
        "apiVersion": "dashboard.grafana.app/v1beta1",
        "kind": "Dashboard",
        "metadata": { "name": name },
        "spec": { "title": title, "panels": [] },
    })
    .to_string()
}

pub(crate) fn folder_json(name: &str, title: &str) -> String {
    json!({
        "apiVersion": "folder.grafana.app/v1beta1",
        "kind": "Folder",
        "metadata": { "name": name },
        "spec": { "title": title },
    })
    .to_string()
}

/// What is different from `old` to `new`; a path that is gone and one that is new with the same content are a move.
fn diff(old: &Files, new: &Files) -> Diff {
    let gone: Vec<_> = old.iter().filter(|(path, _)| !new.contains_key(*path)).collect();
    let mut changes = Vec::new();
    let mut moved = Vec::new();
    for (path, content) in new {
        let (kind, previous_path, previous) = match old.get(path) {
            Some(before) if before == content => continue,
            Some(before) => (ChangeKind::Modified, None, Some(before)),
            None => match gone.iter().find(|(gone, before)| *before == content && !moved.contains(gone)) {
                Some((gone, before)) => {
                    moved.push(*gone);
                    (ChangeKind::Renamed, Some((*gone).clone()), Some(*before))
                }
                None => (ChangeKind::Added, None, None),
            },
        };
        changes.push(Change {
            path: path.clone(),
            previous_path,
            kind,
            id: Some(id(content)),
            previous_id: previous.map(|before| id(before)),
            entry: EntryKind::File,
            size: content.len() as u64,
        });
    }
    for (path, content) in gone.into_iter().filter(|(path, _)| !moved.contains(path)) {
        changes.push(Change {
            path: path.clone(),
            previous_path: None,
            kind: ChangeKind::Deleted,
            id: None,
            previous_id: Some(id(content)),
            entry: EntryKind::File,
            size: 0,
        });
    }
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Diff { changes, rejected: Vec::new() }
}
