//! Commits and pushes.

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use windlass_http_client::Deadlines;

use super::RemoteRepository;
use crate::cache::Cache;
use crate::call::Call;
use crate::pack::Scratch;
use crate::protocol::{RefUpdate, Report};
use crate::upload::{Pack, Upload};
use crate::{CommitMeta, GitError, ObjectId, Revision, TreeChange, commit};

/// A packfile of nothing, with its checksum: what creates a branch at a commit that the server has.
const EMPTY_PACK: &[u8] =
    b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

impl RemoteRepository {
    /// Makes a commit of `changes`, in their order, on top of `base` (or the first one of a repository), without a
    /// checkout: in the object cache, where it can be read, built upon and [pushed](Self::push). Fetches `base` if it
    /// is not there; else nothing is sent. Nothing comes back when there is nothing to commit: the changes leave the
    /// tree as it was.
    ///
    /// The same base, changes and `meta` make the same commit, on any machine and at any time.
    ///
    /// # Errors
    /// [`GitError::InvalidChange`] and [`GitError::FileNotFound`] for changes that cannot be made, and what reading
    /// `base` may fail with.
    pub async fn commit(
        &self,
        base: Option<&Revision>,
        changes: &[TreeChange],
        meta: &CommitMeta,
        cancel: &CancellationToken,
    ) -> Result<Option<Revision>, GitError> {
        let base = base.map(|base| self.commit_id(base)).transpose()?;
        let limits = self.limits().clone();
        let (shared, store) = (Arc::clone(&self.shared), self.cache().await?.store.clone());
        let work = Arc::new((changes.to_vec(), meta.clone()));
        let made = self.read(base.as_slice(), cancel, move |_, stop| {
            // Not the shared one: new objects are added to its store.
            let repository = crate::pack::open(&store)?;
            let (changes, meta) = &*work;
            commit::build(&repository, base, (changes, meta), &limits, shared.caches.scratch(), stop)
        });
        let Some(made) = made.await? else { return Ok(None) };
        let (id, cache) = (made.id, self.cache().await?);
        let call = self.call("commit to", self.shared.config.deadlines.fetch, cancel);
        let turn = call.within(cache.turn()).await??;
        let adopting = Arc::clone(cache);
        let adopted = tokio::task::spawn_blocking(move || {
            adopting.reload()?;
            adopting.adopt(&made)
        });
        let crowded = adopted.await.map_err(|error| GitError::cache("take over a commit", error))??;
        drop(turn);
        self.consolidate(cache, crowded);
        Ok(Some(id.into()))
    }

    /// Points `reference` (a branch's short name, or a full name that starts with `refs/`) at `new`, which the server
    /// has or [`commit`](Self::commit) made. `expected` is where it points now; with none it is created. Two requests.
    ///
    /// A ref that is at `new` already is success: a push is safe to repeat. When the answer is lost, the ref is looked
    /// at. Cancelling has no effect once all is sent.
    ///
    /// # Errors
    /// [`GitError::RefMoved`], [`GitError::PushRefused`], [`GitError::PushDenied`], [`GitError::PushUnanswered`], and
    /// what any request may fail with.
    pub async fn push(
        &self,
        reference: &str,
        expected: Option<&Revision>,
        new: &Revision,
        cancel: &CancellationToken,
    ) -> Result<(), GitError> {
        let old = expected.map(|expected| self.commit_id(expected)).transpose()?;
        let new = self.commit_id(new)?;
        self.update(RefUpdate { name: &full_name(reference)?, old, new }, cancel).await
    }

    /// Asks whether these credentials may push: one request. A server may still refuse single refs.
    ///
    /// # Errors
    /// [`GitError::PushDenied`] or [`GitError::Unauthorized`] if they may not.
    pub async fn check_push_access(&self, cancel: &CancellationToken) -> Result<(), GitError> {
        let call = self.call("ask for write access at", self.shared.config.deadlines.refs, cancel);
        let _slot = self.host_slot(&call).await?;
        self.state.endpoint.push_target(&self.shared.http, &call, self.limits()).await.map(drop)
    }

