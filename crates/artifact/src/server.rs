//! Artifacts over HTTP: entity tags, ranges, HEAD, and no listings.
//!
//! A path that is none, a directory and a file that is not there are all the same to who asks: not found. The entity tag
//! is the digest that the name holds.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use bytes::{Bytes, BytesMut};
use futures::stream;
use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use jiff::Timestamp;

use crate::{ArtifactPath, Store};

/// Bytes that are read at a time.
const PIECE: usize = 512 << 10;
/// `O_NOFOLLOW`: a link under a name that is served is nobody's artifact.
const NO_FOLLOW: i32 = 0o400_000;

/// Brings artifacts here that another replica has published.
#[async_trait]
pub trait Missing: Send + Sync + 'static {
    /// Tries to bring the file of this path here, and answers whether it is.
    async fn bring(&self, path: &ArtifactPath) -> bool;
}

#[derive(Clone)]
struct Served {
    store: Arc<Store>,
    missing: Option<Arc<dyn Missing>>,
}

/// A router that serves the artifacts of `store`; `missing` is asked for what is not there.
pub fn router(store: Arc<Store>, missing: Option<Arc<dyn Missing>>) -> Router {
    Router::new().route("/{*path}", get(serve)).with_state(Served { store, missing })
}

async fn serve(
    State(served): State<Served>,
    method: Method,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(path) = ArtifactPath::parse(&path) else { return StatusCode::NOT_FOUND.into_response() };
    let mut opened = open(&served.store, &path).await;
    if opened.is_none()
        && let Some(missing) = &served.missing
        && missing.bring(&path).await
    {
        opened = open(&served.store, &path).await;
    }
    let Some((file, size, modified)) = opened else { return StatusCode::NOT_FOUND.into_response() };
    let tag = path.hex().map(|hex| format!("\"{hex}\""));
    respond(&method, &headers, file, size, tag, modified)
}

/// A plain file, its size and when it was modified.
async fn open(store: &Arc<Store>, path: &ArtifactPath) -> Option<(std::fs::File, u64, SystemTime)> {
    let path = store.path(path);
    let opening = tokio::task::spawn_blocking(move || {
        let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(path).ok()?;
        let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((file, meta.len(), meta.modified().ok()?))
    });
    opening.await.ok().flatten()
}

fn respond(
    method: &Method,
    headers: &HeaderMap,
    file: std::fs::File,
    size: u64,
    tag: Option<String>,
    modified: SystemTime,
) -> Response {
    let modified = http_date(modified);
    let value = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_known = match (value(IF_NONE_MATCH), &tag) {
        (Some(known), Some(tag)) => {
            known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
        }
        (Some(_), None) => false,
        (None, _) => value(IF_MODIFIED_SINCE).is_some_and(|since| since == modified),
    };
    let mut answer = Response::new(Body::empty());
    let mut set = |name, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            answer.headers_mut().insert(name, value);
        }
    };
    set(LAST_MODIFIED, &modified);
    if let Some(tag) = &tag {
        set(ETAG, tag);
    }
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return answer;
    }
    set(ACCEPT_RANGES, "bytes");
    set(CONTENT_TYPE, "application/gzip");
    let same = value(IF_RANGE).is_none_or(|wanted| tag.as_deref() == Some(wanted) || wanted == modified);
    let wanted = value(RANGE).filter(|_| same && *method == Method::GET);
    let range = match wanted.map(|wanted| parse_range(wanted, size)) {
        None | Some(Asked::Whole) => 0..size,
        Some(Asked::Part(range)) => {
            set(CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end - 1));
            range
        }
        Some(Asked::Nothing) => {
            set(CONTENT_RANGE, &format!("bytes */{size}"));
            *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            return answer;
        }
    };
    set(CONTENT_LENGTH, &(range.end - range.start).to_string());
    if answer.headers().contains_key(CONTENT_RANGE) {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    if *method != Method::HEAD {
        *answer.body_mut() = Body::from_stream(pieces(file, range));
    }
    answer
}

enum Asked {
    Whole,
    Part(Range<u64>),
    Nothing,
}

/// One range of bytes; several are answered with the whole, as RFC 9110 lets us.
fn parse_range(text: &str, size: u64) -> Asked {
    let parse = || {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        Some(match (first.trim(), last.trim()) {
            ("", last) => {
                let count: u64 = last.parse().ok()?;
                size.saturating_sub(count)..size
            }
            (first, "") => first.parse().ok()?..size,
            (first, last) => {
                let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                if last < first {
                    return None;
                }
                first..last.saturating_add(1).min(size)
            }
        })
    };
    match parse() {
        None => Asked::Whole,
        Some(range) if range.start >= range.end => Asked::Nothing,
        Some(range) => Asked::Part(range),
    }
}

/// A file's bytes, piece by piece, each read when the one before it was sent.
fn pieces(
    file: std::fs::File,
    range: Range<u64>,
) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> {
    let read = |(mut file, range): (std::fs::File, Range<u64>), begin: bool| {
        tokio::task::spawn_blocking(move || {
            if begin {
                file.seek(SeekFrom::Start(range.start))?;
            }
            let left = usize::try_from(range.end - range.start).unwrap_or(PIECE);
            let mut piece = BytesMut::zeroed(PIECE.min(left));
            let count = file.read(&mut piece)?;
            if count == 0 {
                return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
            }
            piece.truncate(count);
            Ok((piece.freeze(), (file, range.start + count as u64..range.end)))
        })
    };
    stream::try_unfold((Some((file, range)), true), move |(state, begin)| async move {
        let Some((file, range)) = state.filter(|(_, range)| range.start < range.end) else { return Ok(None) };
        let (piece, rest) = read((file, range), begin).await.map_err(std::io::Error::other)??;
        Ok(Some((piece, (Some(rest), false))))
    })
}

/// As headers have it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
