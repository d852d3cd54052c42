//! A repository on a server, read through its cache.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use git2::ObjectType;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use url::Url;
use windlass_http_client::Deadlines;

use crate::cache::{Cache, Key, Many};
use crate::git::Shared;
use crate::history::Ask;
use crate::http::{Call, Clients};
use crate::pack::{PackSink, Target};
use crate::protocol::{Endpoint, Reach, Wish};
use crate::{
    Credentials, Diff, GitError, History, HistoryQuery, Limits, ObjectId, Ref, Revision, Source, Tree, diff,
    tree,
};

/// What all sources of one URL and credentials share.
pub(crate) struct RemoteState {
    pub(crate) url: Url,
    pub(crate) key: Key,
    credentials: Option<Credentials>,
    pub(crate) endpoint: Endpoint,
    clients: Arc<Clients>,
    pub(crate) requests: AtomicU64,
    cache: OnceCell<Arc<Cache>>,
}

impl RemoteState {
    pub(crate) fn new(url: Url, key: Key, credentials: Option<Credentials>, clients: Arc<Clients>) -> Self {
        let endpoint = Endpoint::new(url.clone());
        let requests = AtomicU64::new(0);
        Self { url, key, credentials, endpoint, clients, requests, cache: OnceCell::new() }
    }
}

pub(crate) struct RemoteSource {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<RemoteState>,
    /// The commit that was listed last: contents are asked for by id, and must stay at hand while others fetch.
    pub(crate) listed: Mutex<Option<ObjectId>>,
}

impl RemoteSource {
    pub(crate) fn call<'a>(
        &'a self,
        what: &'static str,
        limit: Duration,
        cancel: &'a CancellationToken,
    ) -> Call<'a> {
        let crate::Deadlines { connect, read, .. } = self.shared.config.deadlines;
        Call {
            url: &self.state.url,
            credentials: self.state.credentials.as_ref(),
            clients: &self.state.clients,
            what,
            deadline: Deadlines { connect, read, total: limit }.begin(),
            cancel,
            counter: &self.state.requests,
        }
    }

    async fn list(&self, prefixes: &[String], cancel: &CancellationToken) -> Result<Vec<Ref>, GitError> {
        let call = self.call("read the refs of", self.shared.config.deadlines.refs, cancel);
        self.state.endpoint.refs(&self.shared.http, &call, prefixes, self.limits()).await
    }

    async fn cache(&self) -> Result<&Arc<Cache>, GitError> {
        let open = || async {
            let (shared, key) = (Arc::clone(&self.shared), self.state.key.clone());
            tokio::task::spawn_blocking(move || shared.caches.get(&key))
                .await
                .map_err(|error| GitError::cache("open it", error))?
        };
        self.state.cache.get_or_try_init(open).await
    }

    /// Sees to it that `wanted` are in the cache: one request if any is not.
    async fn ensure(
        &self,
        cache: &Arc<Cache>,
        wanted: &[ObjectId],
        cancel: &CancellationToken,
    ) -> Result<(), GitError> {
        let missing = |cache: &Cache| -> Vec<ObjectId> {
            wanted.iter().copied().filter(|id| !cache.has(*id)).collect()
        };
        if missing(cache).is_empty() {
            return Ok(());
        }
        let call = self.call("fetch from", self.shared.config.deadlines.fetch, cancel);
        let turn = async {
            let turn = cache.transfer.lock().await;
            Ok::<_, GitError>((turn, cache.hold().await?))
        };
        let _turn = call.within(turn).await??;
        cache.reload()?;
        let wants = missing(cache);
        if wants.is_empty() {
            return Ok(());
        }
        self.transfer(cache, &call, &wants).await
    }

    async fn transfer(
        &self,
        cache: &Arc<Cache>,
        call: &Call<'_>,
        wants: &[ObjectId],
    ) -> Result<(), GitError> {
        let haves = cache.tips();
        let permit = call
            .within(Arc::clone(&self.shared.transfers).acquire_owned())
            .await?
            .map_err(|_| GitError::Cancelled)?;
        let target = Target::Store(cache.store.clone());
        let mut sink = PackSink::open(target, call.host(), self.limits(), Arc::new(permit));
        let wish = Wish { wants, haves: &haves, reach: Reach::Tips };
        self.state.endpoint.fetch(&self.shared.http, call, &wish, self.limits(), &mut sink).await?;
        call.within(sink.finish()).await??;
        let (limits, host) = (self.limits().clone(), call.host());
        let (wants, near) = (wants.to_vec(), haves.last().copied());
        let noting = Arc::clone(cache);
        let check = cache.read(&self.shared.readings, call.cancel, {
            let wants = wants.clone();
            move |repository, stop| {
                wants.iter().try_for_each(|want| tree::complete(repository, *want, near, &limits, stop))
            }
        });
        check.await.map_err(|error| match error {
            GitError::ObjectMissing { id } => {
                GitError::Protocol { host, detail: format!("its packfile lacks object {id}") }
            }
            other => other,
        })?;
        let many = tokio::task::spawn_blocking(move || noting.add_tips(&wants))
            .await
            .map_err(|error| GitError::cache("note what was fetched", error))??;
        if let Some(many) = many {
            self.tidy(cache, many);
        }
        Ok(())
    }

    /// Consolidates the cache in the background; nobody waits for it, and nothing is lost if it is cut off.
    fn tidy(&self, cache: &Arc<Cache>, many: Many) {
        let (cache, readings) = (Arc::clone(cache), Arc::clone(&self.shared.readings));
        tokio::spawn(async move {
            let Ok(permit) = readings.acquire_owned().await else { return };
            let tidied = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                cache.tidy(&many)
            });
            if let Ok(Err(error)) = tidied.await {
                tracing::warn!(%error, "failed to consolidate a git cache");
            }
        });
    }

    /// Reads with `revisions` in the cache. Damage that shows is repaired once, by fetching again.
    async fn read<T: Send + 'static>(
        &self,
        revisions: &[ObjectId],
        cancel: &CancellationToken,
        work: impl Fn(&git2::Repository, &CancellationToken) -> Result<T, GitError>
        + Clone
        + Send
        + Sync
        + 'static,
    ) -> Result<T, GitError> {
        let cache = self.cache().await?;
        let generation = cache.generation();
        self.ensure(cache, revisions, cancel).await?;
        match cache.read(&self.shared.readings, cancel, work.clone()).await {
            Err(error @ (GitError::ObjectMissing { .. } | GitError::Cache { .. })) => {
                tracing::warn!(url = %self.state.url, %error, "failed to read from the git cache");
            }
            result => return result,
        }
        let wanted = if revisions.is_empty() { cache.tips() } else { revisions.to_vec() };
        self.rebuild(cache, generation, cancel).await?;
        self.ensure(cache, &wanted, cancel).await?;
        cache.read(&self.shared.readings, cancel, work).await
    }

    async fn rebuild(
        &self,
        cache: &Arc<Cache>,
        generation: u64,
        cancel: &CancellationToken,
    ) -> Result<(), GitError> {
        let call = self.call("rebuild the cache of", self.shared.config.deadlines.fetch, cancel);
        let turn = async {
            let turn = cache.transfer.lock().await;
            let lock = cache.hold().await?;
            let cache = Arc::clone(cache);
            let rebuilt = tokio::task::spawn_blocking(move || cache.rebuild(generation)).await;
            drop((turn, lock));
            rebuilt.map_err(|error| GitError::cache("rebuild it", error))?
        };
        call.within(turn).await?
    }

    fn note(&self, commit: ObjectId) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit);
    }

    fn commit(&self, revision: &Revision) -> Result<ObjectId, GitError> {
        tree::commit_id(revision, self.state.url.as_str())
    }
}

