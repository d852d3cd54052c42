use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Method, StatusCode};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_api::SyncTarget;
use windlass_resources::apply::Stopped;
use windlass_resources::{Reason, list_resources};

use crate::world::{World, dashboard, folder_json};

const SAMPLE: &[(&str, &str)] =
    &[("a/b/deep.json", "deep"), ("a/x.json", "x"), ("a/y.json", "y"), ("top.json", "top")];

fn folder_name(world: &World, managed: &windlass_resources::Managed, path: &str) -> String {
    assert_eq!(world.context.repository, "test6");
    managed.folders.iter().find(|folder| folder.path == path).expect("the folder is managed").name.clone()
}

#[tokio::test]
async fn everything_is_created_by_one_request_each() {
    let world = World::with(SAMPLE);
    let synced = world.sync().await;
    assert_eq!(synced.summary.created, 6);
    assert_eq!(synced.requests.len(), 6, "{:?}", synced.requests);
    // Folders come first, those above before those below.
    assert_eq!(synced.requests[..2], ["POST folders", "POST folders"]);
    let managed = world.managed().await;
    let (a, b) = (folder_name(&world, &managed, "a"), folder_name(&world, &managed, "a/b"));
    let folder = world.folders().get(&b).await.unwrap();
    assert_eq!(folder.metadata.annotations.unwrap()["grafana.app/folder"], a);
    assert_eq!(folder.data["spec"]["title"], "b");
    let deep = world.dashboards().get("deep").await.unwrap();
    assert_eq!(deep.data["spec"], json!({ "title": "deep in a/b/deep.json", "panels": [] }));
    let annotations = deep.metadata.annotations.unwrap();
    let expected = [
        ("grafana.app/managedBy", "repo"),
        ("grafana.app/managerId", "test6"),
        ("grafana.app/sourcePath", "a/b/deep.json"),
        ("grafana.app/folder", b.as_str()),
    ];
    for (key, value) in expected {
        assert_eq!(annotations[key], value, "{key}");
    }
    assert_eq!(annotations["grafana.app/sourceChecksum"].len(), 40);
}

#[tokio::test]
async fn a_second_sync_finds_nothing_to_do() {
    let mut world = World::with(SAMPLE);
    world
        .write("named/_folder.json", &folder_json("team", "Team"))
        .write("named/z.json", &dashboard("z", "Z"));
    world.sync().await;
    let plan = world.plan().await;
    assert!(plan.is_empty(), "{plan}");
    assert!(world.apply(plan).await.requests.is_empty());
}

#[tokio::test]
async fn a_changed_file_costs_one_request_and_replaces_the_spec_only() {
    let mut world = World::with(SAMPLE);
    world.sync().await;
    let by_hand = json!({ "metadata": { "labels": { "starred": "yes" } }, "spec": { "extra": 1 } });
    world.dashboards().patch("x", &PatchParams::default(), &Patch::Merge(by_hand)).await.unwrap();
    let before = world.dashboards().get("x").await.unwrap();
    let synced = world.write("a/x.json", &dashboard("x", "new")).sync().await;
    assert_eq!(synced.requests, ["PATCH dashboards/x"]);
    assert_eq!(synced.outcomes(), ["updated a/x.json"]);
    let after = world.dashboards().get("x").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.labels.unwrap()["starred"], "yes");
    assert_eq!(after.data["spec"], json!({ "title": "new", "panels": [] }));
}

