//! Jobs on files of several YAML documents.

use serde_json::json;
use windlass_api::JobState;
use windlass_git_server::seed::Edit;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{GitServer, World, end_of};
use crate::pull::create;
use crate::write::{ended_well, job, writable};

fn of(name: &str) -> String {
    format!(
        "# {name}, by hand\napiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata:\n  name: {name}\nspec:\n  title: {name}\n"
    )
}

fn all(names: &[&str]) -> String {
    names.iter().map(|name| of(name)).collect::<Vec<_>>().join("---\n")
}

async fn names(world: &World) -> Vec<String> {
    world.dashboards_at("all.yaml").await
}

#[tokio::test]
async fn a_pull_names_the_document_that_is_broken_until_it_is_mended() {
    let (git, world, _process) = writable(json!({})).await;
    git.commit([Edit::put("all.yaml", format!("{}---\nkind: [\n---\nkind: {{\n---\n{}", of("a"), of("d")))]);
    let (state, said) = end_of(&world.pull("test6", false).await);
    assert_eq!(state, JobState::Warning, "{said}");
    for text in ["document 2 of 4: failed to parse", "document 3 of 4: failed to parse", "all.yaml"] {
        assert!(said.contains(text), "{text} in {said}");
    }
    let unsynced = world.repository("test6").await.status.unsynced.unwrap();
    assert_eq!((unsynced.count, unsynced.items.len()), (2, 2), "{unsynced:?}");
    assert_eq!(names(&world).await, ["a", "d"]);
    // A pull of something else still says so.
    git.put(&[("other.json", "other", "Other")]);
    let (state, said) = end_of(&world.pull("test6", true).await);
    assert_eq!(state, JobState::Warning, "{said}");
    assert!(said.contains("document 2 of 4") && said.contains("document 3 of 4"), "{said}");
    git.commit([Edit::put("all.yaml", all(&["a", "b", "d"]))]);
    ended_well(&world.pull("test6", true).await);
    assert!(world.repository("test6").await.status.unsynced.is_none());
    assert_eq!(names(&world).await, ["a", "b", "d"]);
}

#[tokio::test]
async fn of_several_documents_only_that_of_a_deleted_resource_goes() {
    let (git, world, _process) = writable(json!({})).await;
    git.commit([Edit::put("all.yaml", all(&["a", "b", "c"]))]);
    ended_well(&world.pull("test6", false).await);
    let resource = |name: &str| json!({"name": name, "kind": "Dashboard"});
    let uid = world.uid_of_dashboard("a").await;
    ended_well(&world.run(job("delete", json!({"resources": [resource("b")]}))).await);
    assert_eq!(git.file("main", "all.yaml"), all(&["a", "c"]).trim_end());
    assert_eq!(names(&world).await, ["a", "c"]);
    assert_eq!(world.uid_of_dashboard("a").await, uid);
    ended_well(&world.run(job("delete", json!({"resources": [resource("a"), resource("c")]}))).await);
    assert!(!git.files("main").contains(&"all.yaml".to_owned()), "nothing is left in it");
    assert!(names(&world).await.is_empty());
}

#[tokio::test]
async fn a_resource_is_not_moved_with_its_neighbours_unless_the_file_is_named() {
    let (git, world, _process) = writable(json!({})).await;
    git.commit([Edit::put("all.yaml", all(&["a", "b"]))]);
    ended_well(&world.pull("test6", false).await);
    let commits = git.commits("main");
    let options = json!({"targetPath": "x/", "resources": [{"name": "a", "kind": "Dashboard"}]});
    let (state, said) = end_of(&world.run(job("move", options)).await);
    assert_eq!((state, git.commits("main")), (JobState::Error, commits), "{said}");
    assert!(said.contains("its file has other documents, too; move the file by its path"), "{said}");
    let uid = world.uid_of_dashboard("a").await;
    ended_well(&world.run(job("move", json!({"targetPath": "x/", "paths": ["all.yaml"]}))).await);
    assert_eq!(world.dashboards_at("x/all.yaml").await, ["a", "b"]);
    assert_eq!(world.uid_of_dashboard("a").await, uid);
}

#[tokio::test]
async fn documents_that_there_is_no_room_for_are_left_out_and_named() {
    let git = GitServer::new().await;
    git.commit([Edit::put("all.yaml", all(&["a", "b", "c"])), Edit::put("z.yaml", of("z"))]);
    let world = World::with_git(&git).set("provisioning.max_resources_per_repository", "4");
    create(&world, &git).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.pull("test6", true).await);
    assert_eq!(state, JobState::Warning, "{said}");
    assert!(said.contains("manages as many resources as it may"), "{said}");
    // The root folder, one for each file, and one more.
    assert_eq!(names(&world).await, ["a", "b"]);
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.last_ref, "", "what was left out is not forgotten");
    git.commit([Edit::delete("z.yaml")]);
    ended_well(&world.pull("test6", true).await);
    assert_eq!(names(&world).await, ["a", "b", "c"]);
}
