//! What a node may use: handed to each visit, nothing hidden.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::time::Instant;
use windlass_runtime::{Accept, CallError, CallOptions, Disposition as CallDisposition, RestClient};

use crate::resource::{path_of, shown};
use crate::{Direction, ProvisionError, Reason, WakeOn};

/// An API server that nodes write to.
#[derive(Clone)]
pub struct Cluster {
    id: Arc<str>,
    client: Client,
    rest: RestClient,
    calls: CallOptions,
    refused: Arc<AtomicBool>,
}

impl Cluster {
    /// The cluster that the controller itself runs on.
    pub fn local(client: Client, options: CallOptions) -> Self {
        Self::remote("", client, options)
    }

    /// Another cluster, by an identifier that is unique among all that the process knows.
    pub fn remote(id: impl Into<Arc<str>>, client: Client, options: CallOptions) -> Self {
        let rest = RestClient::new(client.clone(), options.clone());
        Self { id: id.into(), rest, client, calls: options, refused: Arc::default() }
    }

    /// Its identifier; empty for the local one.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it is the one that the controller runs on.
    pub fn is_local(&self) -> bool {
        self.id.is_empty()
    }

    /// A client of it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A client of it whose calls keep their deadline and fence.
    pub fn rest(&self) -> &RestClient {
        &self.rest
    }

    /// Whether it is reached by the same client: not so once the credentials were replaced.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.refused, &other.refused)
    }

    /// Whether it has ever refused our credentials.
    pub fn has_refused_us(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// A failed call, as a node tells of it. The server's own words stay in the source.
    pub fn failed(&self, what: &str, error: CallError) -> ProvisionError {
        let code = error.code();
        let status = code.map_or_else(String::new, |code| format!(" ({code} {})", error.reason()));
        let on = if self.is_local() { String::new() } else { format!(" on cluster {}", self.id) };
        let refused = format!("failed to {what}{on}{status}");
        let told = if error.is_transient() {
            let reason = if self.is_local() { Reason::Unavailable } else { Reason::RemoteUnreachable };
            ProvisionError::retry(reason, format!("failed to {what}{on}: no answer that counts{status}"))
        } else if code == Some(401) {
            self.refused.store(true, Ordering::Relaxed);
            ProvisionError::retry(Reason::Unauthorized, refused)
        } else if code == Some(404) {
            ProvisionError::retry(Reason::DependencyNotFound, refused)
        } else if error.disposition() == CallDisposition::AwaitChange {
            ProvisionError::user_action(Reason::Refused, refused)
        } else {
            ProvisionError::retry(Reason::Refused, refused)
        };
        told.caused_by(error)
    }
}

/// The object that a tree belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for what has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: what marks the objects that are made for it.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
}

/// What becomes of objects when their tree goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// They are deleted, their dependants first, and their end is awaited.
    #[default]
    Foreground,
    /// They are deleted and their end is awaited; their dependants go some time later.
    Background,
    /// They are left where they are, without the mark of their owner.
    Orphan,
}

impl DeletionPolicy {
    pub(crate) fn propagation(self) -> &'static str {
        match self {
            Self::Foreground => "Foreground",
            Self::Background => "Background",
            Self::Orphan => "Orphan",
        }
    }
}

/// What a visit may use.
#[derive(Clone)]
pub struct Scope {
    /// The cluster of the controller and of the owner.
    pub local: Cluster,
    /// The cluster that nodes write to: the local one, but below a remote cluster's node.
    pub target: Cluster,
    /// Whose tree it is.
    pub owner: Owner,
    /// What becomes of objects when their tree goes.
    pub deletion: DeletionPolicy,
    /// What is remembered between visits. One for each owner.
    pub memory: Arc<Memory>,
}

impl Scope {
    /// A scope on one cluster, which remembers nothing yet.
    pub fn new(local: Cluster, owner: Owner) -> Self {
        let target = local.clone();
        Self { local, target, owner, deletion: DeletionPolicy::default(), memory: Arc::default() }
    }

    /// How the local cluster is called.
    pub fn calls(&self) -> &CallOptions {
        &self.local.calls
    }

    /// The same scope on another cluster.
    #[must_use]
    pub fn on(&self, target: Cluster) -> Self {
        Self { target, ..self.clone() }
    }

    /// The same scope with another policy.
    #[must_use]
    pub fn deleting(&self, deletion: DeletionPolicy) -> Self {
        Self { deletion, ..self.clone() }
    }
}

/// What a watch says of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nothing: its kind is not watched, or not listed yet.
    Unknown,
    /// It is not there.
    Absent,
    /// It is there, at this resourceVersion.
    Version(String),
}

/// Tells of objects as a watch sees them.
pub trait Watches: Send + Sync {
    /// What is known of an object.
    fn observe(&self, object: &WakeOn) -> Observation;

    /// Visits the owner again when the object, which is on this cluster, changes.
    fn follow(&self, cluster: &Cluster, object: &WakeOn);

    /// How many changes of the object were seen since it is followed; nothing where they are not counted. What was written
    /// and not seen since may then be taken for what it was written as, although the watch does not have it yet.
    fn changes(&self, _object: &WakeOn) -> Option<u64> {
        None
    }

    /// Remembers what was read of an object for as long as it is followed.
    fn remember(&self, _object: &WakeOn, _read: &Arc<Value>) {}

    /// What was read of the object, if it is still at that resourceVersion.
    fn remembered(&self, _object: &WakeOn) -> Option<Arc<Value>> {
        None
    }
}