    async fn update(&self, update: RefUpdate<'_>, cancel: &CancellationToken) -> Result<(), GitError> {
        let cache = self.cache().await?;
        let total = self.shared.config.deadlines.fetch;
        let mut call = self.call("push to", total, cancel);
        // How long nothing may happen is judged with the upload in sight.
        let connect = self.shared.config.deadlines.connect;
        call.deadline = Deadlines { connect, read: total, total }.begin();
        let progress = Arc::default();
        call.upload = Some(Arc::clone(&progress));
        let slot = self.host_slot(&call).await?;
        let target = self.state.endpoint.push_target(&self.shared.http, &call, self.limits()).await?;
        let actual = target.at(update.name);
        if actual != Some(update.new) && actual != update.old {
            return Err(self.moved(update, actual));
        }
        let scratch = self.shared.caches.scratch();
        let (chain, pack) = self.pack(cache, update.new, &scratch, cancel).await?;
        if actual != Some(update.new) {
            let permit = call.within(Arc::clone(&self.shared.transfers).acquire_owned()).await?;
            let upload = Upload { head: Bytes::new(), pack, progress: Arc::clone(&progress) };
            let endpoint = &self.state.endpoint;
            let report = endpoint.push(&self.shared.http, &call, &target, update, upload).await;
            // Whoever judges the report asks the host again, which takes a place of its own.
            drop((permit, slot));
            match report {
                Ok(Report::Done) => {}
                Ok(Report::Refused { reason, messages }) => {
                    self.judge_refusal(&call, update, reason, messages).await?;
                }
                Err(_) if cancel.is_cancelled() && !progress.is_complete() => {
                    return Err(GitError::Cancelled);
                }
                Err(error) if error.is_lost_answer() => self.judge_lost_answer(&call, update, &error).await?,
                Err(error) => return Err(error),
            }
        }
        self.note_pushed(cache, chain).await;
        Ok(())
    }

    /// The commits that the server does not have, and the packfile with what is in them.
    async fn pack(
        &self,
        cache: &Arc<Cache>,
        new: ObjectId,
        scratch: &Scratch,
        cancel: &CancellationToken,
    ) -> Result<(Vec<ObjectId>, Pack), GitError> {
        if !cache.is_unpushed(new) {
            return Ok((Vec::new(), Pack::Bytes(Bytes::from_static(EMPTY_PACK))));
        }
        scratch.make()?;
        let file = scratch.objects().join("push");
        let (limits, of) = (self.limits().clone(), Arc::clone(cache));
        let packing = cache.read(&self.shared.readings, cancel, move |repository, stop| {
            let chain = commit::chain(repository, new, |commit| of.is_unpushed(commit))?;
            let length = commit::pack(repository, &chain, &file, &limits, stop)?;
            Ok((chain, Pack::File(file, length)))
        });
        packing.await
    }

    /// A refusal may only say that somebody else was faster.
    async fn judge_refusal(
        &self,
        call: &Call<'_>,
        update: RefUpdate<'_>,
        reason: String,
        messages: String,
    ) -> Result<(), GitError> {
        match self.ref_id(update.name, &CancellationToken::new()).await {
            Ok(actual) if actual == Some(update.new) => Ok(()),
            Ok(actual) if actual != update.old => Err(self.moved(update, actual)),
            _ => {
                let (host, reference) = (call.host(), update.name.to_owned());
                Err(GitError::PushRefused { host, reference, reason, messages })
            }
        }
    }

    /// The push was sent; the ref tells whether it was taken. One that did not move may still do so, while the server's
    /// hooks run.
    async fn judge_lost_answer(
        &self,
        call: &Call<'_>,
        update: RefUpdate<'_>,
        lost: &GitError,
    ) -> Result<(), GitError> {
        let unanswered = |detail: String| GitError::PushUnanswered {
            host: call.host(),
            reference: update.name.to_owned(),
            detail,
        };
        match self.ref_id(update.name, &CancellationToken::new()).await {
            Ok(actual) if actual == Some(update.new) => {
                tracing::info!(url = %self.state.url, reference = update.name, %lost, "a push was taken whose answer was lost");
                Ok(())
            }
            Ok(actual) if actual != update.old => Err(self.moved(update, actual)),
            Ok(_) => Err(unanswered(format!("{lost}; so far it did not"))),
            Err(error) => Err(unanswered(format!("{lost}; then {error}"))),
        }
    }

    fn moved(&self, update: RefUpdate<'_>, actual: Option<ObjectId>) -> GitError {
        let (url, reference) = (self.state.url.to_string(), update.name.to_owned());
        GitError::RefMoved { url, reference, expected: update.old, actual }
    }

    async fn note_pushed(&self, cache: &Arc<Cache>, chain: Vec<ObjectId>) {
        if chain.is_empty() {
            return;
        }
        let noting = Arc::clone(cache);
        let noted = async {
            let _turn = cache.turn().await?;
            tokio::task::spawn_blocking(move || noting.pushed(&chain))
                .await
                .map_err(|error| GitError::cache("note what was pushed", error))?
        };
        // The push is done; what is not noted is fetched or pushed again.
        if let Err(error) = noted.await {
            tracing::warn!(url = %self.state.url, %error, "failed to note a push");
        }
    }
}

/// The ref's full name, if it may be one (Git: `check-ref-format`).
fn full_name(reference: &str) -> Result<String, GitError> {
    let full = match reference {
        full if full.starts_with("refs/") => full.to_owned(),
        short => format!("refs/heads/{short}"),
    };
    if git2::Reference::is_valid_name(&full) && !full.chars().any(char::is_control) {
        return Ok(full);
    }
    let path = windlass_http_client::printable(reference, 300);
    Err(GitError::InvalidChange { path, detail: "it is no name of a branch".to_owned() })
}
