//! One transfer of history: asked for, taken into a folder of its own, read, and forgotten there.

use std::sync::Arc;

use git2::{ObjectType, Odb};

use super::commit::Commit;
use super::received::ReceivedHistory;
use crate::call::Call;
use crate::object_id::object_id;
use crate::pack::{PackSink, Target};
use crate::remote::RemoteRepository;
use crate::{GitError, Limits, ObjectId};

/// Bytes that a transfer without files may unfold to for each byte on its way.
pub(super) const UNFOLDING: u64 = 16;

/// Fetches the history of `wants` down to `depth`, without what `haves` hold: one request.
pub(super) async fn transfer(
    source: &RemoteRepository,
    call: &Call<'_>,
    wants: &[ObjectId],
    haves: &[ObjectId],
    depth: u32,
) -> Result<ReceivedHistory, GitError> {
    let shared = &source.shared;
    let limits = &shared.config.limits;
    let bare = Limits {
        pack_bytes: limits.history_bytes,
        unpacked_bytes: limits.history_bytes.saturating_mul(UNFOLDING),
        objects: limits.history_commits,
        ..limits.clone()
    };
    let _slot = source.host_slot(call).await?;
    let permit =
        call.within(Arc::clone(&shared.transfers).acquire_owned()).await?.map_err(|_| GitError::Cancelled)?;
    let (permit, scratch) = (Arc::new(permit), Arc::new(shared.caches.scratch()));
    let open = |filtered: bool| {
        let limits = if filtered { &bare } else { limits };
        PackSink::open(Target::Scratch(Arc::clone(&scratch)), call, limits, Arc::clone(&permit))
    };
    let asked = (wants, haves, depth);
    let endpoint = &source.state.endpoint;
    let fetched = endpoint.history(&shared.http, call, asked, "tree:0", (&bare, limits), open).await?;
    call.within(fetched.sink.finish()).await??;
    let limits = limits.clone();
    let reading = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let objects = scratch.objects();
        if !objects.exists() {
            return Ok(ReceivedHistory::default());
        }
        read(objects, &limits)
    });
    let received = reading.await.map_err(|error| GitError::cache("read a history", error))??;
    tracing::debug!(
        url = %call.url, wants = wants.len(), haves = haves.len(), depth, commits = received.commits.len(),
        "fetched a history"
    );
    Ok(ReceivedHistory { shallow: fetched.shallow, exact: fetched.exact, ..received })
}

/// Reads commits and tags out of a folder of objects. Blocking.
fn read(objects: &std::path::Path, limits: &Limits) -> Result<ReceivedHistory, GitError> {
    let failed = |error: git2::Error| GitError::cache("read a history", error.message());
    let folder =
        objects.to_str().ok_or_else(|| GitError::cache("read a history", "its path is not UTF-8"))?;
    let odb = Odb::new().map_err(failed)?;
    odb.add_disk_alternate(folder).map_err(failed)?;
    let mut ids = Vec::new();
    odb.foreach(|id| {
        ids.push(*id);
        true
    })
    .map_err(failed)?;
    let mut received = ReceivedHistory::default();
    let (mut weight, max) = (0, limits.history_commits);
    for id in ids {
        let (size, kind) = odb.read_header(id).map_err(failed)?;
        if !matches!(kind, ObjectType::Commit | ObjectType::Tag) {
            continue;
        }
        let exceeds =
            |limit: &'static str, max: u64, what: String| GitError::LimitExceeded { limit, max, what };
        if size as u64 > limits.blob_bytes {
            return Err(exceeds("blob_bytes", limits.blob_bytes, format!("{kind} {id} of {size} bytes")));
        }
        let object = odb.read(id).map_err(failed)?;
        if kind == ObjectType::Tag {
            weight += 1;
            received.tags.extend(target(object.data()).map(|target| (object_id(id), target)));
        } else {
            let commit = Commit::read(object_id(id), object.data());
            weight += commit.weight();
            received.commits.push(commit);
        }
        if weight > max as usize {
            return Err(exceeds("history_commits", max.into(), "a transfer of history".to_owned()));
        }
    }
    Ok(received)
}

/// What the raw tag `data` is a tag of.
fn target(data: &[u8]) -> Option<ObjectId> {
    let line = data.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line.strip_prefix(b"object ")?).ok()?.parse().ok()
}
