//! `GET /store/backup`: a copy of the whole store, for whoever may do everything.

use std::io::{self, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Request, header};
use tokio::sync::mpsc;
use tracing::{info, warn};
use windlass_auth::{Caller, refuse_impersonation};

use crate::failure::{Failure, Result};
use crate::state::Inner;

/// Where it is served.
pub(crate) const PATH: &str = "/store/backup";
/// How many bytes are sent at a time.
const PIECE: usize = 256 << 10;

/// Streams a copy. One that ends without its end was broken off.
pub(crate) async fn serve(State(inner): State<Arc<Inner>>, request: Request<Body>) -> Response {
    match allow(&request) {
        Ok(()) => {}
        Err(failure) => return failure.into_response(),
    }
    let store = inner.store.clone();
    let (sender, receiver) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(PIECE, Sender(sender));
        match store.backup(&mut out) {
            Ok(copied) => info!(objects = copied.objects, revision = copied.revision, "copied the store"),
            Err(error) => {
                warn!(error = %error, "failed to copy the store");
                let _ = out.into_parts().0.0.blocking_send(Err(io::Error::other("the copy was broken off")));
            }
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async { Some((receiver.recv().await?, receiver)) });
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

/// Sends what is written.
struct Sender(mpsc::Sender<io::Result<Bytes>>);

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
