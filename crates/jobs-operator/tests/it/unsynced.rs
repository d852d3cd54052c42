//! What a repository holds and the API does not: remembered until it is resolved, and tried again.

use http::StatusCode;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{Dashboard, FileOutcome, Folder, JobState, Repository};
use windlass_git_server::seed::Edit;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{GitServer, Process, World, dashboard, end_of};
use crate::pull::{create, seed, small};

/// Paths of what the repository's status lists as not synced.
fn unsynced(repository: &Repository) -> Vec<&str> {
    let status = repository.status.unsynced.as_ref();
    status.map(|status| status.items.iter().map(|file| file.path.as_str()).collect()).unwrap_or_default()
}

/// Pulls incrementally; answers the state and the paths of what is not synced then.
async fn pull(world: &World) -> (JobState, Vec<String>) {
    let record = world.pull("test6", true).await;
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.state, record.status.state, "{record:#?}");
    (record.status.state, unsynced(&repository).into_iter().map(str::to_owned).collect())
}

fn paths(of: &[&str]) -> Vec<String> {
    of.iter().map(|path| (*path).to_owned()).collect()
}

#[tokio::test]
async fn a_file_that_is_left_out_stays_a_warning_until_it_is_mended() {
    let (git, world, _process) = small().await;
    pull(&world).await;
    git.commit([Edit::put("team-a/bad.json", "{")]);
    let bad = (JobState::Warning, paths(&["team-a/bad.json"]));
    assert_eq!(pull(&world).await, bad);
    assert_eq!(pull(&world).await, bad, "nothing moved");
    git.put(&[("unrelated.json", "unrelated", "Unrelated")]);
    assert_eq!(pull(&world).await, bad, "something else moved");
    let repository = world.repository("test6").await;
    let condition = conditions::find(&repository.status.conditions, types::PULL_STATUS).unwrap();
    assert_eq!(condition.reason, reasons::COMPLETED_WITH_WARNINGS);
    let file = &repository.status.unsynced.as_ref().unwrap().items[0];
    assert_eq!((file.reason.as_str(), file.hash.len(), file.retry), ("ResourceInvalid", 40, false));
    let record = world.pull("test6", false).await;
    assert_eq!(end_of(&record).0, JobState::Warning, "a full pull tries it again and fails again");

    git.put(&[("team-a/bad.json", "good", "Good")]);
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    assert_eq!(world.repository("test6").await.status.unsynced, None);
    git.commit([Edit::put("worse.json", "{")]);
    assert_eq!(pull(&world).await.0, JobState::Warning);
    git.commit([Edit::delete("worse.json")]);
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])), "it is gone");
}

#[tokio::test]
async fn a_definition_that_is_installed_later_is_noticed_by_the_next_pull() {
    let (_git, world, _process) = with_widget().await;
    assert_eq!(pull(&world).await, (JobState::Warning, paths(&["w.json"])));
    assert_eq!(pull(&world).await, (JobState::Warning, paths(&["w.json"])));
    define_widgets(&world).await;
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])), "the repository has not changed");
    assert_eq!(widgets(&world).await, 1);
}

#[tokio::test]
async fn a_definition_that_is_installed_later_is_noticed_although_the_metadata_of_a_folder_is_bad() {
    let (git, world, _process) = with_widget().await;
    git.commit([Edit::put("team-b/_folder.json", "{")]);
    let left_out = (JobState::Warning, paths(&["team-b/_folder.json", "w.json"]));
    assert_eq!(pull(&world).await, left_out);
    assert_eq!(pull(&world).await, left_out);
    define_widgets(&world).await;
    let bad = (JobState::Warning, paths(&["team-b/_folder.json"]));
    assert_eq!(pull(&world).await, bad, "the repository has not changed");
    assert_eq!(widgets(&world).await, 1);
}

/// A world with a file of a kind that the API server does not serve yet.
async fn with_widget() -> (GitServer, World, Process) {
    let git = GitServer::new().await;
    seed(&git);
    let world = World::with_git(&git).set("provisioning.resource_kinds", "widgets.example.com");
    create(&world, &git).await;
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
    git.commit([Edit::put("w.json", widget.to_string())]);
    let process = world.start(register, PROVISIONING_JOBS);
    (git, world, process)
}

/// How many widgets the repository manages, as its status says.
async fn widgets(world: &World) -> i64 {
    let stats = world.repository("test6").await.status.stats;
    stats.iter().filter(|count| count.resource == "widgets").map(|count| count.count).sum()
}

async fn define_widgets(world: &World) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    }))
    .unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    api.create(&PostParams::default(), &definition).await.unwrap();
}

