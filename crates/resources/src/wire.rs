//! Requests as bytes: no typed objects on the way out, no parsing of answers that nobody reads.
//!
//! Answers to writes can be as large as the objects, so every request asks for metadata only.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::Kind;
use crate::fence::Fence;

/// Recorded by the server as the writer of the fields.
pub(crate) const FIELD_MANAGER: &str = "windlass";
const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const WHOLE: &str = "application/json";
/// The largest answer that is read; a page of 500 objects' metadata is some hundred kilobytes.
const MAX_ANSWER: usize = 64 << 20;
/// Characters of a server's message that are kept: it ends up in a job's status.
const MAX_MESSAGE: usize = 1_000;
/// Tries of a request that did not reach the server, whose answer was lost, or that a server turned away which is busy or
/// not ready: some ten seconds, as long as a server takes to be started again.
const TRIES: u32 = 9;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long one try of a request may take, its answer included.
const DEADLINE: Duration = Duration::from_secs(15);

/// Why a request did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The server answered no.
    #[error("{message}")]
    Refused { code: u16, reason: String, message: String },
    /// The request did not arrive, or its answer was lost: whether the server acted is not known.
    #[error("failed to {what}: {detail}")]
    Unreachable { what: &'static str, detail: String },
    /// No usable answer.
    #[error("failed to {what}: {detail}")]
    Unusable { what: &'static str, detail: String },
    /// No answer came in time; whether the server acted is not known.
    #[error("the API did not answer within {limit:?}")]
    Deadline { limit: Duration },
    /// The sync may not write any more; nothing was sent.
    #[error("the sync was cancelled before the write")]
    Fenced,
}

impl CallError {
    pub(crate) fn is(&self, code: u16) -> bool {
        matches!(self, Self::Refused { code: found, .. } if *found == code)
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        matches!(self, Self::Refused { code: 409, reason, .. } if reason == "AlreadyExists")
    }

    /// How often a request that failed so is tried.
    fn tries(&self) -> u32 {
        match self {
            Self::Refused { code: 429 | 503, .. } | Self::Unreachable { .. } => TRIES,
            Self::Refused { .. } | Self::Unusable { .. } | Self::Deadline { .. } | Self::Fenced => 1,
        }
    }
}

/// What is asked for, and in which form the answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Metadata,
    MetadataList,
    Whole,
}

/// How a patch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
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
        push_encoded(&mut path, self.namespace);
        path.push('/');
        path.push_str(&self.kind.resource);
        if let Some(name) = name {
            path.push('/');
            push_encoded(&mut path, name);
        }
        path
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
        self.write(Method::POST, &self.write_path(None), "application/json", body).await.map(drop)
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, name: &str, answer: Answer) -> Result<T, CallError> {
        let path = self.path(Some(name));
        parse(&call(self.client, &Call::get(&path, answer), None).await?)
    }

    pub(crate) async fn patch(
        &self,
        name: &str,
        kind: PatchKind,
        body: Bytes,
    ) -> Result<WrittenMetadata, CallError> {
        let content_type = match kind {
            PatchKind::Json => "application/json-patch+json",
            PatchKind::Merge => "application/merge-patch+json",
        };
        let answer = self.write(Method::PATCH, &self.write_path(Some(name)), content_type, body).await?;
        parse::<WrittenObject>(&answer).map(|written| written.metadata)
    }

    /// Server-side apply: whatever somebody else says of these fields.
    pub(crate) async fn apply(&self, name: &str, body: Bytes) -> Result<WrittenMetadata, CallError> {
        let answer =
            self.write(Method::PATCH, &self.apply_path(name), "application/apply-patch+yaml", body).await?;
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
        let (method, path, content_type, body) = match write {
            Pretence::Create(body) => (Method::POST, self.write_path(None), "application/json", body),
            Pretence::Patch(name, body) => {
                (Method::PATCH, self.write_path(Some(name)), "application/json-patch+json", body)
            }
            Pretence::Apply(name, body) => {
                (Method::PATCH, self.apply_path(name), "application/apply-patch+yaml", body)
            }
        };
        let answer = Answer::Whole;
        let request = Call { method, path: &path, answer, content_type: Some(content_type), body };
        parse(&call(self.client, &request, Some(self.fence)).await?)
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
        self.write(Method::DELETE, &path, "application/json", body).await.map(drop)
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<Bytes, CallError> {
        let request = Call { method, path, answer: Answer::Metadata, content_type: Some(content_type), body };
        call(self.client, &request, Some(self.fence)).await
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
        push_encoded(&mut path, selector.0);
        path.push_str("%3D");
        push_encoded(&mut path, selector.1);
        if let Some(token) = token {
            path.push_str("&continue=");
            push_encoded(&mut path, token);
        }
        call(self.client, &Call::get(&path, Answer::MetadataList), None).await
    }
}

