//! Jobs that write to repositories.

use std::collections::BTreeMap;

use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::ApiResource;
use serde_json::{Value, json};
use windlass_api::{Dashboard, Folder, HistoricJob, JobSpec, JobState, annotations};
use windlass_apiserver::client_of;
use windlass_auth::Caller;
use windlass_git_server::seed::Edit;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{GitServer, Process, World, dashboard, end_of};
use crate::pull::seed;

/// A world whose repository `test6` takes pushes, and an operator.
pub(crate) async fn writable(spec: Value) -> (GitServer, World, Process) {
    let git = GitServer::with(windlass_git_server::HttpBackend::writable).await;
    seed(&git);
    let world = World::with_git(&git);
    create(&world, &git, spec).await;
    let process = world.start(register, PROVISIONING_JOBS);
    (git, world, process)
}

pub(crate) async fn create(world: &World, git: &GitServer, spec: Value) {
    let document = json!({
        "spec": {"git": {"url": git.url(), "branch": "main"}, "workflows": ["write", "branch"]},
        "secure": {"token": {"create": "a-token"}},
    });
    world.create_repository("test6", document).await;
    world.patch_repository("test6", json!({ "spec": spec })).await;
}

/// A job of `test6`.
pub(crate) fn job(action: &str, options: Value) -> JobSpec {
    let mut spec = json!({ "action": action, "repository": "test6" });
    if !options.is_null() {
        spec[action] = options;
    }
    serde_json::from_value(spec).unwrap()
}

/// Makes something that nobody manages.
pub(crate) async fn put(world: &World, kind: &str, name: &str, folder: Option<&str>, title: &str) {
    let (group, resource) = match kind {
        "Folder" => ("folder.grafana.app", ApiResource::erase::<Folder>(&())),
        _ => ("dashboard.grafana.app", ApiResource::erase::<Dashboard>(&())),
    };
    let marks: BTreeMap<&str, &str> =
        folder.map(|folder| (annotations::FOLDER, folder)).into_iter().collect();
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": format!("{group}/v1beta1"), "kind": kind,
        "metadata": {"name": name, "namespace": "default", "annotations": marks},
        "spec": {"title": title},
    }))
    .unwrap();
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "default", &resource);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// Two folders, one in the other, and three dashboards that nobody manages.
pub(crate) async fn by_hand(world: &World) {
    put(world, "Folder", "ops", None, "Operations").await;
    put(world, "Folder", "ops-db", Some("ops"), "Databases").await;
    put(world, "Dashboard", "top", None, "At the top").await;
    put(world, "Dashboard", "shift", Some("ops"), "Shift report").await;
    put(world, "Dashboard", "pg", Some("ops-db"), "PostgreSQL").await;
}

/// UID and path of each dashboard, by name; the path is empty where nobody manages it.
async fn identities(world: &World) -> BTreeMap<String, (String, String)> {
    let found = world.api::<Dashboard>().list(&ListParams::default()).await.unwrap();
    let of = |dashboard: Dashboard| {
        let metadata = dashboard.metadata;
        let marks = metadata.annotations.unwrap_or_default();
        let path = marks.get(annotations::SOURCE_PATH).cloned().unwrap_or_default();
        (metadata.name.unwrap(), (metadata.uid.unwrap(), path))
    };
    found.items.into_iter().map(of).collect()
}

pub(crate) fn ended_well(record: &HistoricJob) {
    assert_eq!(end_of(record).0, JobState::Success, "{record:#?}");
}

