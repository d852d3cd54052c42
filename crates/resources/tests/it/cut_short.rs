//! A sync that is cut short at any of its writes is completed by the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_api::SyncTarget;

use crate::world::{World, dashboard, folder_json};

/// A repository before and after a change of every kind.
async fn changed() -> World {
    let mut world = World::with(&[
        ("a/b/deep.json", "deep"),
        ("a/x.json", "x"),
        ("c/moved.json", "moved"),
        ("d/gone.json", "gone"),
        ("one.json", "one"),
        ("two.json", "two"),
        ("meta/y.json", "y"),
    ]);
    world.context.target = SyncTarget::Folder;
    world.options.workers = 2;
    world.sync().await;
    world
        .write("a/x.json", &dashboard("x", "new"))
        .rename("c/moved.json", "e/f/moved.json")
        .remove("d/gone.json")
        .write("one.json", &dashboard("two", "exchanged"))
        .write("two.json", &dashboard("one", "exchanged"))
        .write("meta/_folder.json", &folder_json("team", "Team"))
        .write("g/new.json", &dashboard("new", "New"));
    world
}

#[tokio::test]
async fn a_sync_that_is_cut_short_at_any_write_is_completed_by_the_next() {
    let whole = changed().await;
    let writes = whole.sync().await.writes().len();
    assert!(writes > 10, "{writes}");
    let expected = whole.state().await;
    assert!(whole.plan().await.is_empty());
    for allowed in 0..writes {
        let world = changed().await;
        let left = Arc::new(AtomicUsize::new(allowed));
        // Each write asks once before it is started, and once more at the last moment.
        let fault = {
            let left = left.clone();
            move |method: &http::Method, _: &str| {
                let cut = *method != http::Method::GET
                    && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_err();
                cut.then_some(http::StatusCode::INTERNAL_SERVER_ERROR)
            }
        };
        world.fail(fault);
        let plan = world.plan().await;
        let lease = left.clone();
        world.apply_with(plan, |_| {}, move || lease.load(Ordering::SeqCst) > 0).await;
        world.heal();
        let next = world.sync().await;
        assert_eq!(next.summary.errors + next.summary.warnings, 0, "after {allowed} writes: {next:#?}");
        assert_eq!(world.state().await, expected, "after {allowed} writes");
    }
}
