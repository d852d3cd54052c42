//! Repositories as their servers have them, asked once for all objects that want to know.
//!
//! An answer serves everyone whose question was asked before it was: objects of one URL and one identity share the list of
//! refs, and the object cache beneath it. When an answer shows that something moved, all of them look again at once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_git::{Credentials, Git, GitError, ObjectId, Proxy, Ref, Remote, RemoteRepository, Tree};
use windlass_runtime::ObjectKey;

/// Upstreams that are remembered although nobody asks any more.
const MAX_IDLE: usize = 2_048;
/// Trees that are held ready for the next object of the same commit, in each upstream.
const TREE_LASTS: Duration = Duration::from_secs(10);
/// Prefixes of refs that are asked for at once, at most.
const MAX_PREFIXES: usize = 256;

/// All upstreams of this process.
pub(crate) struct Upstreams {
    git: Git,
    known: Mutex<HashMap<Key, Arc<Upstream>>>,
}

/// Of which repository, as whom.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    url: String,
    /// Of the Secret: its uid, and its version.
    secret: Option<(String, String)>,
    /// The user, and what tells one token from the next that a Secret stands for.
    user: Option<(String, u64)>,
    tls: Option<[u8; 32]>,
    proxy: Option<[u8; 32]>,
}

/// One repository, as one identity sees it.
pub(crate) struct Upstream {
    pub(crate) repository: Arc<RemoteRepository>,
    /// What it was opened with, for its submodules.
    pub(crate) remote: Remote,
    /// Uid and version of the Secret that its credentials come from.
    pub(crate) secret: Option<(String, String)>,
    /// What tells it from others.
    pub(crate) name: String,
    /// Held while somebody asks.
    answer: tokio::sync::Mutex<Option<Answer>>,
    prefixes: Mutex<BTreeSet<String>>,
    users: Mutex<HashSet<ObjectKey>>,
    tree: tokio::sync::Mutex<Option<(ObjectId, Instant, Arc<Tree>)>>,
}

#[derive(Clone)]
struct Answer {
    begun: Instant,
    prefixes: BTreeSet<String>,
    refs: Result<Arc<Vec<Ref>>, GitError>,
}

/// What an upstream said.
pub(crate) struct Told {
    pub(crate) refs: Arc<Vec<Ref>>,
    /// Somebody else had asked.
    pub(crate) shared: bool,
    /// The other objects that this is news for.
    pub(crate) news_for: Vec<ObjectKey>,
}

impl Upstreams {
    pub(crate) fn new(git: Git) -> Self {
        Self { git, known: Mutex::default() }
    }

    /// The upstream of this remote. `secret` are uid and version of the Secret that its credentials come from: a changed one is
    /// another upstream, and the one before is forgotten.
    pub(crate) fn get(
        &self,
        remote: Remote,
        secret: Option<(String, String)>,
    ) -> Result<Arc<Upstream>, GitError> {
        let key = Key {
            url: remote.url.clone(),
            secret,
            user: match &remote.credentials {
                Some(Credentials::Basic { user, token }) => {
                    let mut hasher = DefaultHasher::new();
                    token.expose_secret().hash(&mut hasher);
                    Some((user.clone(), hasher.finish()))
                }
                _ => None,
            },
            tls: remote.tls.fingerprint(),
            proxy: remote.proxy.as_ref().map(Proxy::fingerprint),
        };
        let mut known = lock(&self.known);
        // Credentials in a URL have no version that tells them apart.
        let shareable = remote.credentials.is_none() || key.secret.is_some();
        if let Some(found) = known.get(&key).filter(|_| shareable) {
            return Ok(Arc::clone(found));
        }
        let name = format!("{}\n{}", remote.url, remote.cache_identity.as_deref().unwrap_or_default());
        let upstream = Arc::new(Upstream {
            repository: self.git.remote(remote.clone())?,
            remote,
            secret: key.secret.clone(),
            name,
            answer: tokio::sync::Mutex::default(),
            prefixes: Mutex::default(),
            users: Mutex::default(),
            tree: tokio::sync::Mutex::default(),
        });
        if shareable {
            if known.len() >= MAX_IDLE {
                known.retain(|_, upstream| !lock(&upstream.users).is_empty());
            }
            if let Some((uid, _)) = &key.secret {
                let is_before = |other: &Key| {
                    (&other.url, other.proxy) == (&key.url, key.proxy)
                        && other.secret.as_ref().is_some_and(|(other, _)| other == uid)
                };
                known.retain(|other, _| !is_before(other));
            }
            known.insert(key, Arc::clone(&upstream));
        }
        Ok(upstream)
    }

