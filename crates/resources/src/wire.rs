//! Requests to a collection as bytes: no typed objects on the way out, no parsing of answers that nobody reads.
//!
//! Answers to writes can be as large as the objects, so every request asks for metadata only.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use kube::Client;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use windlass_runtime::{Accept, CallError, CallOptions, Content, Fence, RestClient, RestRequest, Retry};
use windlass_telemetry::ErrorChain;

use crate::{Kind, MayWrite};

/// Recorded by the server as the writer of the fields.
pub(crate) const FIELD_MANAGER: &str = "windlass";
/// How long one try of a request may take, its answer included.
pub(crate) const DEADLINE: Duration = Duration::from_secs(15);
/// Fresh starts of a list whose continue token expired.
const RESTARTS: usize = 3;
/// A server that hangs is not asked again: it would hold up everything that is to be written.
const RETRY: Retry = Retry { after_silence: false, ..Retry::RESTART };
/// What stands for itself in a path or query (RFC 3986, §2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Writes are sent until `cancel`, and while `may_write` says so.
pub(crate) fn fence(cancel: tokio_util::sync::CancellationToken, may_write: MayWrite) -> Fence {
    Fence::new("the sync was cancelled before the write", cancel, move || may_write())
}

/// What an error says to somebody who reads about a file: the server's own words, if it had any.
pub(crate) fn words(error: &CallError) -> String {
    match error {
        CallError::Refused { status, .. } if status.message.is_empty() => {
            format!("the API answered HTTP {}", status.code)
        }
        CallError::Refused { status, .. } => status.message.clone(),
        CallError::Deadline { after, .. } => format!("the API did not answer within {after:?}"),
        CallError::Fenced { reason, .. } => (*reason).to_owned(),
        other => ErrorChain(other).to_string(),
    }
}

/// A write that the API only pretends to make.
pub(crate) enum Pretence<'a> {
    Create(Bytes),
    /// By a JSON patch of the object of this name.
    Patch(&'a str, Bytes),
    /// By server-side apply to the object of this name.
    Apply(&'a str, Bytes),
}

/// The collection that requests go to.
#[derive(Clone)]
pub(crate) struct Collection<'a> {
    pub(crate) client: &'a Client,
    pub(crate) kind: &'a Kind,
    pub(crate) version: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) dry_run: bool,
    /// Asked before each try of a write.
    pub(crate) fence: &'a Fence,
}

/// The metadata that a write answers with.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenMetadata {
    #[serde(default)]
    pub(crate) resource_version: String,
    pub(crate) generation: Option<i64>,
}

#[derive(Deserialize)]
struct WrittenObject {
    metadata: WrittenMetadata,
}

