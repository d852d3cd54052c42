//! One visit to an object: observe, gate, run its tree, tell.

use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};
use tracing::Instrument as _;
use windlass_runtime::{
    CallError, EventType, Note, ObjectKey, Part, Requeue, Store, add_finalizers, is_older, merge_patch,
    remove_finalizer,
};
use windlass_telemetry::ErrorChain;

use super::references::references;
use super::status::{self, AVAILABLE, Verdict};
use super::wakes::{OwnersWatches, Wakes};
use super::{ManagerOptions, ManagerProvisioner, NodeSeconds};
use crate::{
    Cluster, Direction, Disposition, Memory, NodeState, Observer, Outcome, Owner, ProvisionError, Reason,
    Scope, Tree, TreeView, Visited,
};

/// How soon a write is made again that somebody else's came before.
const AGAIN: Duration = Duration::from_millis(200);
/// The finalizer of an object whose dependants go first.
const FOREGROUND: &str = "foregroundDeletion";

pub(super) struct Reconciler<P> {
    provisioner: P,
    options: ManagerOptions,
    kind: ApiResource,
    client: Client,
    store: Store<DynamicObject>,
    wakes: Arc<Wakes>,
    observer: Option<Arc<dyn Observer>>,
    known: Mutex<HashMap<ObjectKey, Known>>,
}

/// What is kept of an object between visits.
#[derive(Clone)]
struct Known {
    matters: Value,
    generation: Option<i64>,
    tree: Arc<Tree<Scope>>,
    memory: Arc<Memory>,
    /// The object as our last write left it: the watch may not have heard of that yet.
    latest: Option<Arc<DynamicObject>>,
}

/// What a tree is made from, and what decides which way it goes.
pub(super) fn matters(object: &DynamicObject) -> Value {
    let meta = &object.metadata;
    let spec = if meta.generation.is_some() { &Value::Null } else { &object.data["spec"] };
    json!([
        meta.uid,
        meta.generation,
        meta.deletion_timestamp,
        meta.finalizers,
        meta.labels,
        meta.annotations,
        spec
    ])
}

impl<P: ManagerProvisioner> Reconciler<P> {
    pub(super) fn new(
        provisioner: P,
        options: ManagerOptions,
        kind: ApiResource,
        client: Client,
        store: Store<DynamicObject>,
        wakes: Arc<Wakes>,
    ) -> Self {
        let observer =
            options.meter.as_ref().map(|meter| Arc::new(NodeSeconds::new(meter)) as Arc<dyn Observer>);
        Self { provisioner, options, kind, client, store, wakes, observer, known: Mutex::default() }
    }

    pub(super) async fn reconcile(self: Arc<Self>, key: ObjectKey) -> Requeue {
        let Some(object) = self.store.get(&key) else {
            self.forget(&key);
            return Requeue::No;
        };
        let object = self.latest(&key, object);
        let span = tracing::info_span!("provision", kind = self.kind.kind, object = %key);
        match self.visit(&key, &object).instrument(span).await {
            Ok(requeue) => requeue,
            Err(error) if error.is_conflict() => Requeue::After(AGAIN),
            Err(error) => {
                tracing::warn!(object = %key, error = %ErrorChain(&error), "an object could not be written");
                Requeue::Backoff
            }
        }
    }

    /// The object as it was seen, or as our last write left it if the watch has not heard of that yet.
    fn latest(&self, key: &ObjectKey, seen: Arc<DynamicObject>) -> Arc<DynamicObject> {
        let known = self.lock();
        let latest = known.get(key).and_then(|known| known.latest.as_ref());
        let version = |object: &DynamicObject| object.metadata.resource_version.clone().unwrap_or_default();
        match latest.filter(|latest| latest.metadata.uid == seen.metadata.uid) {
            Some(latest) if is_older(&version(&seen), &version(latest)) => Arc::clone(latest),
            _ => seen,
        }
    }

