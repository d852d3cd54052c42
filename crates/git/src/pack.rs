//! A packfile on its way from the network into the object store: a bounded channel, and libgit2's indexer on a
//! blocking thread behind it, which completes thin packs from what the store has.

use std::io::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

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
        let max = limits.objects;
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            index(&store, &host, max, receiver, &stop)
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
    max: u32,
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
    let mut header = Header::default();
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Data(piece)) => {
                header.feed(&piece, max).map_err(|error| error.unwrap_or_else(|what| refused(&what)))?;
                indexer.write_all(&piece).map_err(|error| refused(&error))?;
            }
            // An empty answer is no pack; libgit2 would call it one.
            Some(Piece::End) if header.bytes.len() < Header::LENGTH => {
                return Err(refused(&"it is too short"));
            }
            Some(Piece::End) => break,
            None => return Err(GitError::Cancelled),
        }
    }
    indexer.commit().map(drop).map_err(|error| refused(&error))
}

/// The first bytes of a packfile, which say how many objects follow.
#[derive(Default)]
struct Header {
    bytes: Vec<u8>,
}

impl Header {
    const LENGTH: usize = 12;

    /// Judges the header once it is whole: an outer error is ours, an inner one the server's.
    fn feed(&mut self, piece: &[u8], max: u32) -> Result<(), Result<GitError, &'static str>> {
        if self.bytes.len() >= Self::LENGTH {
            return Ok(());
        }
        let missing = Self::LENGTH - self.bytes.len();
        self.bytes.extend_from_slice(&piece[..missing.min(piece.len())]);
        let Some((&[b'P', b'A', b'C', b'K', _, _, _, version, a, b, c, d], _)) =
            self.bytes.split_first_chunk::<{ Self::LENGTH }>()
        else {
            return if self.bytes.len() < Self::LENGTH {
                Ok(())
            } else {
                Err(Err("it does not begin with PACK"))
            };
        };
        if version != 2 {
            return Err(Err("its version is not 2"));
        }
        let objects = u32::from_be_bytes([a, b, c, d]);
        if objects > max {
            let what = format!("a transfer of {objects} objects");
            return Err(Ok(GitError::LimitExceeded { limit: "objects", max: max.into(), what }));
        }
        Ok(())
    }
}
