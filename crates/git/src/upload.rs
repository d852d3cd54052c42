//! The body of a push: a line or two, and a packfile out of a file, in pieces as the network takes them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use futures::{Stream, stream};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

/// Bytes of one piece.
const PIECE: usize = 64 << 10;

/// How far a body is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    sent: AtomicU64,
    length: AtomicU64,
}

impl Progress {
    /// Bytes that the network took.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    /// Whether it took all of them, so that the server may have acted on them.
    pub(crate) fn is_complete(&self) -> bool {
        let length = self.length.load(Ordering::Acquire);
        length > 0 && self.sent() >= length
    }
}

/// Where the packfile is.
pub(crate) enum Pack {
    Bytes(Bytes),
    /// A file of so many bytes.
    File(PathBuf, u64),
}

/// A body that is sent once.
pub(crate) struct Upload {
    /// What comes before the packfile.
    pub(crate) head: Bytes,
    pub(crate) pack: Pack,
    pub(crate) progress: Arc<Progress>,
}

/// What is still to be sent.
struct Rest {
    head: Option<Bytes>,
    pack: Option<Pack>,
    file: Option<File>,
    progress: Arc<Progress>,
    cancel: CancellationToken,
}

impl Upload {
    /// Bytes of the whole.
    pub(crate) fn length(&self) -> u64 {
        let pack = match &self.pack {
            Pack::Bytes(bytes) => bytes.len() as u64,
            Pack::File(_, length) => *length,
        };
        self.head.len() as u64 + pack
    }

    /// The body. It breaks off when `cancel` says so before all of it was sent, and the server can then not act on it.
    pub(crate) fn into_body(self, cancel: CancellationToken) -> reqwest::Body {
        reqwest::Body::wrap_stream(self.into_pieces(cancel))
    }

    /// The same as pieces.
    pub(crate) fn into_pieces(
        self,
        cancel: CancellationToken,
    ) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        self.progress.length.store(self.length(), Ordering::Release);
        let Self { head, pack, progress } = self;
        let rest = Rest { head: Some(head), pack: Some(pack), file: None, progress, cancel };
        stream::try_unfold(rest, |mut rest| async move {
            Ok::<_, io::Error>(rest.next().await?.map(|piece| (piece, rest)))
        })
    }
}

impl Rest {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.cancel.is_cancelled() && !self.progress.is_complete() {
            return Err(io::Error::other("cancelled"));
        }
        let piece = match self.head.take() {
            Some(head) => Some(head),
            None => self.piece().await?,
        };
        self.progress.sent.fetch_add(piece.as_ref().map_or(0, |piece| piece.len() as u64), Ordering::AcqRel);
        Ok(piece)
    }

    async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        if let Some(file) = &mut self.file {
            let mut piece = BytesMut::with_capacity(PIECE);
            let read = file.read_buf(&mut piece).await?;
            return Ok((read > 0).then(|| piece.freeze()));
        }
        match self.pack.take() {
            None => Ok(None),
            Some(Pack::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Pack::File(path, _)) => {
                self.file = Some(File::open(path).await?);
                Box::pin(self.piece()).await
            }
        }
    }
}
