//! A packfile on its way from the network into the object store: a bounded channel, and libgit2's indexer on a
//! blocking thread behind it, which completes thin packs from what the store has. The inspector sees every piece
//! first.

use std::io::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::inspect::{Inspector, Refused};
use crate::{GitError, Limits};

/// Pieces on their way at a time; each is at most one side-band frame.
const PIECES: usize = 32;

enum Piece {
    Data(Bytes),
    End,
}

/// Takes a packfile in pieces. Dropped before [`finish`](PackSink::finish), it leaves nothing behind.
pub(crate) struct PackSink {
    pieces: mpsc::Sender<Piece>,
    task: Option<JoinHandle<Result<(), GitError>>>,
    _stop: DropGuard,
}

impl PackSink {
    /// Starts the indexer over the bare repository at `store`. The permit is held until it ends.
    pub(crate) fn open(store: PathBuf, host: String, limits: &Limits, permit: OwnedSemaphorePermit) -> Self {
        let (pieces, receiver) = mpsc::channel(PIECES);
        let inspector = Inspector::new(limits);
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            index(&store, &host, inspector, receiver, &stop)
        });
        Self { pieces, task: Some(task), _stop: guard }
    }

    /// Hands over the next piece, waiting while the indexer is behind.
    pub(crate) async fn write(&mut self, piece: Bytes) -> Result<(), GitError> {
        if self.pieces.send(Piece::Data(piece)).await.is_ok() {
            return Ok(());
        }
        // The indexer gave up; its reason is the answer.
        self.outcome().await?;
        Err(GitError::cache("index a pack", "the indexer stopped"))
    }

    /// Resolves deltas, checks the checksum, and makes the objects visible.
    pub(crate) async fn finish(mut self) -> Result<(), GitError> {
        let _ = self.pieces.send(Piece::End).await;
        self.outcome().await
    }

    async fn outcome(&mut self) -> Result<(), GitError> {
        match self.task.take() {
            Some(task) => task.await.map_err(|error| GitError::cache("index a pack", error))?,
            None => Ok(()),
        }
    }
}

fn index(
    store: &std::path::Path,
    host: &str,
    mut inspector: Inspector,
    mut pieces: mpsc::Receiver<Piece>,
    stop: &CancellationToken,
) -> Result<(), GitError> {
    let refused = |error: &dyn std::fmt::Display| GitError::Protocol {
        host: host.to_owned(),
        detail: crate::error::printable(&format!("its packfile is damaged: {error}"), 300),
    };
    let repository = crate::cache::open(store)?;
    let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
    let mut indexer = git2::Indexer::new(Some(&odb), &store.join("objects/pack"), 0, false)
        .map_err(|error| GitError::cache("index a pack", error))?;
    let stopped = stop.clone();
    indexer.progress(move |_| !stopped.is_cancelled());
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Data(piece)) => {
                inspector.feed(&piece).map_err(|error| match error {
                    Refused::Damaged(what) => refused(&what),
                    Refused::Exceeds(error) => error,
                })?;
                indexer.write_all(&piece).map_err(|error| refused(&error))?;
            }
            Some(Piece::End) if !inspector.is_complete() => return Err(refused(&"it ends early")),
            Some(Piece::End) => break,
            None => return Err(GitError::Cancelled),
        }
    }
    indexer.commit().map(drop).map_err(|error| refused(&error))
}