#[tokio::test]
async fn files_folders_and_resources_are_deleted_in_one_commit_and_their_objects_go() {
    let (git, world, _process) = writable(json!({})).await;
    world.pull("test6", false).await;
    let options = json!({
        "paths": ["team-a/nested/", "overview.json", "overview.json"],
        "resources": [{"name": "network", "kind": "Dashboard"}],
    });
    let record = world.run(job("delete", options)).await;
    ended_well(&record);
    assert_eq!(git.files("main"), ["team-a/cpu.json", "team-a/memory.json"]);
    assert_eq!(git.commits("main"), 2);
    let name = record.metadata.name.clone().unwrap();
    let uid = record.metadata.labels.clone().unwrap()["provisioning.grafana.app/original-uid"].clone();
    assert_eq!(
        git.git(&["log", "-1", "--format=%an <%ae>|%B", "main"]).trim_end(),
        format!("Grafana <noreply@grafana.com>|Delete from Grafana test6-delete\n\nWindlass-Job: {uid}"),
        "{name}"
    );
    let titles: Vec<String> = world.dashboards().await.into_keys().collect();
    assert_eq!(titles, ["team-a/cpu.json", "team-a/memory.json"]);
    assert_eq!(world.folders().await, ["", "team-a"]);
    let repository = world.repository("test6").await;
    assert_eq!(repository.status.sync.last_ref, git.git(&["rev-parse", "main"]));

    // What is not there is warned about, and nothing is written.
    let record = world.run(job("delete", json!({"paths": ["gone.json"]}))).await;
    let (state, said) = end_of(&record);
    assert_eq!(state, JobState::Warning, "{said}");
    assert!(said.contains("file not found") && said.contains("gone.json"), "{said}");
    assert_eq!(git.commits("main"), 2);
}

#[tokio::test]
async fn moved_files_and_folders_keep_their_objects() {
    let (git, world, _process) = writable(json!({})).await;
    world.pull("test6", false).await;
    let before = identities(&world).await;
    let options = json!({
        "targetPath": "archive/", "paths": ["team-a/nested", "overview.json"],
        "resources": [{"name": "cpu", "kind": "Dashboard", "group": "dashboard.grafana.app"}],
    });
    let mut spec = job("move", options);
    spec.message = "Tidy up".to_owned();
    ended_well(&world.run(spec).await);
    assert_eq!(
        git.files("main"),
        [
            "archive/cpu.json",
            "archive/nested/disk.json",
            "archive/overview.json",
            "team-a/memory.json",
            "team-b/network.json"
        ]
    );
    assert_eq!(git.commits("main"), 2);
    assert_eq!(git.git(&["log", "-1", "--format=%s", "main"]), "Tidy up");
    let after = identities(&world).await;
    let uids = |of: &BTreeMap<String, (String, String)>| -> BTreeMap<String, String> {
        of.iter().map(|(name, (uid, _))| (name.clone(), uid.clone())).collect()
    };
    assert_eq!(uids(&after), uids(&before));
    assert_eq!(after["disk"].1, "archive/nested/disk.json");
    assert_eq!(world.folders().await, ["", "archive", "archive/nested", "team-a", "team-b"]);
}

#[tokio::test]
async fn a_move_that_cannot_be_made_writes_nothing_and_says_why() {
    let (git, world, _process) = writable(json!({})).await;
    world.pull("test6", false).await;
    for (options, why) in [
        (json!({"targetPath": "x/", "paths": ["gone.json"]}), "file not found"),
        (json!({"targetPath": "team-a/nested/", "paths": ["team-a"]}), "cannot be moved into itself"),
        (
            json!({"targetPath": "x/", "resources": [{"name": "no", "kind": "Dashboard"}]}),
            "no file of the repository",
        ),
        (json!({"targetPath": "team-b/", "paths": ["team-a/cpu.json", "cpu.json"]}), "file not found"),
    ] {
        let (state, said) = end_of(&world.run(job("move", options)).await);
        assert_eq!(state, JobState::Error, "{said}");
        assert!(said.contains(why) && said.contains("too many errors: 1"), "{said}");
        assert_eq!(git.commits("main"), 1, "{said}");
    }
    git.commit([Edit::put("team-b/nested/disk.json", "{}"), Edit::put("team-b/cpu.json", "{}")]);
    let two = json!({"targetPath": "x/", "paths": ["team-a/nested/disk.json", "team-b/nested/disk.json"]});
    let (state, said) = end_of(&world.run(job("move", two)).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("two files would be at"), "{said}");
    let over = json!({"targetPath": "team-b/", "paths": ["team-a/cpu.json"]});
    let (state, said) = end_of(&world.run(job("move", over)).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("something is at"), "{said}");
    assert_eq!(git.commits("main"), 2);
    // Where it is already, and a file beside the folder that it is in.
    ended_well(
        &world.run(job("move", json!({"targetPath": "team-a/", "paths": ["team-a/memory.json"]}))).await,
    );
    let both = json!({"targetPath": "x/", "paths": ["team-a/memory.json", "team-a"]});
    let (_, said) = end_of(&world.run(job("move", both)).await);
    assert!(git.files("main").contains(&"x/memory.json".to_owned()), "{said}");
    assert!(git.files("main").contains(&"x/team-a/nested/disk.json".to_owned()), "{said}");
}

