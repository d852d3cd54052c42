//! Files of several YAML documents, each of which is an object of its own.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use kube::api::ListParams;
use windlass_resources::Reason;
use windlass_resources::apply::Options;

use crate::test_reader::Files;
use crate::world::{Synced, World, dashboard};

/// A document.
fn of(name: &str, title: &str) -> String {
    format!(
        "apiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata: {{name: {name}}}\nspec: {{title: {title}}}\n"
    )
}

fn file(documents: &[(&str, &str)]) -> String {
    documents.iter().map(|(name, title)| of(name, title)).collect::<Vec<_>>().join("---\n")
}

/// UID, path and title of each dashboard, by name.
async fn dashboards(world: &World) -> BTreeMap<String, (String, String, String)> {
    let found = world.dashboards().list(&ListParams::default()).await.unwrap();
    let of = |object: kube::api::DynamicObject| {
        let metadata = object.metadata;
        let path = metadata.annotations.unwrap_or_default()["grafana.app/sourcePath"].clone();
        let title = object.data["spec"]["title"].as_str().unwrap_or_default().to_owned();
        (metadata.name.unwrap(), (metadata.uid.unwrap(), path, title))
    };
    found.items.into_iter().map(of).collect()
}

async fn uids(world: &World) -> BTreeMap<String, String> {
    dashboards(world).await.into_iter().map(|(name, (uid, ..))| (name, uid)).collect()
}

async fn places(world: &World) -> Vec<String> {
    let of = |(name, (_, path, title))| format!("{name} {title} {path}");
    dashboards(world).await.into_iter().map(of).collect()
}

async fn synced(files: &[(&str, &[(&str, &str)])]) -> World {
    let mut world = World::new();
    for (path, documents) in files {
        world.write(path, &file(documents));
    }
    let done = world.sync().await;
    assert_eq!(done.summary.errors + done.summary.warnings, 0, "{done:#?}");
    world
}

/// Syncs the difference to `old`, or compares everything.
async fn sync(world: &World, old: &Files, full: bool) -> Synced {
    let done = if full { world.sync().await } else { world.sync_from(old).await };
    assert_eq!(done.summary.errors + done.summary.warnings, 0, "{done:#?}");
    assert!(world.plan().await.is_empty(), "{}", world.plan().await);
    done
}

#[tokio::test]
async fn every_document_is_an_object_and_what_is_settled_is_not_read_again() {
    let world = synced(&[("team/all.yaml", &[("a", "A"), ("b", "B"), ("c", "C")])]).await;
    assert_eq!(places(&world).await, ["a A team/all.yaml", "b B team/all.yaml", "c C team/all.yaml"]);
    let plan = world.plan().await;
    assert!(plan.is_empty() && plan.kept.contains("team/all.yaml"), "{plan}");
    assert_eq!(world.managed().await.files.iter().map(|item| item.documents).collect::<Vec<_>>(), [3, 3, 3]);
}

#[tokio::test]
async fn documents_are_changed_added_and_dropped_and_the_others_keep_their_objects() {
    for full in [false, true] {
        let mut world = synced(&[("all.yaml", &[("a", "A"), ("b", "B"), ("c", "C")])]).await;
        let (before, old) = (uids(&world).await, world.files.clone());
        world.write("all.yaml", &file(&[("new", "New"), ("c", "C"), ("a", "Changed")]));
        let done = sync(&world, &old, full).await;
        assert_eq!(places(&world).await, ["a Changed all.yaml", "c C all.yaml", "new New all.yaml"]);
        assert_eq!(
            done.outcomes(),
            ["created all.yaml", "deleted all.yaml", "ignored all.yaml", "updated all.yaml"]
        );
        let mut writes = done.writes();
        writes.retain(|write| write.ends_with("dashboards/c"));
        assert_eq!(writes, Vec::<String>::new(), "its document is what it was");
        assert!(done.results.iter().all(|item| !item.unexpected), "{done:#?}");
        let after = uids(&world).await;
        assert_eq!((&after["a"], &after["c"]), (&before["a"], &before["c"]));
        // One document again is a file as any other, and says no more that it has others.
        let old = world.files.clone();
        world.write("all.yaml", &file(&[("c", "C")]));
        sync(&world, &old, full).await;
        assert_eq!(uids(&world).await, BTreeMap::from([("c".to_owned(), before["c"].clone())]));
        let marks = world.dashboards().get("c").await.unwrap().metadata.annotations.unwrap();
        assert!(!marks.contains_key("windlass.dev/source-documents"), "{marks:?}");
    }
}

