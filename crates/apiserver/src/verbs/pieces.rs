//! Long answers, told piece by piece: nothing is made that its reader has no room for yet.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::failure::Failure;
use crate::state::Inner;

/// A piece is told once it has so many bytes.
pub(super) const PIECE: usize = 64 << 10;
/// How long a reader may leave a piece lying there. A reader that is slow gets all the same what it takes.
const TAKEN_WITHIN: Duration = Duration::from_mins(2);

/// Why an answer is not told to its end.
pub(super) enum Ended {
    /// The reader has gone, or leaves what it is told lying there: there is nobody to tell.
    Gone,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Ended {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// What is told to one reader: at most two pieces are there at a time, the one that waits to be read and the one after it.
pub(super) struct Pieces {
    /// `None` is the end. Without it the answer was broken off, and the reader knows that it is not whole.
    sender: mpsc::Sender<Option<Bytes>>,
    /// What comes next.
    pub(super) out: Vec<u8>,
}

impl Pieces {
    /// The two ends of an answer.
    pub(super) fn channel() -> (Self, Body) {
        let (sender, receiver) = mpsc::channel(1);
        let pieces = stream::unfold(Some(receiver), |receiver| async {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Some(Some(piece)) => Some((Ok(piece), Some(receiver))),
                Some(None) => None,
                None => Some((Err(Broken), None)),
            }
        });
        (Self { sender, out: Vec::new() }, Body::from_stream(pieces))
    }

    /// The body of an answer, which a task of its own tells.
    pub(super) fn body<F: Future<Output = ()> + Send + 'static>(
        inner: &Arc<Inner>,
        tell: impl FnOnce(Self) -> F,
    ) -> Body {
        let (pieces, body) = Self::channel();
        inner.spawn(tell(pieces));
        body
    }

    /// Tells what there is, if that is enough for a piece.
    pub(super) async fn tell_much(&mut self) -> Result<(), Ended> {
        if self.out.len() < PIECE { Ok(()) } else { self.tell().await }
    }

    /// Tells what there is. A large object goes in parts, so that what waits to be read is of one object, and not of three.
    pub(super) async fn tell(&mut self) -> Result<(), Ended> {
        let mut rest = Bytes::from(std::mem::take(&mut self.out));
        while rest.len() > PIECE {
            self.send(rest.split_to(PIECE)).await?;
        }
        self.send(rest).await
    }

    /// Tells bytes that others are told as well, after what there is.
    pub(super) async fn tell_shared(&mut self, bytes: &Bytes) -> Result<(), Ended> {
        if bytes.len() < PIECE / 4 {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        if !self.out.is_empty() {
            self.tell().await?;
        }
        self.send(bytes.clone()).await
    }

    /// Waits until the reader has gone.
    pub(super) async fn gone(&self) {
        self.sender.closed().await;
    }

    /// Tells a piece.
    pub(super) async fn send(&self, piece: Bytes) -> Result<(), Ended> {
        self.put(Some(piece)).await
    }

    /// Says that this was all.
    pub(super) async fn end(self) -> Result<(), Ended> {
        self.put(None).await
    }

    async fn put(&self, piece: Option<Bytes>) -> Result<(), Ended> {
        match timeout(TAKEN_WITHIN, self.sender.send(piece)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Ended::Gone),
        }
    }
}

/// The rest of an answer could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the answer could not be read")]
struct Broken;
