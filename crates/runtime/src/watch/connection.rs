//! The wire: lists by pages and watch connections, read object by object.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use http::HeaderValue;
use http::header::ACCEPT;
use kube::Client;
use kube::api::WatchParams;
use kube::core::Status;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::{ObjectKey, WatchConfig, Watched};
use crate::api::{OBJECT_LIMIT, too_long};
use crate::{Accept, CallError, ListRequest, deadline};

/// Why a list or a watch ended before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("failed to read the watch")]
    ReadWatch(#[source] io::Error),
    #[error("failed to read an event of the watch")]
    ReadEvent(#[source] serde_json::Error),
    #[error("the watch was ended by the server: {} ({})", .0.message, .0.code)]
    Ended(Box<Status>),
    #[error("the watch was not ended by the server within {after:?}, the connection is dead")]
    Dead { after: Duration },
}

impl WatchError {
    /// The version to go on from is no longer kept.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Call(error) => error.is_gone(),
            Self::Ended(status) => status.code == 410,
            _ => false,
        }
    }

    /// The kind is not served, as far as this account can see.
    pub(super) fn is_not_served(&self) -> bool {
        matches!(self, Self::Call(error) if error.is_not_found())
    }

    /// Nothing mends this but somebody who does something.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Self::Call(error) if matches!(error.code(), Some(401 | 403 | 404)))
    }

    /// The server is there: it said no.
    pub(super) fn answered(&self) -> bool {
        match self {
            Self::Call(error) => error.status().is_some(),
            Self::Ended(_) => true,
            _ => false,
        }
    }
}

/// An object that is not what its kind should be.
#[derive(Debug)]
pub(super) struct Undecodable {
    pub(super) key: ObjectKey,
    pub(super) version: String,
    pub(super) error: String,
}

/// A whole list.
pub(super) struct List<K> {
    pub(super) objects: Vec<Arc<K>>,
    pub(super) undecodable: Vec<Undecodable>,
    pub(super) version: String,
}

/// One event of a watch.
pub(super) enum Change<K> {
    Applied(K),
    Deleted { key: ObjectKey, version: String, last: Option<K> },
    Undecodable(Undecodable),
    Bookmark { version: String },
}

impl<K: Watched> Change<K> {
    /// The version that the collection is at after this event.
    pub(super) fn version(&self) -> Option<&str> {
        let version = match self {
            Self::Applied(object) => object.version()?,
            Self::Deleted { version, .. } | Self::Bookmark { version } => version,
            Self::Undecodable(object) => &object.version,
        };
        (!version.is_empty()).then_some(version)
    }
}

/// How a collection is reached.
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) url: String,
    pub(super) config: WatchConfig,
}

impl Connection {
    /// Lists the whole collection; `progress` is called whenever something of it arrived.
    ///
    /// An object that is not what its kind should be is noted; text that is no JSON is an error.
    pub(super) async fn list<K>(&self, progress: impl Fn()) -> Result<List<K>, WatchError>
    where
        K: DeserializeOwned,
    {
        let what = format!("list {}", self.config.name);
        let mut request = ListRequest::new(self.client.clone(), &*self.url, what, self.config.call_deadline)
            .page_size(self.config.page_size)
            .within(self.config.list_deadline);
        if let Some(labels) = &self.config.labels {
            request = request.labels(labels);
        }
        if let Some(fields) = &self.config.fields {
            request = request.fields(fields);
        }
        if self.config.metadata_only {
            request = request.accept(Accept::MetadataList);
        }
        let read = |text: &[u8]| match serde_json::from_slice::<K>(text) {
            Ok(object) => Ok(Ok(Arc::new(object))),
            Err(error) => serde_json::from_slice::<IgnoredAny>(text)
                .map(|_json| Err(Box::new(undecodable(text, &error)))),
        };
        let listed = request.read(read, progress).await?;
        let mut list = List { objects: Vec::new(), undecodable: Vec::new(), version: listed.version };
        for item in listed.items {
            match item {
                Ok(object) => list.objects.push(object),
                Err(error) => list.undecodable.push(*error),
            }
        }
        Ok(list)
    }

