//! An API server in process with Flux's kinds, a real Git server, and trackers that can die.

#[path = "../../../../jobs-operator/tests/it/kit/process.rs"]
#[allow(dead_code, reason = "the tests of operators share it")]
mod process;

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_commit_tracker::ledger::{Entry, Ledger, LedgerConfig};
use windlass_commit_tracker::objects::Kustomization;
use windlass_commit_tracker::{FLUX_COMMIT_TRACKER, SourceKind, register};
use windlass_git::init_process;
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};
use windlass_runtime::SystemClock;

pub(crate) use self::process::{Death, Process};

/// How long anything may take before a test gives up.
const CALL_DEADLINE: Duration = Duration::from_mins(1);

fn resource(kind: &str) -> ApiResource {
    SourceKind::of(kind).map_or_else(Kustomization::resource, SourceKind::resource)
}

/// A revision, that of its origin, and when it was applied.
type Applied<'a> = (&'a str, Option<&'a str>, Timestamp);

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) client: Client,
    pub(crate) router: axum::Router,
    pub(crate) settings: Vec<(String, String)>,
    git: Running,
}

impl World {
    /// With these settings, and others for all.
    pub(crate) async fn new(own: &[(&str, &str)]) -> Self {
        init_process().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let git = HttpBackend::new(folder.path().join("git")).start().await.unwrap();
        let server = ApiServer::builder(in_memory(&StoreOptions::default()).unwrap()).build().unwrap();
        server.start().await.unwrap();
        let router = server.router();
        let origin = &*git.origin();
        let settings = [
            ("commit_tracker.all", "true"),
            ("commit_tracker.observe_only", "false"),
            ("commit_tracker.metrics_address", ""),
            ("commit_tracker.health_address", ""),
            ("operator.allowed_git_origins", origin),
            ("operator.leader_election_lease_duration", "6s"),
            ("operator.leader_election_renew_deadline", "5s"),
            ("operator.leader_election_retry_period", "200ms"),
        ];
        let all = settings.iter().filter(|(key, _)| own.iter().all(|(known, _)| known != key)).chain(own);
        let settings = all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let client = server.client_for_tests();
        let world = Self { folder, client, router, settings, git };
        let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        for definition in serde_json::from_str::<Vec<_>>(include_str!("definitions.json")).unwrap() {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let url = format!("{origin}/apps.git");
        world.create("GitRepository", "apps", json!({"url": url, "interval": "1m"})).await;
        world
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "apps", &resource(kind))
    }

    async fn create(&self, kind: &str, name: &str, spec: Value) -> String {
        let mut object =
            DynamicObject::new(name, &resource(kind)).within("apps").data(json!({ "spec": spec }));
        object.metadata.labels = Some([("app".to_owned(), name.to_owned())].into());
        self.api(kind).create(&PostParams::default(), &object).await.unwrap().uid().unwrap()
    }

