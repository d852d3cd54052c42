//! What a request is answered with: RFC 9110, as far as it is about files.

use std::ops::Range;
use std::time::SystemTime;

use http::header::{
    ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, LAST_MODIFIED, RANGE,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use jiff::Timestamp;

/// A file that is there.
pub(super) struct Opened {
    pub(super) file: std::fs::File,
    pub(super) size: u64,
    pub(super) modified: SystemTime,
}

/// The part of a file that is sent.
pub(super) struct File {
    pub(super) file: std::fs::File,
    pub(super) range: Range<u64>,
}

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> Response<Option<File>> {
    let mut answer = Response::new(None);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    answer
}

pub(super) fn respond(
    request: &Request<()>,
    Opened { file, size, modified }: Opened,
    tag: Option<String>,
) -> Response<Option<File>> {
    let modified = http_date(modified);
    let value = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_known = match (value(IF_NONE_MATCH), &tag) {
        (Some(known), Some(tag)) => {
            known.split(',').map(str::trim).any(|known| known == "*" || known.trim_start_matches("W/") == tag)
        }
        (Some(_), None) => false,
        (None, _) => value(IF_MODIFIED_SINCE).is_some_and(|since| since == modified),
    };
    let mut answer = Response::new(None);
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
    let wanted = value(RANGE).filter(|_| same && *request.method() == Method::GET);
    let range = match wanted.map(|wanted| parse_range(wanted, size)) {
        None | Some(Asked::Whole) => 0..size,
        Some(Asked::Part(range)) => {
            set(CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end - 1));
            range
        }
        Some(Asked::Nothing) => {
            set(CONTENT_RANGE, &format!("bytes */{size}"));
            set(CONTENT_LENGTH, "0");
            *answer.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            return answer;
        }
    };
    set(CONTENT_LENGTH, &(range.end - range.start).to_string());
    if answer.headers().contains_key(CONTENT_RANGE) {
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    if *request.method() != Method::HEAD {
        *answer.body_mut() = Some(File { file, range });
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

/// As headers have it: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn http_date(at: SystemTime) -> String {
    let at = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
