//! A world for operators: an API server in process, repositories in a folder, and processes that can die.
//!
//! The tests of the operators and of the repository API share it. It names no operator: tests hand it registries.
#![allow(dead_code, unused_imports, reason = "each crate's tests use the part that they need")]

// By their paths: other packages take this file by its path, and would look for them beside it.
#[path = "kit/fault.rs"]
mod fault;
#[path = "kit/git.rs"]
mod git;
#[path = "kit/process.rs"]
mod process;
#[path = "kit/requests.rs"]
mod requests;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::{Dashboard, Folder, HistoricJob, Job, JobSpec, JobState, Repository};
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::Caller;
use windlass_git::{Git, GitConfig, init_process};
use windlass_repository::Opener;
use windlass_repository_api::RepositoryApi;
use windlass_resources::Clients;
use windlass_telemetry::Spans;

pub(crate) use self::fault::Fault;
pub(crate) use self::git::{GitServer, dashboard};
pub(crate) use self::process::{Death, Process};
pub(crate) use self::requests::Requests;

/// How long anything may take before a test gives up.
const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    /// Sees everything, and is seen by nobody.
    pub(crate) client: Client,
    /// What was asked of the API server, by everyone else.
    pub(crate) requests: Requests,
    /// What goes wrong at the API server, for everyone else.
    pub(crate) fault: Fault,
    pub(crate) router: axum::Router,
    /// Settings of processes, as `section.key=value`.
    pub(crate) settings: Vec<(String, String)>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_origins(&[])
    }

    /// A world whose processes may talk to this Git server.
    pub(crate) fn with_git(git: &GitServer) -> Self {
        Self::with_origins(&[git.origin()])
    }

    /// A world whose history is in the Loki at this URL.
    pub(crate) fn with_loki(url: &str) -> Self {
        let flag = ("provisioning".to_owned(), "loki_url".to_owned(), url.to_owned());
        let sources: windlass_settings::Sources =
            windlass_settings::Sources { flags: vec![flag], ..Default::default() };
        let settings = windlass_settings::Settings::load(sources).unwrap();
        let loki = windlass_launch::open_loki(&settings).unwrap();
        Self::build(&[], loki, Spans::disabled()).set("provisioning.loki_url", url)
    }

    pub(crate) fn with_origins(origins: &[String]) -> Self {
        Self::build(origins, None, Spans::disabled())
    }

    /// The same, which tells the spans of deliveries.
    pub(crate) fn traced(origins: &[String], spans: Spans) -> Self {
        Self::build(origins, None, spans)
    }

    fn build(origins: &[String], loki: Option<windlass_loki::Loki>, spans: Spans) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = in_memory(&StoreOptions::default()).unwrap();
        let server = ApiServer::builder(store)
            .crds(windlass_api::crds::all())
            .admission(windlass_admission::Provisioning::default())
            .sealing_key(&secrecy::SecretBox::new(Box::new([7; 32])))
            .build()
            .unwrap();
        let (requests, fault) = (Requests::default(), Fault::default());
        let watched = requests.watching(fault.applied_to(server.router()));
        init_process().unwrap();
        let mut config = GitConfig::new(folder.path().join("api-cache"));
        for origin in origins {
            config.policy = std::mem::take(&mut config.policy).allow_origin(origin).unwrap();
        }
        let inner = client_of(watched.clone(), Caller::system("repository-api"));
        let state = RepositoryApi {
            provisioning: inner.clone(),
            core: inner.clone(),
            resources: Clients::same(inner),
            opener: Opener::new(Git::new(config).unwrap(), None, vec![folder.path().to_path_buf()]),
            loki,
            repository_rules: windlass_api::repositories::RepositoryRules::default(),
            job_rules: windlass_api::jobs::JobRules::default(),
            access: std::sync::Arc::new(windlass_auth::CallerAccess),
            accept_sha1: false,
            webhook_metrics: None,
            spans,
            namespace: None,
        };
        let router = windlass_repository_api::router_over(state, watched);
        let permitted = folder.path().display().to_string();
        let settings = vec![
            ("operator.local_permitted_prefixes".to_owned(), permitted),
            // Folders are watched in real time, which the tests' is not.
            ("operator.local_watch".to_owned(), "false".to_owned()),
            ("operator.metrics_address".to_owned(), String::new()),
            ("operator.job_interval".to_owned(), "1s".to_owned()),
            ("operator.enable_test_jobs".to_owned(), "true".to_owned()),
            ("operator.allowed_git_origins".to_owned(), origins.join("|")),
        ];
        Self { folder, client: server.client_for_tests(), requests, fault, router, settings }
    }

    #[must_use]
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.settings.push((key.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a repository. `spec` is merged over what every repository has.
    pub(crate) async fn create_repository(&self, name: &str, document: Value) -> Repository {
        let mut whole = json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "title": name, "type": "git", "workflows": [],
                "sync": {"enabled": false, "target": "folder", "intervalSeconds": 60},
            },
        });
        merge(&mut whole, document);
        let whole: DynamicObject = serde_json::from_value(whole).unwrap();
        let resource = kube::core::ApiResource::erase::<Repository>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &resource);
        api.create(&PostParams::default(), &whole).await.unwrap();
        self.repository(name).await
    }

    /// Creates a repository of a folder of its own, and answers the folder.
    pub(crate) async fn create_local(&self, name: &str) -> std::path::PathBuf {
        let files = self.folder.path().join("files").join(name);
        std::fs::create_dir_all(&files).unwrap();
        let document = json!({"spec": {"type": "local", "local": {"path": files.to_str().unwrap()}}});
        self.create_repository(name, document).await;
        files
    }

    pub(crate) async fn repository(&self, name: &str) -> Repository {
        self.api::<Repository>().get(name).await.unwrap()
    }

    /// Changes a repository by a merge patch.
    pub(crate) async fn patch_repository(&self, name: &str, patch: Value) {
        let api = self.api::<Repository>();
        api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub(crate) async fn patch_status(&self, name: &str, patch: Value) {
        let api = self.api::<Repository>();
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub(crate) async fn delete_repository(&self, name: &str) {
        self.api::<Repository>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Queues a job.
    pub(crate) async fn queue(&self, spec: JobSpec) -> Job {
        let repository = spec.repository.clone();
        let client = client_of(self.router.clone(), Caller::system("somebody"));
        windlass_lease_queue::kube::insert(&client, "default", &repository, spec, BTreeMap::new())
            .await
            .unwrap()
    }

    /// Queues a job and waits for its record in history, and for its leaving the queue.
    pub(crate) async fn run(&self, spec: JobSpec) -> HistoricJob {
        let job = self.queue(spec).await;
        self.ended(&job).await
    }

    /// What the API server says to a Job of this specification, which it does not take.
    pub(crate) async fn refused_job(&self, spec: &Value) -> kube::core::Status {
        let object = json!({"apiVersion": Job::api_version(&()), "kind": Job::kind(&()),
            "metadata": {"generateName": "refused-"}, "spec": spec});
        let jobs: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), "default", &ApiResource::erase::<Job>(&()));
        match jobs.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await {
            Err(kube::Error::Api(status)) => *status,
            other => panic!("it was not refused: {other:?}"),
        }
    }

    /// Queues a pull and waits for its end.
    pub(crate) async fn pull(&self, repository: &str, incremental: bool) -> HistoricJob {
        self.run(JobSpec::pull(repository, incremental)).await
    }

    /// The record of a job, once it is the only one of it and the job is gone.
    pub(crate) async fn ended(&self, job: &Job) -> HistoricJob {
        let (name, uid) = (job.name_any(), job.uid().unwrap());
        eventually("the job ends", || async {
            let queued = self.api::<Job>().get_opt(&name).await.unwrap();
            if let Some(queued) = queued.filter(|queued| queued.uid() == Some(uid.clone())) {
                return Err(format!("it is still there: {:?} {:?}", queued.metadata.labels, queued.status));
            }
            let labelled = format!("{}={uid}", windlass_api::labels::ORIGINAL_UID);
            let found =
                self.api::<HistoricJob>().list(&ListParams::default().labels(&labelled)).await.unwrap();
            match <[HistoricJob; 1]>::try_from(found.items) {
                Ok([record]) => Ok(record),
                Err(records) => Err(format!("{} records in history", records.len())),
            }
        })
        .await
    }

    /// The repository, once it is as wished.
    pub(crate) async fn repository_when(
        &self,
        what: &str,
        name: &str,
        wish: impl Fn(&Repository) -> bool,
    ) -> Repository {
        eventually(what, || async {
            let repository = self.repository(name).await;
            if wish(&repository) { Ok(repository) } else { Err(format!("{repository:#?}")) }
        })
        .await
    }

    pub(crate) async fn history(&self) -> Vec<HistoricJob> {
        self.api::<HistoricJob>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn jobs(&self) -> Vec<Job> {
        self.api::<Job>().list(&ListParams::default()).await.unwrap().items
    }

    /// Paths of the dashboards that are there, each with its title; those that nobody manages under `name:`.
    pub(crate) async fn dashboards(&self) -> BTreeMap<String, String> {
        let found = self.api::<Dashboard>().list(&ListParams::default()).await.unwrap();
        found
            .items
            .into_iter()
            .map(|dashboard| {
                let title = serde_json::to_value(&dashboard).unwrap()["spec"]["title"]
                    .as_str()
                    .unwrap_or("")
                    .to_owned();
                (path_of(&dashboard), title)
            })
            .collect()
    }

    /// Names of the dashboards that come from a file.
    pub(crate) async fn dashboards_at(&self, path: &str) -> Vec<String> {
        let found = self.api::<Dashboard>().list(&ListParams::default()).await.unwrap();
        found.items.iter().filter(|item| path_of(*item) == path).map(kube::ResourceExt::name_any).collect()
    }

    /// Creates a dashboard that nobody manages.
    pub(crate) async fn create_dashboard(&self, name: &str) {
        let document = serde_json::from_str(&dashboard(name, name)).unwrap();
        self.api::<Dashboard>().create(&PostParams::default(), &document).await.unwrap();
    }

    pub(crate) async fn uid_of_dashboard(&self, name: &str) -> String {
        self.api::<Dashboard>().get(name).await.unwrap().uid().unwrap()
    }

    /// Paths of the folders that are there; of those that nobody manages the name.
    pub(crate) async fn folders(&self) -> Vec<String> {
        let found = self.api::<Folder>().list(&ListParams::default()).await.unwrap();
        let mut paths: Vec<String> = found.items.iter().map(path_of).collect();
        paths.sort();
        paths
    }

    /// Everything that pulls make, without what differs from one run to the next.
    pub(crate) async fn managed(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for object in self.api::<Folder>().list(&ListParams::default()).await.unwrap().items {
            all.insert(format!("Folder/{}", object.name_any()), lasting(&object));
        }
        for object in self.api::<Dashboard>().list(&ListParams::default()).await.unwrap().items {
            all.insert(format!("Dashboard/{}", object.name_any()), lasting(&object));
        }
        all
    }

    /// Sends a request to the repository API as `caller`.
    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Vec<u8>>) -> (u16, Value) {
        self.send_as(Some(Caller::system("somebody")), method, path, body).await
    }

    pub(crate) async fn send_as(
        &self,
        caller: Option<Caller>,
        method: &str,
        path: &str,
        body: impl Into<Vec<u8>>,
    ) -> (u16, Value) {
        let path = format!("/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/{path}");
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .body(axum::body::Body::from(body.into()))
            .unwrap();
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        let response = tower::ServiceExt::oneshot(self.router.clone(), request).await.unwrap();
        let code = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }
}

