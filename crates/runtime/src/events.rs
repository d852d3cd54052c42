//! Kubernetes Events (`events.k8s.io/v1`): what happened to an object, for `kubectl describe` and `kubectl events`.
//!
//! Recording never waits. Events stand in a bounded queue, and one task writes them. What repeats within an hour becomes a
//! series of one Event, whose count is written at 2, 4, 8 …, but not more often than once a minute, and every half hour. Of
//! one object, 25 Normal and 25 Warning Events are written at once, and then one of each every five minutes, as client-go
//! does it. What is over that, finds the queue full or is refused by the server is counted in [`EventRecorder::dropped`].

mod allowance;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_telemetry::ErrorChain;

use self::allowance::Allowances;
use crate::log_on_change::LogOnChange;
use crate::{CallError, CallOptions, Clock, Retry};

/// Events that may wait to be written.
const QUEUE: usize = 512;
/// How long after its last occurrence a series goes on: as long as a server keeps an Event.
const SERIES: Duration = Duration::from_hours(1);
/// How soon a series is counted again that has doubled, after it was counted twice.
const SOONEST: Duration = Duration::from_mins(1);
/// How soon any series is counted again. Kubernetes: `tools/events`, `refreshTime`.
const REFRESH: Duration = Duration::from_mins(30);
/// Series that are remembered: one for each of ten thousand objects that nothing happens to, and more.
const MAX_SERIES: usize = 16_384;
/// How often those are let go of that have ended.
const SWEEP: Duration = Duration::from_mins(1);
/// The longest note and the longest reason, in bytes. Kubernetes: `validation/events.go`.
const MAX_NOTE: usize = 1_024;
const MAX_REASON: usize = 128;
/// The longest object's name in an Event's name, which is at most 253 bytes long.
const MAX_NAME: usize = 230;
/// How long a shutdown waits for what is still queued.
const DRAIN: Duration = Duration::from_secs(2);

/// Whether an Event tells of something that needs looking at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It is as it should be.
    Normal,
    /// Somebody may want to do something.
    Warning,
}

/// What happened to an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Normal or warning.
    pub kind: EventType,
    /// Why, for programs: `PascalCase`, at most 128 bytes.
    pub reason: String,
    /// What the controller did or found out, for programs: `PascalCase`, at most 128 bytes.
    pub action: String,
    /// What happened, for people. Cut at 1,024 bytes; it must hold no secret.
    pub text: String,
}

/// Records Events. Cheap to clone.
#[derive(Clone)]
pub struct EventRecorder {
    queue: mpsc::Sender<Occurrence>,
    dropped: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
}

/// Writes what a recorder has queued, on a task of its own.
pub struct EventWriter {
    queue: mpsc::Receiver<Occurrence>,
    dropped: Arc<AtomicU64>,
    controller: String,
    instance: String,
    series: HashMap<SeriesKey, Series>,
    allowances: Allowances<(Regarding, EventType)>,
    swept: Instant,
    failing: LogOnChange,
}

struct Occurrence {
    regarding: ObjectReference,
    note: Note,
    at: Timestamp,
}

/// Kind, namespace, name and uid.
type Regarding = [Option<String>; 4];

type SeriesKey = (Regarding, Note);

/// An Event that was written.
struct Series {
    name: String,
    count: i32,
    written: i32,
    written_at: Instant,
    seen: Instant,
}

