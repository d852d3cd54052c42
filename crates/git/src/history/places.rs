//! What is at one path at many commits: their trees are fetched into a folder of their own, looked at, and forgotten.

use std::sync::Arc;

use git2::Odb;
use tokio_util::sync::CancellationToken;

use super::transfer::UNFOLDING;
use crate::pack::{PackSink, Target};
use crate::remote::RemoteRepository;
use crate::{GitError, Limits, ObjectId, tree};

impl RemoteRepository {
    /// The ids of what is at `path` at each of `commits`: a file or a directory, and nothing where there is none. One
    /// request; contents of files are left out where the server can do that.
    ///
    /// # Errors
    /// [`GitError::ObjectMissing`] for commits that the server does not give.
    pub async fn ids_at(
        &self,
        commits: &[ObjectId],
        path: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Option<ObjectId>>, GitError> {
        if commits.is_empty() {
            return Ok(Vec::new());
        }
        let shared = &self.shared;
        let limits = &shared.config.limits;
        let bare = Limits {
            pack_bytes: limits.history_bytes,
            unpacked_bytes: limits.history_bytes.saturating_mul(UNFOLDING),
            ..limits.clone()
        };
        let call = self.call("read the history of a path of", shared.config.deadlines.fetch, cancel);
        let _slot = self.host_slot(&call).await?;
        let permit = call
            .within(Arc::clone(&shared.transfers).acquire_owned())
            .await?
            .map_err(|_closed| GitError::Cancelled)?;
        let (permit, scratch) = (Arc::new(permit), Arc::new(shared.caches.scratch()));
        let open = |filtered: bool| {
            let limits = if filtered { &bare } else { limits };
            PackSink::open(Target::Scratch(Arc::clone(&scratch)), &call, limits, Arc::clone(&permit))
        };
        let endpoint = &self.state.endpoint;
        let asked = (commits, &[][..], 1);
        let fetched =
            endpoint.history(&shared.http, &call, asked, "blob:none", (&bare, limits), open).await?;
        call.within(fetched.sink.finish()).await??;
        let (commits, path, limits, stop) =
            (commits.to_vec(), path.to_owned(), limits.clone(), cancel.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read(scratch.objects(), &commits, &path, &limits, &stop)
        });
        reading.await.map_err(|error| GitError::cache("read the history of a path", error))?
    }
}

/// Looks a path up in a folder of objects. Blocking.
fn read(
    objects: &std::path::Path,
    commits: &[ObjectId],
    path: &str,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<Vec<Option<ObjectId>>, GitError> {
    let failed = |error: git2::Error| GitError::cache("read the history of a path", error.message());
    let folder = objects
        .to_str()
        .ok_or_else(|| GitError::cache("read the history of a path", "its path is not UTF-8"))?;
    let odb = Odb::new().map_err(failed)?;
    if objects.exists() {
        odb.add_disk_alternate(folder).map_err(failed)?;
    }
    commits.iter().map(|commit| tree::id_at(&odb, *commit, path, limits, stop)).collect()
}
