//! Requests as bytes: for callers that read little of large objects, or write what has no type.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

use super::error::deadline;
use super::list::ListRequest;
use super::options::Access;
use super::{CallError, CallOptions};

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// In which form an answer is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accept {
    /// The object as it is.
    #[default]
    Whole,
    /// Its metadata alone (`PartialObjectMetadata`); also of what a write answers.
    Metadata,
    /// The metadata of a list's items (`PartialObjectMetadataList`).
    MetadataList,
}

impl Accept {
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Metadata => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
            Self::MetadataList => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// An object, or the options of a delete.
    Json,
    /// A JSON merge patch (RFC 7386).
    MergePatch,
    /// A JSON patch (RFC 6902).
    JsonPatch,
    /// Server-side apply.
    Apply,
}

impl Content {
    fn header(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MergePatch => "application/merge-patch+json",
            Self::JsonPatch => "application/json-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct RestRequest<'a> {
    /// Completes "failed to …".
    pub what: &'a str,
    /// Everything but GET and HEAD is a write, which needs the fence.
    pub method: Method,
    /// Path and query, encoded.
    pub path: &'a str,
    /// The form of the answer.
    pub accept: Accept,
    /// What is sent.
    pub body: Option<(Content, Bytes)>,
}

/// A client of paths and bytes: each request is tried, limited and fenced as its [`CallOptions`] say. Cheap to clone.
#[derive(Clone)]
pub struct RestClient {
    client: Client,
    options: Arc<CallOptions>,
}

impl RestClient {
    /// Requests through `client`.
    pub fn new(client: Client, options: CallOptions) -> Self {
        Self { client, options: Arc::new(options) }
    }

    /// Sends a request and answers the body.
    pub async fn send(&self, request: &RestRequest<'_>) -> Result<Bytes, CallError> {
        let access = match request.method {
            Method::GET | Method::HEAD => Access::Read,
            _ => Access::Write,
        };
        let send = || deadline(self.options.deadline(), request.what, self.send_once(request));
        self.options.run(access, request.what, send).await
    }

    /// Reads an object, or anything else that is JSON.
    pub async fn get<T: DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        accept: Accept,
    ) -> Result<T, CallError> {
        let request = RestRequest { what, method: Method::GET, path, accept, body: None };
        let body = self.send(&request).await?;
        serde_json::from_slice(&body)
            .map_err(|source| CallError::Unreadable { what: what.to_owned(), source: source.into() })
    }

    /// A list of the collection at `path`, which has no query.
    pub fn list(&self, what: impl Into<String>, path: impl Into<String>) -> ListRequest {
        ListRequest::new(self.client.clone(), path, what, (*self.options).clone())
    }

    async fn send_once(&self, request: &RestRequest<'_>) -> kube::Result<Bytes> {
        let mut builder = Request::builder()
            .method(request.method.clone())
            .uri(request.path)
            .header(header::ACCEPT, request.accept.header());
        if let Some((content, _)) = &request.body {
            builder = builder.header(header::CONTENT_TYPE, content.header());
        }
        let body = request.body.as_ref().map(|(_, body)| body.clone()).unwrap_or_default();
        let sent = builder.body(Body::from(body)).map_err(kube::Error::HttpError)?;
        let response = self.client.send(sent).await?;
        let code = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(kube::Error::Service)?.to_bytes();
        if code.is_success() {
            return Ok(body);
        }
        // Not every refusal is a `Status`: a proxy may stand between.
        let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&body);
            Status::failure(text.trim(), "")
        });
        Err(kube::Error::Api(status.with_code(code.as_u16()).boxed()))
    }
}
