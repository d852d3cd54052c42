//! A repository on a server, read and written through its cache.

mod read;
mod refused;
mod state;
mod write;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use git2::ObjectType;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use windlass_http_client::Deadlines;

pub(crate) use self::state::RemoteState;

use crate::cache::{Cache, Consolidation};
use crate::call::{Call, Pace};
use crate::metrics::Figures;
use crate::pack::{PackSink, Target};
use crate::protocol::{FetchRequest, FetchScope};
use crate::shared::Shared;
use crate::{Credentials, GitError, ObjectId, Ref, Revision, tree};

/// Credentials of one identity that are remembered to have been answered by the server.
const MAX_PROVEN: usize = 16;

/// A repository on a server: it is read ([`tree`](Self::tree), [`blobs`](Self::blobs)) and written
/// ([`commit`](Self::commit), [`push`](Self::push)).
pub struct RemoteRepository {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<RemoteState>,
    credentials: Option<Credentials>,
    /// What tells the credentials from others that use the same cache; nothing if there are no others.
    fingerprint: Option<[u8; 32]>,
    /// The commit that was listed last: contents are asked for by id, and must stay at hand while others fetch.
    listed: Mutex<Option<ObjectId>>,
    figures: Figures,
}

impl RemoteRepository {
    /// With an identity, other credentials may use the same cache.
    pub(crate) fn new(
        shared: Arc<Shared>,
        state: Arc<RemoteState>,
        credentials: Option<Credentials>,
        has_identity: bool,
        figures: Figures,
    ) -> Self {
        let fingerprint =
            has_identity.then(|| credentials.as_ref().map_or([0; 32], Credentials::fingerprint));
        Self { shared, state, credentials, fingerprint, listed: Mutex::default(), figures }
    }

