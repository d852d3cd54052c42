//! LIST: selectors, pages bound to a snapshot, and the three forms of an answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::error;

use super::context::Context;
use super::past;
use super::pieces::{Ended, Pieces};
use super::render::Renderer;
use crate::failure::{Failure, Result, respond};
use crate::kinds::Kind;
use crate::request::{ListQuery, Shape, Target, VersionMatch};
use crate::state::Inner;
use windlass_apimachinery::document::Document;
use windlass_store::{Filter, Key, ListPage, Object, Page, Range, StoreError};

/// How many bytes of objects are read at once.
pub(super) const AT_ONCE: usize = 512 << 10;
/// How many times as much a page may have that was asked for with a limit, before it ends early.
const PAGE_SHARE: usize = 16;

pub(super) async fn answer(context: Context) -> Result<Response> {
    let list = ListQuery::parse(&context.query, &context.target.served)?;
    if list.watch {
        return super::watch::answer(context, list);
    }
    let renderer = context.renderer()?;
    // YAML is made of the whole.
    let most = if context.accept.yaml { 0 } else { AT_ONCE };
    let selected = select(&context.inner, &context.target, &list, most).await?;
    if selected.rest.is_none() {
        return respond_with(&renderer, &selected);
    }
    let inner = context.inner.clone();
    let body = Pieces::body(&inner, |mut pieces| async move {
        match tell(&context, selected, &mut pieces).await {
            Ok(()) => drop(pieces.end().await),
            Err(Ended::Gone) => {}
            Err(Ended::Failed(failure)) => error!(?failure, "failed to read the rest of a list"),
        }
    });
    Ok(respond(StatusCode::OK, false, Vec::new()).map(|_| body))
}

/// Tells a list piece by piece.
async fn tell(context: &Context, mut selected: Selected, pieces: &mut Pieces) -> Result<(), Ended> {
    let renderer = context.renderer()?;
    head(&renderer, &selected, &mut pieces.out);
    let mut is_first = true;
    loop {
        for object in std::mem::take(&mut selected.objects) {
            if !std::mem::take(&mut is_first) {
                pieces.out.push(b',');
            }
            renderer.item(&object, &mut pieces.out)?;
            drop(object);
            pieces.tell_much().await?;
        }
        if !selected.go_on(&context.inner).await? {
            break;
        }
    }
    pieces.out.extend_from_slice(b"]}");
    pieces.tell().await
}

/// The answer that carries a list.
pub(super) fn respond_with(renderer: &Renderer<'_>, selected: &Selected) -> Result<Response> {
    let mut out = Vec::with_capacity(selected.objects.iter().map(|object| object.value.len() + 128).sum());
    head(renderer, selected, &mut out);
    for (index, object) in selected.objects.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        renderer.item(object, &mut out)?;
    }
    out.extend_from_slice(b"]}");
    Ok(respond(StatusCode::OK, renderer.accept.yaml, out))
}

