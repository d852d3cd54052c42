//! What an artifact consists of: a `tar.gz` with directories and plain files alone, in the order of their paths. Flux:
//! `pkg/artifact/storage`.
//!
//! User, group and times are zero; directories have mode 0750, files 0600, those with the executable bit 0700. So the bytes
//! depend on contents, that bit and the compressor alone. Links are left out, unless they are asked for; a submodule is an
//! empty directory.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};

use async_trait::async_trait;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use icu_normalizer::ComposingNormalizerBorrowed;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_git::{Entry, EntryKind, GitError, ObjectId, RemoteRepository, batches};

use crate::{Rules, tar};

/// Contents that are read at a time, and their bytes: so much is in memory three times. A larger one is opened, and read
/// as it is packed.
const BATCH: (usize, u64) = (512, 1 << 20);

/// Bytes of such a content that are read at a time.
const PIECE: usize = 64 << 10;

/// Bytes of all files of an archive. A small repository can name one large file many times.
const MAX_FILES: u64 = 16 << 30;

/// How hard it is compressed. Another level up, the default, takes twice the time (19 MB of documents: 340 ms for 175 ms)
/// and saves 2.5 % of the size.
const LEVEL: u32 = 5;

/// One entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path, separated by `/`; `.` for the root.
    pub path: String,
    /// What it is.
    pub node: Node,
}

/// What an entry of an archive is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A plain file.
    File {
        /// Whether anybody may execute it.
        executable: bool,
        /// What it holds.
        content: Content,
    },
    /// A symbolic link.
    Link {
        /// What it says.
        target: String,
    },
}

/// Whether a link leads to something below the root, whatever other links of the kind it leads over: it may go up from
/// where it is, and then down alone.
pub fn stays_inside(path: &str, target: &str) -> bool {
    let (mut depth, mut is_down) = (path.matches('/').count(), false);
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if is_down || depth == 0 => return false,
            ".." => depth -= 1,
            _ => is_down = true,
        }
    }
    !target.is_empty() && !target.starts_with('/') && !target.contains('\0')
}

/// Where a file's content comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// An object of the repository.
    Blob {
        /// Its id.
        id: ObjectId,
        /// Its bytes.
        size: u64,
    },
    /// Another artifact.
    Bytes(Bytes),
}

/// Why there is no archive.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError<E: std::error::Error + 'static = GitError> {
    /// The repository's objects could not be read.
    #[error("failed to read the files of the repository")]
    Read(#[source] E),
    /// A large file could not be read.
    #[error("failed to read the file {path:?}")]
    ReadFile {
        /// Which one.
        path: Box<str>,
        /// Why.
        #[source]
        source: E,
    },
    /// A large file could not be read to its end.
    #[error("failed to read all of the file {path:?}")]
    ReadOn {
        /// Which one.
        path: Box<str>,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The files are too large together.
    #[error("the files have {size} bytes together, and {max} are allowed; .sourceignore leaves files out")]
    FilesTooLarge {
        /// Their bytes.
        size: u64,
        /// The limit.
        max: u64,
    },
    /// Two paths are one where a file system looks at neither case nor the form of Unicode: whichever is unpacked last would
    /// stand for both.
    #[error(
        "the paths {one:?} and {other:?} are one to file systems that do not tell case or Unicode forms apart; rename \
         one, or leave one out with .sourceignore"
    )]
    Twins {
        /// The first of them.
        one: String,
        /// The other.
        other: String,
    },
    /// The archive could not be written.
    #[error("failed to write the archive")]
    Write(#[source] io::Error),
    /// Another artifact could not be read.
    #[error("failed to unpack the artifact {path}")]
    Unpack {
        /// Which one.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another artifact is too large.
    #[error("the artifact {path} unpacks to more than {max} bytes")]
    TooLarge {
        /// Which one.
        path: String,
        /// The limit.
        max: u64,
    },
}

/// The members of the archive of a tree: its files and the directories that they are in, but for what the rules leave out.
/// `more` are files that lie beside those of the tree; they are judged by the same rules.
pub fn members(entries: &[Entry], more: Vec<Member>, rules: &Rules) -> Vec<Member> {
    // With a separator that sorts before all that a name holds, paths are in the order of a walk.
    let mut found: BTreeMap<String, Node> = BTreeMap::new();
    let mut add = |path: &str, node: Option<Node>| {
        let path = path.replace('/', "\0");
        for (end, _) in path.match_indices('\0') {
            if !found.contains_key(&path[..end]) {
                found.insert(path[..end].to_owned(), Node::Directory);
            }
        }
        if let Some(node) = node {
            found.insert(path, node);
        }
    };
    for entry in entries {
        let content = || Content::Blob { id: entry.id, size: entry.size };
        let node = match entry.kind {
            EntryKind::File => Some(Node::File { executable: false, content: content() }),
            EntryKind::Executable => Some(Node::File { executable: true, content: content() }),
            EntryKind::Submodule => Some(Node::Directory),
            EntryKind::Symlink => None,
        };
        add(&entry.path, node);
    }
    for member in more {
        add(&member.path, Some(member.node));
    }
    let root = Member { path: ".".to_owned(), node: Node::Directory };
    let rest = found.into_iter().filter_map(|(path, node)| {
        let path = path.replace('\0', "/");
        (!rules.ignores(&path, node == Node::Directory)).then_some(Member { path, node })
    });
    std::iter::once(root).chain(rest).collect()
}

/// Where the contents of files are read.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Why they cannot be read.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Bytes of the largest content that is read whole.
    fn limit(&self) -> u64;

    /// Contents by id, in this order.
    async fn contents(&self, ids: &[ObjectId], cancel: &CancellationToken)
    -> Result<Vec<Bytes>, Self::Error>;

    /// One content, which is large, to be read in pieces where that may block.
    async fn open(
        &self,
        id: ObjectId,
        cancel: &CancellationToken,
    ) -> Result<Box<dyn Read + Send>, Self::Error>;
}

