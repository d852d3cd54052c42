//! The two requests that are made to Loki.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;
use windlass_api::HistoricJob;
use windlass_http_client::{
    Answer, Deadlines, Failure, SetUpError, Tls, builder, is_loopback, printable, retry_after, send,
};

use crate::entry::{self, Entry, MILLISECOND};

/// Grafana's client waits as long.
const DEADLINES: Deadlines = Deadlines {
    connect: Duration::from_secs(10),
    read: Duration::from_secs(30),
    total: Duration::from_secs(30),
};
/// The most that is read of an answer to a query, and of one to anything else.
const LONGEST_ANSWER: u64 = 256 << 20;
const LONGEST_REFUSAL: u64 = 64 << 10;
/// Records are read beyond those that are asked for, since some may be there twice.
const SLACK: usize = 20;
/// Records that are read for one job: one, unless a process died at the wrong moment.
const OF_ONE_JOB: usize = 20;
/// Clocks of writers may be ahead of ours by so much.
const SKEW: Duration = Duration::from_mins(5);

/// Where Loki is, and who asks.
#[derive(Clone, Debug)]
pub struct LokiOptions {
    /// What `/loki/api/v1/push` is below.
    pub url: Url,
    /// User of basic authentication; none when it and the password are empty. Sent over https, and to this machine.
    pub user: String,
    /// Password of that user.
    pub password: SecretString,
    /// `X-Scope-OrgID`; none when empty.
    pub tenant: String,
    /// Who is trusted.
    pub tls: Tls,
    /// How far back records are looked for. Loki refuses a query over more than its `max_query_length` (30 days).
    pub lookback: Duration,
}

/// Why Loki did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LokiError {
    /// There can be no client.
    #[error("failed to set up the client of Loki")]
    SetUp(#[source] SetUpError),
    /// The tenant is no header.
    #[error("loki_tenant_id has characters that a header cannot have")]
    Tenant,
    /// Loki was not reached, did not answer in time, or is busy: the same request may succeed later.
    #[error("failed to reach Loki: {message}")]
    Unavailable {
        /// What the network or Loki said.
        message: String,
        /// How long Loki asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// It would refuse the same request again.
    #[error("Loki answered {status}: {message}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// What it said.
        message: String,
    },
    /// Its answer is not as its API says.
    #[error("Loki's answer was not understood: {0}")]
    Malformed(String),
}

impl LokiError {
    /// Whether Loki refused what it was sent, and not who sent it or where.
    pub(crate) fn is_about_content(&self) -> bool {
        matches!(self, Self::Refused { status: 400 | 413 | 422, .. })
    }
}

/// A client of Loki. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Loki {
    options: LokiOptions,
    tenant: Option<HeaderValue>,
    client: reqwest::Client,
}

impl Loki {
    /// A client. Nothing is asked yet.
    ///
    /// # Errors
    /// [`LokiError::SetUp`], [`LokiError::Tenant`].
    pub fn new(options: LokiOptions) -> Result<Self, LokiError> {
        let mut builder = builder(&options.tls, DEADLINES.connect);
        if is_loopback(&options.url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| LokiError::SetUp(error.into()))?;
        let tenant = (!options.tenant.is_empty())
            .then(|| HeaderValue::from_str(&options.tenant).map_err(|_| LokiError::Tenant))
            .transpose()?;
        Ok(Self { options, tenant, client })
    }

