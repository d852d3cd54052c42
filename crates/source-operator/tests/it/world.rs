//! An API server, a Git server, and processes that run the operator.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use secrecy::SecretBox;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass_api::conditions;
use windlass_api::flux::{Artifact, GitRepository};
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::{ApiClients, Caller};
use windlass_git::init_process;
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};
use windlass_launch::Context;
use windlass_runtime::Registry;
use windlass_settings::{Settings, Sources};
use windlass_source_operator::{SOURCE_CONTROLLER, register};
use windlass_telemetry::Metrics;

const DEADLINE: Duration = Duration::from_mins(3);

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: Running,
    pub(crate) client: Client,
    pub(crate) objects: Api<GitRepository>,
    /// What processes that are started from now on talk to.
    pub(crate) router: axum::Router,
}

pub(crate) struct Process {
    pub(crate) context: Arc<Context>,
    /// Where its artifacts are served, whatever the statuses say.
    pub(crate) origin: String,
    pub(crate) data: PathBuf,
    task: JoinHandle<()>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Process {
    /// Asks it to end, and waits until it has.
    pub(crate) async fn stop(mut self) {
        self.context.supervisor.token().cancel();
        tokio::time::timeout(DEADLINE, &mut self.task).await.unwrap().unwrap();
    }
}

pub(crate) fn put(path: &str, content: &str) -> Edit {
    Edit::put(path, content)
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|backend| backend).await
    }

    pub(crate) async fn with(adapt: impl FnOnce(HttpBackend) -> HttpBackend) -> Self {
        init_process().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = adapt(HttpBackend::new(folder.path())).start().await.unwrap();
        let store = in_memory(&StoreOptions::default()).unwrap();
        let api = ApiServer::builder(store)
            .crds([windlass_api::crds::all(), windlass_api::crds::flux()].concat())
            .sealing_key(&SecretBox::new(Box::new([7; 32])))
            .build()
            .unwrap();
        let client = api.client_for_tests();
        let objects = Api::namespaced(client.clone(), "default");
        Self { folder, server, client, objects, router: api.router() }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/app.git", self.server.origin())
    }

    /// Commits to the branch `main` and answers the commit's id.
    pub(crate) fn commit(&self, edits: impl IntoIterator<Item = Edit>) -> String {
        seed::commit(&self.folder.path().join("app.git"), "main", edits, "change").unwrap()
    }

    /// Runs Git in the repository.
    pub(crate) fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.folder.path().join("app.git")).args(arguments);
        let done =
            command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
    }

    /// How often refs were listed and packs fetched.
    pub(crate) fn requests(&self) -> u64 {
        self.server.log().count()
    }

    pub(crate) async fn start(&self) -> Process {
        self.start_as("one", &[("source.leader_election", "false")]).await
    }

    /// Starts a process whose files are under `name`.
    pub(crate) async fn start_as(&self, name: &str, more: &[(&str, &str)]) -> Process {
        let data = self.folder.path().join(format!("data-{name}"));
        // A port that is free now; it is bound again at once.
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (data_text, address, git) = (data.display().to_string(), free.to_string(), self.server.origin());
        let mut settings = vec![
            ("source.storage_path", data_text.as_str()),
            ("source.storage_address", address.as_str()),
            ("source.min_retry_delay", "50ms"),
            ("source.max_retry_delay", "200ms"),
            ("operator.allowed_git_origins", git.as_str()),
        ];
        settings.extend(more);
        let flags = settings.iter().map(|(key, value)| {
            let (section, key) = key.split_once('.').unwrap();
            (section.to_owned(), key.to_owned(), (*value).to_owned())
        });
        let operator = Some(SOURCE_CONTROLLER.to_owned());
        let sources =
            Sources { config: None, env: Vec::<(String, String)>::new(), flags: flags.collect(), operator };
        let settings = Settings::load(sources).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let client = client_of(self.router.clone(), Caller::system(name));
        let cache = self.folder.path().join(format!("cache-{name}"));
        let context =
            Context::new(settings, ApiClients::same(client), &cache, Metrics::new().unwrap()).unwrap();
        let context = Arc::new(context);
        let operator = register(Registry::new()).make(SOURCE_CONTROLLER).unwrap();
        let run = operator.run(Arc::clone(&context));
        let task = tokio::spawn(async move { run.await.unwrap() });
        Process { context, origin: format!("http://{free}"), data, task }
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) {
        let mut object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"url": self.url(), "interval": "1h"},
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        let object: GitRepository = serde_json::from_value(object).unwrap();
        self.objects.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.objects.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Asks for a reconcile as `flux reconcile` does.
    pub(crate) async fn request(&self, name: &str, at: &str) {
        self.patch(name, json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}})).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.objects.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until `holds` of the object.
    pub(crate) async fn when(
        &self,
        what: &str,
        name: &str,
        holds: impl Fn(&GitRepository) -> bool,
    ) -> GitRepository {
        let until = Instant::now() + DEADLINE;
        loop {
            let object = self.objects.get(name).await.unwrap();
            check(&object);
            if holds(&object) {
                return object;
            }
            assert!(
                Instant::now() < until,
                "not in time: {what}: {:#}",
                serde_json::to_value(&object).unwrap()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the object has an artifact of this commit and is ready.
    pub(crate) async fn ready(&self, name: &str, commit: &str) -> Artifact {
        let object = self
            .when("it is ready", name, |object| {
                let artifact = object.status.artifact.as_ref();
                is_ready(object) && artifact.is_some_and(|artifact| artifact.revision.ends_with(commit))
            })
            .await;
        object.status.artifact.unwrap()
    }

    /// Waits until Ready is False for this reason, and answers the message.
    pub(crate) async fn failed(&self, name: &str, reason: &str) -> (GitRepository, String) {
        let ready = |object: &GitRepository| conditions::find(&object.status.conditions, "Ready").cloned();
        let object = self
            .when(reason, name, |object| {
                ready(object).is_some_and(|it| it.status == "False" && it.reason == reason)
            })
            .await;
        let message = ready(&object).unwrap().message;
        (object, message)
    }
}

/// What Flux's own checker asks of every status that anybody sees: `pkg/runtime/conditions/check`.
fn check(object: &GitRepository) {
    let status = &object.status;
    let is = |kind: &str| conditions::is_true(&status.conditions, kind);
    for negative in ["Stalled", "Reconciling", "FetchFailed", "StorageOperationFailed", "IncludeUnavailable"]
    {
        assert!(!(is("Ready") && is(negative)), "{negative} while Ready: {status:#?}");
    }
    assert!(!(is("Stalled") && is("Reconciling")), "{status:#?}");
    assert!(status.conditions.is_empty() || conditions::find(&status.conditions, "Ready").is_some());
    assert!(status.observed_generation <= object.metadata.generation, "{status:#?}");
}

pub(crate) fn is_ready(object: &GitRepository) -> bool {
    conditions::is_true(&object.status.conditions, "Ready")
        && object.status.observed_generation == object.metadata.generation
}

/// What a server answers: the code and the body. Spoken by curl, which is nobody of ours.
pub(crate) async fn fetch(url: &str) -> (u16, Vec<u8>) {
    let done = tokio::process::Command::new("curl")
        .args(["--silent", "--show-error", "--noproxy", "*", "--write-out", "%{stderr}%{http_code}", url])
        .output()
        .await
        .unwrap();
    assert!(done.status.success(), "{url}: {done:?}");
    (String::from_utf8(done.stderr).unwrap().trim().parse().unwrap(), done.stdout)
}

/// The paths of an archive's entries, as tar lists them.
pub(crate) fn listed(archive: &[u8]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar.gz");
    std::fs::write(&path, archive).unwrap();
    let done = Command::new("tar").args(["-tzf"]).arg(&path).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
}