impl Collection<'_> {
    fn path(&self, name: Option<&str>) -> String {
        let mut path = match &*self.kind.group {
            "" => format!("/api/{}/namespaces/", self.version),
            group => format!("/apis/{group}/{}/namespaces/", self.version),
        };
        path.extend(utf8_percent_encode(self.namespace, ENCODED));
        path.push('/');
        path.push_str(&self.kind.resource);
        if let Some(name) = name {
            path.push('/');
            path.extend(utf8_percent_encode(name, ENCODED));
        }
        path
    }

    fn rest(&self) -> RestClient {
        rest(self.client, self.fence.clone())
    }

    async fn read(&self, path: &str, accept: Accept) -> Result<Bytes, CallError> {
        let request = RestRequest { what: "read it", method: Method::GET, path, accept, body: None };
        self.rest().send(&request).await
    }

    fn write_path(&self, name: Option<&str>) -> String {
        let mut path = self.path(name);
        let _ = write!(path, "?fieldManager={FIELD_MANAGER}&fieldValidation=Ignore");
        if self.dry_run {
            path.push_str("&dryRun=All");
        }
        path
    }

    pub(crate) async fn create(&self, body: Bytes) -> Result<(), CallError> {
        self.write(Method::POST, &self.write_path(None), Content::Json, body).await.map(drop)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, name: &str, accept: Accept) -> Result<T, CallError> {
        self.rest().get("read it", &self.path(Some(name)), accept).await
    }

    pub(crate) async fn patch(
        &self,
        name: &str,
        content: Content,
        body: Bytes,
    ) -> Result<WrittenMetadata, CallError> {
        let answer = self.write(Method::PATCH, &self.write_path(Some(name)), content, body).await?;
        parse::<WrittenObject>(&answer).map(|written| written.metadata)
    }

    /// Server-side apply: whatever somebody else says of these fields.
    pub(crate) async fn apply(&self, name: &str, body: Bytes) -> Result<WrittenMetadata, CallError> {
        let answer = self.write(Method::PATCH, &self.apply_path(name), Content::Apply, body).await?;
        parse::<WrittenObject>(&answer).map(|written| written.metadata)
    }

    fn apply_path(&self, name: &str) -> String {
        let mut path = self.path(Some(name));
        let _ = write!(path, "?fieldManager={FIELD_MANAGER}&force=true&fieldValidation=Strict");
        if self.dry_run {
            path.push_str("&dryRun=All");
        }
        path
    }

    /// The whole object that a write would lead to. The collection has to be one of dry runs.
    pub(crate) async fn pretend(&self, write: Pretence<'_>) -> Result<serde_json::Value, CallError> {
        debug_assert!(self.dry_run, "a pretence that writes");
        let (method, path, content, body) = match write {
            Pretence::Create(body) => (Method::POST, self.write_path(None), Content::Json, body),
            Pretence::Patch(name, body) => {
                (Method::PATCH, self.write_path(Some(name)), Content::JsonPatch, body)
            }
            Pretence::Apply(name, body) => (Method::PATCH, self.apply_path(name), Content::Apply, body),
        };
        let body = Some((content, body));
        let request = RestRequest { what: "try it out", method, path: &path, accept: Accept::Whole, body };
        parse(&self.rest().send(&request).await?)
    }

    /// Deletes the object if it still has this resourceVersion.
    pub(crate) async fn delete(&self, name: &str, resource_version: &str) -> Result<(), CallError> {
        let mut options = serde_json::json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": { "resourceVersion": resource_version },
        });
        let mut path = self.path(Some(name));
        if self.dry_run {
            path.push_str("?dryRun=All");
            options["dryRun"] = serde_json::json!(["All"]);
        }
        let body = Bytes::from(options.to_string());
        self.write(Method::DELETE, &path, Content::Json, body).await.map(drop)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content: Content,
        body: Bytes,
    ) -> Result<Bytes, CallError> {
        let (accept, body) = (Accept::Metadata, Some((content, body)));
        self.rest().send(&RestRequest { what: "write it", method, path, accept, body }).await
    }

    /// One page of what a label selects, as the server wrote it.
    pub(crate) async fn list(
        &self,
        selector: (&str, &str),
        limit: usize,
        token: Option<&str>,
    ) -> Result<Bytes, CallError> {
        let mut path = self.path(None);
        let _ = write!(path, "?limit={limit}&labelSelector=");
        path.extend(utf8_percent_encode(selector.0, ENCODED));
        path.push_str("%3D");
        path.extend(utf8_percent_encode(selector.1, ENCODED));
        if let Some(token) = token {
            path.push_str("&continue=");
            path.extend(utf8_percent_encode(token, ENCODED));
        }
        self.read(&path, Accept::MetadataList).await
    }
}

impl Collection<'_> {
    /// One page of everything, whole, as the server wrote it.
    pub(crate) async fn list_whole(&self, limit: usize, token: Option<&str>) -> Result<Bytes, CallError> {
        let mut path = self.path(None);
        let _ = write!(path, "?limit={limit}");
        if let Some(token) = token {
            path.push_str("&continue=");
            path.extend(utf8_percent_encode(token, ENCODED));
        }
        self.read(&path, Accept::Whole).await
    }

    /// One object, whole, as the server wrote it.
    pub(crate) async fn get_whole(&self, name: &str) -> Result<Bytes, CallError> {
        self.read(&self.path(Some(name)), Accept::Whole).await
    }
}

/// Lists from the start again when the snapshot behind a continue token is gone, which a restart of the server or a
/// compaction brings: nothing was done with the first pages.
pub(crate) async fn with_restarts<T, F>(list: impl Fn() -> F) -> Result<T, CallError>
where
    F: Future<Output = Result<T, CallError>>,
{
    for _ in 0..RESTARTS {
        match list().await {
            Err(error) if error.is_gone() => {}
            ended => return ended,
        }
    }
    list().await
}

/// Reads what is no object, such as discovery.
pub(crate) async fn get_json<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, CallError> {
    rest(client, Fence::NONE).get("read it", path, Accept::Whole).await
}

fn rest(client: &Client, fence: Fence) -> RestClient {
    RestClient::new(client.clone(), CallOptions::new(DEADLINE).retried(RETRY).fenced(fence))
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, CallError> {
    serde_json::from_slice(body)
        .map_err(|source| CallError::Unreadable { what: "read it".to_owned(), source: source.into() })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn expired() -> CallError {
        let status = Status { code: 410, reason: "Expired".to_owned(), ..Status::default() };
        CallError::Refused { what: "list".to_owned(), status: Box::new(status) }
    }

    #[tokio::test]
    async fn a_list_whose_token_expired_begins_again_a_few_times() {
        let tries = std::cell::Cell::new(0);
        let third_time = || async {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(expired()) } else { Ok(tries.get()) }
        };
        assert_eq!(with_restarts(third_time).await.unwrap(), 3);
        let never = || async { Err::<(), _>(expired()) };
        assert!(with_restarts(never).await.unwrap_err().is_gone());
    }
}