    async fn visit(&self, key: &ObjectKey, object: &DynamicObject) -> Result<Requeue, CallError> {
        let api = self.api(&key.namespace);
        let finalizer = &self.options.finalizer;
        let finalizers = object.metadata.finalizers.clone().unwrap_or_default();
        let direction = match object.metadata.deletion_timestamp {
            None => Direction::Provision,
            Some(_) if finalizers.contains(finalizer) => Direction::Deprovision,
            Some(_) => return Ok(Requeue::No),
        };
        let typed = typed::<P::Object>(object);
        let paused = typed.as_ref().is_ok_and(|typed| self.provisioner.is_paused(typed));
        if direction == Direction::Provision && paused {
            return Ok(Requeue::No);
        }
        let object = match direction {
            Direction::Provision => {
                add_finalizers(&api, object, std::slice::from_ref(finalizer), self.options.calls.clone())
                    .await?
            }
            Direction::Deprovision => object.clone(),
        };
        let (visited, known) = match typed.and_then(|typed| self.known(key, &object, &typed)) {
            Ok((known, scope)) => {
                let visited = self.pass(&known, &scope, direction, &finalizers).await;
                (visited, Some(known))
            }
            Err(error) => (Err(error), None),
        };
        if let (Ok(Outcome::Yield { wake_on, .. }), Some(known)) = (&visited, &known) {
            // What is on another cluster was followed by the node, which has a client of it.
            for object in wake_on.iter().filter(|object| object.cluster.is_empty()) {
                known.memory.follow(&self.local(), object);
            }
        }
        if let Some(kept) = known.as_ref().and_then(|known| known.memory.take_followed()) {
            self.wakes.keep(key, &kept);
        }
        let object = self.tell(&api, &object, direction, &visited, known.as_ref()).await?;
        if let Some(known) = self.lock().get_mut(key) {
            known.latest = Some(Arc::new(object.clone()));
        }
        if direction == Direction::Deprovision && matches!(visited, Ok(Outcome::Ready)) {
            remove_finalizer(&api, &object, finalizer, self.options.calls.clone()).await?;
            self.forget(key);
        }
        Ok(requeue(key, direction, &visited))
    }

    /// One pass over the tree, unless something has to go first.
    async fn pass(
        &self,
        known: &Known,
        scope: &Scope,
        direction: Direction,
        finalizers: &[String],
    ) -> Visited {
        if direction == Direction::Provision {
            return known.tree.provision(scope).await;
        }
        let references = references(finalizers);
        if !references.is_empty() {
            let message = format!("others still need it: {}", references.join(", "));
            return Ok(Outcome::wait(Reason::Referenced, message));
        }
        if finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
            return Ok(Outcome::wait(Reason::ForegroundDeletion, "its dependants go first"));
        }
        known.tree.deprovision(scope).await
    }

    /// The tree of an object: the one of the last visit where the object is the same, else another that knows what that
    /// one knew, or what the status says.
    fn known(
        &self,
        key: &ObjectKey,
        object: &DynamicObject,
        typed: &P::Object,
    ) -> Result<(Known, Scope), ProvisionError> {
        let (matters, generation) = (matters(object), object.metadata.generation);
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let before = self.lock().get(key).filter(|known| known.matters[0] == json!(uid)).cloned();
        let known = match before {
            Some(known) if known.matters == matters => known,
            before => {
                let tree = Tree::new(self.provisioner.tree(typed)?).map_err(|error| {
                    ProvisionError::terminal(Reason::InvalidTree, error.to_string()).caused_by(error)
                })?;
                let clock = Arc::clone(&self.options.clock);
                let mut tree = tree.with_now(move || clock.now());
                if let Some(observer) = &self.observer {
                    tree = tree.with_observer(Arc::clone(observer));
                }
                match &before {
                    Some(before) => tree.resume_from(&before.tree),
                    None => tree.resume(&told(object)),
                }
                let seen =
                    before.as_ref().map_or_else(|| observed_generation(object), |known| known.generation);
                if seen != generation {
                    tree.forget_attempts();
                }
                let watches = OwnersWatches { wakes: Arc::clone(&self.wakes), owner: key.clone() };
                let memory = before.map(|before| before.memory);
                let memory = memory.unwrap_or_else(|| Arc::new(Memory::with_watches(Arc::new(watches))));
                let known = Known { matters, generation, tree: Arc::new(tree), memory, latest: None };
                self.lock().insert(key.clone(), known.clone());
                known
            }
        };
        let owner = Owner {
            kind: self.kind.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid,
            generation: generation.unwrap_or_default(),
        };
        let scope = Scope {
            deletion: self.provisioner.deletion_policy(typed),
            memory: Arc::clone(&known.memory),
            ..Scope::new(self.local(), owner)
        };
        Ok((known, scope))
    }

    /// Writes the status if it says something new, and an Event when the condition's reason is another.
    async fn tell(
        &self,
        api: &Api<DynamicObject>,
        object: &DynamicObject,
        direction: Direction,
        visited: &Visited,
        known: Option<&Known>,
    ) -> Result<DynamicObject, CallError> {
        let view = known.map(|known| known.tree.view());
        let verdict = Verdict::new(direction, visited, view.as_ref());
        let present = &object.data["status"];
        let mut wanted = json!({"observedGeneration": object.metadata.generation});
        if let Some(view) = &view {
            wanted["provisioning"] = status::shown(view);
        }
        let generation = object.metadata.generation;
        match status::conditions(&present["conditions"], &verdict, generation, self.options.clock.now()) {
            Some(conditions) => wanted["conditions"] = json!(conditions),
            None => {
                let reason = Reason::ForeignStatus.as_str();
                let text =
                    "status.conditions is no list of conditions: Available cannot be told there".to_owned();
                tracing::warn!(reason, text);
                self.record(object, EventType::Warning, reason, direction, text);
            }
        }
        let before =
            present["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == AVAILABLE);
        if before.is_none_or(|before| before["reason"] != verdict.reason) && wanted["conditions"].is_array() {
            let kind = if verdict.reason == "Errored" { EventType::Warning } else { EventType::Normal };
            self.record(object, kind, verdict.reason, direction, verdict.message);
        }
        let news = wanted
            .as_object()
            .is_some_and(|wanted| wanted.iter().any(|(field, value)| present[field] != *value));
        if !news {
            return Ok(object.clone());
        }
        merge_patch(api, object, Part::Status, json!({"status": wanted}), self.options.calls.clone()).await
    }

    fn record(
        &self,
        object: &DynamicObject,
        kind: EventType,
        reason: &str,
        direction: Direction,
        text: String,
    ) {
        let Some(events) = &self.options.events else { return };
        let regarding = ObjectReference {
            api_version: Some(self.kind.api_version.clone()),
            kind: Some(self.kind.kind.clone()),
            name: object.metadata.name.clone(),
            namespace: object.metadata.namespace.clone(),
            uid: object.metadata.uid.clone(),
            ..ObjectReference::default()
        };
        let action = match direction {
            Direction::Provision => "Provision",
            Direction::Deprovision => "Deprovision",
        };
        let note = Note { kind, reason: reason.to_owned(), action: action.to_owned(), text };
        events.record_about(regarding, note);
    }

    fn local(&self) -> Cluster {
        Cluster::local(self.client.clone(), self.options.calls.clone())
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        match namespace {
            "" => Api::all_with(self.client.clone(), &self.kind),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &self.kind),
        }
    }

    fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
        self.wakes.keep(key, &std::collections::BTreeSet::new());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn typed<K: serde::de::DeserializeOwned>(object: &DynamicObject) -> Result<K, ProvisionError> {
    let read = serde_json::to_value(object).and_then(serde_json::from_value);
    read.map_err(|error| {
        ProvisionError::user_action(Reason::Refused, "the object cannot be read as its kind").caused_by(error)
    })
}

