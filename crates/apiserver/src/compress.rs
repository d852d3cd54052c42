//! Long answers, compressed for whoever accepts that.

use std::future::ready;
use std::io::Write as _;

use axum::body::{Body, HttpBody as _};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// Answers of fewer bytes are sent as they are, as by a real server.
const LONG: u64 = 128 << 10;

/// Marks an answer that is sent as it is, whatever its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uncompressed;

/// Whether a client reads gzip.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.next().is_none_or(|quality| quality != "q=0")
    })
}

/// Compresses an answer, if it is a long one; one whose length is not known is.
pub(crate) fn compress(response: Response) -> Response {
    let is_short = response.body().size_hint().upper().is_some_and(|bytes| bytes < LONG);
    let is_marked = response.extensions().get::<Uncompressed>().is_some();
    if is_short || is_marked || response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // `None` is the end.
    let pieces = body.into_data_stream().map(Some).chain(stream::iter([None]));
    let compressed = pieces.map(move |piece| {
        match piece {
            Some(piece) => encoder.write_all(&piece?),
            None => encoder.try_finish(),
        }
        .map_err(axum::Error::new)?;
        Ok::<_, axum::Error>(Bytes::from(std::mem::take(encoder.get_mut())))
    });
    // The encoder waits for more before it says something, and frames of nothing look like an attack to some clients.
    let said = compressed.filter(|piece| ready(piece.as_ref().map_or(true, |bytes| !bytes.is_empty())));
    Response::from_parts(parts, Body::from_stream(said))
}
