//! Events go an hour after they were last written, as on a real server.
//!
//! The store does not say when an object was written. What is written while the server runs is timed from when it is seen,
//! at most a minute later; what it finds when it starts, by the times that stand in it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;
use tracing::warn;

use crate::failure::Result;
use crate::state::Inner;
use windlass_store::{Key, Object, Page, Range, StoreError, Write};

/// How long an Event is kept after its last write.
const KEPT: Duration = Duration::from_hours(1);
/// How often it is looked for those whose time has come.
const EVERY: Duration = Duration::from_mins(1);
/// How many are read at a time.
const PAGE: usize = 500;

/// The Events that were seen, each with its version and when it goes.
type Seen = HashMap<Key, (u64, Instant)>;

/// Starts to remove Events.
pub(super) fn spawn(inner: &Arc<Inner>) {
    let (weak, stop) = (Arc::downgrade(inner), inner.stop.clone());
    inner.spawn(async move {
        stop.run_until_cancelled(run(weak)).await;
    });
}

async fn run(inner: Weak<Inner>) {
    let mut seen = None;
    loop {
        let Some(strong) = inner.upgrade() else { return };
        match look(&strong, seen.as_ref()).await {
            Ok(now) => seen = Some(now),
            Err(failure) => warn!(?failure, "failed to look for Events that are over"),
        }
        drop(strong);
        tokio::time::sleep(EVERY).await;
    }
}

/// Looks at all Events once, and removes those whose time has come. `before`: what was seen the last time.
async fn look(inner: &Inner, before: Option<&Seen>) -> Result<Seen> {
    let range = Range::new("", "events", None)?;
    let now = Instant::now();
    let mut seen = Seen::new();
    let mut page = Page { limit: PAGE, ..Page::default() };
    loop {
        let found = inner.store.list(&range, page).await?;
        let next = found.objects.last().filter(|_| found.more).map(|last| last.key.clone());
        for object in found.objects {
            let goes = match before {
                None => now + KEPT.saturating_sub(age(&object, (inner.now)())),
                Some(before) => match before.get(&object.key) {
                    Some((revision, goes)) if *revision == object.revision => *goes,
                    _ => now + KEPT,
                },
            };
            if goes > now {
                seen.insert(object.key, (object.revision, goes));
                continue;
            }
            match inner.store.commit(vec![Write::delete(object.key, object.revision)]).await {
                // It was written again, or is gone.
                Ok(_) | Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let Some(after) = next else { return Ok(seen) };
        page = Page { limit: PAGE, after: Some(after), ..Page::default() };
    }
}

/// How long ago the latest of the times is that stand in an Event.
fn age(object: &Object, now: Timestamp) -> Duration {
    let event: Value = serde_json::from_slice(&object.value).unwrap_or_default();
    let times = [
        &event["metadata"]["creationTimestamp"],
        &event["eventTime"],
        &event["lastTimestamp"],
        &event["series"]["lastObservedTime"],
    ];
    let latest = times.into_iter().filter_map(|time| time.as_str()?.parse::<Timestamp>().ok()).max();
    latest.map_or(KEPT, |latest| Duration::try_from(now.duration_since(latest)).unwrap_or_default())
}
