//! From a commit to a content that is kept. What was made before of the same files is not made again, whoever wanted it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use windlass_api::flux::Artifact;
use windlass_artifact::{
    ArchiveError, ArtifactPath, Blobs, Content, Digest, Hasher, IGNORE_FILE, Kept, Member, Node, Rules,
    Store, StoreError, Verdict, members, stays_inside, unpack, write_archive,
};
use windlass_git::{Entry, EntryKind, ObjectId, batches};

use crate::failure::Failure;
use crate::files::Files;
use crate::metrics::{SourceMetrics, stage};
use crate::upstream::{Upstream, Upstreams};
use crate::validate::{Include, Wanted};

/// Contents that are remembered.
const MAX_KNOWN: usize = 4_096;
/// Bytes of a link.
const MAX_LINK: u64 = 4_096;
/// Bytes that all included artifacts of an object may unpack to.
const MAX_INCLUDED: u64 = 256 << 20;

/// Makes contents, each once.
pub(crate) struct Builder {
    pub(crate) store: Arc<Store>,
    /// Where submodules come from.
    upstreams: Arc<Upstreams>,
    /// By all that decides what is in them: the commit and what is wanted of it, and then the files themselves.
    known: Mutex<HashMap<String, Arc<OnceCell<Kept>>>>,
    /// Whether links that stay inside are in the archives.
    keep_links: bool,
    metrics: SourceMetrics,
}

impl Builder {
    pub(crate) fn new(
        store: Arc<Store>,
        upstreams: Arc<Upstreams>,
        keep_links: bool,
        metrics: SourceMetrics,
    ) -> Self {
        Self { store, upstreams, known: Mutex::default(), keep_links, metrics }
    }

    /// The content that is wanted of a commit. `included` are the artifacts in the order of the includes.
    pub(crate) async fn build(
        &self,
        upstream: &Arc<Upstream>,
        commit: ObjectId,
        wanted: &Wanted,
        included: &[Artifact],
        cancel: &CancellationToken,
    ) -> Result<Kept, Failure> {
        let digests: Vec<_> = included.iter().map(|artifact| artifact.digest.as_str()).collect();
        let key = format!("{}\n{commit}\n{wanted:?}\n{digests:?}", upstream.name);
        self.once(key, || self.make(upstream, commit, wanted, included, cancel)).await
    }

    async fn make(
        &self,
        upstream: &Arc<Upstream>,
        commit: ObjectId,
        wanted: &Wanted,
        included: &[Artifact],
        cancel: &CancellationToken,
    ) -> Result<Kept, Failure> {
        let recurse = wanted.submodules.then_some(&*self.upstreams);
        let listing = Files::list(upstream, commit, &wanted.directories, recurse, cancel);
        let files = stage!(self.metrics, "fetch", listing).await?;
        let more = self.unpacked(&files.entries, wanted, included).await?;
        let ignore = wanted.ignore.as_deref();
        self.pack(&files, &files.entries, more, ignore, Failure::git, cancel).await
    }

    /// The archive of these files and of `more`, but for what the ignore files among them and `ignore` leave out. `failed`
    /// says what a content that cannot be read means.
    pub(crate) async fn pack<B: Blobs>(
        &self,
        blobs: &B,
        entries: &[Entry],
        mut more: Vec<Member>,
        ignore: Option<&str>,
        failed: fn(&str, &B::Error) -> Failure,
        cancel: &CancellationToken,
    ) -> Result<Kept, Failure> {
        let is_ignore =
            |entry: &&Entry| entry.kind.is_file() && entry.path.rsplit('/').next() == Some(IGNORE_FILE);
        let own: Vec<&Entry> = entries.iter().filter(is_ignore).collect();
        let ids: Vec<ObjectId> = own.iter().map(|entry| entry.id).collect();
        let contents = if ids.is_empty() {
            Vec::new()
        } else {
            let read = blobs.contents(&ids, cancel).await;
            read.map_err(|error| failed("read the ignore files of the revision", &error))?
        };
        if self.keep_links {
            let read = links(blobs, entries, cancel).await;
            more.extend(read.map_err(|error| failed("read the links of the revision", &error))?);
        }
        let rules = rules(own.into_iter().zip(contents), &more, ignore)?;
        let all = members(entries, more, &rules);
        let key = format!("{:?}", fingerprint(&all));
        let archive = async || {
            let kept = stage!(self.metrics, "pack", self.archive(blobs, all, failed, cancel)).await?;
            self.metrics.accessed("archives", false);
            self.metrics.packed(kept.size);
            Ok(kept)
        };
        self.once(key, archive).await
    }