#[tokio::test]
async fn what_nobody_manages_is_pushed_under_new_names_once() {
    let (git, world, _process) = writable(json!({})).await;
    world.pull("test6", false).await;
    by_hand(&world).await;
    let record = world.run(job("push", json!({"path": "exported"}))).await;
    ended_well(&record);
    let exported: Vec<String> =
        git.files("main").into_iter().filter(|path| path.starts_with("exported/")).collect();
    assert_eq!(
        exported,
        [
            "exported/Operations/.keep",
            "exported/Operations/Databases/.keep",
            "exported/Operations/Databases/postgresql.json",
            "exported/Operations/shift-report.json",
            "exported/at-the-top.json"
        ]
    );
    let file: Value = serde_json::from_str(&git.file("main", "exported/at-the-top.json")).unwrap();
    assert_eq!(file["spec"], json!({"title": "At the top"}));
    assert_eq!(file["metadata"].as_object().unwrap().len(), 1, "only a name: {file}");
    assert_ne!(file["metadata"]["name"], "top");
    let counted: Vec<(&str, i64, i64)> =
        record.status.summary.iter().map(|kind| (kind.kind.as_str(), kind.create, kind.noop)).collect();
    assert_eq!(counted, [("Dashboard", 3, 5), ("Folder", 2, 0)]);
    assert_eq!(git.commits("main"), 2);

    // Once more: everything is there, and nothing is written.
    ended_well(&world.run(job("push", json!({"path": "exported"}))).await);
    assert_eq!(git.commits("main"), 2);
    // What was pushed stands beside what it was made from, and pulling it changes nothing in Git.
    world.pull("test6", true).await;
    let dashboards = world.dashboards().await;
    assert_eq!(dashboards["exported/at-the-top.json"], "At the top");
    assert_eq!(dashboards["top:"], "At the top");
}

#[tokio::test]
async fn a_push_to_another_branch_makes_it_from_the_configured_one_and_leaves_that_alone() {
    let (git, world, _process) = writable(json!({})).await;
    world.pull("test6", false).await;
    by_hand(&world).await;
    let main = git.git(&["rev-parse", "main"]);
    let options = json!({
        "branch": "export/ops", "resources": [{"name": "pg", "kind": "Dashboard"}], "generateNewFolderIDs": true,
    });
    ended_well(&world.run(job("push", options)).await);
    assert_eq!(git.git(&["rev-parse", "main"]), main);
    assert_eq!(git.git(&["rev-parse", "export/ops^"]), main);
    let added = git.git(&["diff", "--name-only", "main", "export/ops"]);
    assert_eq!(
        added.lines().collect::<Vec<_>>(),
        [
            "Operations/Databases/_folder.json",
            "Operations/Databases/postgresql.json",
            "Operations/_folder.json"
        ]
    );
    assert_eq!(world.dashboards().await.len(), 8, "nothing was pulled");

    // Further changes of that branch are made on its tip.
    let options = json!({"ref": "export/ops", "paths": ["overview.json"]});
    ended_well(&world.run(job("delete", options)).await);
    assert_eq!(git.commits("export/ops"), 3);
    assert!(git.files("main").contains(&"overview.json".to_owned()));
}

