//! What an answer that is not 200 means.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use windlass_http_client::{Answer, MAX_RETRY_AFTER, printable, retry_after, server_time};

use super::{Inner, SMALL};
use crate::GithubError;

/// How long to wait when GitHub says to wait and not how long (its documents: at least a minute).
const PATIENCE: Duration = Duration::from_mins(1);

/// GitHub's body of a refusal.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

impl Inner {
    /// The error that `answer` is. `token` is what was sent, so that no message repeats it.
    pub(super) async fn judge(
        &self,
        what: &str,
        who: &'static str,
        token: Option<&SecretString>,
        answer: Answer,
    ) -> GithubError {
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = answer.body(SMALL).await.unwrap_or_default();
        let refusal: Refusal = serde_json::from_slice(&body).unwrap_or_default();
        let mut said = refusal.message;
        if let Some(token) = token.map(SecretString::expose_secret).filter(|token| !token.is_empty()) {
            said = said.replace(token, "…");
        }
        let detail = printable(if said.is_empty() { status.as_str() } else { &said }, 200);
        let (host, what) = (self.host.clone(), what.to_owned());
        if let Some(retry_after) = limited(status, &headers, &said) {
            self.held.hold(&self.host, retry_after);
            return GithubError::RateLimited { host, what, retry_after };
        }
        match status {
            StatusCode::UNAUTHORIZED => GithubError::Unauthorized { host, what, who, detail },
            StatusCode::FORBIDDEN => GithubError::Forbidden { host, what, who, detail },
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS => {
                GithubError::NotFound { host, what, who }
            }
            StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => {
                GithubError::NoSuchCommit { host, what, detail }
            }
            status if status.is_server_error() => GithubError::Unavailable {
                host,
                what,
                status: status.as_u16(),
                retry_after: retry_after(&headers),
            },
            status => {
                let detail = format!("it answers {}: {detail}", status.as_u16());
                GithubError::Malformed { host, what, detail }
            }
        }
    }
}

/// How long to wait, if the answer is one of a rate limit: the primary one (none remain), or a secondary one.
fn limited(status: StatusCode, headers: &HeaderMap, said: &str) -> Option<Duration> {
    if !matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) {
        return None;
    }
    let number = |name: &'static str| number(headers, HeaderName::from_static(name));
    let told = retry_after(headers);
    let exhausted = number("x-ratelimit-remaining") == Some(0);
    let secondary = {
        let said = said.to_ascii_lowercase();
        said.contains("rate limit") || said.contains("abuse detection")
    };
    if status == StatusCode::FORBIDDEN && told.is_none() && !exhausted && !secondary {
        return None;
    }
    let reset = number("x-ratelimit-reset").filter(|_| exhausted).map(|reset| {
        // By GitHub's own clock where it tells, and a second more: it counts whole ones.
        let now = server_time(headers).unwrap_or_else(Timestamp::now).as_second();
        Duration::from_secs(reset.saturating_sub(now.unsigned_abs()) + 1)
    });
    // The primary limit is counted anew every hour.
    Some(told.or(reset).unwrap_or(PATIENCE).min(MAX_RETRY_AFTER))
}

fn number(headers: &HeaderMap, name: HeaderName) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATED: (&str, &str) = ("date", "Fri, 06 Mar 2026 10:00:00 GMT");

    fn check(status: u16, list: &[(&'static str, &str)], said: &str, expected: Option<u64>) {
        let headers = list
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        let found = limited(StatusCode::from_u16(status).unwrap(), &headers, said);
        assert_eq!(found.map(|wait| wait.as_secs()), expected, "for {status} {list:?} {said}");
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
