//! Replicas of the source controller as processes: whoever leads may be killed, and everybody is served all the while.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use windlass_api::conditions;
use windlass_api::flux::{Artifact, GitRepository};
use windlass_e2e::flux::{GitRemote, NewCommit};
use windlass_e2e::{Process, Programs, Server, eventually, free_port};

/// A replica, which may be started again where it was.
struct Replica {
    name: &'static str,
    folder: PathBuf,
    storage: PathBuf,
    kubeconfig: PathBuf,
    git: String,
    artifacts: u16,
    health: u16,
    starts: usize,
}

impl Replica {
    fn new(name: &'static str, storage: &str, server: &Server, git: &str) -> Result<Self> {
        let folder = server.folder.path().join(name);
        std::fs::create_dir_all(&folder)?;
        let storage = server.folder.path().join(storage);
        let (kubeconfig, git) = (server.kubeconfig(), git.to_owned());
        let (artifacts, health) = (free_port()?, free_port()?);
        Ok(Self { name, folder, storage, kubeconfig, git, artifacts, health, starts: 0 })
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.artifacts)
    }

    fn start(&mut self) -> Result<Process> {
        self.starts += 1;
        let show = |path: &Path| path.display().to_string();
        let arguments = [
            format!("--allow-git-origin={}", self.git),
            format!("--kubeconfig={}", show(&self.kubeconfig)),
            format!("--storage-path={}", show(&self.storage)),
            format!("--storage-addr=127.0.0.1:{}", self.artifacts),
            format!("--health-addr=127.0.0.1:{}", self.health),
            "--metrics-addr=".to_owned(),
            "--leader-election-lease-duration=4s".to_owned(),
            "--leader-election-renew-deadline=3s".to_owned(),
            "--leader-election-retry-period=300ms".to_owned(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let cache = show(&self.folder.join("git"));
        let log = self.folder.join(format!("log-{}", self.starts));
        let environment = [("GF_OPERATOR_GIT_CACHE_DIR", cache.as_str())];
        Process::start(&Programs::path("source-controller")?, &arguments, &environment, &log)
    }
}

/// Fetches an artifact from a replica, and fails if it is not what its digest says.
async fn fetch(origin: &str, artifact: &Artifact) -> Result<()> {
    let answer = reqwest::get(format!("{origin}/{}", artifact.path)).await?;
    ensure!(answer.status().is_success(), "{origin} answers {}", answer.status());
    let digest = format!("sha256:{}", hex::encode(Sha256::digest(&answer.bytes().await?)));
    ensure!(digest == artifact.digest, "{origin} serves {digest}");
    Ok(())
}

async fn is_ready(health: u16) -> Result<()> {
    let answer = reqwest::get(format!("http://127.0.0.1:{health}/readyz")).await?;
    ensure!(answer.status().is_success(), "/readyz answers {}", answer.status());
    Ok(())
}

/// Asks replicas for an artifact and whether they are ready, again and again, until it is told to stop.
struct Consumers {
    /// Ports of artifacts and of health of those that live.
    alive: Arc<Mutex<HashSet<(u16, u16)>>>,
    artifact: Arc<Mutex<Artifact>>,
    asking: tokio::task::JoinHandle<Result<usize>>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Consumers {
    fn start(artifact: Artifact, replicas: &[Replica]) -> Self {
        let all: HashSet<_> = replicas.iter().map(|it| (it.artifacts, it.health)).collect();
        let (alive, artifact) = (Arc::new(Mutex::new(all)), Arc::new(Mutex::new(artifact)));
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let (of, what) = (Arc::clone(&alive), Arc::clone(&artifact));
        let asking = tokio::spawn(async move {
            let mut count = 0;
            while stopped.try_recv().is_err() {
                let those: Vec<(u16, u16)> = of.lock().unwrap().iter().copied().collect();
                for (artifacts, health) in those {
                    let artifact = what.lock().unwrap().clone();
                    let asked = async {
                        fetch(&format!("http://127.0.0.1:{artifacts}"), &artifact).await?;
                        is_ready(health).await
                    };
                    match asked.await {
                        Ok(()) => count += 1,
                        // It was killed meanwhile.
                        Err(_) if !of.lock().unwrap().contains(&(artifacts, health)) => {}
                        Err(error) => return Err(error),
                    }
                }
                tokio::task::yield_now().await;
            }
            Ok(count)
        });
        Self { alive, artifact, asking, stop }
    }

    async fn finish(self) -> Result<usize> {
        let _ended_before = self.stop.send(());
        self.asking.await?
    }
}

struct Scene {
    server: Server,
    remote: GitRemote,
    objects: Api<GitRepository>,
}

impl Scene {
    async fn new(server: Server) -> Result<Self> {
        let config = Kubeconfig::read_from(server.kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in windlass_api::crds::flux() {
            definitions.create(&PostParams::default(), &definition).await?;
        }
        let objects = Api::namespaced(client, "default");
        Ok(Self { server, remote: GitRemote::new().await?, objects })
    }

    async fn commit(&self, value: &str) -> Result<String> {
        self.remote.commit(NewCommit::new(value, Timestamp::now(), "deploy/app.yaml", value)).await
    }

    async fn create(&self) -> Result<()> {
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {"url": self.remote.url(), "interval": "1h"},
        });
        self.objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    async fn request(&self, at: &str) -> Result<()> {
        let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}});
        self.objects.patch("app", &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// The artifact, once the object is ready and it is of this commit, and which of these leads.
    async fn artifact(&self, commit: &str, replicas: &[&Replica]) -> Result<(Artifact, usize)> {
        eventually("the artifact is one of a leader that lives", || async {
            let status = self.objects.get("app").await?.status;
            let is_ready = conditions::is_true(&status.conditions, "Ready");
            let Some(artifact) = status.artifact.filter(|it| is_ready && it.revision.ends_with(commit))
            else {
                return Ok(None);
            };
            let leader = replicas.iter().position(|it| artifact.url.starts_with(&it.origin()));
            Ok(leader.map(|leader| (artifact, leader)))
        })
        .await
    }
}

async fn leaders_are_killed_and_everybody_is_served(storages: [&str; 3]) -> Result<()> {
    let scene = Scene::new(Server::start(&[]).await?).await?;
    let origin = scene.remote.origin();
    let [one, two, three] = storages;
    let named = [("one", one), ("two", two), ("three", three)];
    let replicas = named.map(|(name, storage)| Replica::new(name, storage, &scene.server, &origin));
    let mut replicas = replicas.into_iter().collect::<Result<Vec<_>>>()?;
    let mut processes = replicas.iter_mut().map(Replica::start).collect::<Result<Vec<_>>>()?;
    for (replica, process) in replicas.iter().zip(&processes) {
        let ready = eventually("a replica is ready", || async { is_ready(replica.health).await.map(Some) });
        ready.await.with_context(|| format!("{} said:\n{}", replica.name, process.output()))?;
    }
    let mut commit = scene.commit("first").await?;
    scene.create().await?;
    let all: Vec<&Replica> = replicas.iter().collect();
    let (artifact, mut leader) = scene.artifact(&commit, &all).await?;
    for replica in &replicas {
        // The first request may come before the replica has seen the status.
        let fetched = async || fetch(&replica.origin(), &artifact).await.map(Some);
        eventually("every replica serves it", fetched).await?;
    }
    let consumers = Consumers::start(artifact.clone(), &replicas);
    for round in 1..=2 {
        let ports = (replicas[leader].artifacts, replicas[leader].health);
        consumers.alive.lock().unwrap().remove(&ports);
        processes[leader].kill().await?;
        // Another leads, without anything that is new in Git, and says where the artifact is now.
        let alive: Vec<&Replica> = replicas.iter().filter(|it| it.artifacts != ports.0).collect();
        let (found, next) = scene.artifact(&commit, &alive).await?;
        ensure!(found.digest == consumers.artifact.lock().unwrap().digest, "it is the same artifact");
        let next = alive[next].artifacts;
        let next = replicas.iter().position(|it| it.artifacts == next).context("nobody leads")?;
        commit = scene.commit(&format!("round {round}")).await?;
        scene.request(&round.to_string()).await?;
        let (newer, _) = scene.artifact(&commit, &[&replicas[next]]).await?;
        for replica in replicas.iter().filter(|it| it.artifacts != ports.0) {
            let fetched = async || fetch(&replica.origin(), &newer).await.map(Some);
            eventually("every replica that lives serves the next one", fetched).await?;
        }
        *consumers.artifact.lock().unwrap() = newer.clone();
        // Who was killed comes back where it was, is ready beside the leader, and serves what it has never seen.
        processes[leader] = replicas[leader].start()?;
        let back = &replicas[leader];
        let ready =
            eventually("who was killed is ready again", || async { is_ready(back.health).await.map(Some) });
        ready.await.with_context(|| format!("{} said:\n{}", back.name, processes[leader].output()))?;
        let fetched = async || fetch(&back.origin(), &newer).await.map(Some);
        eventually("who was killed serves the next one", fetched).await?;
        consumers.alive.lock().unwrap().insert(ports);
        leader = next;
    }
    let served = consumers.finish().await.context("a replica that lives did not serve, or was not ready")?;
    ensure!(served > 100, "they were asked {served} times");
    for process in &mut processes {
        process.signal("TERM").await?;
        let code = process.end(Duration::from_secs(30)).await?;
        if code != 0 {
            bail!("it ended with {code}:\n{}", process.output());
        }
    }
    Ok(())
}

#[tokio::test]
async fn replicas_with_folders_of_their_own_serve_and_are_ready_whoever_is_killed() {
    leaders_are_killed_and_everybody_is_served(["data-1", "data-2", "data-3"]).await.unwrap();
}

#[tokio::test]
async fn replicas_that_share_a_folder_serve_and_are_ready_whoever_is_killed() {
    leaders_are_killed_and_everybody_is_served(["data"; 3]).await.unwrap();
}