#[tokio::test]
async fn resources_that_cannot_be_pushed_are_named() {
    let (git, world, _process) = writable(json!({})).await;
    world.pull("test6", false).await;
    for (name, why) in [("gone", "does not exist"), ("cpu", "managed already")] {
        let options = json!({"resources": [{"name": name, "kind": "Dashboard"}]});
        let (state, said) = end_of(&world.run(job("push", options)).await);
        assert_eq!(state, JobState::Error);
        assert!(said.contains(&format!("Dashboard {name}")) && said.contains(why), "{said}");
    }
    assert_eq!(git.commits("main"), 1);
}

#[tokio::test]
async fn what_is_migrated_keeps_its_identity_and_is_the_repositorys() {
    for target in ["folder", "folderless", "instance"] {
        let (git, world, _process) = writable(json!({"sync": {"target": target, "enabled": false}})).await;
        by_hand(&world).await;
        let before = identities(&world).await;
        let record = world.run(job("migrate", json!({}))).await;
        ended_well(&record);
        assert_eq!(git.commits("main"), 2);
        let after = identities(&world).await;
        for (name, path) in [
            ("top", "at-the-top.json"),
            ("shift", "Operations/shift-report.json"),
            ("pg", "Operations/Databases/postgresql.json"),
        ] {
            assert_eq!((&after[name].0, after[name].1.as_str()), (&before[name].0, path), "{target}");
        }
        let folder = world.api::<Folder>().get("ops-db").await.unwrap();
        assert_eq!(folder.metadata.annotations.unwrap()[annotations::SOURCE_PATH], "Operations/Databases");
        assert_eq!(after.len(), 8);
        // Pull and push change nothing more.
        ended_well(&world.pull("test6", false).await);
        ended_well(&world.run(job("push", json!({}))).await);
        assert_eq!(git.commits("main"), 2);
    }
}

#[tokio::test]
async fn a_selective_migration_takes_what_is_named_and_a_whole_namespace_has_none() {
    let (git, world, _process) = writable(json!({})).await;
    by_hand(&world).await;
    let options = json!({"resources": [{"name": "top", "kind": "Dashboard"}]});
    ended_well(&world.run(job("migrate", options.clone())).await);
    let after = identities(&world).await;
    assert_eq!((after["top"].1.as_str(), after["pg"].1.as_str()), ("at-the-top.json", ""));
    assert_eq!(git.commits("main"), 2);
    let (_git, world, _process) = writable(json!({"sync": {"target": "instance"}})).await;
    let (state, said) = end_of(&world.run(job("migrate", options)).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("migrated as a whole"), "{said}");
}

#[tokio::test]
async fn a_migration_to_a_branch_takes_what_it_holds_out_of_the_api() {
    let (git, world, _process) = writable(json!({})).await;
    by_hand(&world).await;
    ended_well(&world.run(job("migrate", json!({"branch": "move-in"}))).await);
    assert_eq!(git.commits("main"), 1);
    assert!(git.files("move-in").contains(&"Operations/shift-report.json".to_owned()));
    assert!(identities(&world).await.is_empty());
    assert_eq!(world.folders().await.len(), 2, "folders stay");

    put(&world, "Dashboard", "other", None, "Other").await;
    let options = json!({"branch": "keep", "skipResourceDeletion": true});
    ended_well(&world.run(job("migrate", options)).await);
    assert!(identities(&world).await.contains_key("other"));
}

#[tokio::test]
async fn a_migration_that_would_write_over_a_file_writes_nothing() {
    let (git, world, _process) = writable(json!({})).await;
    put(&world, "Dashboard", "mine", None, "Overview").await;
    let (state, said) = end_of(&world.run(job("migrate", json!({}))).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("another file is there") && said.contains("overview.json"), "{said}");
    assert_eq!(git.commits("main"), 1);
    assert!(identities(&world).await.contains_key("mine"));
}

