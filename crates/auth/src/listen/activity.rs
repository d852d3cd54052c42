//! What is under way on a connection, and how many connections a peer has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

/// The requests that are under way on one connection, until their answers were read to the end.
#[derive(Debug, Default)]
pub(super) struct Activity {
    requests: AtomicUsize,
    changed: Notify,
}

impl Activity {
    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
        UnderWay(Arc::clone(self))
    }

    /// Returns when no request was under way for so long.
    pub(super) async fn ended_for(&self, time: Duration) {
        loop {
            let changed = self.changed.notified();
            if self.requests.load(Ordering::Acquire) > 0 {
                changed.await;
                continue;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(time) => return,
            }
        }
    }
}

/// A request, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

/// The body of an answer whose request is under way until it was read, or is dropped.
pub(super) struct BodyUnderWay<B> {
    pub(super) body: B,
    pub(super) _under_way: UnderWay,
}

impl<B: Body + Unpin> Body for BodyUnderWay<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How many connections each peer has.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<HashMap<IpAddr, usize>>);

impl Peers {
    /// Counts one more connection of a peer, unless it has so many.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr, most: usize) -> Option<Admitted> {
        let peer = peer.to_canonical();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= most.max(1) {
            return None;
        }
        *count += 1;
        Some(Admitted { peers: Arc::clone(self), peer })
    }
}

/// A connection of a peer, until this is dropped.
#[derive(Debug)]
pub(super) struct Admitted {
    peers: Arc<Peers>,
    peer: IpAddr,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}
