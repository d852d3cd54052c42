//! Long answers, compressed for whoever accepts that.

use std::io::Write as _;

use axum::body::{Body, BodyDataStream, HttpBody as _};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, StatusCode, header};

/// Answers of fewer bytes are sent as they are, as by a real server.
const LONG: usize = 128 << 10;

/// Whether a client reads gzip.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("gzip") && parts.next().is_none_or(|quality| quality != "q=0")
    })
}

/// Compresses an answer, if it is a long one. Its beginning is waited for.
pub(crate) async fn compress(response: Response) -> Response {
    let is_short = response.body().size_hint().upper().is_some_and(|bytes| bytes < LONG as u64);
    if is_short || response.status() != StatusCode::OK {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let mut rest = body.into_data_stream();
    let (mut begun, mut length) = (Vec::new(), 0);
    while length < LONG {
        match rest.next().await {
            Some(Ok(piece)) => {
                length += piece.len();
                begun.push(Ok(piece));
            }
            Some(Err(error)) => {
                begun.push(Err(error));
                break;
            }
            None => break,
        }
    }
    let begun = stream::iter(begun);
    if length < LONG {
        return Response::from_parts(parts, Body::from_stream(begun));
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let pieces = Pieces { encoder: Some(encoder), rest: begun.chain(rest).boxed() };
    Response::from_parts(parts, Body::from_stream(stream::unfold(pieces, Pieces::next)))
}

struct Pieces {
    /// `None` after the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
    rest: stream::BoxStream<'static, <BodyDataStream as futures::Stream>::Item>,
}

impl Pieces {
    async fn next(mut self) -> Option<(Result<Bytes, axum::Error>, Self)> {
        loop {
            let mut encoder = self.encoder.take()?;
            let written = match self.rest.next().await {
                Some(Ok(piece)) => encoder.write_all(&piece),
                Some(Err(error)) => return Some((Err(error), self)),
                None => {
                    let end = encoder.finish().map(Bytes::from).map_err(axum::Error::new);
                    return Some((end, self));
                }
            };
            if let Err(error) = written {
                return Some((Err(axum::Error::new(error)), self));
            }
            let made = std::mem::take(encoder.get_mut());
            self.encoder = Some(encoder);
            if !made.is_empty() {
                return Some((Ok(made.into()), self));
            }
        }
    }
}