#[tokio::test]
async fn directories_get_metadata_and_their_markers_go() {
    let (git, world, _process) = writable(json!({})).await;
    git.commit([Edit::put("empty/.keep", "")]);
    let record = world.run(job("fixFolderMetadata", Value::Null)).await;
    assert_eq!(end_of(&record), (JobState::Success, "Folder metadata fixed on default branch\n".to_owned()));
    let files = git.files("main");
    for directory in ["empty", "team-a", "team-a/nested", "team-b"] {
        assert!(files.contains(&format!("{directory}/_folder.json")), "{files:?}");
    }
    assert!(!files.contains(&"empty/.keep".to_owned()));
    let text = git.git(&["log", "-1", "--format=%B", "main"]);
    assert!(
        text.starts_with("Add folder metadata files\n\nTriggered by job test6-fixfoldermetadata at 20"),
        "{text}"
    );
    let record = world.pull("test6", false).await;
    ended_well(&record);
    assert_eq!(world.folders().await, ["", "empty", "team-a", "team-a/nested", "team-b"]);
    ended_well(&world.run(job("fixFolderMetadata", json!({"ref": "other"}))).await);
    assert_eq!(git.commits("main"), 3, "there was nothing left to do");
}

#[tokio::test]
async fn nothing_is_cleared_up_after_a_repository_that_came_back() {
    let (git, world, process) = writable(json!({})).await;
    world.pull("test6", false).await;
    process.stop().await;
    world.delete_repository("test6").await;
    let queued = world.queue(job("deleteResources", Value::Null)).await;
    world.patch_repository("test6", json!({"metadata": {"finalizers": []}})).await;
    create(&world, &git, json!({})).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, refused) = end_of(&world.ended(&queued).await);
    assert_eq!(state, JobState::Error);
    assert!(refused.contains("exists and is healthy"), "{refused}");
    assert_eq!(world.dashboards().await.len(), 5);
}

#[tokio::test]
async fn what_a_repository_that_is_gone_has_left_is_released_or_deleted() {
    for (action, said, left) in
        [("releaseResources", "released 9 items\n", 5), ("deleteResources", "deleted 9 items\n", 0)]
    {
        let (_git, world, _process) = writable(json!({})).await;
        world.pull("test6", false).await;
        let refused = world.refused_job(&json!({"action": action, "repository": "test6"})).await;
        assert!(refused.message.contains("is not being deleted"), "{refused:?}");
        world.delete_repository("test6").await;
        let record = world.run(job(action, Value::Null)).await;
        assert_eq!(end_of(&record), (JobState::Success, said.to_owned()));
        let dashboards = world.dashboards().await;
        assert_eq!(dashboards.len(), left);
        assert!(dashboards.keys().all(|path| path.ends_with(':')), "{dashboards:?}");
        let again = world.run(job(action, Value::Null)).await;
        assert_eq!(end_of(&again), (JobState::Success, "no managed resources found\n".to_owned()));
    }
}