/// What the status says of each node.
fn told(object: &DynamicObject) -> BTreeMap<String, NodeState> {
    let view = TreeView::of_status(&object.data["status"]);
    view.into_iter().flat_map(|view| view.nodes).map(|node| (node.path, node.state)).collect()
}

fn observed_generation(object: &DynamicObject) -> Option<i64> {
    object.data["status"]["observedGeneration"].as_i64()
}

/// A tenth more at most, by the object's name: owners that begin to wait together do not all come back at once.
fn spread(key: &ObjectKey, delay: Duration) -> Duration {
    let mut hasher = std::hash::DefaultHasher::new();
    key.hash(&mut hasher);
    let share = u32::try_from(hasher.finish() % 1_000).unwrap_or_default();
    delay.saturating_add(delay.mul_f64(f64::from(share) / 10_000.0))
}

fn requeue(key: &ObjectKey, direction: Direction, visited: &Visited) -> Requeue {
    match visited {
        Ok(Outcome::Ready) => Requeue::No,
        Ok(Outcome::Yield { after, .. }) => Requeue::After(spread(key, *after)),
        // On the way down nothing is given up: somebody waits for the finalizer.
        Err(error) if error.disposition == Disposition::Retry || direction == Direction::Deprovision => {
            Requeue::Backoff
        }
        Err(_) => Requeue::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_back_off_the_same_way_in_both_directions_and_nothing_is_parked_on_the_way_down() {
        let key = ObjectKey::new("default", "a");
        let both = |visited: &Visited| {
            [Direction::Provision, Direction::Deprovision].map(|direction| requeue(&key, direction, visited))
        };
        assert_eq!(both(&Err(ProvisionError::retry(Reason::Failed, "x"))), [Requeue::Backoff; 2]);
        let parked = [Requeue::No, Requeue::Backoff];
        assert_eq!(both(&Err(ProvisionError::user_action(Reason::NotOurs, "x"))), parked);
        assert_eq!(both(&Err(ProvisionError::terminal(Reason::RetriesExhausted, "x"))), parked);
        assert_eq!(both(&Ok(Outcome::Ready)), [Requeue::No; 2]);
        for again in both(&Ok(Outcome::wait(Reason::NotReady, "x"))) {
            let Requeue::After(delay) = again else { panic!("it waits: {again:?}") };
            assert!((10_000..=11_000).contains(&delay.as_millis()), "{delay:?}");
        }
    }
}
