//! WATCH: a stream of events, one JSON document a line.

use std::time::Duration;

use axum::response::Response;
use http::{HeaderValue, header};
use rand::Rng as _;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::context::Context;
use super::list::{self, AT_ONCE};
use super::pieces::{Ended, PIECE, Pieces};
use super::render::write_whole;
use crate::compress::Uncompressed;
use crate::failure::{Failure, Result};
use crate::request::{ListQuery, Shape};
use windlass_store::{Event, EventKind, Object, Range, StoreError, WatchStream};

/// How often a watch that asked for bookmarks gets one, while nothing else happens.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// How long a watch without `timeoutSeconds` lasts at least; at most twice as long.
const LASTS: u64 = 1800;
/// How long a version of the future is waited for, as on a real server.
const FUTURE: Duration = Duration::from_secs(3);
/// How long a watch lasts at most, whatever is asked for: a month.
const LONGEST: u64 = 30 * 24 * 3600;

/// A watch of a collection.
pub(super) fn answer(context: Context, list: ListQuery) -> Result<Response> {
    if context.accept.yaml {
        // Its events are one JSON document a line.
        return Err(Failure::not_acceptable());
    }
    // Judged here, so that a bad parameter is an HTTP error and not an event.
    context.renderer()?;
    let range = context.target.range()?;
    let seconds = list.timeout_seconds.filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or_else(|| rand::rng().random_range(LASTS..2 * LASTS)).min(LONGEST);
    let now = Instant::now();
    let inner = context.inner.clone();
    let watch = Watch {
        next_bookmark: now + BOOKMARK_EVERY,
        ends: now + Duration::from_secs(seconds),
        context,
        list,
        range,
        columns_sent: false,
    };
    let mut response = Response::new(Pieces::body(&inner, |pieces| watch.run(pieces)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Every piece is waited for.
    response.extensions_mut().insert(Uncompressed);
    Ok(response)
}

struct Watch {
    context: Context,
    list: ListQuery,
    range: Range,
    next_bookmark: Instant,
    ends: Instant,
    /// A table's columns stand in its first event only.
    columns_sent: bool,
}

impl Watch {
    async fn run(mut self, mut pieces: Pieces) {
        let told = match self.tell(&mut pieces).await {
            Err(Ended::Failed(failure)) => {
                pieces.out.extend_from_slice(br#"{"type":"ERROR","object":"#);
                pieces.out.extend_from_slice(&failure.to_json());
                pieces.out.extend_from_slice(b"}\n");
                pieces.tell().await
            }
            told => told,
        };
        if told.is_ok() {
            let _ = pieces.end().await;
        }
    }

    async fn tell(&mut self, pieces: &mut Pieces) -> Result<(), Ended> {
        let mut stream = self.start(pieces).await?;
        // The first piece may be empty: it makes the server send the headers.
        pieces.tell().await?;
        while self.follow(&mut stream, pieces).await? {
            if !pieces.out.is_empty() {
                pieces.tell().await?;
            }
        }
        if !pieces.out.is_empty() {
            pieces.tell().await?;
        }
        Ok(())
    }

    /// Opens the watch, after the present state if that was asked for.
    async fn start(&mut self, pieces: &mut Pieces) -> Result<WatchStream, Ended> {
        let store = self.context.inner.store.clone();
        let from = self.list.version.unwrap_or_default();
        let initial = self.list.send_initial_events.unwrap_or(from == 0);
        if !initial {
            let from = if from == 0 { store.revision() } else { from };
            self.wait_for(from).await;
            // A version of the future is expired as well: the client knows another store, and lists anew.
            return Ok(store.watch(&self.range, from)?);
        }
        if from > store.revision() {
            return Err(Failure::version_too_large(from, store.revision()).into());
        }
        let everything = ListQuery {
            labels: self.list.labels.clone(),
            fields: self.list.fields.clone(),
            ..ListQuery::default()
        };
        let inner = self.context.inner.clone();
        let mut selected = list::select(&inner, &self.context.target, &everything, AT_ONCE).await?;
        let stream = store.watch(&self.range, selected.revision)?;
        loop {
            for object in std::mem::take(&mut selected.objects) {
                self.event("ADDED", &object, object.revision, &mut pieces.out)?;
                drop(object);
                pieces.tell_much().await?;
            }
            if !selected.go_on(&inner).await? {
                break;
            }
        }
        if self.list.send_initial_events == Some(true) && self.list.bookmarks {
            self.bookmark(selected.revision, true, &mut pieces.out);
        }
        Ok(stream)
    }

    /// Waits for something to say and says what is there. False: it is over.
    async fn follow(&mut self, stream: &mut WatchStream, pieces: &mut Pieces) -> Result<bool, Ended> {
        enum Woken {
            Event(Result<std::sync::Arc<Event>, StoreError>),
            Bookmark,
            End,
        }
        let stop = self.context.inner.stop.clone();
        let gone = self.context.target.served.kind.gone.clone();
        let woken = tokio::select! {
            biased;
            () = pieces.gone() => return Err(Ended::Gone),
            () = stop.cancelled() => Woken::End,
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
                    self.change(&event, pieces).await?;
                    next = if pieces.out.len() < PIECE { stream.try_next()? } else { None };
                }
                Ok(true)
            }
            Woken::Bookmark | Woken::End => {
                self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                if self.list.bookmarks {
                    let position = stream.position()?;
                    self.bookmark(position, false, &mut pieces.out);
                }
                Ok(!matches!(woken, Woken::End))
            }
        }
    }

    /// One change as this watch sees it: an object that comes to match was added, one that ceases to was deleted.
    async fn change(&mut self, event: &Event, pieces: &mut Pieces) -> Result<(), Ended> {
        let inner = self.context.inner.clone();
        let kind = self.context.target.served.kind.clone();
        let matches = |object: &Object| inner.matches(&kind, &self.list, object);
        let now = event.kind != EventKind::Deleted && matches(&event.object)?;
        let before = match &event.previous {
            Some(previous) => matches(previous)?,
            None => false,
        };
        let (seen, name, object) = match (before, now) {
            (false, false) => return Ok(()),
            (false, true) => (EventKind::Added, "ADDED", &event.object),
            (true, true) => (EventKind::Modified, "MODIFIED", &event.object),
            // The last state that matched, under the revision of its end.
            (true, false) => {
                (EventKind::Deleted, "DELETED", event.previous.as_ref().unwrap_or(&event.object))
            }
        };
        let served = &self.context.target.served;
        let is_plain = self.context.accept.shape == Shape::Whole
            && !kind.sealed()
            && std::ptr::eq(served.served(), kind.stored());
        if seen != event.kind || !is_plain {
            return Ok(self.event(name, object, event.revision, &mut pieces.out)?);
        }
        // Most watchers see it like this, and it is made for all of them.
        let line = event.encoded.get_or_make(|| {
            let mut line = format!("{{\"type\":\"{name}\",\"object\":").into_bytes();
            write_whole(served, &object.value, event.revision, &mut line);
            line.extend_from_slice(b"}\n");
            line.into()
        });
        pieces.tell_shared(line).await
    }

    fn event(&mut self, kind: &str, object: &Object, revision: u64, out: &mut Vec<u8>) -> Result<()> {
        let renderer = self.context.renderer()?;
        let plain = self.context.inner.shown(&self.context.target.served.kind, &object.value)?;
        out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        if let Shape::Table { .. } = self.context.accept.shape {
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

    /// Waits a little for a version of the future: whoever read it elsewhere may be ahead of what is told here.
    async fn wait_for(&self, version: u64) {
        let store = &self.context.inner.store;
        let until = Instant::now() + FUTURE;
        while store.revision() < version && Instant::now() < until {
            tokio::time::sleep(FUTURE / 60).await;
        }
    }

    fn bookmark(&self, revision: u64, initial_events_end: bool, out: &mut Vec<u8>) {
        let served = self.context.target.served.served();
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let object = match self.context.accept.shape {
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
