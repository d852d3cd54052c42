//! `GET /store/backup`: a copy of the whole store, for whoever may do everything.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Request, header};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};
use windlass_auth::{Caller, refuse_impersonation};
use windlass_telemetry::ErrorChain;

use crate::failure::{Failure, Result};
use crate::state::Inner;

/// Where it is served.
pub(crate) const PATH: &str = "/store/backup";
/// How many bytes are sent at a time.
const PIECE: usize = 256 << 10;
/// How long a reader may take before its pace counts.
const GRACE: Duration = Duration::from_secs(30);
/// How many bytes a second a reader has to take.
const SLOWEST: u64 = 256 << 10;

/// Streams a copy. One that ends without its end was broken off.
pub(crate) async fn serve(State(inner): State<Arc<Inner>>, request: Request<Body>) -> Response {
    match allow(&request) {
        Ok(()) => {}
        Err(failure) => return failure.into_response(),
    }
    let store = inner.store.clone();
    let (sender, pieces) = channel(GRACE);
    tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(PIECE, sender);
        match store.backup(&mut out) {
            Ok(copied) => {
                info!(objects = copied.objects, revision = copied.revision, "copied the store");
                out.get_ref().end();
            }
            Err(error) => {
                warn!(error = %ErrorChain(&error), "failed to copy the store");
                // What has not been written is of no use to anybody.
                drop(out.into_parts());
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let octets = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, octets);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn allow(request: &Request<Body>) -> Result<()> {
    let caller = request.extensions().get::<Caller>().ok_or_else(Failure::unauthorized)?;
    refuse_impersonation(request.headers()).map_err(|status| Failure::from(*status))?;
    if !caller.is_master() {
        return Err(Failure::forbidden_path(PATH, &caller.name));
    }
    Ok(())
}

/// What is written on one side is read on the other, which ends with an error unless it was said to be whole. A reader has
/// `grace`, and then [`SLOWEST`].
fn channel(grace: Duration) -> (Sender, impl futures::Stream<Item = io::Result<Bytes>> + Send) {
    let (sender, receiver) = mpsc::channel(1);
    let is_whole = Arc::new(AtomicBool::new(false));
    let sender = Sender {
        reader: sender,
        is_whole: is_whole.clone(),
        runtime: Handle::current(),
        begun: Instant::now(),
        grace,
        sent: 0,
    };
    let pieces = stream::unfold(Some(receiver), move |receiver| {
        let is_whole = is_whole.clone();
        async move {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Some(piece) => Some((Ok(piece), Some(receiver))),
                None if is_whole.load(Ordering::Acquire) => None,
                None => Some((Err(io::Error::other("the copy was broken off")), None)),
            }
        }
    });
    (sender, pieces)
}

/// Sends what is written, to a reader that is not waited for without end: as long as it reads, the store keeps what is
/// overwritten meanwhile.
struct Sender {
    reader: mpsc::Sender<Bytes>,
    is_whole: Arc<AtomicBool>,
    runtime: Handle,
    begun: Instant,
    grace: Duration,
    sent: u64,
}

impl Sender {
    /// Everything was sent.
    fn end(&self) {
        self.is_whole.store(true, Ordering::Release);
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let until = self.begun + self.grace + Duration::from_secs(self.sent / SLOWEST);
        let sending = self.reader.send(Bytes::copy_from_slice(bytes));
        // The timer belongs to the runtime, and is made there.
        let sent = self.runtime.block_on(async { timeout_at(until, sending).await });
        match sent {
            Ok(Ok(())) => {
                self.sent += bytes.len() as u64;
                Ok(bytes.len())
            }
            Ok(Err(_)) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the reader is too slow")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_reader_of_a_copy_that_does_not_read_is_ended() {
        let (mut sender, pieces) = channel(SHORT);
        let writing = tokio::task::spawn_blocking(move || {
            let mut written = 0;
            loop {
                match sender.write(&[7; 1000]) {
                    Ok(bytes) => written += bytes,
                    Err(error) => return (written, error.kind()),
                }
            }
        });
        let ended = tokio::time::timeout(Duration::from_secs(30), writing).await.expect("it ends").unwrap();
        assert_eq!(ended, (1000, io::ErrorKind::TimedOut), "one piece waits to be read");
        let read: Vec<io::Result<Bytes>> = pieces.collect().await;
        assert!(
            matches!(read.as_slice(), [Ok(_), Err(_)]),
            "what was broken off does not look whole: {read:?}"
        );
    }

    #[tokio::test]
    async fn a_reader_of_a_copy_that_reads_gets_all_of_it() {
        let (mut sender, pieces) = channel(Duration::from_secs(30));
        let writing = tokio::task::spawn_blocking(move || {
            for piece in 0..100_u8 {
                sender.write_all(&[piece; 1000]).unwrap();
            }
            sender.end();
        });
        let read: Vec<Bytes> = pieces.map(Result::unwrap).collect().await;
        writing.await.unwrap();
        assert_eq!(read.iter().map(Bytes::len).sum::<usize>(), 100_000);
    }
}
