//! WATCH: a stream of events, one JSON document a line.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, header};
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::Context;
use super::list;
use super::render::Renderer;
use crate::failure::{Failure, Result};
use crate::request::{Accept, ListQuery, Shape};
use crate::store::{Event, EventKind, Object, Range, StoreError, WatchStream};

/// How often a watch that asked for bookmarks gets one, while nothing else happens.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch without `timeoutSeconds` lasts at least; at most twice as long.
const LASTS: u64 = 1800;
/// How long a watch lasts at most, whatever is asked for: a month.
const LONGEST: u64 = 30 * 24 * 3600;
/// Events that are there at once are sent in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// A watch of a collection.
pub(super) fn answer(context: Context, list: ListQuery) -> Result<Response> {
    let accept = Accept::parse_for_watch(&context.parts.headers)?;
    // Judged here, so that a bad parameter is an HTTP error and not an event.
    Renderer::new(&context.inner, &context.target.served, accept, &context.query)?;
    let range = context.target.range()?;
    let seconds = list.timeout_seconds.filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or_else(|| rand::rng().random_range(LASTS..2 * LASTS)).min(LONGEST);
    let now = Instant::now();
    let watch = Watch {
        next_bookmark: now + BOOKMARK_EVERY,
        ends: now + Duration::from_secs(seconds),
        context,
        list,
        accept,
        range,
        state: State::Start,
        columns_sent: false,
    };
    let body = Body::from_stream(stream::unfold(watch, |mut watch| async move {
        let piece = watch.piece().await?;
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(piece)), watch))
    }));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

struct Watch {
    context: Context,
    list: ListQuery,
    accept: Accept,
    range: Range,
    state: State,
    next_bookmark: Instant,
    ends: Instant,
    /// A table's columns stand in its first event only.
    columns_sent: bool,
}

enum State {
    Start,
    Following(WatchStream),
    Ended,
}

impl Watch {
    /// The next bytes of the answer; `None` ends it.
    async fn piece(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let result = match &self.state {
            State::Start => self.start(&mut out).await,
            State::Following(_) => self.follow(&mut out).await,
            State::Ended => return None,
        };
        if let Err(failure) = result {
            self.state = State::Ended;
            out.extend_from_slice(br#"{"type":"ERROR","object":"#);
            out.extend_from_slice(&failure.to_json());
            out.extend_from_slice(b"}\n");
        }
        // The first piece may be empty: it makes the server send the headers.
        if out.is_empty() && matches!(self.state, State::Ended) { None } else { Some(out) }
    }

    /// Opens the watch, after the present state if that was asked for.
    async fn start(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let store = &self.context.inner.store;
        let from = self.list.version.unwrap_or_default();
        let initial = self.list.send_initial_events.unwrap_or(from == 0);
        if !initial {
            let from = if from == 0 { store.revision() } else { from };
            // A version of the future is expired as well: the client knows another store, and lists anew.
            self.state = State::Following(store.watch(&self.range, from)?);
            return Ok(());
        }
        if from > store.revision() {
            return Err(Failure::version_too_large(from, store.revision()));
        }
        let everything = ListQuery {
            limit: 0,
            continue_token: None,
            version: None,
            version_match: None,
            labels: self.list.labels.clone(),
            fields: self.list.fields.clone(),
            ..ListQuery::default()
        };
        let selected = list::select(&self.context.inner, &self.context.target, &everything).await?;
        let stream = store.watch(&self.range, selected.revision)?;
        for object in &selected.objects {
            self.event("ADDED", object, object.revision, out)?;
        }
        if self.list.send_initial_events == Some(true) && self.list.bookmarks {
            self.bookmark(selected.revision, true, out);
        }
        self.state = State::Following(stream);
        Ok(())
    }

    /// Waits for something to say and says all that is there.
    async fn follow(&mut self, out: &mut Vec<u8>) -> Result<()> {
        enum Woken {
            Event(Result<std::sync::Arc<Event>, StoreError>),
            Bookmark,
            End,
        }
        let shutdown = self.context.inner.shutdown.clone();
        let gone = self.context.target.served.kind.gone.clone();
        let State::Following(stream) = &mut self.state else { return Ok(()) };
        let woken = tokio::select! {
            biased;
            () = shutdown.cancelled() => Woken::End,
            // Before events: a busy watch ends as well.
            () = sleep_until(self.ends) => Woken::End,
            event = stream.next() => Woken::Event(event),
            // After events: the objects of a kind are deleted before the kind is.
            () = gone.cancelled() => Woken::End,
            () = sleep_until(self.next_bookmark) => Woken::Bookmark,
        };
        match woken {
            Woken::Event(event) => {
                let mut next = Some(event?);
                while let Some(event) = next {
                    self.change(&event, out)?;
                    next = match &mut self.state {
                        State::Following(stream) if out.len() < PIECE => stream.try_next()?,
                        _ => None,
                    };
                }
            }
            Woken::Bookmark | Woken::End => {
                self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                if self.list.bookmarks {
                    let position = stream.position()?;
                    self.bookmark(position, false, out);
                }
                if matches!(woken, Woken::End) {
                    self.state = State::Ended;
                }
            }
        }
        Ok(())
    }

    /// One change as this watch sees it: an object that comes to match was added, one that ceases to was deleted.
    fn change(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<()> {
        let inner = self.context.inner.clone();
        let kind = self.context.target.served.kind.clone();
        let matches = |object: &Object| inner.matches(&kind, &self.list, object);
        let now = event.kind != EventKind::Deleted && matches(&event.object)?;
        let before = match &event.previous {
            Some(previous) => matches(previous)?,
            None => false,
        };
        match (before, now) {
            (false, false) => Ok(()),
            (false, true) => self.event("ADDED", &event.object, event.revision, out),
            (true, true) => self.event("MODIFIED", &event.object, event.revision, out),
            // The last state that matched, under the revision of its end.
            (true, false) => {
                let last = event.previous.as_ref().unwrap_or(&event.object);
                self.event("DELETED", last, event.revision, out)
            }
        }
    }

    fn event(&mut self, kind: &str, object: &Object, revision: u64, out: &mut Vec<u8>) -> Result<()> {
        let inner = self.context.inner.clone();
        let renderer = Renderer::new(&inner, &self.context.target.served, self.accept, &self.context.query)?;
        let plain = inner.plain(&self.context.target.served.kind, &object.value)?;
        out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        if let Shape::Table { .. } = self.accept.shape {
            let metadata = json!({ "resourceVersion": revision.to_string() });
            renderer.table_head(&metadata, !std::mem::replace(&mut self.columns_sent, true), out);
            renderer.plain(&plain, revision, out);
            out.extend_from_slice(b"]}");
        } else {
            renderer.plain(&plain, revision, out);
        }
        out.extend_from_slice(b"}\n");
        Ok(())
    }

    fn bookmark(&self, revision: u64, initial_events_end: bool, out: &mut Vec<u8>) {
        let served = self.context.target.served.served();
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.accept.shape {
            Shape::Whole => json!({ "kind": self.context.target.served.kind.kind,
                "apiVersion": served.api_version, "metadata": metadata }),
            Shape::Metadata => json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata }),
            Shape::Table { version } => {
                json!({ "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": { "resourceVersion": revision.to_string() }, "columnDefinitions": Value::Null,
                "rows": [{ "cells": [], "object": { "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1", "metadata": metadata } }] })
            }
        };
        out.extend_from_slice(json!({ "type": "BOOKMARK", "object": object }).to_string().as_bytes());
        out.push(b'\n');
    }
}