#[tokio::test]
async fn a_label_that_a_file_drops_goes_and_one_of_somebody_else_stays() {
    let file = |metadata: serde_json::Value| {
        json!({
            "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
            "metadata": metadata, "spec": { "title": "X" },
        })
        .to_string()
    };
    let mut world = World::new();
    let labels = json!({ "team": "a", "tier": "gold" });
    world.write("x.json", &file(json!({ "name": "x", "labels": labels, "annotations": { "a/note": "n" } })));
    world.sync().await;
    let by_hand = json!({ "metadata": { "labels": { "starred": "yes" }, "annotations": { "theirs": "1" } } });
    world.dashboards().patch("x", &PatchParams::default(), &Patch::Merge(by_hand)).await.unwrap();

    world.write("x.json", &file(json!({ "name": "x", "labels": { "tier": "silver" } })));
    // The second records that the spec stayed as it was.
    assert_eq!(world.sync().await.requests, ["PATCH dashboards/x"; 2]);
    let metadata = world.dashboards().get("x").await.unwrap().metadata;
    let labels = json!({ "tier": "silver", "starred": "yes", "windlass.dev/managed-by": "test6" });
    assert_eq!(json!(metadata.labels), labels);
    let annotations = metadata.annotations.unwrap();
    assert!(!annotations.contains_key("a/note"), "{annotations:?}");
    assert_eq!(annotations["theirs"], "1");

    // The same where only the difference is known.
    let before = world.files.clone();
    world.write("x.json", &file(json!({ "name": "x" })));
    world.sync_from(&before).await;
    let metadata = world.dashboards().get("x").await.unwrap().metadata;
    assert_eq!(json!(metadata.labels), json!({ "starred": "yes", "windlass.dev/managed-by": "test6" }));
    assert!(!metadata.annotations.unwrap().contains_key("windlass.dev/file-metadata"));
}

#[tokio::test]
async fn a_moved_file_keeps_its_object() {
    let mut world = World::with(SAMPLE);
    world.sync().await;
    let before = world.dashboards().get("deep").await.unwrap();
    let synced = world.rename("a/b/deep.json", "c/deep.json").sync().await;
    assert_eq!(synced.outcomes(), ["created c", "deleted a/b", "renamed c/deep.json"]);
    let moved = synced.results.iter().find(|item| item.path == "c/deep.json").unwrap();
    assert_eq!(moved.previous_path.as_deref(), Some("a/b/deep.json"));
    let after = world.dashboards().get("deep").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.annotations.unwrap()["grafana.app/sourcePath"], "c/deep.json");
}

#[tokio::test]
async fn a_file_that_moved_and_changed_keeps_its_object() {
    for only_the_difference in [false, true] {
        let mut world = World::with(SAMPLE);
        world.sync().await;
        let before = world.dashboards().get("deep").await.unwrap();
        let old = world.files.clone();
        world.remove("a/b/deep.json").write("c/deeper.json", &dashboard("deep", "Another title"));
        let synced = if only_the_difference { world.sync_from(&old).await } else { world.sync().await };
        let outcomes = synced.outcomes();
        assert!(outcomes.contains(&"renamed c/deeper.json".to_owned()), "{outcomes:?}");
        assert!(!synced.writes().contains(&"DELETE dashboards/deep"), "{synced:#?}");
        let after = world.dashboards().get("deep").await.unwrap();
        assert_eq!(after.metadata.uid, before.metadata.uid);
        assert_eq!(after.metadata.annotations.unwrap()["grafana.app/sourcePath"], "c/deeper.json");
        assert_eq!(after.data["spec"]["title"], "Another title");
        assert!(world.plan().await.is_empty());
    }
}

#[tokio::test]
async fn a_deleted_directory_goes_from_the_bottom_up() {
    let mut world = World::with(SAMPLE);
    world.sync().await;
    let managed = world.managed().await;
    let (a, b) = (folder_name(&world, &managed, "a"), folder_name(&world, &managed, "a/b"));
    for path in ["a/b/deep.json", "a/x.json", "a/y.json"] {
        world.remove(path);
    }
    let synced = world.sync().await;
    assert_eq!(synced.summary.deleted, 5);
    let writes = synced.writes();
    assert_eq!(writes[3..], [format!("DELETE folders/{b}"), format!("DELETE folders/{a}")]);
    assert_eq!(world.state().await.into_keys().collect::<Vec<_>>(), ["dashboard/top"]);
}