    /// Adds records: one request, a stream for each repository, each in the order of time.
    ///
    /// # Errors
    /// [`LokiError`]. Of several that are refused some may have been taken.
    pub async fn push(&self, entries: &[Entry]) -> Result<(), LokiError> {
        let mut streams: BTreeMap<_, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            streams.entry(entry.stream()).or_default().push(entry);
        }
        let streams: Vec<Value> = streams
            .into_iter()
            .map(|(labels, mut entries)| {
                entries.sort_by_key(|entry| entry.time);
                let values: Vec<_> =
                    entries.iter().map(|entry| json!([entry.time.to_string(), entry.line])).collect();
                json!({"stream": labels, "values": values})
            })
            .collect();
        let body = Bytes::from(json!({"streams": streams}).to_string());
        let request = self.client.post(self.path("push")).header(CONTENT_TYPE, "application/json").body(body);
        self.send(request).await.map(drop)
    }

    /// The last records of a repository, the newest first, each job once: those that ended at `until` (Unix
    /// milliseconds) or before.
    ///
    /// # Errors
    /// [`LokiError`].
    pub async fn newest(
        &self,
        namespace: &str,
        repository: &str,
        until: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HistoricJob>, LokiError> {
        let mut found = self.query(&selector(namespace, repository), until, limit + SLACK).await?;
        found.truncate(limit);
        Ok(found)
    }

    /// The record of one job.
    ///
    /// # Errors
    /// [`LokiError`].
    pub async fn of_job(
        &self,
        namespace: &str,
        repository: &str,
        uid: &str,
    ) -> Result<Option<HistoricJob>, LokiError> {
        let found = self.with_word(namespace, repository, uid).await?;
        Ok(found.into_iter().find(|job| entry::job_uid(job) == Some(uid)))
    }

    /// The record of that name, which is that of the object that would have been made of it.
    ///
    /// # Errors
    /// [`LokiError`].
    pub async fn of_name(
        &self,
        namespace: &str,
        repository: &str,
        name: &str,
    ) -> Result<Option<HistoricJob>, LokiError> {
        let found = self.with_word(namespace, repository, name).await?;
        Ok(found.into_iter().find(|job| job.metadata.name.as_deref() == Some(name)))
    }

    async fn with_word(
        &self,
        namespace: &str,
        repository: &str,
        word: &str,
    ) -> Result<Vec<HistoricJob>, LokiError> {
        let query = format!("{} |= {}", selector(namespace, repository), quoted(word));
        self.query(&query, None, OF_ONE_JOB).await
    }

    /// The newest records that a query finds, each job once. What is no record is passed over.
    async fn query(
        &self,
        query: &str,
        until: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HistoricJob>, LokiError> {
        let now = Timestamp::now().as_millisecond();
        let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let start = now.saturating_sub(milliseconds(self.options.lookback));
        // The end itself is not in the answer.
        let end = until.map_or(now + milliseconds(SKEW), |until| until.saturating_add(1));
        if end <= start {
            return Ok(Vec::new());
        }
        let mut url = self.path("query_range");
        url.query_pairs_mut()
            .append_pair("query", query)
            .append_pair("start", &start.saturating_mul(MILLISECOND).to_string())
            .append_pair("end", &end.saturating_mul(MILLISECOND).to_string())
            .append_pair("limit", &limit.to_string())
            .append_pair("direction", "backward");
        let answer = self.send(self.client.get(url)).await?;
        let body = answer.body(LONGEST_ANSWER).await.map_err(unavailable)?;
        let malformed = |error: serde_json::Error| LokiError::Malformed(printable(&error.to_string(), 200));
        let answer: QueryAnswer = serde_json::from_slice(&body).map_err(malformed)?;
        if answer.data.kind != "streams" {
            let message = format!("the result is {:?} and not streams", printable(&answer.data.kind, 50));
            return Err(LokiError::Malformed(message));
        }
        let lines = answer.data.result.iter().flat_map(|stream| &stream.values);
        let mut found: Vec<HistoricJob> = lines.filter_map(|(_, line)| entry::parse(line)).collect();
        found.sort_by(|one, other| {
            let key = |job: &HistoricJob| (std::cmp::Reverse(job.status.finished), job.metadata.name.clone());
            key(one).cmp(&key(other))
        });
        let mut seen = HashSet::new();
        found.retain(|job| entry::job_uid(job).is_none_or(|uid| seen.insert(uid.to_owned())));
        Ok(found)
    }

    fn path(&self, name: &str) -> Url {
        let mut url = self.options.url.clone();
        let path = format!("{}/loki/api/v1/{name}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Result<Answer, LokiError> {
        let LokiOptions { url, user, password, .. } = &self.options;
        let has_credentials = !user.is_empty() || !password.expose_secret().is_empty();
        if has_credentials && (url.scheme() == "https" || is_loopback(url)) {
            request = request.basic_auth(user, Some(password.expose_secret()));
        }
        if let Some(tenant) = &self.tenant {
            request = request.header("X-Scope-OrgID", tenant.clone());
        }
        let answer = send(request, &DEADLINES.begin()).await.map_err(unavailable)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let retry_after = retry_after(answer.headers());
        let body = answer.body(LONGEST_REFUSAL).await.unwrap_or_default();
        let message = printable(String::from_utf8_lossy(&body).trim(), 300);
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            let message = format!("it answered {}: {message}", status.as_u16());
            return Err(LokiError::Unavailable { message, retry_after });
        }
        Err(LokiError::Refused { status: status.as_u16(), message })
    }
}

fn unavailable(failure: Failure) -> LokiError {
    let message = match failure {
        Failure::Refused(why) | Failure::Broken(why) => why,
        Failure::Timeout(after) => format!("it did not answer within {after:?}"),
        Failure::TooLarge(most) => format!("its answer has more than {most} bytes"),
    };
    LokiError::Unavailable { message, retry_after: None }
}

fn selector(namespace: &str, repository: &str) -> String {
    format!("{{from=\"job-history\",namespace={},repository={}}}", quoted(namespace), quoted(repository))
}

/// A string of `LogQL`.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            // Writing to a string does not fail.
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[derive(Deserialize)]
struct QueryAnswer {
    data: QueryData,
}

#[derive(Deserialize)]
struct QueryData {
    #[serde(rename = "resultType")]
    kind: String,
    result: Vec<QueryStream>,
}

#[derive(Deserialize)]
struct QueryStream {
    values: Vec<(String, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_ends_its_string() {
        assert_eq!(
            selector("a", "b\"} or {x=\"\\\n"),
            r#"{from="job-history",namespace="a",repository="b\"} or {x=\"\\\u000a"}"#
        );
    }
}
