//! What pulls do to folders and dashboards.

use serde_json::json;
use windlass_api::{Dashboard, JobState};
use windlass_git_server::seed::Edit;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{GitServer, Process, World, dashboard, end_of};

/// A world with the repository `test6` of three folders and five dashboards, and an operator.
pub(crate) async fn small() -> (GitServer, World, Process) {
    let git = GitServer::new().await;
    seed(&git);
    let world = World::with_git(&git);
    create(&world, &git).await;
    let process = world.start(register, PROVISIONING_JOBS);
    (git, world, process)
}

pub(crate) fn seed(git: &GitServer) -> String {
    git.put(&[
        ("overview.json", "overview", "Overview"),
        ("team-a/cpu.json", "cpu", "CPU"),
        ("team-a/memory.json", "memory", "Memory"),
        ("team-a/nested/disk.json", "disk", "Disk"),
        ("team-b/network.json", "network", "Network"),
    ])
}

pub(crate) async fn create(world: &World, git: &GitServer) {
    let spec = json!({"spec": {"git": {"url": git.url(), "branch": "main"}}});
    world.create_repository("test6", spec).await;
}

fn titles(of: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    of.iter().map(|(path, title)| ((*path).to_owned(), (*title).to_owned())).collect()
}

#[tokio::test]
async fn a_full_pull_creates_folders_and_dashboards_and_files_the_job() {
    let (_git, world, _process) = small().await;
    let record = world.pull("test6", false).await;
    assert_eq!(end_of(&record).0, JobState::Success, "{record:#?}");
    assert_eq!(world.folders().await, ["", "team-a", "team-a/nested", "team-b"]);
    let expected = titles(&[
        ("overview.json", "Overview"),
        ("team-a/cpu.json", "CPU"),
        ("team-a/memory.json", "Memory"),
        ("team-a/nested/disk.json", "Disk"),
        ("team-b/network.json", "Network"),
    ]);
    assert_eq!(world.dashboards().await, expected);
    let created: Vec<(&str, i64)> =
        record.status.summary.iter().map(|kind| (kind.kind.as_str(), kind.create)).collect();
    assert_eq!(created, [("Dashboard", 5), ("Folder", 4)]);
    assert!(record.status.started > 0 && record.status.finished >= record.status.started);
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn an_incremental_pull_applies_what_changed_was_added_deleted_and_renamed() {
    let (git, world, _process) = small().await;
    world.pull("test6", true).await;
    git.commit([
        Edit::put("team-a/cpu.json", dashboard("cpu", "CPU by core")),
        Edit::put("team-c/new.json", dashboard("new", "New")),
        Edit::delete("team-b/network.json"),
        Edit::delete("team-a/nested/disk.json"),
        Edit::put("team-a/nested/renamed.json", dashboard("disk", "Disk")),
    ]);
    world.requests.clear();
    let record = world.pull("test6", true).await;
    assert_eq!(end_of(&record).0, JobState::Success, "{record:#?}");
    let expected = titles(&[
        ("overview.json", "Overview"),
        ("team-a/cpu.json", "CPU by core"),
        ("team-a/memory.json", "Memory"),
        ("team-a/nested/renamed.json", "Disk"),
        ("team-c/new.json", "New"),
    ]);
    assert_eq!(world.dashboards().await, expected);
    assert_eq!(world.folders().await, ["", "team-a", "team-a/nested", "team-c"]);
    let lists = world.requests.all().into_iter().filter(|request| {
        request.method == "GET"
            && (request.path.ends_with("/dashboards") || request.path.ends_with("/folders"))
    });
    assert_eq!(lists.count(), 0, "nothing is listed for an incremental pull");
    let stats = world.repository("test6").await.status.stats;
    let counts: Vec<(&str, i64)> = stats.iter().map(|count| (count.resource.as_str(), count.count)).collect();
    assert_eq!(counts, [("dashboards", 5), ("folders", 4)]);
}

#[tokio::test]
async fn when_nothing_changed_a_pull_costs_one_git_request_and_writes_no_resource() {
    let (git, world, _process) = small().await;
    world.pull("test6", true).await;
    let before = git.requests();
    world.requests.clear();
    let record = world.pull("test6", true).await;
    assert_eq!(end_of(&record), (JobState::Success, "same commit as last time\n".to_owned()));
    assert_eq!(git.requests() - before, 1);
    assert_eq!(world.requests.writes_to("dashboards"), Vec::<String>::new());
    assert_eq!(world.requests.writes_to("folders"), Vec::<String>::new());
}

#[tokio::test]
async fn a_full_pull_that_finds_nothing_to_do_writes_no_resource() {
    let (_git, world, _process) = small().await;
    world.pull("test6", false).await;
    world.requests.clear();
    let record = world.pull("test6", false).await;
    assert_eq!(end_of(&record), (JobState::Success, "no changes to sync\n".to_owned()));
    assert_eq!(world.requests.writes_to("dashboards"), Vec::<String>::new());
    assert_eq!(world.requests.writes_to("folders"), Vec::<String>::new());
}

#[tokio::test]
async fn a_full_pull_brings_back_what_was_deleted_by_hand() {
    let (_git, world, _process) = small().await;
    world.pull("test6", false).await;
    let before = world.managed().await;
    world.api::<Dashboard>().delete("cpu", &kube::api::DeleteParams::default()).await.unwrap();
    world.pull("test6", false).await;
    assert_eq!(world.managed().await, before);
}

#[tokio::test]
async fn a_bad_file_is_named_in_a_warning_and_the_others_are_applied() {
    let (git, world, _process) = small().await;
    git.commit([Edit::put("team-a/broken.json", "{\"title\":"), Edit::put("ok.json", dashboard("ok", "OK"))]);
    let record = world.pull("test6", false).await;
    let (state, said) = end_of(&record);
    assert_eq!(state, JobState::Warning, "{said}");
    assert!(said.contains("team-a/broken.json"), "{said}");
    assert_eq!(world.dashboards().await.len(), 6);
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.state, JobState::Warning);
    assert!(repository.status.sync.message.iter().flatten().any(|text| text.contains("team-a/broken.json")));
}

#[tokio::test]
async fn another_specification_is_pulled_in_full_though_the_revision_is_the_same() {
    let (_git, world, _process) = small().await;
    world.pull("test6", true).await;
    world.patch_repository("test6", json!({"spec": {"git": {"path": "team-a"}}})).await;
    world.pull("test6", true).await;
    let paths: Vec<String> = world.dashboards().await.into_keys().collect();
    assert_eq!(paths, ["cpu.json", "memory.json", "nested/disk.json"]);
}

#[tokio::test]
async fn a_local_folder_is_pulled_without_git() {
    let world = World::new();
    let files = world.folder.path().join("files");
    std::fs::create_dir_all(files.join("team-a")).unwrap();
    std::fs::write(files.join("team-a/cpu.json"), dashboard("cpu", "CPU")).unwrap();
    let spec = json!({"spec": {"type": "local", "local": {"path": files.to_str().unwrap()}}});
    world.create_repository("test6", spec).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let record = world.pull("test6", true).await;
    assert_eq!(end_of(&record).0, JobState::Success, "{record:#?}");
    assert_eq!(world.dashboards().await, titles(&[("team-a/cpu.json", "CPU")]));
    std::fs::remove_file(files.join("team-a/cpu.json")).unwrap();
    world.pull("test6", true).await;
    assert!(world.dashboards().await.is_empty());
}