#[async_trait]
impl Blobs for RemoteRepository {
    type Error = GitError;

    fn limit(&self) -> u64 {
        self.limits().blob_bytes
    }

    async fn contents(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, GitError> {
        self.blobs(ids, cancel).await
    }

    async fn open(&self, id: ObjectId, cancel: &CancellationToken) -> Result<Box<dyn Read + Send>, GitError> {
        Ok(Box::new(self.open_blob(id, cancel).await?))
    }
}

/// Two members whose paths some file systems do not tell apart.
fn twins(members: &[Member]) -> Option<(String, String)> {
    let forms = ComposingNormalizerBorrowed::new_nfc();
    let mut known: HashMap<String, &str> = HashMap::with_capacity(members.len());
    for Member { path, .. } in members {
        let folded = if path.is_ascii() {
            path.to_ascii_lowercase()
        } else {
            forms.normalize(&path.to_lowercase()).into_owned()
        };
        if let Some(one) = known.insert(folded, path) {
            return Some((one.to_owned(), path.clone()));
        }
    }
    None
}

/// What a member holds, on its way into the archive.
enum Filling {
    Held(Bytes),
    Large { content: Box<dyn Read + Send>, size: u64 },
}

/// Writes the archive of these members to `sink`, and answers it. Contents are read in batches while those before them
/// are compressed; a large one is read as it is compressed.
pub async fn write_archive<B: Blobs + ?Sized, W: Write + Send + 'static>(
    source: &B,
    members: Vec<Member>,
    sink: W,
    cancel: &CancellationToken,
) -> Result<W, ArchiveError<B::Error>> {
    if let Some((one, other)) = twins(&members) {
        return Err(ArchiveError::Twins { one, other });
    }
    let size = |member: &Member| blob(member).map_or(0, |(_, size)| size);
    let all = members.iter().map(size).fold(0, u64::saturating_add);
    if all > MAX_FILES {
        return Err(ArchiveError::FilesTooLarge { size: all, max: MAX_FILES });
    }
    let (sender, receiver) = mpsc::channel(1);
    let stop = cancel.child_token();
    let stop_when_dropped = stop.clone().drop_guard();
    let packing = tokio::task::spawn_blocking(move || pack(receiver, sink, &stop));
    let read = async {
        for batch in batches(&members, size, BATCH.0, BATCH.1.min(source.limit())) {
            let filled = fill(source, batch, cancel).await?;
            if sender.send(filled).await.is_err() {
                // It failed, and says why.
                return Ok(false);
            }
        }
        Ok(true)
    };
    let complete = read.await;
    match complete {
        // What was only cut off must not pass for an archive.
        Ok(true) => _ = sender.send(Vec::new()).await,
        Ok(false) => {}
        Err(_) => drop(stop_when_dropped),
    }
    drop(sender);
    let packed = packing.await.unwrap_or_else(|error| Err(PackError::Write(io::Error::other(error))));
    complete?;
    packed.map_err(|error| match error {
        PackError::Write(error) => ArchiveError::Write(error),
        PackError::Read { path, error } => ArchiveError::ReadOn { path, source: error },
    })
}

/// The members of a batch with their contents.
async fn fill<B: Blobs + ?Sized>(
    source: &B,
    batch: &[Member],
    cancel: &CancellationToken,
) -> Result<Vec<(Member, Filling)>, ArchiveError<B::Error>> {
    if let [member] = batch
        && let Some((id, size)) = blob(member)
        && size > BATCH.1.min(source.limit())
    {
        let content = source.open(id, cancel).await;
        let content =
            content.map_err(|source| ArchiveError::ReadFile { path: member.path.as_str().into(), source })?;
        return Ok(vec![(member.clone(), Filling::Large { content, size })]);
    }
    let ids: Vec<ObjectId> = batch.iter().filter_map(blob).map(|(id, _)| id).collect();
    let mut contents = source.contents(&ids, cancel).await.map_err(ArchiveError::Read)?.into_iter();
    let filled = batch.iter().map(|member| {
        let content = match &member.node {
            Node::File { content: Content::Bytes(bytes), .. } => Some(bytes.clone()),
            Node::File { .. } => contents.next(),
            Node::Directory | Node::Link { .. } => None,
        };
        (member.clone(), Filling::Held(content.unwrap_or_default()))
    });
    Ok(filled.collect())
}

