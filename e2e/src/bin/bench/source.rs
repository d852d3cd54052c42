//! The source controller over one repository of 5,000 files: a hundred objects at once, one alone, checks of what did
//! not change, and how fast the artifact is served; then ten thousand objects that nothing happens to.

mod idle;
mod served;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use windlass_api::conditions;
use windlass_api::flux::GitRepository;
use windlass_e2e::{Process, Programs, Server, free_port};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};

use crate::samples::Samples;
use crate::scene::{memory, processor_seconds};
use crate::table::{Row, Table, Target, Unit};

const FILES: usize = 5_000;
/// Bytes of a file, so that all of them are 19 MB.
const FILE_BYTES: usize = 3_800;
const OBJECTS: usize = 100;
const DEADLINE: Duration = Duration::from_mins(5);

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let repository = Repository::new().await?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let scene = Scene::start(&repository.server).await?;
        times.push(scene.create(0..1).await?);
    }
    let note = format!("{FILES} files, {} MB; from the create to Ready", FILES * FILE_BYTES / 1_000_000);
    table.add(
        Row::new("source: one cold artifact", Target::AtMost(800.0), Unit::Millis, Samples::millis(times))
            .note(note),
    );

    let scene = Scene::start(&repository.server).await?;
    let before = repository.server.log().count();
    let took = scene.create(0..OBJECTS).await?;
    let cost = repository.server.log().count() - before;
    let figure = format!("source: {OBJECTS} objects of one URL, all ready");
    let note = format!("{cost} requests to the Git server");
    let millis = Samples::millis([took]);
    table.add(Row::new(figure, Target::AtMost(3_000.0), Unit::Millis, millis).note(note));
    let most = Samples::one(memory(&scene.process, "VmHWM")?);
    let figure = format!("source: most memory until {OBJECTS} objects are ready");
    table.add(Row::new(figure, Target::AtMost(80.0), Unit::Megabytes, most));

    let id = scene.process.id().context("the controller is gone")?;
    let before = repository.server.log().count();
    let interval = Duration::from_secs(10);
    scene.check_in(interval).await?;
    // From here on nothing changes, the interval included.
    let (begun, rounds, used) = (Instant::now(), 3, processor_seconds(id)?);
    let settled = repository.server.log().count();
    tokio::time::sleep(interval * rounds).await;
    let requests = (repository.server.log().count() - settled) as f64 / f64::from(rounds);
    let spent = (processor_seconds(id)? - used) * 1e3 / (OBJECTS as f64 * f64::from(rounds));
    let note = format!("{} before they had settled; {:.0?} looked at", settled - before, begun.elapsed());
    let figure = format!("source: requests an interval for {OBJECTS} unchanged objects of one URL");
    table.add(Row::new(figure, Target::AtMost(2.0), Unit::Count, Samples::one(requests)).note(note));
    let figure = "source: processor time of an unchanged check";
    table.add(Row::new(figure, Target::AtMost(1.0), Unit::Millis, Samples::one(spent)));
    served::measure(table, &scene).await?;
    drop(scene);
    idle::measure(table).await
}

struct Repository {
    _folder: tempfile::TempDir,
    server: Running,
}

impl Repository {
    async fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let files = (0..FILES).map(|number| {
            let mut text = format!("# file {number}\n");
            let mut state = number as u64 + 1;
            // Words that compress as documents do, and not as one repeated word.
            while text.len() < FILE_BYTES {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let _ = writeln!(text, "field-{}: value {}", state >> 58, state >> 40);
            }
            Edit::put(format!("dir-{}/file-{number}.yaml", number % 100), text)
        });
        seed::commit(&folder.path().join("app.git"), "main", files, "all")?;
        let server = HttpBackend::new(folder.path()).start().await?;
        Ok(Self { _folder: folder, server })
    }
}

struct Scene {
    process: Process,
    objects: Api<GitRepository>,
    url: String,
    metrics: u16,
    _server: Server,
}

impl Scene {
    /// An API server and a controller, each a process of its own, whose caches and storage are empty.
    async fn start(git: &Running) -> Result<Self> {
        let server = Server::start(&[]).await?;
        for definition in windlass_api::crds::flux() {
            let file = server.folder.path().join("definition.yaml");
            std::fs::write(&file, windlass_api::crds::yaml(&definition)?)?;
            let file = file.display().to_string();
            server.kubectl(&["apply", "--filename", &file]).await?;
        }
        let folder = server.folder.path().join("source-controller");
        std::fs::create_dir_all(&folder)?;
        let path = |name: &str| folder.join(name).display().to_string();
        let (artifacts, metrics) = (free_port()?, free_port()?);
        let kubeconfig = server.kubeconfig().display().to_string();
        let arguments = [
            format!("--allow-git-origin={}", git.origin()),
            format!("--kubeconfig={kubeconfig}"),
            format!("--storage-path={}", path("data")),
            format!("--storage-addr=127.0.0.1:{artifacts}"),
            format!("--metrics-addr=127.0.0.1:{metrics}"),
            "--health-addr=".to_owned(),
            "--enable-leader-election=false".to_owned(),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let cache = path("git");
        let environment = [("GF_OPERATOR_GIT_CACHE_DIR", cache.as_str())];
        let program = Programs::path("source-controller")?;
        let mut process = Process::start(&program, &arguments, &environment, &folder.join("log"))?;
        process.says("source operator started").await?;
        let config = Kubeconfig::read_from(server.kubeconfig())?;
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let objects = Api::namespaced(kube::Client::try_from(config)?, "default");
        let url = format!("{}/app.git", git.origin());
        Ok(Self { process, objects, url, metrics, _server: server })
    }

    /// Creates objects and waits until all are ready. Answers how long that took.
    async fn create(&self, numbers: std::ops::Range<usize>) -> Result<Duration> {
        let (begun, count) = (Instant::now(), numbers.len());
        for number in numbers {
            let object = json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1",
                "kind": "GitRepository",
                "metadata": {"name": format!("app-{number}"), "namespace": "default"},
                "spec": {"url": self.url, "interval": "1h", "ref": {"branch": "main"}},
            });
            self.objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        }
        let mut interval = tokio::time::interval(Duration::from_millis(20));
        while begun.elapsed() < DEADLINE {
            interval.tick().await;
            if self.count_ready().await? == count {
                return Ok(begun.elapsed());
            }
        }
        bail!("not ready in time; the controller said:\n{}", self.process.output())
    }

    async fn count_ready(&self) -> Result<usize> {
        let all = self.objects.list(&ListParams::default()).await?.items;
        Ok(all.iter().filter(|it| conditions::is_true(&it.status.conditions, "Ready")).count())
    }

    /// Has all objects checked in this interval.
    async fn check_in(&self, interval: Duration) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"interval": format!("{}s", interval.as_secs())}}));
        for number in 0..OBJECTS {
            self.objects.patch(&format!("app-{number}"), &PatchParams::default(), &patch).await?;
        }
        tokio::time::sleep(interval).await;
        Ok(())
    }
}
