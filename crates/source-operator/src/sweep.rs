//! Letting go of what nobody uses any more: contents, trees, and artifacts of objects that are another shard's by now.

use std::time::Duration;

use tokio::time::Instant;
use windlass_artifact::Place;
use windlass_runtime::ObjectKey;

use crate::controller::{Controller, KIND};

const INTERVAL: Duration = Duration::from_secs(30);
/// How often it is marked whose artifacts are looked after here.
const MARK: Duration = Duration::from_hours(1);
/// Artifacts that no process has marked for so long are nobody's.
const UNMARKED: Duration = Duration::from_hours(24);

/// Lets go, again and again.
pub(crate) async fn sweep(controller: &Controller) {
    let mut interval = tokio::time::interval(INTERVAL);
    let mut marked: Option<Instant> = None;
    loop {
        interval.tick().await;
        controller.upstreams.drop_unused_trees().await;
        let unused = controller.settings.artifact_retention_ttl;
        if let Err(failure) = controller.builder.blocking(move |store| store.sweep(unused)).await {
            tracing::warn!(failure.message, "failed to remove contents that nobody uses");
        }
        if controller.objects.is_synced() && marked.is_none_or(|at| at.elapsed() >= MARK) {
            // Whoever shares the folder and was away, too, has until the next time to mark its own.
            collect(controller, if marked.is_none() { Duration::MAX } else { UNMARKED }).await;
            marked = Some(Instant::now());
        }
    }
}

async fn collect(controller: &Controller, age: Duration) {
    let objects = controller.objects.clone();
    let is_owned =
        move |place: &Place| objects.get(&ObjectKey::new(place.namespace(), place.name())).is_some();
    let collect = controller.builder.blocking(move |store| store.collect_unowned(KIND, is_owned, age));
    match collect.await {
        Ok(gone) => {
            for place in gone {
                let source = ObjectKey::new(place.namespace(), place.name());
                tracing::info!(%source, "removed the artifacts of a source that nobody looks after here");
            }
        }
        Err(failure) => tracing::warn!(failure.message, "failed to remove artifacts of other shards"),
    }
}