#[tokio::test]
async fn a_repository_whose_workflows_do_not_allow_it_any_more_is_not_written_to() {
    let (git, world, process) = writable(json!({"workflows": ["write", "branch"]})).await;
    process.stop().await;
    let to = async |workflow: &str| {
        world.patch_repository("test6", json!({"spec": {"workflows": [workflow]}})).await;
    };
    let written = world.queue(job("delete", json!({"paths": ["overview.json"]}))).await;
    to("branch").await;
    let process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.ended(&written).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("workflow \"write\" is not among"), "{said}");
    let (state, _) = end_of(&world.run(job("delete", json!({"ref": "x", "paths": ["overview.json"]}))).await);
    assert_eq!(state, JobState::Success);
    process.stop().await;
    let pushed = world.queue(job("push", json!({"branch": "y"}))).await;
    to("write").await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let (state, said) = end_of(&world.ended(&pushed).await);
    assert_eq!(state, JobState::Error);
    assert!(said.contains("workflow \"branch\" is not among"), "{said}");
    assert_eq!(git.commits("main"), 1);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_its_field_before_it_is_queued() {
    let (_git, world, process) = writable(json!({"workflows": ["branch"]})).await;
    process.stop().await;
    world.patch_status("test6", json!({"status": {"health": {"healthy": true, "checked": 5}}})).await;
    for (action, options, field) in [
        ("delete", json!({"paths": ["a.json"]}), "spec.delete.ref"),
        ("push", json!({}), "spec.push.branch"),
        ("push", json!({"branch": "x", "path": "../x"}), "spec.push.path"),
        ("delete", json!({"ref": "x", "paths": ["%2e%2e/a"]}), "spec.delete.paths[0]"),
        ("delete", json!({"ref": "x", "paths": [".git/config"]}), "spec.delete.paths[0]"),
        ("move", json!({"ref": "x", "paths": ["a"], "targetPath": "b"}), "spec.move.targetPath"),
        ("migrate", json!({"branch": "a..b"}), "spec.migrate.branch"),
    ] {
        let body = json!({"action": action, action: options}).to_string();
        let (code, status) = world.send("POST", "test6/jobs", body).await;
        assert_eq!(code, 422, "{status}");
        let causes = status["details"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["field"] == field), "{field}: {status}");
        // `kubectl create` is told the same.
        let spec = json!({"action": action, "repository": "test6", action: options});
        let refused = world.refused_job(&spec).await;
        assert_eq!(refused.code, 422, "{refused:?}");
        let causes = refused.details.unwrap().causes;
        assert!(causes.iter().any(|cause| cause.field == field), "{field}: {causes:?}");
    }
    assert!(world.jobs().await.is_empty());
    let body = json!({"action": "push", "push": {"branch": "x"}}).to_string();
    assert_eq!(world.send("POST", "test6/jobs", body).await.0, 202);
}

#[tokio::test]
async fn whoever_asked_for_a_job_is_its_commits_author() {
    let (git, world, _process) = writable(json!({})).await;
    let marks = [(annotations::AUTHOR, "Ada Lovelace"), (annotations::AUTHOR_EMAIL, "ada@example.com")];
    let marks = marks.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let client = client_of(world.router.clone(), Caller::system("somebody"));
    let spec = job("delete", json!({"paths": ["overview.json"]}));
    let queued = windlass_lease_queue::kube::insert(&client, "default", "test6", spec, marks).await.unwrap();
    ended_well(&world.ended(&queued).await);
    let who = git.git(&["log", "-1", "--format=%an|%ae|%at", "main"]);
    let created = queued.metadata.creation_timestamp.unwrap().0.as_second();
    assert_eq!(who, format!("Ada Lovelace|ada@example.com|{created}"));
}

#[tokio::test]
async fn a_folder_of_this_machine_is_written_through() {
    let world = World::new();
    let files = world.create_local("test6").await;
    world.patch_repository("test6", json!({"spec": {"workflows": ["write"]}})).await;
    std::fs::create_dir_all(files.join("a/b")).unwrap();
    for (path, name) in [("a/one.json", "one"), ("a/b/two.json", "two"), ("three.json", "three")] {
        std::fs::write(files.join(path), dashboard(name, name)).unwrap();
    }
    by_hand(&world).await;
    let _process = world.start(register, PROVISIONING_JOBS);
    ended_well(&world.pull("test6", false).await);
    ended_well(&world.run(job("delete", json!({"paths": ["a/b/"]}))).await);
    assert!(!files.join("a/b").exists());
    ended_well(&world.run(job("move", json!({"paths": ["three.json"], "targetPath": "a/c/"}))).await);
    assert!(files.join("a/c/three.json").exists() && !files.join("three.json").exists());
    ended_well(&world.run(job("push", json!({"path": "pushed"}))).await);
    assert!(files.join("pushed/Operations/Databases/postgresql.json").exists());
    ended_well(&world.run(job("fixFolderMetadata", Value::Null)).await);
    assert!(files.join("a/c/_folder.json").exists());
    ended_well(&world.run(job("migrate", json!({}))).await);
    let after = identities(&world).await;
    assert_eq!(after["pg"].1, "Operations/Databases/postgresql.json");
    assert_eq!(after["three"].1, "a/c/three.json");
    assert!(!after.contains_key("two"));
}
