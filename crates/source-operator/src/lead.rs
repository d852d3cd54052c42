//! Working on sources while this process leads. One that stands by watches, and begins where it took over.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use windlass_api::flux::GitRepository;
use windlass_artifact::Place;
use windlass_runtime::{
    BackoffPolicy, Event, KeyedQueue, Leadership, ObjectKey, ObjectVersion, Store, Term, TermQueue, run_keyed,
};

use crate::annotations::{requested_at, semver_filter};
use crate::asked::Asked;
use crate::build::Builder;
use crate::controller::{Controller, KIND};
use crate::reconcile::reconcile;
use crate::secrets;
use crate::upstream::Upstreams;
use crate::verify::Verifications;

/// The operator's work, term by term.
pub(crate) struct Work {
    pub(crate) controller: Controller,
    pub(crate) leadership: Leadership,
    pub(crate) queue: TermQueue<ObjectKey>,
}

/// Forwards what the watch has seen to the queue of the term.
pub(crate) struct Forwarder {
    queue: TermQueue<ObjectKey>,
    objects: Store<GitRepository>,
    upstreams: Arc<Upstreams>,
    verifications: Arc<Verifications>,
    builder: Arc<Builder>,
    asked: Arc<Asked>,
    includes: Includes,
}

/// For each source those that include it.
#[derive(Default)]
struct Includes(Mutex<HashMap<ObjectKey, HashSet<ObjectKey>>>);

impl Work {
    pub(crate) fn forwarder(&self) -> Forwarder {
        Forwarder {
            queue: self.queue.clone(),
            objects: self.controller.objects.clone(),
            upstreams: Arc::clone(&self.controller.upstreams),
            verifications: Arc::clone(&self.controller.verifications),
            builder: Arc::clone(&self.controller.builder),
            asked: Arc::clone(&self.controller.asked),
            includes: Includes::default(),
        }
    }

    /// Works whenever this process leads, until `shutdown`; passes that are under way then are finished.
    pub(crate) async fn run(&self, shutdown: &CancellationToken) {
        self.leadership.lead(shutdown, |term| self.lead(term, shutdown)).await;
    }

    async fn lead(&self, term: Term, shutdown: &CancellationToken) {
        let cancel = shutdown.child_token();
        let _stop = cancel.clone().drop_guard();
        let settings = &self.controller.settings;
        let policy = BackoffPolicy {
            first: settings.min_retry_delay,
            max: settings.max_retry_delay.max(settings.min_retry_delay),
            ..BackoffPolicy::OBJECT
        };
        let Controller { objects, asked, .. } = &self.controller;
        let known = || {
            objects.list().into_iter().map(|object| {
                asked.see(&object);
                ObjectKey::of(&*object)
            })
        };
        let work = self.queue.begin(policy, known);
        let client = term.guard(&self.controller.client);
        let controller =
            Arc::new(Controller { client, cancel, queue: work.queue.clone(), ..self.controller.clone() });
        let metrics = self.controller.metrics.clone();
        run_keyed(
            work.queue.clone(),
            settings.concurrent,
            shutdown.clone(),
            move |key| reconcile(Arc::clone(&controller), key),
            move |_key| metrics.failed("Panic"),
        )
        .await;
    }
}

impl Forwarder {
    /// Has those looked at that name a Secret that changed.
    pub(crate) fn forward_secret(&self, event: &Event<ObjectVersion>, secrets: &Store<ObjectVersion>) {
        if let Some(queue) = self.queue.current() {
            secrets::forward(event, secrets, &self.objects, &queue);
        }
    }

    pub(crate) fn forward(&self, event: Event<GitRepository>) {
        let current = self.queue.current();
        match event {
            Event::Applied { old, new } => {
                let key = ObjectKey::of(&*new);
                self.includes.change(&key, old.as_deref(), Some(&new));
                let Some(queue) = &current else { return };
                if old.as_deref().is_none_or(|old| is_asked_for(old, &new)) {
                    self.asked.see(&new);
                    queue.add(key.clone());
                }
                if old.as_deref().is_none_or(|old| old.status.artifact != new.status.artifact) {
                    self.includes.queue_those_that_include(&key, queue);
                }
            }
            Event::Deleted(gone) => {
                let key = ObjectKey::of(&*gone);
                self.upstreams.forget(&key);
                self.asked.forget(&key);
                self.verifications.forget(&key);
                self.includes.change(&key, Some(&gone), None);
                match &current {
                    // The leader has removed its own before it took the finalizer off.
                    Some(queue) => {
                        queue.forget(&key);
                        self.includes.queue_those_that_include(&key, queue);
                    }
                    None => self.remove(&key),
                }
            }
            Event::Synced => {}
        }
    }

    /// Removes what this replica has of an object that is gone.
    fn remove(&self, key: &ObjectKey) {
        let Some(place) = Place::new(KIND, &key.namespace, &key.name) else { return };
        let store = Arc::clone(&self.builder.store);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = store.remove(&place) {
                tracing::warn!(%error, "failed to remove the artifacts of a source that is gone");
            }
        });
    }
}

impl Includes {
    /// A source includes what `new` says, and no longer what `old` said.
    fn change(&self, key: &ObjectKey, old: Option<&GitRepository>, new: Option<&GitRepository>) {
        let named = |object: Option<&GitRepository>| {
            let includes = object.map(|object| object.spec.include.as_slice()).unwrap_or_default();
            let names = includes.iter().map(|include| include.repository.name.as_str());
            names.map(|name| ObjectKey::new(key.namespace.as_str(), name)).collect::<Vec<_>>()
        };
        let (old, new) = (named(old), named(new));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for included in old.iter().filter(|included| !new.contains(included)) {
            if let Some(those) = all.get_mut(included) {
                those.remove(key);
                if those.is_empty() {
                    all.remove(included);
                }
            }
        }
        for included in new {
            all.entry(included).or_default().insert(key.clone());
        }
    }

    fn queue_those_that_include(&self, key: &ObjectKey, queue: &KeyedQueue<ObjectKey>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for other in all.get(key).into_iter().flatten() {
            queue.add(other.clone());
        }
    }
}

/// Whether somebody wants something else: the specification, a request, or the end. What this controller writes itself is
/// no reason to look again.
fn is_asked_for(old: &GitRepository, new: &GitRepository) -> bool {
    old.metadata.uid != new.metadata.uid
        || old.metadata.generation != new.metadata.generation
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || requested_at(old) != requested_at(new)
        || semver_filter(old) != semver_filter(new)
}