/// Pulls `edit` and then the same revision again, while the API refuses to delete objects with `part` in their URL, and
/// once it does not. `left` are the paths that are not synced before.
async fn refuse_deletion(part: &'static str, edit: Edit, left: &[&str]) -> World {
    let (git, world, _process) = small().await;
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    world.fault.answer(move |method, path| {
        (method == "DELETE" && path.contains(part)).then_some(StatusCode::UNPROCESSABLE_ENTITY)
    });
    git.commit([edit]);
    let refused = (JobState::Warning, paths(left));
    assert_eq!(pull(&world).await, refused);
    assert_eq!(pull(&world).await, refused, "nothing moved");
    git.put(&[("unrelated.json", "unrelated", "Unrelated")]);
    assert_eq!(pull(&world).await, refused, "something else moved");
    world.fault.heal();
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])), "the repository has not changed");
    world
}

#[tokio::test]
async fn a_refused_deletion_is_tried_again_by_every_pull() {
    let gone = Edit::delete("overview.json");
    let world = refuse_deletion("/dashboards/overview", gone, &["overview.json"]).await;
    assert_eq!(world.dashboards_at("overview.json").await, paths(&[]));
}

#[tokio::test]
async fn a_folder_that_waits_for_a_refused_deletion_is_deleted_after_it() {
    let gone = Edit::delete("team-b/network.json");
    let world = refuse_deletion("/dashboards/network", gone, &["team-b", "team-b/network.json"]).await;
    assert_eq!(world.dashboards_at("team-b/network.json").await, paths(&[]));
    assert_eq!(world.folders().await, ["", "team-a", "team-a/nested"]);
}

#[tokio::test]
async fn a_refused_deletion_of_a_folder_is_tried_again_by_every_pull() {
    let gone = Edit::delete("team-b/network.json");
    let world = refuse_deletion("/folders/", gone, &["team-b"]).await;
    assert_eq!(world.folders().await, ["", "team-a", "team-a/nested"]);
}

#[tokio::test]
async fn a_refused_deletion_of_the_former_object_of_a_file_is_tried_again_by_every_pull() {
    let renamed = Edit::put("overview.json", dashboard("renamed", "Overview"));
    let world = refuse_deletion("/dashboards/overview", renamed, &["overview.json"]).await;
    assert_eq!(world.dashboards_at("overview.json").await, ["renamed"]);
}

fn by_hand(name: &str) -> Dashboard {
    serde_json::from_str(&dashboard(name, "By hand")).unwrap()
}

#[tokio::test]
async fn a_file_is_applied_once_the_owner_of_its_object_is_gone() {
    let (_git, world, _process) = small().await;
    world.api::<Dashboard>().create(&PostParams::default(), &by_hand("cpu")).await.unwrap();
    let left_out = (JobState::Warning, paths(&["team-a/cpu.json"]));
    assert_eq!(pull(&world).await, left_out);
    assert_eq!(pull(&world).await, left_out);
    world.api::<Dashboard>().delete("cpu", &DeleteParams::default()).await.unwrap();
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])), "the repository has not changed");
    assert_eq!(world.dashboards().await["team-a/cpu.json"], "CPU");
}

#[tokio::test]
async fn when_the_file_that_has_an_object_goes_the_other_that_claims_it_is_applied() {
    let (git, world, _process) = small().await;
    git.put(&[("a/first.json", "same", "First"), ("b/second.json", "same", "Second")]);
    assert_eq!(pull(&world).await, (JobState::Warning, paths(&["b/second.json"])));
    assert_eq!(world.dashboards().await["a/first.json"], "First");
    git.commit([Edit::delete("a/first.json")]);
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    assert_eq!(world.dashboards().await["b/second.json"], "Second");
    // The same where the first file stays and calls its object differently.
    git.put(&[("c/third.json", "same", "Third")]);
    assert_eq!(pull(&world).await, (JobState::Warning, paths(&["c/third.json"])));
    git.put(&[("b/second.json", "other", "Other")]);
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    let dashboards = world.dashboards().await;
    assert_eq!((&*dashboards["b/second.json"], &*dashboards["c/third.json"]), ("Other", "Third"));
}

#[tokio::test]
async fn a_root_folder_that_is_not_ours_keeps_the_last_revision_and_says_so() {
    let (_git, world, _process) = small().await;
    let folder: Folder = serde_json::from_value(json!({
        "apiVersion": "folder.grafana.app/v1beta1", "kind": "Folder",
        "metadata": {"name": "test6"}, "spec": {"title": "Theirs"},
    }))
    .unwrap();
    world.api::<Folder>().create(&PostParams::default(), &folder).await.unwrap();
    for _ in 0..2 {
        let (state, said) = end_of(&world.pull("test6", true).await);
        assert_eq!(state, JobState::Warning, "{said}");
        assert!(said.starts_with("nothing was synced: the repository's folder \"test6\""), "{said}");
        let repository = world.repository("test6").await;
        assert_eq!((repository.status.sync.last_ref.as_str(), unsynced(&repository)), ("", vec![""]));
    }
    world.api::<Folder>().delete("test6", &DeleteParams::default()).await.unwrap();
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    assert_eq!(world.dashboards().await.len(), 5);
}