#[tokio::test]
async fn a_file_that_moves_or_goes_takes_all_its_objects() {
    for full in [false, true] {
        let mut world = synced(&[("x/all.yaml", &[("a", "A"), ("b", "B")])]).await;
        let (before, old) = (uids(&world).await, world.files.clone());
        world.rename("x/all.yaml", "y/every.yaml");
        let done = sync(&world, &old, full).await;
        assert_eq!(uids(&world).await, before);
        assert_eq!(places(&world).await, ["a A y/every.yaml", "b B y/every.yaml"]);
        assert_eq!(done.summary.renamed, 2, "{done:#?}");
        let old = world.files.clone();
        world.remove("y/every.yaml");
        let done = sync(&world, &old, full).await;
        assert!(uids(&world).await.is_empty());
        assert_eq!(done.outcomes(), ["deleted y", "deleted y/every.yaml", "deleted y/every.yaml"]);
    }
}

#[tokio::test]
async fn a_document_that_moves_to_another_file_keeps_its_object() {
    for full in [false, true] {
        // Between two files that stay, in both orders of their names.
        let mut world = synced(&[
            ("a.yaml", &[("x", "X"), ("moves", "M")]),
            ("b.yaml", &[("w", "W"), ("back", "B")]),
            ("gone/c.yaml", &[("out", "O"), ("deep", "D"), ("dropped", "Dropped")]),
        ])
        .await;
        world.write("one.json", &dashboard("one", "One"));
        world.sync().await;
        let (mut before, old) = (uids(&world).await, world.files.clone());
        world
            .write("a.yaml", &file(&[("x", "X"), ("back", "B")]))
            .write("b.yaml", &file(&[("w", "W"), ("moves", "M"), ("one", "One"), ("out", "O")]))
            // Of a file that goes, with its folder, into a new one and one that was there.
            .write("new/d.yaml", &file(&[("deep", "Changed"), ("fresh", "F")]))
            .remove("gone/c.yaml")
            .remove("one.json");
        let done = sync(&world, &old, full).await;
        let mut after = uids(&world).await;
        assert!(before.remove("dropped").is_some() && after.remove("fresh").is_some());
        assert_eq!(after, before, "full: {full}, {:#?}", done.requests);
        assert_eq!(
            places(&world).await,
            [
                "back B a.yaml",
                "deep Changed new/d.yaml",
                "fresh F new/d.yaml",
                "moves M b.yaml",
                "one One b.yaml",
                "out O b.yaml",
                "w W b.yaml",
                "x X a.yaml",
            ]
        );
    }
}

#[tokio::test]
async fn a_broken_document_leaves_the_others_alone_and_its_own_object_where_it_is() {
    for full in [false, true] {
        let mut world = synced(&[("all.yaml", &[("a", "A"), ("b", "B"), ("c", "C")])]).await;
        let (before, old) = (uids(&world).await, world.files.clone());
        world.write("all.yaml", &format!("{}---\nkind: [\n---\n{}", of("a", "Changed"), of("new", "New")));
        let done = if full { world.sync().await } else { world.sync_from(&old).await };
        let failure = done.failure("all.yaml");
        assert_eq!(failure.reason, Reason::ResourceInvalid);
        assert!(failure.message.starts_with("document 2 of 3: failed to parse"), "{failure}");
        assert_eq!((done.summary.warnings, done.summary.errors), (1, 0));
        // Which of the two that are missing is broken cannot be known.
        assert_eq!(
            places(&world).await,
            ["a Changed all.yaml", "b B all.yaml", "c C all.yaml", "new New all.yaml"]
        );
        // Everything that is compared says it again, and writes nothing.
        let again = world.sync().await;
        assert_eq!((again.summary.warnings, again.writes().len()), (1, 0), "{again:#?}");
        let old = world.files.clone();
        world.write("all.yaml", &file(&[("a", "Changed"), ("b", "Mended"), ("new", "New")]));
        sync(&world, &old, full).await;
        assert_eq!(places(&world).await, ["a Changed all.yaml", "b Mended all.yaml", "new New all.yaml"]);
        assert_eq!(uids(&world).await["b"], before["b"]);
    }
}