fn path_of(object: &impl Resource) -> String {
    let marks = object.meta().annotations.clone().unwrap_or_default();
    match marks.get(windlass_api::annotations::MANAGER_ID) {
        Some(_) => marks.get(windlass_api::annotations::SOURCE_PATH).cloned().unwrap_or_default(),
        None => format!("{}:", object.meta().name.clone().unwrap_or_default()),
    }
}

fn lasting(object: &(impl Resource + serde::Serialize)) -> Value {
    // How often an object was written depends on how it came to be what it is.
    let mut annotations = object.meta().annotations.clone();
    if let Some(all) = &mut annotations {
        all.remove(windlass_api::annotations::WRITTEN_GENERATION);
    }
    json!({
        "spec": serde_json::to_value(object).unwrap()["spec"],
        "labels": object.meta().labels,
        "annotations": annotations,
    })
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Looks again and again until there is an answer; fails with the last refusal.
pub(crate) async fn eventually<T, E: Debug, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
{
    let end = Instant::now() + DEADLINE;
    loop {
        match look().await {
            Ok(found) => return found,
            Err(last) if Instant::now() > end => panic!("{what}: not within {DEADLINE:?}; last: {last:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// The state that a job ended in, and everything that it said.
pub(crate) fn end_of(job: &HistoricJob) -> (JobState, String) {
    let status = &job.status;
    let texts = status.errors.iter().chain(&status.warnings).cloned().collect::<Vec<_>>().join("\n");
    (status.state, format!("{}\n{texts}", status.message))
}

/// A shared handle, for closures.
pub(crate) type Shared<T> = Arc<std::sync::Mutex<T>>;