#[tokio::test]
async fn a_bad_file_is_named_and_the_others_are_applied() {
    let mut world = World::with(SAMPLE);
    world.write("a/bad.yaml", "a: [").write("a/secret.json", r#"{"apiVersion":"v1","kind":"Secret"}"#);
    world.limits.blob_bytes = 1_000;
    world.write("large.json", &"x".repeat(1_001));
    let synced = world.sync().await;
    assert_eq!((synced.summary.created, synced.summary.warnings, synced.summary.errors), (6, 3, 0));
    assert_eq!(synced.failure("a/bad.yaml").reason, Reason::ResourceInvalid);
    assert!(synced.failure("a/secret.json").message.contains("kind \"Secret\""));
    let large = synced.failure("large.json");
    assert_eq!(large.reason, Reason::ResourceTooLarge);
    assert!(
        large.message.contains("the limit is 1000") && large.message.contains("git_max_file_bytes"),
        "{large}"
    );
}

#[tokio::test]
async fn a_file_may_be_as_large_as_its_reader_reads() {
    let mut world = World::new();
    let padded = |text: String| text + &" ".repeat(6 << 20);
    world
        .write("a/_folder.json", &padded(folder_json("team", "The Team")))
        .write("a/large.json", &padded(dashboard("large", "Large")));
    assert_eq!(world.sync().await.outcomes(), ["created a", "created a/large.json"]);
    assert_eq!(world.folders().get("team").await.unwrap().data["spec"]["title"], "The Team");
}

#[tokio::test]
async fn a_label_that_was_removed_by_hand_is_put_back_as_a_repair() {
    for incremental in [false, true] {
        let mut world = World::with(SAMPLE);
        world.sync().await;
        let folder = folder_name(&world, &world.managed().await, "a");
        let unlabelled =
            Patch::Merge(json!({ "metadata": { "labels": { "windlass.dev/managed-by": null } } }));
        world.dashboards().patch("x", &PatchParams::default(), &unlabelled).await.unwrap();
        world.folders().patch(&folder, &PatchParams::default(), &unlabelled).await.unwrap();
        assert_eq!(world.managed().await.len(), 4, "two are not listed");
        let synced = if incremental {
            let old = world.files.clone();
            world.write("a/x.json", &dashboard("x", "new")).write("a/new.json", &dashboard("new", "new"));
            world.sync_from(&old).await
        } else {
            world.sync().await
        };
        let repaired = synced.results.iter().filter(|item| item.drifted && item.unexpected);
        let mut repaired: Vec<_> =
            repaired.map(|item| format!("{} {}", item.action.as_str(), item.path)).collect();
        repaired.sort();
        assert_eq!(repaired, ["updated a", "updated a/x.json"], "{synced:#?}");
        assert_eq!(world.managed().await.len(), if incremental { 7 } else { 6 });
        assert!(world.plan().await.is_empty(), "{}", world.plan().await);
    }
}

#[tokio::test]
async fn what_somebody_else_made_is_left_alone() {
    let mut world = World::with(&[("x.json", "x"), ("y.json", "y"), ("z.json", "z")]);
    let foreign = |name: &str, annotations: serde_json::Value| {
        serde_json::from_value(json!({
            "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
            "metadata": { "name": name, "annotations": annotations }, "spec": { "title": "theirs" },
        }))
        .unwrap()
    };
    let managed = |extra: &str| json!({ "grafana.app/managedBy": "repo", "grafana.app/managerId": "other", "grafana.app/managerAllowsEdits": extra });
    for object in [foreign("x", json!({})), foreign("y", managed("false")), foreign("z", managed("true"))] {
        world.dashboards().create(&PostParams::default(), &object).await.unwrap();
    }
    let synced = world.sync().await;
    assert_eq!(synced.summary.warnings, 2);
    assert!(synced.failure("x.json").message.contains("is not managed by a repository"));
    assert_eq!(
        synced.failure("y.json").message,
        "resource 'y' is managed by repo 'other' and cannot be modified by repo 'test6'"
    );
    assert_eq!(world.dashboards().get("x").await.unwrap().data["spec"]["title"], "theirs");
    assert_eq!(world.dashboards().get("z").await.unwrap().data["spec"]["title"], "z in z.json");
    // Nor is anything of theirs deleted when our files go.
    world.remove("x.json").remove("y.json").sync().await;
    assert!(world.dashboards().get("x").await.is_ok() && world.dashboards().get("y").await.is_ok());
}

#[tokio::test]
async fn of_two_files_that_claim_an_object_the_second_is_told_of_the_first() {
    let mut world = World::with(&[("b.json", "same"), ("c.json", "same")]);
    let synced = world.sync().await;
    assert_eq!(synced.outcomes(), ["created b.json", "created c.json: ResourceManagedByOther"]);
    assert!(synced.failure("c.json").message.contains("\"b.json\""));
    assert_eq!(synced.requests.len(), 1);
    // A newcomer that sorts first does not take over.
    world.write("a.json", &dashboard("same", "mine"));
    let synced = world.sync().await;
    assert_eq!(synced.failure("a.json").reason, Reason::ResourceManagedByOther);
    assert!(synced.failure("a.json").message.contains("\"b.json\""));
    assert_eq!(world.dashboards().get("same").await.unwrap().data["spec"]["title"], "same in b.json");
    // Nor when the holder changes at the same time.
    world.write("b.json", &dashboard("same", "changed"));
    world.sync().await;
    assert_eq!(world.dashboards().get("same").await.unwrap().data["spec"]["title"], "changed");
}

#[tokio::test]
async fn two_files_can_exchange_their_names() {
    let mut world = World::with(&[("a.json", "one"), ("b.json", "two")]);
    world.sync().await;
    world.write("a.json", &dashboard("two", "from a")).write("b.json", &dashboard("one", "from b"));
    let synced = world.sync().await;
    assert_eq!(synced.summary.errors + synced.summary.warnings, 0, "{synced:#?}");
    assert_eq!(world.dashboards().get("two").await.unwrap().data["spec"]["title"], "from a");
    assert_eq!(world.dashboards().get("one").await.unwrap().data["spec"]["title"], "from b");
    assert!(world.plan().await.is_empty());
}

#[tokio::test]
async fn a_file_that_changes_its_name_leaves_no_object_behind() {
    let mut world = World::with(&[("a.json", "one")]);
    world.sync().await;
    world.write("a.json", &dashboard("two", "two"));
    assert_eq!(world.sync().await.outcomes(), ["created a.json", "deleted a.json"]);
    assert_eq!(world.state().await.into_keys().collect::<Vec<_>>(), ["dashboard/two"]);
}

#[tokio::test]
async fn what_changed_since_the_listing_is_looked_at_again() {
    let mut world = World::with(&[("w.json", "w"), ("x.json", "x"), ("y.json", "y"), ("z.json", "z")]);
    world.sync().await;
    for name in ["w", "x", "y"] {
        world.write(&format!("{name}.json"), &dashboard(name, "new"));
    }
    let plan = world.remove("z.json").plan().await;
    let patch = |value| Patch::Merge(value);
    let touched = json!({ "metadata": { "labels": { "touched": "yes" } } });
    let stolen = json!({ "metadata": { "annotations": { "grafana.app/managerId": "other" } } });
    let dashboards = world.dashboards();
    dashboards.patch("w", &PatchParams::default(), &patch(&touched)).await.unwrap();
    dashboards.patch("x", &PatchParams::default(), &patch(&stolen)).await.unwrap();
    dashboards.delete("y", &DeleteParams::default()).await.unwrap();
    dashboards.patch("z", &PatchParams::default(), &patch(&stolen)).await.unwrap();
    let synced = world.apply(plan).await;
    assert_eq!(
        synced.outcomes(),
        ["created y.json", "ignored z.json", "updated w.json", "updated x.json: ResourceInvalid"]
    );
    let w = dashboards.get("w").await.unwrap();
    assert_eq!(
        (&w.data["spec"]["title"], w.metadata.labels.unwrap()["touched"].as_str()),
        (&json!("new"), "yes")
    );
    assert_eq!(dashboards.get("x").await.unwrap().data["spec"]["title"], "x in x.json");
    assert!(dashboards.get("z").await.is_ok());
}

#[tokio::test]
async fn nothing_is_written_after_a_cancellation() {
    let files: Vec<(String, String)> =
        (0..50).map(|n| (format!("{n:02}.json"), format!("d{n:02}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, name)| (path.as_str(), name.as_str())).collect();
    let mut world = World::with(&files);
    world.options.workers = 1;
    let (plan, cancel) = (world.plan().await, world.cancel.clone());
    let done = AtomicUsize::new(0);
    let on_result = move |_: &_| {
        if done.fetch_add(1, Ordering::SeqCst) == 9 {
            cancel.cancel();
        }
    };
    let synced = world.apply_with(plan, on_result, || true).await;
    assert_eq!(synced.summary.stopped, Some(Stopped::Cancelled));
    assert_eq!(synced.requests.len(), 10);
    assert_eq!(synced.results.len(), 10);
}

#[tokio::test]
async fn nothing_is_written_once_the_lease_says_no() {
    let world = World::with(SAMPLE);
    let synced = world.apply_with(world.plan().await, |_| {}, || false).await;
    assert_eq!(synced.summary.stopped, Some(Stopped::Cancelled));
    assert!(synced.requests.is_empty() && synced.results.is_empty(), "{synced:?}");
}

#[tokio::test]
async fn too_many_errors_end_the_sync() {
    let files: Vec<(String, String)> =
        (0..50).map(|n| (format!("{n:02}.json"), format!("d{n:02}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, name)| (path.as_str(), name.as_str())).collect();
    let mut world = World::with(&files);
    world.options.workers = 1;
    world.fail(|method, _| (method == Method::POST).then_some(StatusCode::INTERNAL_SERVER_ERROR));
    let synced = world.sync().await;
    assert_eq!(synced.summary.stopped, Some(Stopped::TooManyErrors(20)));
    assert_eq!((synced.requests.len(), synced.summary.errors), (20, 20));
    assert_eq!(synced.failure("00.json").reason, Reason::ApiError);
}

#[tokio::test]
async fn what_belongs_into_a_folder_that_failed_is_skipped() {
    let world = World::with(SAMPLE);
    world.fail(|method, target| {
        (method == Method::POST && target == "folders").then_some(StatusCode::INTERNAL_SERVER_ERROR)
    });
    let synced = world.sync().await;
    assert_eq!(
        synced.outcomes(),
        [
            "created a: ApiError",
            "created top.json",
            "ignored a/b/deep.json: SkippedParentFolderNotCreated",
            "ignored a/b: SkippedParentFolderNotCreated",
            "ignored a/x.json: SkippedParentFolderNotCreated",
            "ignored a/y.json: SkippedParentFolderNotCreated",
        ]
    );
    assert_eq!(synced.summary.errors, 1);
}

#[tokio::test]
async fn a_folder_whose_child_stays_is_not_deleted() {
    let mut world = World::with(SAMPLE);
    world.sync().await;
    for path in ["a/b/deep.json", "a/x.json", "a/y.json"] {
        world.remove(path);
    }
    world.fail(|method, target| {
        (method == Method::DELETE && target == "dashboards/x").then_some(StatusCode::FORBIDDEN)
    });
    let synced = world.sync().await;
    assert_eq!(
        synced.outcomes(),
        [
            "deleted a/b",
            "deleted a/b/deep.json",
            "deleted a/x.json: ApiError",
            "deleted a/y.json",
            "ignored a: SkippedFolderChildrenNotDeleted",
        ]
    );
    world.heal();
    assert_eq!(world.sync().await.outcomes(), ["deleted a", "deleted a/x.json"]);
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let world = World::with(&[("x.json", "x")]);
    let refused = AtomicUsize::new(0);
    world.fail(move |method, _| {
        let busy = method == Method::POST && refused.fetch_add(1, Ordering::SeqCst) < 2;
        busy.then_some(StatusCode::TOO_MANY_REQUESTS)
    });
    tokio::time::pause();
    let synced = world.sync().await;
    assert_eq!(synced.outcomes(), ["created x.json"]);
    assert_eq!(synced.requests.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_costs_one_change_its_deadline() {
    let world = World::with(&[("x.json", "x"), ("y.json", "y")]);
    world.fail(|_, target| (target == "dashboards").then_some(StatusCode::REQUEST_TIMEOUT));
    let plan = {
        let tree = crate::test_reader::tree(&world.files);
        windlass_resources::plan::full(
            &tree,
            &windlass_resources::Managed::default(),
            &windlass_resources::folders::Metadata::default(),
            &world.context,
        )
    };
    let synced = world.apply(plan).await;
    assert_eq!(synced.outcomes(), ["created x.json: Timeout", "created y.json: Timeout"]);
    assert_eq!(synced.summary.errors, 2);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let mut world = World::with(SAMPLE);
    world.sync().await;
    let before = world.state().await;
    world
        .write("a/x.json", &dashboard("x", "new"))
        .write("n/new.json", &dashboard("new", "new"))
        .remove("a/y.json");
    world.options.dry_run = true;
    let synced = world.sync().await;
    assert_eq!(
        synced.outcomes(),
        ["created n", "created n/new.json", "deleted a/y.json", "updated a/x.json"]
    );
    assert_eq!(world.state().await, before);
}

#[tokio::test]
async fn a_target_folder_holds_everything_and_keeps_its_title_right() {
    let mut world = World::with(&[("a/x.json", "x"), ("y.json", "y")]);
    world.context.target = SyncTarget::Folder;
    let synced = world.sync().await;
    assert_eq!(synced.requests[..2], ["GET folders/test6", "POST folders"]);
    let root = world.folders().get("test6").await.unwrap();
    assert_eq!(root.data["spec"]["title"], "Test six");
    assert_eq!(root.metadata.annotations.unwrap()["grafana.app/grant-permissions"], "default");
    let y = world.dashboards().get("y").await.unwrap();
    assert_eq!(y.metadata.annotations.unwrap()["grafana.app/folder"], "test6");
    let again = world.sync().await;
    assert!(again.results.is_empty() && again.writes().is_empty(), "{again:?}");
    world.context.title = "Renamed".to_owned();
    assert_eq!(world.sync().await.writes(), ["PATCH folders/test6"]);
    // The other way: no root folder any more.
    world.context.target = SyncTarget::Instance;
    let synced = world.sync().await;
    assert_eq!(synced.summary.errors + synced.summary.warnings, 0, "{synced:#?}");
    assert!(world.folders().get("test6").await.is_err());
    let y = world.dashboards().get("y").await.unwrap();
    assert!(!y.metadata.annotations.unwrap().contains_key("grafana.app/folder"));
    assert!(world.plan().await.is_empty());
}

#[tokio::test]
async fn without_its_root_folder_a_sync_does_nothing() {
    let mut world = World::with(SAMPLE);
    world.context.target = SyncTarget::Folder;
    let theirs = serde_json::from_value(json!({
        "apiVersion": "folder.grafana.app/v1beta1", "kind": "Folder",
        "metadata": { "name": "test6" }, "spec": { "title": "theirs" },
    }))
    .unwrap();
    world.folders().create(&PostParams::default(), &theirs).await.unwrap();
    let synced = world.sync().await;
    assert_eq!(synced.summary.stopped, Some(Stopped::NoRootFolder));
    assert_eq!(synced.failure("").reason, Reason::FolderManagedByOther);
    assert!(synced.writes().is_empty());
}

#[tokio::test]
async fn metadata_keeps_a_folder_when_its_directory_moves() {
    let mut world = World::new();
    world
        .write("old/_folder.json", &folder_json("team", "The Team"))
        .write("old/x.json", &dashboard("x", "X"))
        .write("old/sub/y.json", &dashboard("y", "Y"));
    world.sync().await;
    let before = world.folders().get("team").await.unwrap();
    assert_eq!(before.data["spec"]["title"], "The Team");
    for path in ["_folder.json", "x.json", "sub/y.json"] {
        world.rename(&format!("old/{path}"), &format!("new/{path}"));
    }
    let synced = world.sync().await;
    assert_eq!(synced.summary.errors + synced.summary.warnings, 0, "{synced:#?}");
    let after = world.folders().get("team").await.unwrap();
    assert_eq!(after.metadata.uid, before.metadata.uid);
    assert_eq!(after.metadata.annotations.unwrap()["grafana.app/sourcePath"], "new");
    assert!(world.plan().await.is_empty(), "{}", world.plan().await);
    // Without metadata, the folder is another one, and what it holds moves there before the old one goes.
    world.remove("new/_folder.json");
    let synced = world.sync().await;
    assert_eq!(synced.summary.errors + synced.summary.warnings, 0, "{synced:#?}");
    assert_eq!(synced.writes().last().copied(), Some("DELETE folders/team"));
    assert!(world.plan().await.is_empty(), "{}", world.plan().await);
}

#[tokio::test]
async fn many_objects_are_listed_in_pages_and_by_repository() {
    let files: Vec<(String, String)> =
        (0..1_100).map(|n| (format!("d{}/{n:04}.json", n % 7), format!("d{n:04}"))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, name)| (path.as_str(), name.as_str())).collect();
    let mut world = World::with(&files);
    world.sync().await;
    world.context.repository = "another".to_owned();
    world.files.clear();
    world.write("mine.json", &dashboard("mine", "mine"));
    world.sync().await;
    world.requests();
    let managed = windlass_resources::managed::list(&world.clients, "default", "test6").await.unwrap();
    assert_eq!((managed.files.len(), managed.folders.len()), (1_100, 7));
    let names: HashSet<&str> = managed.files.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names.len(), 1_100);
    assert_eq!(world.requests().iter().filter(|request| *request == "GET dashboards").count(), 3);

    let listed = list_resources(&world.clients, "default", "another").await.unwrap();
    let item = &listed.items[0];
    assert_eq!(listed.items.len(), 1);
    assert_eq!(
        (item.path.as_str(), item.resource.as_str(), item.name.as_str(), item.hash.len()),
        ("mine.json", "dashboards", "mine", 40)
    );
}

#[tokio::test]
async fn a_dashboard_as_grafana_exports_it_keeps_its_uid() {
    let mut world = World::new();
    let exported = json!({
        "uid": "rYdddlPWk", "id": 1860, "version": 31, "title": "Node Exporter Full",
        "panels": [], "schemaVersion": 39, "tags": ["linux"],
    });
    world.write("linux/node.json", &exported.to_string());
    assert_eq!(world.sync().await.outcomes(), ["created linux", "created linux/node.json"]);
    let node = world.dashboards().get("rYdddlPWk").await.unwrap();
    assert_eq!(
        node.data["spec"],
        json!({ "title": "Node Exporter Full", "panels": [], "schemaVersion": 39, "tags": ["linux"] })
    );
}