    /// Nobody asks for this object any more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        for upstream in lock(&self.known).values() {
            lock(&upstream.users).remove(key);
        }
    }
}

impl Upstream {
    /// The refs under `prefix`, as they were at `not_before` or later, for the object `key`.
    pub(crate) async fn refs(
        &self,
        prefix: &str,
        key: &ObjectKey,
        not_before: Instant,
        cancel: &CancellationToken,
    ) -> Result<Told, GitError> {
        let arrived = Instant::now();
        lock(&self.users).insert(key.clone());
        lock(&self.prefixes).insert(prefix.to_owned());
        let mut answer = self.answer.lock().await;
        if let Some(known) = answer.as_ref().filter(|known| known.serves(prefix, not_before, arrived)) {
            return Ok(Told { refs: known.refs.clone()?, shared: true, news_for: Vec::new() });
        }
        let prefixes = {
            let mut prefixes = lock(&self.prefixes);
            if prefixes.len() > MAX_PREFIXES {
                // Objects that still want one of these say so again.
                *prefixes = BTreeSet::from([prefix.to_owned()]);
            }
            prefixes.clone()
        };
        let begun = Instant::now();
        let list: Vec<String> = prefixes.iter().cloned().collect();
        let refs = self.repository.refs_of(&list, cancel).await.map(Arc::new);
        let is_news = match (answer.as_ref().map(|known| &known.refs), &refs) {
            (Some(Ok(before)), Ok(now)) => before != now,
            _ => false,
        };
        *answer = Some(Answer { begun, prefixes, refs: refs.clone() });
        drop(answer);
        let mut news_for = Vec::new();
        if is_news {
            news_for.extend(lock(&self.users).iter().filter(|user| *user != key).cloned());
        }
        Ok(Told { refs: refs?, shared: false, news_for })
    }

    /// The files of a commit; those who ask at the same time share them.
    pub(crate) async fn tree(
        &self,
        commit: ObjectId,
        cancel: &CancellationToken,
    ) -> Result<Arc<Tree>, GitError> {
        let mut held = self.tree.lock().await;
        if let Some((_, _, tree)) = held.as_ref().filter(|(known, ..)| *known == commit) {
            return Ok(Arc::clone(tree));
        }
        let tree = Arc::new(self.repository.tree(&commit.into(), "", cancel).await?);
        *held = Some((commit, Instant::now(), Arc::clone(&tree)));
        Ok(tree)
    }

    async fn drop_unused_tree(&self) {
        let mut held = self.tree.lock().await;
        if held.as_ref().is_some_and(|(_, since, _)| since.elapsed() > TREE_LASTS) {
            *held = None;
        }
    }
}

impl Upstreams {
    /// Drops trees that nobody asked for lately.
    pub(crate) async fn drop_unused_trees(&self) {
        let all: Vec<Arc<Upstream>> = lock(&self.known).values().cloned().collect();
        for upstream in all {
            upstream.drop_unused_tree().await;
        }
    }
}

impl Answer {
    /// A failure is one for those alone who waited for it.
    fn serves(&self, prefix: &str, not_before: Instant, arrived: Instant) -> bool {
        let since = if self.refs.is_ok() { not_before } else { arrived };
        self.begun >= since && self.prefixes.contains(prefix)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
