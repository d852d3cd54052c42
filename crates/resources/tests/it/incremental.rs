use windlass_resources::Reason;

use crate::world::{World, dashboard};

async fn synced(files: &[(&str, &str)]) -> World {
    let world = World::with(files);
    world.sync().await;
    world
}

#[tokio::test]
async fn one_changed_file_costs_a_look_and_a_write() {
    let mut world = synced(&[("a/x.json", "x"), ("a/y.json", "y")]).await;
    let old = world.files.clone();
    let done = world.write("a/x.json", &dashboard("x", "new")).sync_from(&old).await;
    assert_eq!(done.requests, ["GET dashboards/x", "PATCH dashboards/x"]);
    assert_eq!(done.outcomes(), ["updated a/x.json"]);
    assert!(world.plan().await.is_empty());
}

#[tokio::test]
async fn repeating_a_difference_writes_nothing() {
    let mut world = synced(&[("a/x.json", "x")]).await;
    let old = world.files.clone();
    world.write("a/x.json", &dashboard("x", "new")).write("n/y.json", &dashboard("y", "Y"));
    world.sync_from(&old).await;
    let again = world.sync_from(&old).await;
    assert!(again.writes().iter().all(|write| *write == "POST dashboards"), "{:?}", again.requests);
    assert_eq!(again.summary.errors + again.summary.warnings, 0);
    assert!(world.plan().await.is_empty());
}

#[tokio::test]
async fn a_difference_ends_where_a_full_comparison_would() {
    let mut world = synced(&[
        ("a/x.json", "x"),
        ("a/y.json", "y"),
        ("b/c/z.json", "z"),
        ("d/w.json", "w"),
        ("v.json", "v"),
    ])
    .await;
    let uid = world.dashboards().get("z").await.unwrap().metadata.uid;
    let old = world.files.clone();
    world
        .remove("a/x.json")
        .rename("b/c/z.json", "e/z.json")
        .write("d/w.json", &dashboard("renamed", "W"))
        .write("f/g/new.json", &dashboard("new", "New"))
        .write("v.json", "{");
    let done = world.sync_from(&old).await;
    assert_eq!(
        done.outcomes(),
        [
            "created d/w.json",
            "created e",
            "created f",
            "created f/g",
            "created f/g/new.json",
            "deleted a/x.json",
            "deleted b",
            "deleted b/c",
            "deleted d/w.json",
            "renamed e/z.json",
            "updated v.json: ResourceInvalid",
        ]
    );
    assert_eq!(world.dashboards().get("z").await.unwrap().metadata.uid, uid);
    let plan = world.plan().await.to_string();
    assert_eq!(plan, "update v.json = v\n", "{plan}");
}

#[tokio::test]
async fn a_file_that_was_unreadable_still_takes_its_object_with_it() {
    let mut world = synced(&[("a/x.json", "x"), ("a/y.json", "y")]).await;
    world.write("a/x.json", "{");
    world.sync().await;
    assert!(world.dashboards().get("x").await.is_ok());
    let old = world.files.clone();
    let done = world.remove("a/x.json").sync_from(&old).await;
    assert_eq!(done.outcomes(), ["deleted a/x.json"]);
    assert!(world.dashboards().get("x").await.is_err());
}

#[tokio::test]
async fn a_deletion_spares_an_object_that_another_file_has_taken_over() {
    let mut world = synced(&[("a.json", "x")]).await;
    let old = world.files.clone();
    // Moved and changed: to the difference, one file gone and one new.
    world.remove("a.json").write("b.json", &dashboard("x", "new"));
    world.sync().await;
    let done = world.sync_from(&old).await;
    assert_eq!(done.outcomes(), ["ignored b.json"], "the move was made before");
    assert!(world.dashboards().get("x").await.is_ok());

    // Taken over by a file that was there before.
    let mut world = synced(&[("a.json", "x"), ("b.json", "y")]).await;
    let old = world.files.clone();
    world.remove("a.json").write("b.json", &dashboard("x", "new"));
    world.sync().await;
    let done = world.sync_from(&old).await;
    assert!(done.outcomes().contains(&"ignored a.json".to_owned()), "{:?}", done.outcomes());
    assert!(world.dashboards().get("x").await.is_ok());
}

#[tokio::test]
async fn a_new_file_does_not_take_the_object_of_one_that_stays() {
    let mut world = synced(&[("a.json", "x")]).await;
    let old = world.files.clone();
    let done = world.write("b.json", &dashboard("x", "mine")).sync_from(&old).await;
    let failure = done.failure("b.json");
    assert_eq!(failure.reason, Reason::ResourceManagedByOther);
    assert!(failure.message.contains("\"a.json\""), "{}", failure.message);
}