impl EventRecorder {
    /// A recorder, and what writes for it. `controller` is a qualified name such as `windlass.dev/jobs-controller`,
    /// `instance` tells the process apart from its replicas.
    pub fn new(
        controller: impl Into<String>,
        instance: impl Into<String>,
        clock: Arc<dyn Clock>,
    ) -> (Self, EventWriter) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let recorder = Self { queue: sender, dropped: Arc::clone(&dropped), clock };
        let writer = EventWriter {
            queue,
            dropped,
            controller: controller.into(),
            instance: instance.into(),
            series: HashMap::new(),
            allowances: Allowances::new(),
            swept: Instant::now(),
            failing: LogOnChange::default(),
        };
        (recorder, writer)
    }

    /// Queues an Event about `object`, or counts it as dropped when too many wait.
    pub fn record<K>(&self, object: &K, note: Note)
    where
        K: Resource<DynamicType = ()>,
    {
        self.record_about(object.object_ref(&()), note);
    }

    /// Queues an Event about the object that `regarding` names.
    pub fn record_about(&self, regarding: ObjectReference, note: Note) {
        let note = Note {
            reason: shortened(note.reason, MAX_REASON),
            action: shortened(note.action, MAX_REASON),
            text: shortened(note.text, MAX_NOTE),
            ..note
        };
        if self.queue.try_send(Occurrence { regarding, note, at: self.clock.now() }).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events that were not written: the queue was full, there were too many of one object, or the server did not take them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl EventWriter {
    /// Writes through `client` until `shutdown`, and what is queued then for two more seconds at most.
    pub async fn run(mut self, client: Client, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                occurrence = self.queue.recv() => match occurrence {
                    Some(occurrence) => self.write(&client, occurrence, &shutdown).await,
                    None => return,
                }
            }
        }
        self.queue.close();
        let drain = async {
            while let Some(occurrence) = self.queue.recv().await {
                self.write(&client, occurrence, &CancellationToken::new()).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, drain).await;
    }

    async fn write(&mut self, client: &Client, occurrence: Occurrence, shutdown: &CancellationToken) {
        let write = self.write_one(client, &occurrence);
        let cut_short = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        let written = tokio::select! {
            written = write => written,
            () = cut_short => return,
        };
        match written {
            Ok(()) => {
                self.failing.clear();
            }
            Err(error) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                if self.failing.is_new(error.reason()) {
                    tracing::warn!(error = %ErrorChain(&error), "an Event was not written");
                }
            }
        }
    }

    async fn write_one(&mut self, client: &Client, occurrence: &Occurrence) -> Result<(), CallError> {
        let Occurrence { regarding, note, .. } = occurrence;
        let options = CallOptions::new(Duration::from_secs(10)).retried(Retry::RESTART);
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let ObjectReference { kind, namespace: own_namespace, name, uid, .. } = regarding.clone();
        let object = [kind, own_namespace, name, uid];
        let key = (object.clone(), note.clone());
        let now = Instant::now();
        let goes_on = |series: &Series| now.duration_since(series.seen) < SERIES;
        if now.duration_since(self.swept) >= SWEEP {
            self.series.retain(|_, series| goes_on(series));
            self.allowances.sweep(now);
            self.swept = now;
        }
        if let Some(series) = self.series.get_mut(&key).filter(|series| goes_on(series)) {
            series.seen = now;
            series.count = series.count.saturating_add(1);
            let age = now.duration_since(series.written_at);
            let is_first = series.written == 1;
            let doubled = series.count >= series.written.saturating_mul(2);
            if !is_first && age < if doubled { SOONEST } else { REFRESH } {
                return Ok(());
            }
            if !self.allowances.take((object.clone(), note.kind), now) {
                return Ok(());
            }
            let last = MicroTime(occurrence.at);
            let patch = Patch::Merge(json!({"series": {"count": series.count, "lastObservedTime": last}}));
            let params = PatchParams::default();
            let count = || api.patch(&series.name, &params, &patch);
            let patched = options.write(format!("count Event {}", series.name), count).await;
            match patched {
                Ok(_event) => {
                    (series.written, series.written_at) = (series.count, now);
                    return Ok(());
                }
                // It expired: the next one begins anew.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        if !self.allowances.take((object, note.kind), now) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let event = self.event(occurrence);
        let name = event.metadata.name.clone().unwrap_or_default();
        let params = PostParams::default();
        let create = || api.create(&params, &event);
        match options.write(format!("create Event {name}"), create).await {
            Ok(_event) => {}
            // The answer to an earlier try was lost.
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        if self.series.len() < MAX_SERIES || self.series.contains_key(&key) {
            let series = Series { name, count: 1, written: 1, written_at: now, seen: now };
            self.series.insert(key, series);
        }
        Ok(())
    }

    fn event(&self, occurrence: &Occurrence) -> Event {
        let Occurrence { regarding, note, at } = occurrence;
        let about = shortened(regarding.name.clone().unwrap_or_default(), MAX_NAME);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{about}.{:016x}", rand::random::<u64>())),
                namespace: Some(regarding.namespace.clone().unwrap_or_else(|| "default".to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(at.round(jiff::Unit::Microsecond).unwrap_or(*at))),
            type_: Some(format!("{:?}", note.kind)),
            reason: Some(note.reason.clone()),
            action: Some(note.action.clone()),
            note: Some(note.text.clone()),
            regarding: Some(regarding.clone()),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(shortened(self.instance.clone(), MAX_REASON)),
            ..Event::default()
        }
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventRecorder").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

/// At most so many bytes of a text.
fn shortened(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

#[cfg(test)]
mod tests;