/// The object that a member's content is, and its bytes.
fn blob(member: &Member) -> Option<(ObjectId, u64)> {
    match &member.node {
        Node::File { content: Content::Blob { id, size }, .. } => Some((*id, *size)),
        _ => None,
    }
}

/// Why nothing is packed.
enum PackError {
    Write(io::Error),
    Read { path: Box<str>, error: io::Error },
}

impl From<io::Error> for PackError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Packs batches until an empty one, which ends the archive.
fn pack<W: Write>(
    mut batches: mpsc::Receiver<Vec<(Member, Filling)>>,
    sink: W,
    stop: &CancellationToken,
) -> Result<W, PackError> {
    let mut out = GzEncoder::new(io::BufWriter::with_capacity(256 << 10, sink), Compression::new(LEVEL));
    while let Some(batch) = batches.blocking_recv() {
        if batch.is_empty() {
            tar::end(&mut out)?;
            return Ok(out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?);
        }
        for (Member { path, node }, filling) in batch {
            match node {
                Node::Directory => tar::header(&mut out, &path, tar::Kind::Directory, 0)?,
                Node::Link { target } => tar::link(&mut out, &path, &target)?,
                Node::File { executable, .. } => {
                    let size = match &filling {
                        Filling::Held(content) => content.len() as u64,
                        Filling::Large { size, .. } => *size,
                    };
                    tar::header(&mut out, &path, tar::Kind::File { executable }, size)?;
                    match filling {
                        Filling::Held(content) => out.write_all(&content)?,
                        Filling::Large { content, size } => copy(content, size, &path, &mut out, stop)?,
                    }
                    tar::pad(&mut out, size)?;
                }
            }
        }
    }
    Err(PackError::Write(io::ErrorKind::UnexpectedEof.into()))
}

/// Copies a content that has exactly so many bytes.
fn copy(
    mut content: impl Read,
    size: u64,
    path: &str,
    out: &mut impl Write,
    stop: &CancellationToken,
) -> Result<(), PackError> {
    let failed = |error: io::Error| PackError::Read { path: path.into(), error };
    let mut piece = vec![0; PIECE];
    let mut left = size;
    loop {
        if stop.is_cancelled() {
            return Err(failed(io::Error::other("it was cancelled")));
        }
        let read = match content.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(failed)?,
        };
        if read as u64 > left || (read == 0 && left > 0) {
            let what = format!("it is not {size} bytes long");
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        if read == 0 {
            return Ok(());
        }
        left -= read as u64;
        out.write_all(&piece[..read])?;
    }
}

#[cfg(test)]
mod tests {
    use super::{Member, Node, stays_inside, twins};

    #[test]
    fn paths_that_some_file_systems_do_not_tell_apart_are_told() {
        let found = |paths: &[&str]| {
            let member = |path: &&str| Member { path: (*path).to_owned(), node: Node::Directory };
            twins(&paths.iter().map(member).collect::<Vec<_>>())
        };
        let pair = |one: &str, other: &str| Some((one.to_owned(), other.to_owned()));
        assert_eq!(found(&[".", "a", "a/b", "b/a", "A.yaml", "a.yml"]), None);
        assert_eq!(found(&["deploy", "x", "Deploy"]), pair("deploy", "Deploy"));
        assert_eq!(found(&["caf\u{e9}", "cafe\u{301}"]), pair("caf\u{e9}", "cafe\u{301}"));
        assert_eq!(found(&["\u{c9}T\u{c9}", "e\u{301}t\u{e9}"]), pair("\u{c9}T\u{c9}", "e\u{301}t\u{e9}"));
    }

    #[test]
    fn a_link_goes_up_from_where_it_is_and_then_down_alone() {
        for (path, target) in
            [("a", "b"), ("a", "./b/c"), ("d/a", "../b"), ("d/e/a", "../../b/c"), ("d/a", "..")]
        {
            assert!(stays_inside(path, target), "{path} -> {target}");
        }
        for (path, target) in [
            ("a", ""),
            ("a", "/etc/passwd"),
            ("a", "../b"),
            ("d/a", "../../b"),
            // Where `b` leads to the root, this is outside.
            ("a", "b/.."),
            ("d/a", "../b/../c"),
        ] {
            assert!(!stays_inside(path, target), "{path} -> {target}");
        }
    }
}