#[async_trait]
impl Source for RemoteSource {
    fn versioned(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        self.state.url.as_str()
    }

    fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

    async fn refs(&self, prefix: &str, cancel: &CancellationToken) -> Result<Vec<Ref>, GitError> {
        let prefixes = if prefix.is_empty() { vec![] } else { vec![single_line(prefix)] };
        let mut refs = self.list(&prefixes, cancel).await?;
        refs.retain(|found| found.name.starts_with(prefix));
        Ok(refs)
    }

    async fn resolve(&self, branch: &str, cancel: &CancellationToken) -> Result<Revision, GitError> {
        let name = match branch {
            "" => "HEAD".to_owned(),
            full if full.starts_with("refs/") => full.to_owned(),
            short => format!("refs/heads/{short}"),
        };
        let refs = self.list(&[single_line(&name)], cancel).await?;
        let found =
            refs.into_iter().find(|found| found.name == name).ok_or_else(|| GitError::BranchNotFound {
                url: self.state.url.to_string(),
                branch: if branch.is_empty() { "HEAD".to_owned() } else { branch.to_owned() },
            })?;
        Ok(found.peeled.unwrap_or(found.id).into())
    }

    async fn tree(
        &self,
        revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, GitError> {
        let commit = self.commit(revision)?;
        self.note(commit);
        let (prefix, limits) = (prefix.to_owned(), self.limits().clone());
        self.read(&[commit], cancel, move |repository, stop| {
            tree::list(repository, commit, &prefix, &limits, stop)
        })
        .await
    }

    async fn diff(
        &self,
        old: &Revision,
        new: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Diff, GitError> {
        let (old, new) = (self.commit(old)?, self.commit(new)?);
        self.note(new);
        let (prefix, limits) = (prefix.to_owned(), self.limits().clone());
        self.read(&[old, new], cancel, move |repository, stop| {
            diff::diff(repository, old, new, &prefix, &limits, stop)
        })
        .await
    }

    async fn history(&self, query: &HistoryQuery, cancel: &CancellationToken) -> Result<History, GitError> {
        let new = self.commit(&query.new)?;
        // What is no id of a commit holds none.
        let known = query.known.iter().filter_map(|known| known.as_str().parse().ok()).collect();
        self.shared.histories.ask(self, Ask::new(new, known, query.max), cancel).await
    }

    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, GitError> {
        let (ids, max): (Arc<[ObjectId]>, _) = (ids.into(), self.limits().blob_bytes);
        let listed = *self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        self.read(listed.as_slice(), cancel, move |repository, stop| {
            let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
            let read = |id: &ObjectId| {
                if stop.is_cancelled() {
                    return Err(GitError::Cancelled);
                }
                let blob = tree::read(&odb, *id, ObjectType::Blob, ("blob_bytes", max))?;
                Ok(Bytes::copy_from_slice(blob.data()))
            };
            ids.iter().map(read).collect()
        })
        .await
    }
}

/// A line feed in a ref's name would be another line of the request.
fn single_line(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}
