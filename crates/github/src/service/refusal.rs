//! What an answer that is no success means.

use std::time::Duration;

use http::StatusCode;
use http::header::HeaderMap;
use serde::Deserialize;
use windlass_http_client::{Answer, MAX_RETRY_AFTER, limit_reset, retry_after};

use super::transport::{MAX_ERROR, Transport};
use crate::{Caller, ErrorKind, GithubError};

/// How long to wait when GitHub says to wait and not how long (its documents: at least a minute).
const DEFAULT_WAIT: Duration = Duration::from_mins(1);

/// GitHub's body of a refusal.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
    #[serde(default)]
    errors: Vec<Detail>,
}

/// What is wrong with a value (422).
#[derive(Deserialize)]
#[serde(untagged)]
enum Detail {
    Text(String),
    Field {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        field: Option<String>,
    },
    Other(serde::de::IgnoredAny),
}

impl Refusal {
    /// GitHub's words in one line.
    fn text(&self) -> String {
        let mut parts = vec![self.message.clone()];
        parts.extend(self.errors.iter().filter_map(|detail| match detail {
            Detail::Text(text) => Some(text.clone()),
            Detail::Field { message: Some(message), .. } => Some(message.clone()),
            Detail::Field { code, field, .. } => {
                Some(format!("{} {code}", field.as_deref().unwrap_or_default()).trim().to_owned())
            }
            Detail::Other(_) => None,
        }));
        parts.retain(|part| !part.is_empty());
        parts.join(": ")
    }

    fn is_of_what_exists(&self) -> bool {
        self.errors.iter().any(|detail| match detail {
            Detail::Text(text) => text.contains("already exists"),
            Detail::Field { code, message, .. } => {
                code == "already_exists" || message.as_ref().is_some_and(|it| it.contains("already exists"))
            }
            Detail::Other(_) => false,
        })
    }
}

impl Transport {
    /// The error that `answer` is.
    pub(super) async fn refusal(&self, caller: Caller, answer: Answer) -> GithubError {
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.body(MAX_ERROR).await.unwrap_or_default();
        let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        let text = refusal.text();
        let detail = self.printable(if text.is_empty() { status.as_str() } else { &text }, 200);
        if let Some(retry_after) = limited(status, &headers, &text) {
            self.hold(retry_after);
            return self.error(ErrorKind::RateLimited { retry_after });
        }
        self.error(match status {
            StatusCode::UNAUTHORIZED => ErrorKind::Unauthorized { caller, detail },
            StatusCode::FORBIDDEN => {
                let needs = needs(&headers).map(|needs| self.printable(needs, 100));
                ErrorKind::Forbidden { caller, detail, needs }
            }
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS => {
                ErrorKind::NotFound { caller }
            }
            StatusCode::UNPROCESSABLE_ENTITY if refusal.is_of_what_exists() => {
                ErrorKind::AlreadyExists(detail)
            }
            StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => ErrorKind::Unprocessable(detail),
            status if status.is_server_error() => {
                ErrorKind::Unavailable { status: status.as_u16(), retry_after: retry_after(&headers) }
            }
            status => ErrorKind::Malformed(format!("it answers {}: {detail}", status.as_u16())),
        })
    }
}

/// The permissions that would do, as GitHub names them beside a refusal.
fn needs(headers: &HeaderMap) -> Option<&str> {
    let named = ["x-accepted-github-permissions", "x-accepted-oauth-scopes"];
    let mut texts = named.iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    texts.find(|text| !text.trim().is_empty())
}

/// How long to wait, if the answer is one of a rate limit: the primary one (none remain), or a secondary one.
fn limited(status: StatusCode, headers: &HeaderMap, message: &str) -> Option<Duration> {
    if !matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let named = retry_after(headers);
    let exhausted = headers.get("x-ratelimit-remaining").is_some_and(|remaining| remaining == "0");
    let secondary = {
        let message = message.to_ascii_lowercase();
        message.contains("rate limit") || message.contains("abuse detection")
    };
    if status == StatusCode::FORBIDDEN && named.is_none() && !exhausted && !secondary {
        return None;
    }
    // The primary limit is counted anew every hour.
    Some(named.or_else(|| limit_reset(headers)).unwrap_or(DEFAULT_WAIT).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;
    use jiff::Timestamp;

    use super::*;

    const DATED: (&str, &str) = ("date", "Fri, 06 Mar 2026 10:00:00 GMT");

    fn check(status: u16, list: &[(&'static str, &str)], message: &str, expected: Option<u64>) {
        let headers = list
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let found = limited(StatusCode::from_u16(status).unwrap(), &headers, message);
        assert_eq!(found.map(|wait| wait.as_secs()), expected, "for {status} {list:?} {message}");
    }

    #[test]
    fn a_limit_says_how_long_to_wait() {
        let reset = "2026-03-06T10:01:30Z".parse::<Timestamp>().unwrap().as_second().to_string();
        let used_up = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset.as_str()), DATED];
        check(403, &used_up, "API rate limit exceeded for installation ID 9.", Some(91));
        check(429, &used_up, "", Some(91));
        check(429, &[("retry-after", "17")], "", Some(17));
        check(403, &[("retry-after", "17")], "You have exceeded a secondary rate limit.", Some(17));
        check(429, &[("retry-after", "Fri, 06 Mar 2026 10:01:40 GMT"), DATED], "", Some(100));
        check(429, &[], "", Some(60));
        check(403, &[("x-ratelimit-remaining", "12")], "You have exceeded a secondary rate limit", Some(60));
        check(429, &[("retry-after", "999999")], "", Some(3600));
    }

    #[test]
    fn another_refusal_is_no_limit() {
        check(403, &[("x-ratelimit-remaining", "12")], "Resource not accessible by integration", None);
        check(401, &[("x-ratelimit-remaining", "0")], "Bad credentials", None);
        check(404, &[], "Not Found", None);
    }
}