    /// Opens a watch that goes on from `version`.
    pub(super) async fn watch(&self, version: &str) -> Result<Changes, WatchError> {
        let limit = u32::try_from(self.config.connection_limit.as_secs()).unwrap_or(u32::MAX);
        let params = WatchParams {
            label_selector: self.config.labels.clone(),
            field_selector: self.config.fields.clone(),
            timeout: Some(limit.max(1)),
            bookmarks: true,
            send_initial_events: false,
        };
        let what = || format!("watch {}", self.config.name);
        let mut request = kube::core::Request::new(&self.url)
            .watch(&params, version)
            .map_err(|error| CallError::new(what(), kube::Error::BuildRequest(error)))?;
        if self.config.metadata_only {
            let form = HeaderValue::from_static(Accept::Metadata.header());
            request.headers_mut().insert(ACCEPT, form);
        }
        let reader = deadline(self.config.call_deadline, what(), self.client.request_stream(request)).await?;
        Ok(Changes { reader: Box::pin(reader), line: Vec::new() })
    }
}

/// The events of one watch connection.
pub(super) struct Changes {
    reader: Pin<Box<dyn AsyncBufRead + Send>>,
    /// What was read of the current line; kept here so that [`Changes::next`] may be dropped half-way.
    line: Vec<u8>,
}

impl Changes {
    /// The next event, or `None` when the server ended the connection.
    pub(super) async fn next<K>(&mut self) -> Result<Option<Change<K>>, WatchError>
    where
        K: Watched + DeserializeOwned,
    {
        loop {
            if !self.read_line().await.map_err(WatchError::ReadWatch)? {
                // A line that the end cut off was not received; it comes again on the next connection.
                return Ok(None);
            }
            let line = std::mem::take(&mut self.line);
            if let Some(change) = parse(&line)? {
                return Ok(Some(change));
            }
        }
    }

    /// Completes `self.line`; false at the end of the stream.
    async fn read_line(&mut self) -> io::Result<bool> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                return Ok(false);
            }
            let newline = available.iter().position(|byte| *byte == b'\n');
            let end = newline.unwrap_or(available.len());
            self.line.extend_from_slice(&available[..end]);
            self.reader.consume_unpin(newline.map_or(end, |at| at + 1));
            if newline.is_some() {
                return Ok(true);
            }
            if self.line.len() > OBJECT_LIMIT {
                return Err(too_long("a line"));
            }
        }
    }
}

fn parse<K>(line: &[u8]) -> Result<Option<Change<K>>, WatchError>
where
    K: Watched + DeserializeOwned,
{
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    let event: RawEvent<'_> = serde_json::from_slice(line).map_err(WatchError::ReadEvent)?;
    let raw = event.object;
    let change = match &*event.kind {
        "ADDED" | "MODIFIED" => match serde_json::from_str::<K>(raw.get()) {
            Ok(object) => Change::Applied(object),
            Err(error) => Change::Undecodable(undecodable(raw.get().as_bytes(), &error)),
        },
        "DELETED" => {
            let (key, version) = identity(raw.get().as_bytes());
            Change::Deleted { key, version, last: serde_json::from_str(raw.get()).ok() }
        }
        "BOOKMARK" => Change::Bookmark { version: identity(raw.get().as_bytes()).1 },
        "ERROR" => {
            let status = serde_json::from_str(raw.get()).map_err(WatchError::ReadEvent)?;
            return Err(WatchError::Ended(status));
        }
        other => {
            tracing::debug!(kind = other, "ignored an event of an unknown type");
            return Ok(None);
        }
    };
    Ok(Some(change))
}

fn undecodable(text: &[u8], error: &serde_json::Error) -> Undecodable {
    let (key, version) = identity(text);
    Undecodable { key, version, error: error.to_string() }
}

/// Which object this is, however odd the rest of it may be.
fn identity(text: &[u8]) -> (ObjectKey, String) {
    let meta = serde_json::from_slice::<RawObject>(text).unwrap_or_default().metadata;
    (ObjectKey::new(meta.namespace, meta.name), meta.resource_version)
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawObject {
    metadata: RawMeta,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta {
    namespace: String,
    name: String,
    resource_version: String,
}
