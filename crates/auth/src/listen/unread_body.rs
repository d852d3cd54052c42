//! Request bodies that nobody read to their end.
//!
//! A refusal is often known before the body has arrived. Resetting the rest of an HTTP/2 stream, or closing an HTTP/1
//! connection in the middle of a request, makes clients report a broken connection instead of the refusal, so what is
//! left is read and thrown away first, within limits.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// The most that is read for nothing; a larger rest is cut off.
const MAX_DRAINED: usize = 16 * 1024 * 1024;
/// The longest that it is waited for.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A request's body that gives back what was not read when it is dropped.
pub(super) struct TrackedBody {
    inner: Option<Incoming>,
    /// How long is waited for the next of it, and until when that is.
    timeout: Duration,
    until: Pin<Box<Sleep>>,
    unread: Option<oneshot::Sender<Incoming>>,
}

/// Where the unread rest of a body arrives.
pub(super) struct UnreadBody(oneshot::Receiver<Incoming>);

/// Splits a body into what a handler reads, and what becomes of the rest.
pub(super) fn track(body: Incoming, timeout: Duration) -> (TrackedBody, UnreadBody) {
    let (sender, receiver) = oneshot::channel();
    let until = Box::pin(sleep(timeout));
    (TrackedBody { inner: Some(body), timeout, until, unread: Some(sender) }, UnreadBody(receiver))
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    /// The connection broke.
    #[error("failed to read the body of a request")]
    Read(#[source] hyper::Error),
    /// It does not come.
    #[error("nothing of the body of a request came for {0:?}")]
    TooSlow(Duration),
}

impl UnreadBody {
    /// Reads what is left, if the body was dropped before its end.
    pub(super) async fn drain(mut self) {
        let Ok(mut body) = self.0.try_recv() else { return };
        let reading = async {
            let mut read = 0;
            while let Some(Ok(frame)) = body.frame().await {
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > MAX_DRAINED {
                    break;
                }
            }
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, reading).await.is_err() {
            tracing::debug!("a refused request did not end in time");
        }
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(inner).poll_frame(context) else {
            ready!(this.until.as_mut().poll(context));
            this.inner = None;
            return Poll::Ready(Some(Err(BodyError::TooSlow(this.timeout))));
        };
        if matches!(frame, Some(Ok(_))) {
            this.until.as_mut().reset(Instant::now() + this.timeout);
        } else {
            this.inner = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Read)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        if let Some(body) = self.inner.take().filter(|body| !body.is_end_stream())
            && let Some(unread) = self.unread.take()
        {
            // The other end is gone when the connection is: nobody waits for an answer then.
            let _ = unread.send(body);
        }
    }
}
