//! Jobs of every action over repositories of every type, while controllers are killed and paused and the API server
//! restarts: each job is in history once, and Git and API agree file by file. It takes long, so it has a short form, and
//! a long one with `WINDLASS_LONG_TESTS` set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::{Operator, Peers, Remote, Server, eventually, job, kubernetes_dashboard, repository};

/// How much of everything.
struct Scale {
    repositories: usize,
    /// Jobs that work on files; with each fault comes one more that only takes time.
    jobs: usize,
    /// Faults, one every three seconds at most.
    faults: usize,
}

const SHORT: Scale = Scale { repositories: 6, jobs: 54, faults: 6 };
const LONG: Scale = Scale { repositories: 20, jobs: 500, faults: 20 };
const BETWEEN_FAULTS: Duration = Duration::from_secs(3);
/// The job that is being run when a controller is killed or paused.
const TAKES_TIME: &str = "2s";

/// Leases that lapse before a paused controller goes on, and no end to attempts: nothing is wrong with the jobs.
const SETTINGS: [(&str, &str); 6] = [
    ("GF_OPERATOR_LEASE_EXPIRY", "2s"),
    ("GF_OPERATOR_LEASE_RENEWAL_INTERVAL", "600ms"),
    ("GF_OPERATOR_JOB_INTERVAL", "2s"),
    ("GF_OPERATOR_CONCURRENT_DRIVERS", "4"),
    ("GF_OPERATOR_MAX_ATTEMPTS", "1000"),
    ("GF_OPERATOR_HISTORY_MAX_COUNT", "0"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Pull,
    Push,
    Delete,
    Move,
    FixFolderMetadata,
    Migrate,
}

const ACTIONS: [Action; 6] =
    [Action::Pull, Action::Push, Action::Delete, Action::Move, Action::FixFolderMetadata, Action::Migrate];

/// Where a repository's files are.
enum Place {
    Folder(PathBuf),
    Git(Remote),
}

/// One repository, and what its jobs are to come to.
struct Site {
    name: String,
    place: Place,
    /// What its jobs do, in the order they are queued.
    actions: Vec<Action>,
}

impl Site {
    /// The objects that nobody manages, which its jobs write to files.
    fn objects(&self) -> Vec<String> {
        self.each(|action, number| match action {
            Action::Push => Some(format!("free-{}-{number}", self.name)),
            Action::Migrate => Some(format!("own-{}-{number}", self.name)),
            _ => None,
        })
    }

    /// The files that it has in the beginning.
    fn begins_with(&self) -> Vec<String> {
        let mut files = self.each(|action, number| match action {
            Action::Delete => Some(format!("old/d{number}.json")),
            Action::Move => Some(format!("from/deep/m{number}.json")),
            _ => None,
        });
        files.push("keep/k.json".to_owned());
        files
    }

    /// The dashboards' files that it has in the end.
    fn ends_with(&self) -> BTreeSet<String> {
        let mut files = self.each(|action, number| match action {
            Action::Push => Some(format!("pushed/free-{}-{number}.json", self.name)),
            Action::Migrate => Some(format!("own-{}-{number}.json", self.name)),
            Action::Move => Some(format!("moved/m{number}.json")),
            _ => None,
        });
        files.push("keep/k.json".to_owned());
        files.into_iter().collect()
    }

    fn each(&self, of: impl Fn(Action, usize) -> Option<String>) -> Vec<String> {
        self.actions.iter().enumerate().filter_map(|(number, action)| of(*action, number)).collect()
    }

    /// Its job of this number.
    fn job(&self, number: usize) -> Value {
        let site = &self.name;
        let spec = match self.actions[number] {
            Action::Pull => json!({"action": "pull", "pull": {"incremental": number.is_multiple_of(2)}}),
            Action::Push => {
                let object = json!({"name": format!("free-{site}-{number}"), "kind": "Dashboard"});
                json!({"action": "push", "push": {"path": "pushed", "resources": [object]}})
            }
            Action::Delete => {
                json!({"action": "delete", "delete": {"paths": [format!("old/d{number}.json")]}})
            }
            Action::Move => {
                let paths = [format!("from/deep/m{number}.json")];
                json!({"action": "move", "move": {"paths": paths, "targetPath": "moved/"}})
            }
            Action::FixFolderMetadata => json!({"action": "fixFolderMetadata"}),
            Action::Migrate => {
                let object = json!({"name": format!("own-{site}-{number}"), "kind": "Dashboard"});
                json!({"action": "migrate", "migrate": {"resources": [object]}})
            }
        };
        job(&format!("{site}-{number}"), site, &spec)
    }

    /// A repository of type local, git or github, in turn.
    async fn create(number: usize, actions: Vec<Action>, folder: &Path) -> Self {
        let name = format!("r{number}");
        let mut site = Self { place: Place::Folder(folder.join(&name)), name, actions };
        let content = |path: String| {
            let stem = path.rsplit('/').next().unwrap().trim_end_matches(".json");
            let document = kubernetes_dashboard(&format!("{}-{stem}", site.name), stem);
            (path, document)
        };
        let files: Vec<(String, String)> = site.begins_with().into_iter().map(content).collect();
        if !number.is_multiple_of(3) {
            let remote = Remote::writable(files).await.unwrap();
            if number % 3 == 2 {
                // The URLs of GitHub's repositories do not end with `.git`.
                std::os::unix::fs::symlink(remote.path(), remote.path().with_extension("")).unwrap();
            }
            site.place = Place::Git(remote);
            return site;
        }
        for (path, text) in files {
            let path = folder.join(&site.name).join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        site
    }

    fn document(&self) -> Value {
        let Place::Git(remote) = &self.place else {
            let mut document = repository(&self.name, "");
            let Place::Folder(folder) = &self.place else { unreachable!() };
            document["spec"].as_object_mut().unwrap().remove("git");
            document["spec"]["type"] = "local".into();
            document["spec"]["local"] = json!({"path": folder});
            document["spec"]["workflows"] = json!(["write"]);
            return document;
        };
        let mut document = repository(&self.name, &remote.url());
        document["spec"]["workflows"] = json!(["write"]);
        document["secure"] = json!({"token": {"create": "a-token"}});
        if remote.path().with_extension("").exists() {
            let mut settings = document["spec"].as_object_mut().unwrap().remove("git").unwrap();
            settings["url"] = remote.url().trim_end_matches(".git").into();
            document["spec"]["type"] = "github".into();
            document["spec"]["github"] = settings;
        }
        document
    }

    /// Every file that it has, by path.
    fn files(&self) -> BTreeMap<String, String> {
        match &self.place {
            Place::Folder(folder) => files_below(folder),
            Place::Git(remote) => {
                let folder = tempfile::tempdir().unwrap();
                let take = "git -C \"$0\" archive main | tar -x -C \"$1\"";
                let taken = std::process::Command::new("bash")
                    .args(["-euo", "pipefail", "-c", take])
                    .args([remote.path(), folder.path().to_owned()])
                    .status();
                assert!(taken.unwrap().success());
                files_below(folder.path())
            }
        }
    }

    /// A commit belongs to a job that is in history, and a job that writes has made one.
    fn made_its_commits(&self, queued: &BTreeMap<String, Option<Action>>) {
        let Place::Git(remote) = &self.place else { return };
        let messages = git(remote, &["log", "--format=%B", "main"]);
        let of_jobs: Vec<&str> =
            messages.lines().filter_map(|line| line.strip_prefix("Windlass-Job: ")).collect();
        let committed: BTreeSet<&str> = of_jobs.iter().copied().collect();
        assert_eq!(of_jobs.len(), committed.len(), "a job made two commits of {}", self.name);
        for uid in &committed {
            assert!(queued.contains_key(*uid), "a commit of {} has no record: {uid}", self.name);
        }
        let writes = [Action::Push, Action::Delete, Action::Move, Action::Migrate];
        let writing = self.actions.iter().filter(|action| writes.contains(action)).count();
        let wrote = committed.iter().filter_map(|uid| queued[*uid]).filter(|action| writes.contains(action));
        assert_eq!(wrote.count(), writing, "{}", self.name);
        assert_eq!(git(remote, &["for-each-ref", "--format=%(refname)"]).trim(), "refs/heads/main");
    }
}

fn git(remote: &Remote, arguments: &[&str]) -> String {
    let output =
        std::process::Command::new("git").arg("-C").arg(remote.path()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn files_below(root: &Path) -> BTreeMap<String, String> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                files.insert(name, std::fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

/// Three controllers, of which one is killed or paused at a time.
struct Fleet {
    server: Server,
    settings: Vec<(String, String)>,
    running: Vec<Operator>,
    paused: Option<usize>,
    ended: Vec<Operator>,
}

impl Fleet {
    async fn controller(&self) -> Operator {
        let settings: Vec<(&str, &str)> =
            self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Operator::start(&self.server, "provisioning-jobs", &settings).await.unwrap()
    }

    /// Waits until a controller runs this job, and answers which.
    async fn runs(&self, name: &str) -> usize {
        let what = format!("a controller runs {name}");
        let found = eventually(&what, || async {
            let is_named = |line: &Value| line.to_string().contains(&format!("{name}\""));
            let started = |operator: &Operator| operator.lines("job started").iter().any(is_named);
            Ok(self.running.iter().position(started))
        });
        found.await.unwrap_or_else(|error| panic!("{error:#}\n{}", self.running[0].process.output()))
    }

    /// Fault `number`: a kill, a pause past the lease, or a restart of the API server.
    async fn fault(&mut self, number: usize, busy: &str) {
        let victim = self.runs(busy).await;
        if let Some(paused) = self.paused.take() {
            self.running[paused].process.signal("CONT").await.unwrap();
        }
        match number % 3 {
            0 => {
                self.running[victim].process.kill().await.unwrap();
                let next = self.controller().await;
                self.ended.push(std::mem::replace(&mut self.running[victim], next));
            }
            1 => {
                self.running[victim].process.signal("STOP").await.unwrap();
                self.paused = Some(victim);
            }
            _ => {
                self.server.process.kill().await.unwrap();
                self.server.restart().await.unwrap();
            }
        }
    }

    /// Creates jobs and answers their UIDs.
    async fn queue(&self, jobs: &[Value]) -> Vec<String> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": jobs});
        let arguments =
            ["create", "-f", "-", "-o", "jsonpath={.metadata.uid}{\"\\n\"}{.items[*].metadata.uid}"];
        let created = self.server.kubectl_with(&arguments, &list.to_string()).await.unwrap();
        let uids: Vec<String> = created.split_whitespace().map(str::to_owned).collect();
        assert_eq!(uids.len(), jobs.len(), "{created}");
        uids
    }

    /// Waits until nothing is queued, and answers what is in history then.
    async fn drained(&self) -> Vec<Value> {
        let mut last = usize::MAX;
        while last > 0 {
            // Progress is what has a deadline, not the whole.
            let shorter = eventually("the queue gets shorter", || async {
                let queued = self.server.names("jobs.provisioning.grafana.app").await?;
                anyhow::ensure!(queued.len() < last, "queued: {queued:?}");
                Ok(Some(queued.len()))
            });
            let said = || self.running.iter().map(|operator| operator.process.output()).collect::<Vec<_>>();
            last = shorter.await.unwrap_or_else(|error| panic!("{error:#}\n{}", said().join("\n")));
        }
        self.server.items(&["historicjobs"]).await.unwrap()
    }
}

fn original(record: &Value) -> String {
    record["metadata"]["labels"]["provisioning.grafana.app/original-uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Holds Git and API against each other, file by file.
async fn agree(server: &Server, sites: &[Site]) {
    let mut objects = BTreeMap::new();
    let mut unmanaged = BTreeSet::new();
    for object in server.items(&["dashboards"]).await.unwrap() {
        let (name, marks) = (object["metadata"]["name"].clone(), &object["metadata"]["annotations"]);
        let text = |key: &str| marks[key].as_str().map(str::to_owned);
        match (text("grafana.app/managerId"), text("grafana.app/sourcePath")) {
            (Some(site), Some(path)) => {
                let other = objects.insert((site, path), (name, object["spec"].clone()));
                assert!(other.is_none(), "two objects of one file: {object:#}");
            }
            _ => drop(unmanaged.insert(name.as_str().unwrap().to_owned())),
        }
    }
    for site in sites {
        let mut files = site.files();
        files.retain(|path, _| !path.ends_with("/_folder.json"));
        assert_eq!(files.keys().cloned().collect::<BTreeSet<_>>(), site.ends_with(), "{}", site.name);
        for (path, text) in files {
            let file: Value = serde_json::from_str(&text).unwrap();
            let object = objects.remove(&(site.name.clone(), path.clone()));
            let expected = (file["metadata"]["name"].clone(), file["spec"].clone());
            assert_eq!(object, Some(expected), "{} of {}", path, site.name);
        }
    }
    assert!(objects.is_empty(), "of no file: {objects:#?}");
    let pushed = sites.iter().flat_map(Site::objects).filter(|name| name.starts_with("free-"));
    assert_eq!(unmanaged, pushed.collect::<BTreeSet<_>>());
}

#[tokio::test]
async fn git_and_api_agree_file_by_file_whatever_befalls_controllers_and_server() {
    if !Peers::present(&["git", "curl", "jq", "tar", "kubectl"]).unwrap() {
        return;
    }
    let scale = if std::env::var_os("WINDLASS_LONG_TESTS").is_some() { LONG } else { SHORT };
    let folder = tempfile::tempdir().unwrap();
    let mut sites = Vec::new();
    for number in 0..scale.repositories {
        let jobs = (number..scale.jobs).step_by(scale.repositories).count();
        let actions = (0..jobs).map(|round| ACTIONS[(round + number) % ACTIONS.len()]).collect();
        sites.push(Site::create(number, actions, folder.path()).await);
    }
    let mut origins = Vec::new();
    for site in &sites {
        if let Place::Git(remote) = &site.place {
            origins.push(remote.origin());
        }
    }
    let server = Server::start(&origins).await.unwrap();
    let home = folder.path().display().to_string();
    let permitted = ("GF_OPERATOR_LOCAL_PERMITTED_PREFIXES", home.as_str());
    let _repositories = Operator::start(&server, "provisioning-repo", &[permitted]).await.unwrap();
    for site in &sites {
        server.create(&site.document()).await.unwrap();
    }
    let free = sites.iter().flat_map(Site::objects);
    let free: Vec<String> = free.map(|name| kubernetes_dashboard(&name, &name)).collect();
    server.kubectl_with(&["create", "-f", "-"], &free.join("\n")).await.unwrap();
    for site in &sites {
        server.healthy(&site.name).await.unwrap();
    }
    let settings = SETTINGS.iter().chain([&permitted]);
    let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut fleet = Fleet { server, settings, running: Vec::new(), paused: None, ended: Vec::new() };
    for _ in 0..3 {
        fleet.running.push(fleet.controller().await);
    }

    let mut queued: BTreeMap<String, Option<Action>> = BTreeMap::new();
    let all: Vec<(usize, usize)> =
        (0..scale.jobs).map(|number| (number % scale.repositories, number / scale.repositories)).collect();
    let mut pace = tokio::time::interval(BETWEEN_FAULTS);
    for (number, batch) in all.chunks(scale.jobs.div_ceil(scale.faults)).enumerate() {
        pace.tick().await;
        let busy = format!("takes-time-{number}");
        let test = json!({"action": "test", "test": {"duration": TAKES_TIME, "progressUpdates": 0}});
        let mut jobs = vec![job(&busy, &sites[number % sites.len()].name, &test)];
        jobs.extend(batch.iter().map(|(site, number)| sites[*site].job(*number)));
        let actions = batch.iter().map(|(site, number)| Some(sites[*site].actions[*number]));
        queued.extend(fleet.queue(&jobs).await.into_iter().zip(std::iter::once(None).chain(actions)));
        fleet.fault(number, &busy).await;
    }
    pace.tick().await;
    if let Some(paused) = fleet.paused.take() {
        fleet.running[paused].process.signal("CONT").await.unwrap();
    }
    assert_eq!(queued.len(), scale.jobs + scale.faults);
    let uids: BTreeSet<String> = queued.keys().cloned().collect();
    let records = fleet.drained().await;

    assert_eq!(records.len(), uids.len(), "a job is in history twice");
    assert_eq!(records.iter().map(original).collect::<BTreeSet<_>>(), uids);
    for record in &records {
        assert_eq!(record["status"]["state"], "success", "{record:#}");
    }
    let taken_over =
        fleet.running.iter().chain(&fleet.ended).flat_map(|operator| operator.lines("job started"));
    let taken_over = taken_over.filter(|line| line["attempt"].as_u64() > Some(1)).count();
    assert!(taken_over > 0, "no job was taken over: the faults hit nothing");

    for site in &sites {
        let last = json!({"action": "pull", "pull": {"incremental": false}});
        let ended =
            fleet.server.run_job(&job(&format!("last-{}", site.name), &site.name, &last)).await.unwrap();
        assert_eq!(ended["status"]["state"], "success", "{ended:#}");
    }
    agree(&fleet.server, &sites).await;
    for site in &sites {
        site.made_its_commits(&queued);
    }
    for operator in &fleet.running {
        operator.ready().await.unwrap();
    }
}