    async fn status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn change(&self, kind: &str, name: &str, change: Value) {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// What the `GitRepository` of the Git server says that it has.
    pub(crate) async fn publish(&self, revision: &str) {
        self.publish_artifact("GitRepository", "apps", revision, json!({})).await;
    }

    /// What a source of this kind says that it has, and what its artifact says of itself.
    pub(crate) async fn publish_artifact(&self, kind: &str, name: &str, revision: &str, metadata: Value) {
        let at = second(Timestamp::now());
        let artifact = json!({"revision": revision, "lastUpdateTime": at, "metadata": metadata});
        self.status(kind, name, json!({ "artifact": artifact })).await;
    }

    /// What an artifact says that was built from a revision of the Git server.
    pub(crate) fn built(&self, revision: &str, created: Timestamp) -> Value {
        json!({
            "org.opencontainers.image.source": format!("{}/apps.git", self.git.origin()),
            "org.opencontainers.image.revision": revision,
            "org.opencontainers.image.created": created.to_string(),
        })
    }

    /// Points the Kustomization `shop` at a source of this kind.
    pub(crate) async fn switch(&self, kind: &str, source: &str) {
        let source = json!({"kind": kind, "name": source});
        self.change("Kustomization", "shop", json!({"spec": {"sourceRef": source}})).await;
    }

    /// The same at a new one that is not looked into: what its artifact says of itself is enough.
    pub(crate) async fn switch_to(&self, kind: &str, artifact: &str, built: Value) {
        let url = "oci://registry.example.org/apps";
        self.create(kind, "images", json!({"url": url, "interval": "1m"})).await;
        self.publish_artifact(kind, "images", artifact, built).await;
        self.switch(kind, "images").await;
    }

    /// A Kustomization of the `GitRepository`; answers its UID.
    pub(crate) async fn kustomization(&self, name: &str) -> String {
        let source = json!({"kind": "GitRepository", "name": "apps"});
        self.create("Kustomization", name, json!({"sourceRef": source, "interval": "10m"})).await
    }

    /// The Kustomization `shop` says that it applied this revision long ago, and that one now.
    pub(crate) async fn moves(&self, from: &str, to: &str) {
        self.applied("shop", &[(from, long_ago()), (to, Timestamp::now())]).await;
    }

    /// The Kustomization says that it applied these revisions, each at a time; the last of them now.
    pub(crate) async fn applied(&self, name: &str, revisions: &[(&str, Timestamp)]) {
        let revisions: Vec<_> = revisions.iter().map(|(revision, at)| (*revision, None, *at)).collect();
        self.applied_from(name, &revisions).await;
    }

    /// The same, each with the revision of its origin.
    pub(crate) async fn applied_from(&self, name: &str, revisions: &[Applied<'_>]) {
        let history = revisions.iter().rev().take(5).map(|applied| snapshot(*applied, applied.2, 1));
        self.says(name, *revisions.last().unwrap(), history.collect()).await;
    }

    /// The Kustomization says that it ran manifests for a long time, and that this revision is the one that it ran last.
    pub(crate) async fn applied_often(&self, name: &str, revision: &str, from: Timestamp, to: Timestamp) {
        let applied = (revision, None, to);
        self.says(name, applied, vec![snapshot(applied, from, 4000)]).await;
    }

    async fn says(&self, name: &str, (newest, origin, at): Applied<'_>, history: Vec<Value>) {
        let ready = json!({
            "type": "Ready", "status": "True", "reason": "ReconciliationSucceeded", "lastTransitionTime": second(at),
            "message": format!("Applied revision: {newest}"),
        });
        let status = json!({
            "conditions": [ready], "lastAppliedRevision": newest, "lastAttemptedRevision": newest, "history": history,
            "lastAppliedOriginRevision": origin,
        });
        self.status("Kustomization", name, status).await;
    }

    fn bare(&self) -> PathBuf {
        self.folder.path().join("git/apps.git")
    }

    /// Makes a commit, and answers Flux's name of the revision.
    pub(crate) fn commit(&self, message: &str) -> String {
        let edit = Edit::put("a.yaml", format!("message: {message}"));
        format!("main@sha1:{}", seed::commit(&self.bare(), "main", [edit], message).unwrap())
    }

    /// Takes the repository away, as a server does that has lost it.
    pub(crate) fn hide(&self) {
        std::fs::rename(self.bare(), self.folder.path().join("hidden")).unwrap();
    }

    pub(crate) fn unhide(&self) {
        std::fs::rename(self.folder.path().join("hidden"), self.bare()).unwrap();
    }

    pub(crate) fn tracker(&self) -> Process {
        self.start(register, FLUX_COMMIT_TRACKER)
    }

    pub(crate) fn tracker_that_dies(&self, death: Death) -> Process {
        self.start_with(register, FLUX_COMMIT_TRACKER, death, |_context| {})
    }

    /// Waits until there is a ledger: what is merged from then on is counted.
    pub(crate) async fn begun(&self) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), "default");
        let head = async || maps.get("flux-commit-tracker-ledger").await;
        eventually("the ledger", head).await;
    }

    /// What is remembered in the cluster of a Kustomization.
    pub(crate) async fn entry(&self, uid: &str) -> Option<Arc<Entry>> {
        let config =
            LedgerConfig { call_deadline: CALL_DEADLINE, ..LedgerConfig::new(Arc::new(SystemClock)) };
        Ledger::open(self.client.clone(), "default", config).await.unwrap().entry(uid)
    }

    /// Waits until what is remembered of a Kustomization is so.
    pub(crate) async fn remembered(&self, uid: &str, is_so: impl Fn(&Entry) -> bool) -> Arc<Entry> {
        eventually("what is remembered", async || {
            let entry = self.entry(uid).await;
            entry.clone().filter(|entry| is_so(entry)).ok_or(entry)
        })
        .await
    }

    /// Waits until a revision is accounted for.
    pub(crate) async fn accounted(&self, uid: &str, revision: &str) -> Arc<Entry> {
        let is_newest = |entry: &Entry| entry.newest().is_some_and(|newest| newest.as_str() == revision);
        self.remembered(uid, is_newest).await
    }

    /// How many commits are counted once a revision is accounted for.
    pub(crate) async fn counted(&self, uid: &str, revision: &str) -> u64 {
        self.accounted(uid, revision).await.commits.counted
    }
}

/// The lines of a process's metrics that begin like this.
pub(crate) fn lines(process: &Process, start: &str) -> Vec<String> {
    let text = process.context.metrics.render().unwrap();
    text.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}

/// Waits until the lines that begin like this are so.
pub(crate) async fn shows(process: &Process, start: &str, are_so: impl Fn(&[String]) -> bool) {
    eventually(start, async || {
        let shown = lines(process, start);
        are_so(&shown).then_some(()).ok_or(shown)
    })
    .await;
}

/// Runs that built the same manifests.
fn snapshot((revision, origin, last): Applied<'_>, first: Timestamp, total: u32) -> Value {
    json!({
        "digest": format!("sha256:{revision}"), "firstReconciled": second(first), "lastReconciled": second(last),
        "lastReconciledDuration": "100ms", "lastReconciledStatus": "ReconciliationSucceeded",
        "totalReconciliations": total, "metadata": {"revision": revision, "originRevision": origin},
    })
}

/// A time as Flux writes it: in whole seconds.
fn second(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap().to_string()
}

/// A moment long before any tracker.
pub(crate) fn long_ago() -> Timestamp {
    Timestamp::now() - Duration::from_hours(48)
}

pub(crate) async fn eventually<T, E: Debug>(what: &str, attempt: impl AsyncFn() -> Result<T, E>) -> T {
    let end = Instant::now() + CALL_DEADLINE;
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(last) if Instant::now() > end => panic!("{what} did not come in time: {last:#?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
