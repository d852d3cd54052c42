//! Changes in a folder, as they happen.

use std::path::{Component, Path};
use std::time::Duration;

use notify::{Config, Event, EventKind, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::LocalError;

/// How long nothing may have happened before changes are told of, so that one copy of many files is one change.
const QUIET: Duration = Duration::from_millis(300);
/// How long changes that do not end are waited for.
const MOST: Duration = Duration::from_secs(5);
/// How often a folder is looked through that the system does not watch (a network file system, too many watches).
const POLL: Duration = Duration::from_secs(10);

/// The changes of one folder, for as long as it is held.
pub struct Changes {
    events: mpsc::Receiver<()>,
    _watcher: Box<dyn Watcher + Send>,
}

impl Changes {
    /// Waits until something in the folder changes and a moment has passed without another change.
    pub async fn next(&mut self) {
        if self.events.recv().await.is_none() {
            // The watcher is held: it does not end before this.
            return std::future::pending().await;
        }
        let end = Instant::now() + MOST;
        while Instant::now() < end && matches!(timeout(QUIET, self.events.recv()).await, Ok(Some(()))) {}
    }
}

/// Watches a folder and everything in it. Links are not followed. Where the system cannot watch it, it is looked
/// through from time to time.
pub(super) fn watch(path: &Path) -> Result<Changes, LocalError> {
    let (sender, events) = mpsc::channel(1);
    let tell = move |event: notify::Result<Event>| {
        // An error means that events may have been lost, which is told of as one.
        if event.map_or(true, |event| matters(&event)) {
            // One that waits to be seen stands for all.
            let _full = sender.try_send(());
        }
    };
    let config = Config::default().with_follow_symlinks(false).with_poll_interval(POLL);
    let native = RecommendedWatcher::new(tell.clone(), config).and_then(|mut watcher| {
        watcher.watch(path, RecursiveMode::Recursive)?;
        Ok(Box::new(watcher) as Box<dyn Watcher + Send>)
    });
    let watcher = native.or_else(|_cannot| {
        let mut watcher = PollWatcher::new(tell, config)?;
        watcher.watch(path, RecursiveMode::Recursive)?;
        Ok(Box::new(watcher) as Box<dyn Watcher + Send>)
    });
    let failed = |error: notify::Error| {
        LocalError::io("watch", &path.display().to_string(), std::io::Error::other(error))
    };
    Ok(Changes { events, _watcher: watcher.map_err(failed)? })
}

/// Whether files may be others now: reading changes nothing, and what is under `.git` is no file of the repository.
fn matters(event: &Event) -> bool {
    let own =
        |path: &std::path::PathBuf| path.components().any(|part| part == Component::Normal(".git".as_ref()));
    !matches!(event.kind, EventKind::Access(_)) && (event.paths.is_empty() || !event.paths.iter().all(own))
}
