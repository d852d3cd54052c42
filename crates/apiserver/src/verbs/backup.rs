//! `GET /store/backup`: a copy of the whole store, for whoever may do everything.

use std::io::{self, Write};
use std::time::Duration;

use axum::Extension;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::header;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};
use windlass_auth::Caller;
use windlass_telemetry::ErrorChain;

use super::pieces::Pieces;
use crate::compress::Uncompressed;
use crate::failure::{Failure, Result};
use crate::state::Inner;

/// Where it is served.
pub(super) const PATH: &str = "/store/backup";
/// How many bytes are sent at a time.
const PIECE: usize = 256 << 10;
/// How long a reader may take before its pace counts.
const GRACE: Duration = Duration::from_secs(30);
/// How many bytes a second a reader has to take.
const SLOWEST: u64 = 256 << 10;

/// Streams a copy. One that ends without its end was broken off.
pub(super) fn answer(inner: &Inner, caller: &Caller) -> Result<Response> {
    if !caller.is_master() {
        return Err(Failure::forbidden_path(PATH, &caller.name));
    }
    let store = inner.store.clone();
    let (pieces, body) = Pieces::channel();
    let sender = Sender::new(pieces, GRACE);
    tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(PIECE, sender);
        match store.backup(&mut out) {
            Ok(copied) => {
                info!(objects = copied.objects, revision = copied.revision, "copied the store");
                if let Ok(sender) = out.into_inner() {
                    sender.end();
                }
            }
            Err(error) => {
                warn!(error = %ErrorChain(&error), "failed to copy the store");
                // What has not been written is of no use to anybody.
                drop(out.into_parts());
            }
        }
    });
    let headers = [(header::CONTENT_TYPE, "application/octet-stream"), (header::CACHE_CONTROL, "no-store")];
    // Values are stored compressed, or sealed.
    Ok((Extension(Uncompressed), headers, body).into_response())
}

/// Sends what is written, to a reader that is not waited for without end: as long as it reads, the store keeps what is
/// overwritten meanwhile. A reader has `grace`, and then [`SLOWEST`].
struct Sender {
    pieces: Pieces,
    runtime: Handle,
    begun: Instant,
    grace: Duration,
    sent: u64,
}

impl Sender {
    fn new(pieces: Pieces, grace: Duration) -> Self {
        Self { pieces, runtime: Handle::current(), begun: Instant::now(), grace, sent: 0 }
    }

    /// Everything was sent.
    fn end(self) {
        let _ = self.runtime.block_on(self.pieces.end());
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let until = self.begun + self.grace + Duration::from_secs(self.sent / SLOWEST);
        let sending = self.pieces.send(Bytes::copy_from_slice(bytes));
        // The timer belongs to the runtime, and is made there.
        match self.runtime.block_on(async { timeout_at(until, sending).await }) {
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
    use axum::body::to_bytes;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_reader_of_a_copy_that_does_not_read_is_ended() {
        let (pieces, body) = Pieces::channel();
        let mut sender = Sender::new(pieces, SHORT);
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
        assert!(to_bytes(body, usize::MAX).await.is_err(), "what was broken off does not look whole");
    }

    #[tokio::test]
    async fn a_reader_of_a_copy_that_reads_gets_all_of_it() {
        let (pieces, body) = Pieces::channel();
        let mut sender = Sender::new(pieces, Duration::from_secs(30));
        let writing = tokio::task::spawn_blocking(move || {
            for piece in 0..100_u8 {
                sender.write_all(&[piece; 1000]).unwrap();
            }
            sender.end();
        });
        assert_eq!(to_bytes(body, usize::MAX).await.unwrap().len(), 100_000);
        writing.await.unwrap();
    }
}
