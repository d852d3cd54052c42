//! A packfile on its way from the network into the object store: a bounded channel, and libgit2's indexer on a
//! blocking thread behind it, which completes thin packs from what the store has. The inspector sees every piece
//! first.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use git2::{Repository, RepositoryOpenFlags};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_http_client::printable;

use crate::call::Call;
use crate::inspect::{Inspector, Refused};
use crate::metrics::Figures;
use crate::{GitError, Limits, private};

/// Pieces on their way at a time; each is at most one side-band frame.
const PIECES: usize = 32;

enum Piece {
    Data(Bytes),
    End,
}

/// Where a packfile goes.
pub(crate) enum Target {
    /// Into this bare repository, whose objects complete it if it is thin.
    Store(PathBuf),
    /// Into a folder of its own: it is whole by itself, and read once.
    Scratch(Arc<Scratch>),
}

impl Target {
    fn packs(&self) -> PathBuf {
        match self {
            Self::Store(store) => store.join("objects/pack"),
            Self::Scratch(scratch) => scratch.0.join("pack"),
        }
    }
}

/// A folder of objects that is removed when nobody uses it any more.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// The folder at `path`, not made yet.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where the objects are, as Git has them (`pack/` inside).
    pub(crate) fn objects(&self) -> &std::path::Path {
        &self.0
    }

    pub(crate) fn make(&self) -> Result<(), GitError> {
        // What is there already is not this transfer's, and must not be read as if it were.
        private::create_dir(&self.0)
            .and_then(|()| private::create_dir(&self.0.join("pack")))
            .map_err(|error| GitError::cache("make a folder", format!("{}: {error}", self.0.display())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Takes a packfile in pieces. Dropped before [`finish`](PackSink::finish), it leaves nothing behind.
pub(crate) struct PackSink {
    pieces: mpsc::Sender<Piece>,
    task: Option<JoinHandle<Result<u32, GitError>>>,
    /// Bytes that came.
    bytes: u64,
    figures: Figures,
    _stop: DropGuard,
}

impl PackSink {
    /// Starts the indexer over `target`. The permit is held until it ends.
    pub(crate) fn open(
        target: Target,
        call: &Call<'_>,
        limits: &Limits,
        permit: Arc<OwnedSemaphorePermit>,
    ) -> Self {
        let (pieces, receiver) = mpsc::channel(PIECES);
        let inspector = Inspector::new(limits);
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let host = call.host();
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            index(&target, &host, inspector, receiver, &stop)
        });
        Self { pieces, task: Some(task), bytes: 0, figures: call.figures.clone(), _stop: guard }
    }

    /// Hands over the next piece, waiting while the indexer is behind.
    pub(crate) async fn write(&mut self, piece: Bytes) -> Result<(), GitError> {
        self.bytes += piece.len() as u64;
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
        let objects = self.outcome().await?;
        self.figures.fetched(objects, self.bytes);
        Ok(())
    }

    /// How many objects came.
    async fn outcome(&mut self) -> Result<u32, GitError> {
        match self.task.take() {
            Some(task) => task.await.map_err(|error| GitError::cache("index a pack", error))?,
            None => Ok(0),
        }
    }
}

fn index(
    target: &Target,
    host: &str,
    mut inspector: Inspector,
    mut pieces: mpsc::Receiver<Piece>,
    stop: &CancellationToken,
) -> Result<u32, GitError> {
    let refused = |error: &dyn std::fmt::Display| GitError::Protocol {
        host: host.to_owned(),
        detail: printable(&format!("its packfile is damaged: {error}"), 300),
    };
    // Nothing is made before something comes: most refusals come in its place.
    let Some(first) = pieces.blocking_recv() else { return Err(GitError::Cancelled) };
    let mut first = Some(first);
    let repository = match target {
        Target::Store(store) => Some(open(store)?),
        Target::Scratch(scratch) => scratch.make().map(|()| None)?,
    };
    let odb = repository.as_ref().map(git2::Repository::odb).transpose();
    let odb = odb.map_err(|error| GitError::cache("open the object store", error))?;
    let mut indexer = git2::Indexer::new(odb.as_ref(), &target.packs(), private::FILE, false)
        .map_err(|error| GitError::cache("index a pack", error))?;
    let stopped = stop.clone();
    indexer.progress(move |_| !stopped.is_cancelled());
    loop {
        match first.take().or_else(|| pieces.blocking_recv()) {
            Some(Piece::Data(piece)) => {
                inspector.feed(&piece).map_err(|error| match error {
                    Refused::Damaged(what) => refused(&what),
                    Refused::Exceeds(error) => error,
                })?;
                indexer.write_all(&piece).map_err(|error| refused(&error))?;
            }
            Some(Piece::End) if !inspector.is_complete() => return Err(refused(&"it ends early")),
            // libgit2 makes no index of nothing.
            Some(Piece::End) if inspector.objects() == 0 => return Ok(0),
            Some(Piece::End) => break,
            None => return Err(GitError::Cancelled),
        }
    }
    indexer.commit().map(|_| inspector.objects()).map_err(|error| refused(&error))
}

/// Opens a bare repository where it is, without looking further up or at the environment.
pub(crate) fn open(store: &Path) -> Result<Repository, GitError> {
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE | RepositoryOpenFlags::NO_DOTGIT;
    Repository::open_ext(store, flags, std::iter::empty::<&Path>())
        .map_err(|error| GitError::cache("open it", error.message()))
}