    async fn archive<B: Blobs>(
        &self,
        blobs: &B,
        members: Vec<Member>,
        failed: fn(&str, &B::Error) -> Failure,
        cancel: &CancellationToken,
    ) -> Result<Kept, Failure> {
        let draft = self.blocking(Store::draft).await?;
        let written = write_archive(blobs, members, draft, cancel).await;
        let draft = written.map_err(|error| match error {
            ArchiveError::Read(error) => failed("read the files of the revision", &error),
            error @ (ArchiveError::ReadOn { .. } | ArchiveError::FilesTooLarge { .. }) => {
                let text = windlass_telemetry::ErrorChain(&error).to_string();
                Failure::fetch("GitOperationFailed", text)
            }
            ArchiveError::ReadFile { path, source } => failed(&format!("read the file {path:?}"), &source),
            other => {
                let text = windlass_telemetry::ErrorChain(&other).to_string();
                Failure::storage("ArchiveOperationFailed", text)
            }
        })?;
        self.blocking(move |store| store.keep(draft)).await
    }

    /// Makes what `key` stands for unless it is kept already; who asks at the same time waits for it.
    async fn once<F: Future<Output = Result<Kept, Failure>> + Send>(
        &self,
        key: String,
        make: impl FnOnce() -> F + Send,
    ) -> Result<Kept, Failure> {
        let cell = Arc::clone(self.lock().entry(key.clone()).or_default());
        if let Some(kept) = cell.get().cloned() {
            let checked = kept.clone();
            if self.blocking(move |store| Ok(store.has(&checked))).await? {
                self.metrics.accessed("archives", true);
                return Ok(kept);
            }
            // It was swept away.
            let kept = make().await?;
            self.lock().insert(key, Arc::new(OnceCell::new_with(Some(kept.clone()))));
            return Ok(kept);
        }
        let mut is_new = false;
        let kept = cell.get_or_try_init(|| {
            is_new = true;
            make()
        });
        let kept = kept.await.cloned();
        if kept.is_ok() && !is_new {
            self.metrics.accessed("archives", true);
        }
        let mut known = self.lock();
        if kept.is_err() {
            known.remove(&key);
        } else if known.len() > MAX_KNOWN {
            known.retain(|other, _| *other == key);
        }
        kept
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<OnceCell<Kept>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call of the store where it may block.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Failure> {
        let store = Arc::clone(&self.store);
        let called = tokio::task::spawn_blocking(move || call(&store)).await;
        let failed = |text: String| Failure::storage("ArchiveOperationFailed", text);
        called
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(windlass_telemetry::ErrorChain(&error).to_string()))
    }