#[tokio::test]
async fn two_documents_of_one_object_are_told_and_the_first_has_it() {
    let mut world = World::new();
    world.write("all.yaml", &file(&[("a", "First"), ("a", "Second"), ("b", "B")]));
    world.write("other.yaml", &file(&[("b", "Other"), ("c", "C")]));
    let done = world.sync().await;
    assert_eq!(places(&world).await, ["a First all.yaml", "b B all.yaml", "c C other.yaml"]);
    let said: Vec<&str> =
        done.results.iter().filter_map(|item| Some(item.error.as_ref()?.message.as_str())).collect();
    assert_eq!(
        said,
        [
            "duplicate resource name: dashboard \"a\" already comes from document 1 of file \"all.yaml\"",
            "duplicate resource name: dashboard \"b\" already comes from document 3 of file \"all.yaml\"",
        ]
    );
    let failed = done.results.iter().find(|item| item.error.is_some()).unwrap();
    assert_eq!((&*failed.path, &*failed.name), ("all.yaml", "a"));
}

#[tokio::test]
async fn what_is_deleted_or_changed_by_hand_is_set_back() {
    let world = synced(&[("all.yaml", &[("a", "A"), ("b", "B"), ("c", "C")])]).await;
    world.dashboards().delete("a", &kube::api::DeleteParams::default()).await.unwrap();
    let patch = kube::api::Patch::Merge(serde_json::json!({"spec": {"title": "By hand"}}));
    world.dashboards().patch("b", &kube::api::PatchParams::default(), &patch).await.unwrap();
    let done = world.sync().await;
    assert_eq!(places(&world).await, ["a A all.yaml", "b B all.yaml", "c C all.yaml"]);
    assert_eq!(done.writes(), ["POST dashboards", "PATCH dashboards/b"], "nothing is written that is right");
    assert!(world.plan().await.is_empty());
}

#[tokio::test]
async fn what_the_api_refuses_of_a_file_does_not_stop_its_neighbours_and_is_tried_again() {
    let mut world = synced(&[("all.yaml", &[("a", "A"), ("b", "B"), ("dropped", "Dropped")])]).await;
    let old = world.files.clone();
    world.write("all.yaml", &file(&[("a", "New"), ("b", "New"), ("c", "New")]));
    world.fail(|method, target| {
        (method == Method::PATCH && target == "dashboards/a").then_some(StatusCode::UNPROCESSABLE_ENTITY)
    });
    let done = world.sync_from(&old).await;
    assert!(done.failure("all.yaml").message.contains("failed to write dashboard \"a\""));
    assert_eq!(places(&world).await, ["a A all.yaml", "b New all.yaml", "c New all.yaml"]);
    world.heal();
    let done = world.sync_from_and_retry(&world.files, &["all.yaml"]).await;
    assert_eq!(done.writes(), ["PATCH dashboards/a"]);
    assert!(world.plan().await.is_empty(), "{}", world.plan().await);
}