/// How long after a write a watch may not have heard of it.
const BEHIND: Duration = Duration::from_secs(10);

/// What is remembered of an owner's objects between passes, so that what is settled costs no request.
#[derive(Default)]
pub struct Memory {
    applied: Mutex<HashMap<Arc<WakeOn>, Applied>>,
    gone: Mutex<HashSet<Arc<WakeOn>>>,
    /// The owner's generations for which hooks have run, by whose they are.
    hooked: Mutex<HashMap<(String, Direction), i64>>,
    /// What is followed, and whether it was asked for since [`Memory::take_followed`].
    followed: Mutex<HashMap<Arc<WakeOn>, bool>>,
    watches: Option<Arc<dyn Watches>>,
}

/// An object as it was found ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) hash: String,
    pub(crate) version: String,
    /// The changes that had been seen before it was looked at.
    pub(crate) changes: Option<u64>,
    pub(crate) at: Instant,
}

impl Applied {
    /// Whether a watch says nothing else, or has not heard of it yet.
    fn is_in(&self, observe: &Observation, changes: impl FnOnce() -> Option<u64>) -> bool {
        let may_be_behind = || self.at.elapsed() < BEHIND;
        match observe {
            Observation::Version(version) if *version == self.version => true,
            Observation::Version(version) => {
                may_be_behind() && windlass_runtime::is_older(version, &self.version)
            }
            Observation::Absent => self.changes.is_some() && may_be_behind() && changes() == self.changes,
            Observation::Unknown => false,
        }
    }
}

impl Memory {
    /// With watches, which wake the owner and tell whether something changed.
    pub fn with_watches(watches: Arc<dyn Watches>) -> Self {
        Self { watches: Some(watches), ..Self::default() }
    }

    /// Visits the owner again when this object, which is on this cluster, changes.
    pub fn follow(&self, cluster: &Cluster, object: &WakeOn) {
        let mut followed = lock(&self.followed);
        let is_new = match followed.get_mut(object) {
            Some(asked) => {
                *asked = true;
                false
            }
            None => followed.insert(Arc::new(object.clone()), true).is_none(),
        };
        drop(followed);
        // The credentials of another cluster may have been replaced.
        if let Some(watches) = self.watches.as_ref().filter(|_| is_new || !object.cluster.is_empty()) {
            watches.follow(cluster, object);
        }
    }

    /// The objects that are followed, if some are not any more that were when this was asked last.
    pub(crate) fn take_followed(&self) -> Option<BTreeSet<WakeOn>> {
        let mut followed = lock(&self.followed);
        let before = followed.len();
        followed.retain(|_, asked| std::mem::take(asked));
        (followed.len() < before).then(|| followed.keys().map(|object| WakeOn::clone(object)).collect())
    }

    /// Whether the object is, as a watch says, what it was when it was found ready.
    pub(crate) fn is_settled(&self, object: &WakeOn, hash: &str) -> bool {
        let applied = lock(&self.applied);
        applied.get(object).is_some_and(|applied| {
            applied.hash == hash && applied.is_in(&self.observe(object), || self.changes(object))
        })
    }

    /// Whether a watch says that the object is not there.
    pub(crate) fn is_absent(&self, object: &WakeOn) -> bool {
        self.observe(object) == Observation::Absent
    }

    fn observe(&self, object: &WakeOn) -> Observation {
        self.watches.as_ref().map_or(Observation::Unknown, |watches| watches.observe(object))
    }

    /// An object that somebody else writes, and whose changes wake the owner; `None` if it is not there. What the watch says
    /// is as it was costs no request.
    pub(crate) async fn read(
        &self,
        cluster: &Cluster,
        object: &WakeOn,
    ) -> Result<Option<Arc<Value>>, ProvisionError> {
        self.follow(cluster, object);
        if let Some(known) = self.watches.as_ref().and_then(|watches| watches.remembered(object)) {
            return Ok(Some(known));
        }
        let what = format!("get {}", shown(object));
        match cluster.rest().get(&what, &path_of(object), Accept::Whole).await {
            Ok(read) => {
                let read = Arc::new(read);
                if let Some(watches) = &self.watches {
                    watches.remember(object, &read);
                }
                Ok(Some(read))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(cluster.failed(&what, error)),
        }
    }

    pub(crate) fn changes(&self, object: &WakeOn) -> Option<u64> {
        self.watches.as_ref().and_then(|watches| watches.changes(object))
    }

    /// Whether the object was found gone, was not applied since, and no watch has seen it come.
    pub(crate) fn is_gone(&self, object: &WakeOn) -> bool {
        self.is_absent(object) && lock(&self.gone).contains(object)
    }

    pub(crate) fn set_gone(&self, object: &Arc<WakeOn>, gone: bool) {
        let mut known = lock(&self.gone);
        if gone {
            known.insert(Arc::clone(object));
        } else {
            known.remove(object);
        }
    }

    /// Whether a hook has run for this generation of the owner.
    pub(crate) fn has_hooked(&self, hook: &(String, Direction), generation: i64) -> bool {
        lock(&self.hooked).get(hook) == Some(&generation)
    }

    pub(crate) fn hooked(&self, hook: (String, Direction), generation: i64) {
        lock(&self.hooked).insert(hook, generation);
    }

    pub(crate) fn settled(&self, object: Arc<WakeOn>, applied: Applied) {
        lock(&self.applied).insert(object, applied);
    }

    pub(crate) fn unsettled(&self, object: &WakeOn) {
        lock(&self.applied).remove(object);
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