    pub(crate) fn call<'a>(
        &'a self,
        what: &'static str,
        limit: Duration,
        cancel: &'a CancellationToken,
    ) -> Call<'a> {
        let crate::Deadlines { connect, read, min_throughput, window, .. } = self.shared.config.deadlines;
        Call {
            url: &self.state.url,
            credentials: self.credentials.as_ref(),
            clients: &self.state.clients,
            proxy: self.state.proxy.as_ref(),
            what,
            deadline: Deadlines { connect, read, total: limit }.begin(),
            pace: Pace { least: min_throughput, window, silence: read },
            cancel,
            figures: &self.figures,
            upload: None,
        }
    }

    /// A place among the requests to the host. Whoever waits for one longer than a listing of refs may take gives up:
    /// the host is slow, and what waits for it keeps others from theirs.
    pub(crate) async fn host_slot(
        &self,
        call: &Call<'_>,
    ) -> Result<tokio::sync::OwnedSemaphorePermit, GitError> {
        call.host_slot(&self.state.host_slots, self.shared.config.deadlines.refs).await
    }

    async fn list(&self, prefixes: &[String], cancel: &CancellationToken) -> Result<Vec<Ref>, GitError> {
        let call = self.call("read the refs of", self.shared.config.deadlines.refs, cancel);
        let _slot = self.host_slot(&call).await?;
        let refs = self.state.endpoint.refs(&self.shared.http, &call, prefixes, self.limits()).await?;
        self.set_proven();
        Ok(refs)
    }

    /// Where the ref `name` points, annotated tags not followed.
    async fn ref_id(&self, name: &str, cancel: &CancellationToken) -> Result<Option<ObjectId>, GitError> {
        let refs = self.list(&[single_line(name)], cancel).await?;
        Ok(refs.into_iter().find(|found| found.name == name).map(|found| found.id))
    }

    fn set_proven(&self) {
        let Some(fingerprint) = self.fingerprint else { return };
        let mut proven = self.state.proven.lock().unwrap_or_else(PoisonError::into_inner);
        proven.retain(|known| *known != fingerprint);
        proven.push_back(fingerprint);
        if proven.len() > MAX_PROVEN {
            proven.pop_front();
        }
    }

    /// Asks the server whether these credentials may read what others of the same identity brought here, unless it
    /// has answered them before: one request at most.
    pub(crate) async fn prove_access(&self, cancel: &CancellationToken) -> Result<(), GitError> {
        let Some(fingerprint) = self.fingerprint else { return Ok(()) };
        let is_proven =
            self.state.proven.lock().unwrap_or_else(PoisonError::into_inner).contains(&fingerprint);
        if !is_proven {
            self.list(&["HEAD".to_owned()], cancel).await?;
        }
        Ok(())
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

    /// Sees to it that `wanted` are in the cache, and may be read: one request if any is not.
    async fn ensure(
        &self,
        cache: &Arc<Cache>,
        wanted: &[ObjectId],
        cancel: &CancellationToken,
    ) -> Result<(), GitError> {
        let missing = |cache: &Cache| -> Vec<ObjectId> {
            wanted.iter().copied().filter(|id| !cache.has(*id)).collect()
        };
        let hit = missing(cache).is_empty();
        if !wanted.is_empty() {
            self.figures.accessed(hit);
        }
        if hit {
            return self.prove_access(cancel).await;
        }
        let call = self.call("fetch from", self.shared.config.deadlines.fetch, cancel);
        let turn = call.within(cache.turn()).await??;
        cache.reload()?;
        let wants = missing(cache);
        if wants.is_empty() {
            drop(turn);
            return self.prove_access(cancel).await;
        }
        self.state.refused.check(&wants)?;
        let transferred = self.transfer(cache, &call, &wants).await;
        transferred.inspect_err(|error| self.state.refused.note(&wants, error))?;
        self.set_proven();
        Ok(())
    }

    async fn transfer(
        &self,
        cache: &Arc<Cache>,
        call: &Call<'_>,
        wants: &[ObjectId],
    ) -> Result<(), GitError> {
        // A tag among them would be refused as the end of a history.
        let tips = cache.tips();
        let haves = cache.read(&self.shared.readings, call.cancel, move |repository, _| {
            let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
            let is_commit = |tip: &ObjectId| matches!(tree::header(&odb, *tip), Ok((_, ObjectType::Commit)));
            Ok(tips.into_iter().filter(is_commit).collect::<Vec<_>>())
        });
        let haves = haves.await?;
        let _slot = self.host_slot(call).await?;
        let permit = call
            .within(Arc::clone(&self.shared.transfers).acquire_owned())
            .await?
            .map_err(|_| GitError::Cancelled)?;
        let permit = Arc::new(permit);
        let exact = match self.receive(cache, call, wants, &haves, &permit).await {
            // A large file that changed comes as its difference from what is here, or from what else is asked for, and
            // whole where there is neither.
            Err(GitError::LimitExceeded { limit: "delta_bytes", .. })
                if !haves.is_empty() || wants.len() > 1 =>
            {
                let mut exact = true;
                for want in wants {
                    exact &= self.receive(cache, call, &[*want], &[], &permit).await?;
                }
                exact
            }
            received => received?,
        };
        let (limits, host) = (self.limits().clone(), call.host());
        let (wants, near) = (wants.to_vec(), haves.last().copied());
        let (asked, url) = (wants.clone(), self.state.url.to_string());
        let noting = Arc::clone(cache);
        let check = cache.read(&self.shared.readings, call.cancel, {
            let wants = wants.clone();
            move |repository, stop| {
                wants.iter().try_for_each(|want| tree::complete(repository, *want, near, &limits, stop))
            }
        });
        check.await.map_err(|error| match error {
            GitError::ObjectMissing { id } if !exact && asked.contains(&id) => {
                GitError::RevisionMissing { url, revision: id.to_string() }
            }
            GitError::ObjectMissing { id } => {
                GitError::Protocol { host, detail: format!("its packfile lacks object {id}") }
            }
            other => other,
        })?;
        let crowded = tokio::task::spawn_blocking(move || noting.add_tips(&wants))
            .await
            .map_err(|error| GitError::cache("note what was fetched", error))??;
        self.consolidate(cache, crowded);
        Ok(())
    }

    /// Puts what the server sends into the cache; answers whether it is exactly what was asked for.
    async fn receive(
        &self,
        cache: &Cache,
        call: &Call<'_>,
        wants: &[ObjectId],
        haves: &[ObjectId],
        permit: &Arc<OwnedSemaphorePermit>,
    ) -> Result<bool, GitError> {
        let target = Target::Store(cache.store.clone());
        let mut sink = PackSink::open(target, call, self.limits(), Arc::clone(permit));
        let request = FetchRequest { wants, haves, scope: FetchScope::Tips };
        let endpoint = &self.state.endpoint;
        let exact = endpoint.fetch(&self.shared.http, call, &request, self.limits(), &mut sink).await?;
        call.within(sink.finish()).await??;
        Ok(exact)
    }

    /// Consolidates the cache in the background; nobody waits for it, and nothing is lost if it is cut off.
    fn consolidate(&self, cache: &Arc<Cache>, consolidation: Option<Consolidation>) {
        let Some(consolidation) = consolidation else { return };
        let (cache, readings) = (Arc::clone(cache), Arc::clone(&self.shared.readings));
        tokio::spawn(async move {
            let Ok(permit) = readings.acquire_owned().await else { return };
            let task = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                cache.consolidate(&consolidation)
            });
            if let Ok(Err(error)) = task.await {
                tracing::warn!(%error, "failed to consolidate a git cache");
            }
        });
    }

    /// Reads from the object store with `revisions` in it. A cache that turns out to be damaged is fetched again, once
    /// for the same revisions.
    pub(crate) async fn read<T: Send + 'static>(
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
        let error = match cache.read(&self.shared.readings, cancel, work.clone()).await {
            Err(error @ (GitError::ObjectMissing { .. } | GitError::Cache { .. })) => error,
            result => return result,
        };
        let wanted = if revisions.is_empty() { cache.tips() } else { revisions.to_vec() };
        if cache.generation() == generation && !cache.may_rebuild(&wanted) {
            return Err(error);
        }
        tracing::warn!(url = %self.state.url, %error, "failed to read from the git cache");
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
        let rebuild = async {
            let turn = cache.turn().await?;
            let cache = Arc::clone(cache);
            let rebuilt = tokio::task::spawn_blocking(move || cache.rebuild(generation)).await;
            drop(turn);
            rebuilt.map_err(|error| GitError::cache("rebuild it", error))?
        };
        call.within(rebuild).await?
    }

    fn set_listed(&self, commit: ObjectId) {
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit);
    }

    fn commit_id(&self, revision: &Revision) -> Result<ObjectId, GitError> {
        tree::commit_id(revision, self.state.url.as_str())
    }
}

/// A line feed in a ref's name would be another line of the request.
fn single_line(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}