    /// The files of the included artifacts, where they belong.
    async fn unpacked(
        &self,
        entries: &[Entry],
        wanted: &Wanted,
        included: &[Artifact],
    ) -> Result<Vec<Member>, Failure> {
        let (mut all, mut left) = (Vec::new(), MAX_INCLUDED);
        for (include, artifact) in wanted.includes.iter().zip(included) {
            let Include { repository, from, to } = include.clone();
            let failed = |what: String| {
                Failure::storage("CopyFailure", format!("the artifact of {repository:?} {what}"))
            };
            let is_below =
                |path: &str| path == to || path.strip_prefix(&*to).is_some_and(|rest| rest.starts_with('/'));
            if entries.iter().any(|entry| to.is_empty() || is_below(&entry.path)) {
                return Err(failed(format!("belongs at {to:?}, where the repository has files of its own")));
            }
            let path = ArtifactPath::parse(&artifact.path).zip(artifact.digest.parse::<Digest>().ok());
            let (path, digest) = path.ok_or_else(|| failed("is none of this controller's".to_owned()))?;
            let reading = self.blocking(move |store| {
                Ok(match store.verify(&path, &digest) {
                    Verdict::Good => Ok(unpack(&store.path(&path), &from, &to, left)),
                    bad => Err(bad),
                })
            });
            let members = match reading.await? {
                Ok(Ok(Some(members))) => members,
                Ok(Ok(None)) => return Err(failed(format!("has no directory {:?}", include.from))),
                Ok(Err(error)) => return Err(failed(windlass_telemetry::ErrorChain(&error).to_string())),
                Err(verdict) => {
                    let message = format!("the artifact of {repository:?} is not in storage ({verdict:?})");
                    return Err(Failure::include("NoArtifact", message));
                }
            };
            for member in &members {
                if let Node::File { content: Content::Bytes(bytes), .. } = &member.node {
                    left = left.saturating_sub(bytes.len() as u64);
                }
            }
            all.extend(members);
        }
        Ok(all)
    }
}

/// The links that stay inside.
async fn links<B: Blobs>(
    blobs: &B,
    entries: &[Entry],
    cancel: &CancellationToken,
) -> Result<Vec<Member>, B::Error> {
    let is_link = |entry: &&Entry| entry.kind == EntryKind::Symlink && entry.size <= MAX_LINK;
    let links: Vec<&Entry> = entries.iter().filter(is_link).collect();
    let mut members = Vec::new();
    for batch in batches(&links, |entry| entry.size, 512, 1 << 20) {
        let ids: Vec<ObjectId> = batch.iter().map(|entry| entry.id).collect();
        for (entry, target) in batch.iter().zip(blobs.contents(&ids, cancel).await?) {
            let path = entry.path.clone();
            let target = String::from_utf8(target.to_vec()).ok().filter(|target| stays_inside(&path, target));
            members.extend(target.map(|target| Member { path, node: Node::Link { target } }));
        }
    }
    Ok(members)
}

/// The rules of the ignore files, and of those in `more`.
fn rules<'a>(
    own: impl Iterator<Item = (&'a Entry, Bytes)>,
    more: &[Member],
    ignore: Option<&str>,
) -> Result<Rules, Failure> {
    let is_ignore = |path: &str| path.rsplit('/').next() == Some(IGNORE_FILE);
    let mut found: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    found.extend(own.map(|(entry, content)| (entry.path.clone(), content.to_vec())));
    for member in more.iter().filter(|member| is_ignore(&member.path)) {
        if let Node::File { content: Content::Bytes(bytes), .. } = &member.node {
            found.insert(member.path.clone(), bytes.to_vec());
        }
    }
    Rules::new(&found, ignore).map_err(|error| Failure::storage("SourceIgnoreError", error.to_string()))
}

/// What tells one list of members from another.
fn fingerprint(members: &[Member]) -> Digest {
    let mut hasher = Hasher::new(windlass_artifact::Algorithm::Sha256);
    for member in members {
        hasher.update(&(member.path.len() as u64).to_le_bytes());
        hasher.update(member.path.as_bytes());
        match &member.node {
            Node::Directory => hasher.update(b"d"),
            Node::Link { target } => {
                hasher.update(b"l");
                hasher.update(&(target.len() as u64).to_le_bytes());
                hasher.update(target.as_bytes());
            }
            Node::File { executable, content } => {
                hasher.update(if *executable { b"x" } else { b"f" });
                match content {
                    Content::Blob { id, .. } => {
                        hasher.update(b"b");
                        hasher.update(id.as_bytes());
                    }
                    Content::Bytes(bytes) => {
                        let mut inner = Hasher::new(windlass_artifact::Algorithm::Sha256);
                        inner.update(bytes);
                        hasher.update(b"c");
                        hasher.update(inner.finish().hex().as_bytes());
                    }
                }
            }
        }
    }
    hasher.finish()
}
