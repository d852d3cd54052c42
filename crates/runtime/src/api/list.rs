//! Reading a whole collection: by pages, each read item by item while it arrives.

use std::io;
use std::time::Duration;

use futures::{AsyncBufRead, AsyncBufReadExt as _};
use http::header;
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::error::deadline;
use super::items::{Frame, Items, TooLong};
use super::options::Access;
use super::rest::Accept;
use super::{CallError, CallOptions};

/// The longest text of an object: far beyond any that a server stores.
pub(crate) const OBJECT_LIMIT: usize = 64 << 20;
/// How many objects a page holds. An API server answers a first page from memory, and may read each further one from
/// etcd, which is ten times the work.
const PAGE: u32 = 500;
/// How long a whole list may take, however well it comes along.
const LIST_DEADLINE: Duration = Duration::from_mins(30);

/// A list that is about to be made.
///
/// The deadline of its [`CallOptions`] is how long the server may be *silent*: a large collection takes its time. A page
/// that fails is asked for again as the options say; when the server does not keep the version of the first page any
/// more, everything is read again, in one page, so that the answer is one state.
#[derive(Clone)]
pub struct ListRequest {
    client: Client,
    path: String,
    what: String,
    params: ListParams,
    accept: Accept,
    options: CallOptions,
    total: Duration,
}

/// A whole collection.
#[derive(Debug, PartialEq, Eq)]
pub struct Listed<T> {
    /// What was read of each item, in the server's order.
    pub items: Vec<T>,
    /// The `resourceVersion` that the collection was at.
    pub version: String,
}

impl ListRequest {
    /// A list of the collection at `path`. `what` completes "failed to …"; `options` may be a deadline.
    pub fn new(
        client: Client,
        path: impl Into<String>,
        what: impl Into<String>,
        options: impl Into<CallOptions>,
    ) -> Self {
        Self {
            client,
            path: path.into(),
            what: what.into(),
            params: ListParams::default().limit(PAGE),
            accept: Accept::Whole,
            options: options.into(),
            total: LIST_DEADLINE,
        }
    }

    /// A list of what `api` is scoped to.
    pub fn of<K>(api: &Api<K>, what: impl Into<String>, options: impl Into<CallOptions>) -> Self
    where
        K: Resource + Clone,
    {
        Self::new(api.clone().into_client(), api.resource_url(), what, options)
    }

    /// Only what these labels select.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.params.label_selector = Some(selector.into());
        self
    }

    /// Only what these fields select.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.params.field_selector = Some(selector.into());
        self
    }

    /// So many objects a page, 500 unless it is said.
    #[must_use]
    pub fn page_size(mut self, objects: u32) -> Self {
        self.params.limit = Some(objects);
        self
    }

    /// In this form; whole objects unless it is said.
    #[must_use]
    pub fn accept(mut self, accept: Accept) -> Self {
        self.accept = accept;
        self
    }

    /// Within this time in all; 30 minutes unless it is said.
    #[must_use]
    pub fn within(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Reads every item as `T`, which need not name all its fields.
    pub async fn items<T: DeserializeOwned>(&self) -> Result<Listed<T>, CallError> {
        self.read(|text| serde_json::from_slice(text), || ()).await
    }

    /// Reads every item by its text, one at a time. `progress` is called whenever something arrived.
    ///
    /// `item` may see an item again, when its page has to be read once more; only the last answer counts.
    pub async fn read<T>(
        &self,
        item: impl Fn(&[u8]) -> Result<T, serde_json::Error>,
        progress: impl Fn(),
    ) -> Result<Listed<T>, CallError> {
        match tokio::time::timeout(self.total, self.pages(&item, &progress)).await {
            Ok(listed) => listed,
            Err(_) => Err(CallError::Deadline { what: self.what.clone(), after: self.total }),
        }
    }

    async fn pages<T>(
        &self,
        item: &impl Fn(&[u8]) -> Result<T, serde_json::Error>,
        progress: &impl Fn(),
    ) -> Result<Listed<T>, CallError> {
        let mut params = self.params.clone();
        let mut items = Vec::new();
        loop {
            let page =
                self.options.run(Access::Read, &self.what, || self.page(&params, item, progress)).await;
            let (page, frame) = match page {
                // What follows at a newer version would not be one state with the pages so far.
                Err(error) if error.is_gone() && params.continue_token.is_some() => {
                    tracing::info!(
                        list = self.what,
                        "the list was overtaken by a compaction, listing in one page"
                    );
                    params = ListParams { limit: None, continue_token: None, ..params };
                    items = Vec::new();
                    continue;
                }
                page => page?,
            };
            if items.is_empty() {
                items = page;
            } else {
                items.extend(page);
            }
            params.continue_token = frame.metadata.next.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return Ok(Listed { items, version: frame.metadata.resource_version });
            }
        }
    }

    async fn page<T>(
        &self,
        params: &ListParams,
        read: &impl Fn(&[u8]) -> Result<T, serde_json::Error>,
        progress: &impl Fn(),
    ) -> Result<(Vec<T>, Frame), CallError> {
        let silence = self.options.deadline();
        let mut reader = Box::pin(deadline(silence, &*self.what, self.open(params)).await?);
        let mut items = Items::new(OBJECT_LIMIT);
        let mut found = Vec::new();
        loop {
            let arrived = tokio::time::timeout(silence, reader.fill_buf()).await;
            let arrived =
                arrived.map_err(|_| CallError::Deadline { what: self.what.clone(), after: silence })?;
            let arrived = arrived.map_err(|source| self.broken_off(source))?;
            if arrived.is_empty() {
                let frame = items.frame().map_err(|source| self.unreadable(source))?;
                return Ok((found, frame));
            }
            let mut failed = None;
            let taken = items.take(arrived, |text| match read(text) {
                Ok(item) => found.push(item),
                Err(error) => failed = Some(failed.take().unwrap_or(error)),
            });
            taken.map_err(|TooLong| self.unreadable(too_long("an item")))?;
            if let Some(error) = failed {
                return Err(self.unreadable(error));
            }
            let length = arrived.len();
            reader.consume_unpin(length);
            progress();
        }
    }

    async fn open(&self, params: &ListParams) -> kube::Result<impl AsyncBufRead + use<>> {
        let request = kube::core::Request::new(&self.path).list(params).map_err(kube::Error::BuildRequest)?;
        let (mut parts, body) = request.into_parts();
        parts.headers.insert(header::ACCEPT, header::HeaderValue::from_static(self.accept.header()));
        self.client.request_stream(http::Request::from_parts(parts, body)).await
    }

    /// The connection broke: the page may come through the next time.
    fn broken_off(&self, source: io::Error) -> CallError {
        CallError::Send { what: self.what.clone(), source: source.into() }
    }

    fn unreadable(&self, source: impl Into<crate::BoxError>) -> CallError {
        CallError::Unreadable { what: self.what.clone(), source: source.into() }
    }
}

/// What is told of a text that no server has a reason to send.
pub(crate) fn too_long(what: &str) -> io::Error {
    io::Error::other(format!("{what} is longer than {OBJECT_LIMIT} bytes"))
}