impl Collection<'_> {
    /// One page of everything, whole, as the server wrote it.
    pub(crate) async fn list_whole(&self, limit: usize, token: Option<&str>) -> Result<Bytes, CallError> {
        let mut path = self.path(None);
        let _ = write!(path, "?limit={limit}");
        if let Some(token) = token {
            path.push_str("&continue=");
            push_encoded(&mut path, token);
        }
        call(self.client, &Call::get(&path, Answer::Whole), None).await
    }

    /// One object, whole, as the server wrote it.
    pub(crate) async fn get_whole(&self, name: &str) -> Result<Bytes, CallError> {
        call(self.client, &Call::get(&self.path(Some(name)), Answer::Whole), None).await
    }
}

/// Reads what is no object, such as discovery.
pub(crate) async fn get_json<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, CallError> {
    parse(&call(client, &Call::get(path, Answer::Whole), None).await?)
}

/// A request that may be sent more than once.
struct Call<'a> {
    method: Method,
    path: &'a str,
    answer: Answer,
    content_type: Option<&'static str>,
    body: Bytes,
}

impl<'a> Call<'a> {
    fn get(path: &'a str, answer: Answer) -> Self {
        Self { method: Method::GET, path, answer, content_type: None, body: Bytes::new() }
    }

    fn request(&self) -> Result<Request<Body>, CallError> {
        let accept = match self.answer {
            Answer::Metadata => METADATA_ONLY,
            Answer::MetadataList => METADATA_LIST,
            Answer::Whole => WHOLE,
        };
        let mut request =
            Request::builder().method(self.method.clone()).uri(self.path).header(header::ACCEPT, accept);
        if let Some(content_type) = self.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        request
            .body(Body::from(self.body.clone()))
            .map_err(|error| CallError::Unusable { what: "build a request", detail: error.to_string() })
    }
}

/// One request, tried again while the server is busy or cannot be reached, each try under [`DEADLINE`]. A write asks
/// `fence` before each try: a lease that was lost during a pause is noticed. One that is repeated although it was made
/// meets what it made: a create is told that the object exists, a patch or delete that it has changed or is gone, and
/// the caller looks at what is there.
async fn call(client: &Client, call: &Call<'_>, fence: Option<&Fence>) -> Result<Bytes, CallError> {
    let mut pause = FIRST_PAUSE;
    let mut tries = 1;
    loop {
        if fence.is_some_and(|fence| !fence.allows()) {
            return Err(CallError::Fenced);
        }
        let answer = tokio::time::timeout(DEADLINE, call_once(client, call.request()?)).await;
        match answer.unwrap_or(Err(CallError::Deadline { limit: DEADLINE })) {
            Err(error) if tries < error.tries() => {
                tries += 1;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return other,
        }
    }
}

async fn call_once(client: &Client, request: Request<Body>) -> Result<Bytes, CallError> {
    let lost =
        |what, error: &dyn std::fmt::Display| CallError::Unreachable { what, detail: error.to_string() };
    let response = client.send(request).await.map_err(|error| lost("reach the API", &error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await
        .map_err(|error| lost("read the API's answer", &error))?
        .to_bytes();
    if status.is_success() { Ok(body) } else { Err(refused(status.as_u16(), &body)) }
}

pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, CallError> {
    serde_json::from_slice(body).map_err(|error| CallError::Unusable {
        what: "understand the API's answer",
        detail: error.to_string(),
    })
}

/// A refusal, from a `metav1.Status` if the body is one.
fn refused(code: u16, body: &[u8]) -> CallError {
    #[derive(Deserialize)]
    struct Status {
        #[serde(default)]
        message: String,
        #[serde(default)]
        reason: String,
    }
    match serde_json::from_slice::<Status>(body) {
        Ok(status) if !status.message.is_empty() => {
            let message = status.message.chars().take(MAX_MESSAGE).collect();
            CallError::Refused { code, reason: status.reason, message }
        }
        _ => CallError::Refused {
            code,
            reason: String::new(),
            message: format!("the API answered HTTP {code}"),
        },
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986, §2.3).
fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}