#[tokio::test]
async fn every_file_that_was_left_out_is_found_page_by_page_and_in_history() {
    let (git, world, _process) = small().await;
    git.commit((0..700).map(|i| Edit::put(format!("bad/{i:03}.json"), format!("{{\"kind\": {i}"))));
    let record = world.pull("test6", true).await;
    assert_eq!(record.status.state, JobState::Warning);
    assert_eq!((record.status.files.len(), record.status.files_omitted), (700, 0));
    let status = world.repository("test6").await.status.unsynced.unwrap();
    assert!(status.count == 700 && status.items.len() < 700, "the status lists some: {}", status.items.len());

    let mut found = Vec::new();
    let mut token = String::new();
    loop {
        let (code, page) = world.send("GET", &format!("test6/unsynced?limit=150&continue={token}"), "").await;
        assert_eq!((code, page["kind"].as_str()), (200, Some("UnsyncedList")), "{page}");
        let items: Vec<FileOutcome> = serde_json::from_value(page["items"].clone()).unwrap();
        assert!(items.len() <= 150);
        found.extend(items.into_iter().map(|file| file.path));
        let left = page["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
        assert_eq!(found.len() as u64 + left, 700);
        match &page["metadata"]["continue"] {
            Value::String(next) => token.clone_from(next),
            _ => break,
        }
    }
    let all: Vec<String> = (0..700).map(|i| format!("bad/{i:03}.json")).collect();
    assert_eq!(found, all);
    let (code, one) = world.send("GET", &format!("test6/jobs/{}", uid_of(&record)), "").await;
    assert_eq!((code, one["status"]["files"].as_array().map(Vec::len)), (200, Some(700)));
    // Not all are known from the status, so that the next pull compares everything.
    git.put(&[("bad/000.json", "good", "Good")]);
    assert_eq!(pull(&world).await.0, JobState::Warning);
    assert_eq!(world.repository("test6").await.status.unsynced.unwrap().count, 699);
    let (code, _) = world.send("GET", &format!("test6/unsynced?continue={token}x"), "").await;
    assert_eq!(code, 400);
    let (code, _) = world.send("GET", &format!("test6/unsynced?continue={token}"), "").await;
    assert_eq!(code, 410, "of another pull");
    let (code, none) = world.send("GET", "absent/unsynced", "").await;
    assert_eq!(code, 404, "{none}");
}

fn uid_of(record: &windlass_api::HistoricJob) -> String {
    record.metadata.labels.as_ref().unwrap()[windlass_api::labels::ORIGINAL_UID].clone()
}

#[tokio::test]
async fn nothing_is_said_to_be_created_that_was_not() {
    let (git, world, _process) = small().await;
    git.put(&[("a/first.json", "same", "First"), ("b/second.json", "same", "Second")]);
    git.commit([Edit::put("bad.json", "{")]);
    let (_, said) = end_of(&world.pull("test6", true).await);
    assert!(said.contains("(file: b/second.json, name: same, action: create)"), "{said}");
    assert!(said.contains("(file: bad.json, action: create)") && !said.contains("created)"), "{said}");
}

#[tokio::test]
async fn ignored_files_are_as_if_they_were_not_there() {
    let (git, world, _process) = small().await;
    git.commit([Edit::put("drafts/bad.json", "{")]);
    assert_eq!(pull(&world).await.0, JobState::Warning);
    git.commit([Edit::put(".windlassignore", "# not ours\ndrafts/\nteam-a/*\n!team-a/nested/\n")]);
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    let seen = ["overview.json", "team-a/nested/disk.json", "team-b/network.json"];
    let found = || async { world.dashboards().await.into_keys().collect::<Vec<_>>() };
    assert_eq!(found().await, seen, "what is newly ignored goes");
    git.put(&[("drafts/new.json", "new", "New"), ("team-a/other.json", "other", "Other")]);
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    assert_eq!(found().await, seen);
    git.commit([Edit::put(".windlassignore", "drafts/\n[z-a]\n")]);
    assert_eq!(pull(&world).await, (JobState::Warning, paths(&[".windlassignore"])), "a line is no pattern");
    assert_eq!(found().await.len(), 6, "what is no longer ignored comes");
    git.commit([Edit::delete(".windlassignore"), Edit::delete("drafts/bad.json")]);
    assert_eq!(pull(&world).await, (JobState::Success, paths(&[])));
    assert_eq!(found().await.len(), 7);
}