fn head(renderer: &Renderer<'_>, selected: &Selected, out: &mut Vec<u8>) {
    let shape = renderer.accept.shape;
    let metadata = selected.metadata(renderer.served.kind.builtin.is_none() && shape == Shape::Whole);
    let (kind, api_version) = match shape {
        Shape::Table { .. } => return renderer.table_head(&metadata, true, out),
        Shape::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1"),
        Shape::Whole => {
            (renderer.served.kind.list_kind.clone(), renderer.served.served().api_version.as_str())
        }
    };
    out.extend_from_slice(
        format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[")
            .as_bytes(),
    );
}

/// The objects of one answer.
pub(super) struct Selected {
    pub(super) objects: Vec<Object>,
    pub(super) revision: u64,
    continue_token: Option<String>,
    remaining: Option<usize>,
    /// What comes after the objects, of a list without a limit.
    rest: Option<(Range, Page)>,
}

impl Selected {
    /// Goes on with the next objects; whether there are any.
    pub(super) async fn go_on(&mut self, inner: &Inner) -> Result<bool> {
        let Some((range, page)) = self.rest.take() else { return Ok(false) };
        let found = inner.store.list(&range, page.clone()).await?;
        self.rest = rest(range, page, &found);
        self.objects = found.objects;
        Ok(true)
    }

    /// `custom`: a list of custom resources always says whether it goes on; that is how the real server writes it.
    fn metadata(&self, custom: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": self.revision.to_string() });
        if custom || self.continue_token.is_some() {
            metadata["continue"] = json!(self.continue_token.as_deref().unwrap_or_default());
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// Where a page without a limit left off.
fn rest(range: Range, page: Page, found: &ListPage) -> Option<(Range, Page)> {
    let last = found.objects.last().filter(|_| found.more && page.limit == 0)?;
    let page = Page { after: Some(last.key.clone()), state: found.state.clone(), ..page };
    Some((range, page))
}

/// Where a next page starts. Of the same form as the real server's.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    /// The snapshot; -1 is the latest state.
    rv: i64,
    /// The key, as far as the path of the list does not say it.
    start: String,
}

impl Token {
    /// The token of what comes after `key` in the path's collection.
    fn encode(revision: i64, key: &Key, target: &Target) -> String {
        // A real server's keys end the start with a NUL: the least key that is greater.
        let start = if target.namespace.is_some() || key.namespace().is_empty() {
            format!("{}\0", key.name())
        } else {
            format!("{}/{}\0", key.namespace(), key.name())
        };
        let token = Self { v: "meta.k8s.io/v1".to_owned(), rv: revision, start };
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
    }

    fn decode(text: &str, target: &Target) -> Result<(Option<u64>, Key)> {
        let invalid = || Failure::bad_request("invalid continue token: continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        if token.v != "meta.k8s.io/v1" || token.rv == 0 || token.start.is_empty() {
            return Err(invalid());
        }
        let kind = &target.served.kind;
        let start = token.start.trim_start_matches('/').trim_end_matches('\0');
        let (namespace, name) = match (&target.namespace, kind.namespaced, start.split_once('/')) {
            (Some(namespace), ..) => (namespace.as_str(), start),
            (None, true, Some((namespace, name))) => (namespace, name),
            (None, true, None) => return Err(invalid()),
            (None, false, _) => ("", start),
        };
        let key = Key::new(&kind.group, &kind.plural, namespace, name).map_err(|_| invalid())?;
        Ok((u64::try_from(token.rv).ok(), key))
    }
}

/// The objects that a list asks for, up to so many bytes if that is not 0: of a list with a limit there are fewer then, of
/// one without it goes on after them.
pub(super) async fn select(
    inner: &Arc<Inner>,
    target: &Target,
    list: &ListQuery,
    bytes: usize,
) -> Result<Selected> {
    let kind = &*target.served.kind;
    let range = target.range()?;
    let current = inner.store.revision();
    if let Some(version) = list.version
        && version > current
    {
        return Err(Failure::version_too_large(version, current));
    }
    if let (Some(name), None, None) = (list.fields.name(), &list.continue_token, exact(list, current))
        && (target.namespace.is_some() || !kind.namespaced)
    {
        return one(inner, target, list, name, current).await;
    }
    let (snapshot, after) = match &list.continue_token {
        Some(token) => {
            let (snapshot, key) = Token::decode(token, target)?;
            (snapshot, Some(key))
        }
        None => (exact(list, current), None),
    };
    let failed = Arc::new(Mutex::new(None));
    let looked_at = Arc::new(AtomicUsize::new(0));
    let page = Page {
        limit: list.limit,
        after: after.clone(),
        snapshot,
        filter: filter(inner, &target.served.kind, list, &failed, &looked_at),
        lookup: inner.label_indexes.lookup(kind, &list.labels),
        bytes: if list.limit == 0 { bytes } else { bytes * PAGE_SHARE },
        state: None,
    };
    let found = match inner.store.list(&range, page.clone()).await {
        // The snapshot is gone, but what happened since may not be.
        Err(StoreError::Expired { .. }) => past::list(&inner.store, &range, page.clone())
            .await
            .map_err(|error| lost(error, list, after.as_ref(), target))?,
        found => found?,
    };
    if let Some(failure) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure);
    }
    inner.label_indexes.looked_at(inner, kind, &list.labels, looked_at.load(Ordering::Relaxed));
    let more = found.more && list.limit > 0;
    let rest = rest(range, page, &found);
    let ListPage { objects, revision, remaining, .. } = found;
    let continue_token =
        objects.last().filter(|_| more).map(|last| Token::encode(signed(revision), &last.key, target));
    let remaining = remaining.filter(|_| more);
    Ok(Selected { objects, revision, continue_token, remaining, rest })
}

/// What the store asks of each object while it reads; the first failure ends up in `failed`, how many there were in
/// `looked_at`.
fn filter(
    inner: &Arc<Inner>,
    kind: &Arc<Kind>,
    list: &ListQuery,
    failed: &Arc<Mutex<Option<Failure>>>,
    looked_at: &Arc<AtomicUsize>,
) -> Option<Filter> {
    if list.labels.is_empty() && list.fields.is_empty() {
        return None;
    }
    let (inner, kind, failed, looked_at) = (inner.clone(), kind.clone(), failed.clone(), looked_at.clone());
    let selectors =
        ListQuery { labels: list.labels.clone(), fields: list.fields.clone(), ..ListQuery::default() };
    Some(Arc::new(move |object| {
        looked_at.fetch_add(1, Ordering::Relaxed);
        match inner.matches(&kind, &selectors, object) {
            Ok(matches) => matches,
            Err(failure) => {
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                false
            }
        }
    }))
}

/// The list of a selector that one name at most can match: a look-up instead of a scan.
async fn one(inner: &Inner, target: &Target, list: &ListQuery, name: &str, current: u64) -> Result<Selected> {
    let kind = &*target.served.kind;
    let found = if name.is_empty() { None } else { inner.store.get(&target.key(name)?).await? };
    let mut objects: Vec<Object> = found.into_iter().collect();
    if let Some(object) = objects.first()
        && !inner.matches(kind, list, object)?
    {
        objects.clear();
    }
    let revision = objects.first().map_or(current, |object| current.max(object.revision));
    Ok(Selected { objects, revision, continue_token: None, remaining: None, rest: None })
}

fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// The snapshot that must be read, if the list asks for exactly one.
fn exact(list: &ListQuery, current: u64) -> Option<u64> {
    let version = list.version.filter(|version| *version > 0)?;
    let exact = match list.version_match {
        Some(VersionMatch::Exact) => true,
        Some(VersionMatch::NotOlderThan) => false,
        None => list.limit > 0,
    };
    (exact && version != current).then_some(version)
}

/// What the client is told when the snapshot is no longer kept.
fn lost(error: StoreError, list: &ListQuery, after: Option<&Key>, target: &Target) -> Failure {
    match (error, &list.continue_token, after) {
        (StoreError::Expired { .. }, Some(_), Some(key)) => {
            Failure::continue_expired(Token::encode(-1, key, target))
        }
        (StoreError::Expired { .. }, None, _) => {
            Failure::expired("The resourceVersion for the provided list is too old.")
        }
        (error, ..) => error.into(),
    }
}

impl Inner {
    /// Whether the selectors of a list or watch select this object.
    pub(super) fn matches(&self, kind: &Kind, list: &ListQuery, object: &Object) -> Result<bool> {
        let key = &object.key;
        let needed = list.fields.needs_object().then(|| self.load_unopened(kind, object)).transpose()?;
        if !list.fields.matches(key.name(), key.namespace(), &needed.into()) {
            return Ok(false);
        }
        Ok(list.labels.is_empty() || list.labels.matches(&Document::new(&object.value).labels()))
    }
}
