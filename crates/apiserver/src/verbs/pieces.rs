//! Long answers, told piece by piece: nothing is made that its reader has no room for yet.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::state::Inner;

/// A piece is told once it has so many bytes.
pub(super) const PIECE: usize = 64 << 10;
/// How long a reader may leave a piece lying there. A reader that is slow gets all the same what it takes.
const TAKEN_WITHIN: Duration = Duration::from_mins(2);

/// The reader has gone, or leaves what it is told lying there: there is nobody to tell.
#[derive(Debug)]
pub(super) struct Gone;

/// What is told to one reader: at most two pieces are there at a time, the one that waits to be read and the one after it.
pub(super) struct Pieces {
    sender: mpsc::Sender<Option<Bytes>>,
    /// What comes next.
    pub(super) out: Vec<u8>,
}

impl Pieces {
    /// The body of an answer, which a task of its own tells.
    pub(super) fn body<F: Future<Output = ()> + Send + 'static>(
        inner: &Arc<Inner>,
        tell: impl FnOnce(Self) -> F,
    ) -> Body {
        let (sender, receiver) = mpsc::channel(1);
        inner.spawn(tell(Self { sender, out: Vec::new() }));
        Body::from_stream(stream::unfold(receiver, |mut receiver| async {
            let piece = receiver.recv().await?;
            Some((piece.ok_or(Broken), receiver))
        }))
    }

    /// Tells what there is, if that is enough for a piece.
    pub(super) async fn tell_much(&mut self) -> Result<(), Gone> {
        if self.out.len() < PIECE { Ok(()) } else { self.tell().await }
    }

    /// Tells what there is. A large object goes in parts, so that what waits to be read is of one object, and not of three.
    pub(super) async fn tell(&mut self) -> Result<(), Gone> {
        let mut rest = Bytes::from(std::mem::take(&mut self.out));
        while rest.len() > PIECE {
            let part = rest.split_to(PIECE);
            self.send(Some(part)).await?;
        }
        self.send(Some(rest)).await
    }

    /// Tells bytes that others are told as well, after what there is.
    pub(super) async fn tell_shared(&mut self, bytes: &Bytes) -> Result<(), Gone> {
        if bytes.len() < PIECE / 4 {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        if !self.out.is_empty() {
            self.tell().await?;
        }
        self.send(Some(bytes.clone())).await
    }

    /// Breaks the answer off, so that the reader knows that it is not whole.
    pub(super) async fn break_off(self) {
        let _ = self.send(None).await;
    }

    /// Waits until the reader has gone.
    pub(super) async fn gone(&self) {
        self.sender.closed().await;
    }

    async fn send(&self, piece: Option<Bytes>) -> Result<(), Gone> {
        match timeout(TAKEN_WITHIN, self.sender.send(piece)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}

/// The rest of an answer could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the rest of the answer could not be read")]
struct Broken;