#[tokio::test]
async fn objects_beyond_the_first_of_a_file_need_room() {
    let mut world = synced(&[("all.yaml", &[("a", "A"), ("b", "B")])]).await;
    world.options = Options { room: 1, ..Options::default() };
    // One takes the place of another, one there is room for, one there is not.
    world.write("all.yaml", &file(&[("a", "A"), ("c", "C"), ("d", "D"), ("e", "E")]));
    let done = world.sync().await;
    let failure = done.failure("all.yaml");
    assert_eq!(failure.reason, Reason::QuotaExceeded);
    assert!(failure.retry && failure.warning);
    assert_eq!(places(&world).await, ["a A all.yaml", "b B all.yaml", "c C all.yaml", "d D all.yaml"]);
    world.options = Options::default();
    world.sync().await;
    assert_eq!(places(&world).await, ["a A all.yaml", "c C all.yaml", "d D all.yaml", "e E all.yaml"]);
}

#[tokio::test]
async fn of_several_only_what_changed_is_written_and_everything_compared_afterwards_reads_nothing() {
    for full in [false, true] {
        let mut world = synced(&[("all.yaml", &[("a", "A"), ("b", "B"), ("c", "C")])]).await;
        let first = world.files.clone();
        world.write("all.yaml", &file(&[("a", "A"), ("b", "Changed"), ("c", "C")]));
        assert_eq!(sync(&world, &first, full).await.writes(), ["PATCH dashboards/b"]);
        // What comes next begins where that ended, and another order or a comment is no change of a document.
        let old = world.files.clone();
        world.write("all.yaml", &file(&[("c", "C"), ("b", "Changed"), ("a", "New")]));
        assert_eq!(sync(&world, &old, full).await.writes(), ["PATCH dashboards/a"]);
        let old = world.files.clone();
        world.write("all.yaml", &format!("# words\n{}", file(&[("c", "C"), ("b", "Changed"), ("a", "New")])));
        assert_eq!(sync(&world, &old, full).await.writes().len(), 1, "one says what was read");
        // Back to a file that some of them were written from.
        let old = std::mem::replace(&mut world.files, first);
        assert!(!world.plan().await.is_empty());
        let done = sync(&world, &old, full).await;
        let mut writes = done.writes();
        writes.sort_unstable();
        assert_eq!(writes, ["PATCH dashboards/a", "PATCH dashboards/b"]);
        assert_eq!(places(&world).await, ["a A all.yaml", "b B all.yaml", "c C all.yaml"]);
    }
}

#[tokio::test]
async fn a_sync_that_is_cut_short_between_documents_is_gone_on_with() {
    let mut world = synced(&[("all.yaml", &[("a", "A"), ("b", "B"), ("c", "C")])]).await;
    world.write("all.yaml", &file(&[("a", "New"), ("b", "New"), ("c", "C")]));
    world.fail(|method, target| {
        (method == Method::PATCH && target == "dashboards/b").then_some(StatusCode::UNPROCESSABLE_ENTITY)
    });
    world.sync().await;
    assert!(!world.plan().await.is_empty(), "`a` was written from the file as it is, and not all were");
    world.heal();
    assert_eq!(world.sync().await.writes(), ["PATCH dashboards/b"]);
    assert!(world.plan().await.is_empty(), "{}", world.plan().await);
}

#[tokio::test]
async fn what_was_changed_by_hand_is_set_back_although_another_document_was_written_since() {
    let mut world = synced(&[("all.yaml", &[("a", "A"), ("b", "B")])]).await;
    world.write("all.yaml", &file(&[("a", "New"), ("b", "B")]));
    world.sync().await;
    let patch = kube::api::Patch::Merge(serde_json::json!({"spec": {"title": "By hand"}}));
    world.dashboards().patch("b", &kube::api::PatchParams::default(), &patch).await.unwrap();
    let done = world.sync().await;
    assert_eq!(done.writes(), ["PATCH dashboards/b"]);
    assert!(done.results.iter().any(|item| item.drifted && item.name == "b"), "{done:#?}");
    assert_eq!(places(&world).await, ["a New all.yaml", "b B all.yaml"]);
    assert!(world.plan().await.is_empty());
}
