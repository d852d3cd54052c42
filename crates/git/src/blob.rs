//! The content of a file in pieces: libgit2 reads what is in a pack whole, and a large file should not be in memory.
//!
//! An object that is in a pack as itself is found with the pack's index and inflated from there; one that is there as a
//! difference from another is left to libgit2, which unfolds it in memory. Git sends a large file as itself the first time,
//! and a changed one as a difference from what is here.

use std::cmp::Ordering;
use std::fs::{File, Metadata};
use std::io::{self, BufReader, Cursor, Read, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use flate2::bufread::ZlibDecoder;
use git2::{ObjectType, Odb};
use tokio::sync::OwnedSemaphorePermit;

use crate::inspect::entry_head;
use crate::{GitError, Limits, ObjectId, tree};

/// Bytes of a pack that are read at a time.
const PIECE: usize = 64 << 10;
/// Most bytes of an object's head, ids of what it is based on included.
const MAX_HEAD: u64 = 40;

/// The content of one object. Reading blocks; at its end it fails if what was read is not what the id names.
pub struct BlobReader {
    id: ObjectId,
    left: u64,
    /// Of what was read so far.
    hash: Context,
    content: Content,
}

enum Content {
    /// What a pack has, by the path of its index.
    Packed(PathBuf, ZlibDecoder<BufReader<File>>),
    /// What was unfolded, and its place among all that is.
    Held { content: Cursor<Vec<u8>>, _place: Arc<OwnedSemaphorePermit> },
}

impl BlobReader {
    /// The reader of an object that is in one of the packs as itself; nothing if it is there as a delta.
    pub(crate) fn packed(
        odb: &Odb<'_>,
        packs: &Path,
        id: ObjectId,
        limits: &Limits,
    ) -> Result<Option<Self>, GitError> {
        let (size, kind) = tree::header(odb, id)?;
        if kind != ObjectType::Blob {
            return Err(GitError::Damaged { detail: format!("{id} is a {kind} where a blob should be") });
        }
        if size > limits.pack_bytes {
            let what = format!("{kind} {id} of {size} bytes");
            return Err(GitError::LimitExceeded { limit: "pack_bytes", max: limits.pack_bytes, what });
        }
        // A pack that goes while they are looked through has been put into one that came.
        let mut found = find(packs, id, size);
        if matches!(found, Ok(None)) {
            found = find(packs, id, size);
        }
        match found.map_err(|error| GitError::cache("read a pack", error))? {
            Some((index, content)) => Ok(Some(Self::of(id, size, Content::Packed(index, content)))),
            // No delta unfolds to more: it would have been refused when it came.
            None if size > limits.delta_bytes => {
                Err(GitError::cache("read a pack", format!("{id}, of {size} bytes, is in none")))
            }
            None => Ok(None),
        }
    }

    /// The reader of an object that is unfolded in memory, where it takes one of the places for that.
    pub(crate) fn unfolded(
        odb: &Odb<'_>,
        id: ObjectId,
        limits: &Limits,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Result<Self, GitError> {
        let blob = tree::read(odb, id, ObjectType::Blob, ("delta_bytes", limits.delta_bytes))?;
        let content = blob.data().to_vec();
        Ok(Self::of(id, content.len() as u64, Content::Held { content: Cursor::new(content), _place: place }))
    }

    fn of(id: ObjectId, size: u64, content: Content) -> Self {
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(format!("blob {size}\0").as_bytes());
        Self { id, left: size, hash, content }
    }

    /// Bytes that are still to be read.
    pub fn left(&self) -> u64 {
        self.left
    }

    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            let is_it = self.hash.clone().finish().as_ref() == self.id.as_bytes();
            return if is_it {
                Ok(0)
            } else {
                Err(damaged(&format!("what is kept as {} is something else", self.id)))
            };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = match &mut self.content {
            Content::Packed(_, content) => content.read(&mut buffer[..most])?,
            Content::Held { content, .. } => content.read(&mut buffer[..most])?,
        };
        if read == 0 {
            return Err(damaged(&format!("{} ends early", self.id)));
        }
        self.left -= read as u64;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.next(buffer);
        if let (Err(error), Content::Packed(index, content)) = (&read, &self.content)
            && is_damage(error)
        {
            disown(index, content.get_ref().get_ref(), error);
        }
        read
    }
}

fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

/// Sees to it that a damaged pack is not read again. Without its index, whoever misses what is in it has the cache
/// rebuilt; without the list of tips, so has the next transfer, which would build on it. A cache that was rebuilt since is
/// left alone: its pack may have the same name, and is another file.
fn disown(index: &Path, pack: &File, error: &io::Error) {
    let known = std::fs::metadata(index.with_extension("pack"));
    let same = |(one, other): (Metadata, Metadata)| (one.dev(), one.ino()) == (other.dev(), other.ino());
    if !known.and_then(|known| Ok((known, pack.metadata()?))).is_ok_and(same) {
        return;
    }
    tracing::warn!(index = %index.display(), %error, "a pack of a git cache is damaged");
    let _ = std::fs::remove_file(index);
    // `<store>/objects/pack/<name>.idx`
    if let Some(store) = index.ancestors().nth(3) {
        let _ = std::fs::remove_file(store.join("tips"));
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The content of an object that a pack has as itself, and the index of that pack.
fn find(
    packs: &Path,
    id: ObjectId,
    size: u64,
) -> io::Result<Option<(PathBuf, ZlibDecoder<BufReader<File>>)>> {
    for entry in std::fs::read_dir(packs)? {
        let index = entry?.path();
        if index.extension().is_none_or(|it| it != "idx") {
            continue;
        }
        let found = look_into(&index, id, size);
        // An index is there before its pack, and another process may remove both.
        if found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            continue;
        }
        if let Some(content) = found? {
            return Ok(Some((index, content)));
        }
    }
    Ok(None)
}

fn look_into(index: &Path, id: ObjectId, size: u64) -> io::Result<Option<ZlibDecoder<BufReader<File>>>> {
    let Some(offset) = offset(&mut File::open(index)?, id)? else { return Ok(None) };
    let mut pack = File::open(index.with_extension("pack"))?;
    pack.seek(SeekFrom::Start(offset))?;
    let mut head = Vec::new();
    (&pack).take(MAX_HEAD).read_to_end(&mut head)?;
    let is_whole =
        |end: &usize| matches!(entry_head(&head[..*end]), Ok(Some((found, false))) if found == size);
    let Some(end) = (1..=head.len()).find(is_whole) else { return Ok(None) };
    pack.seek(SeekFrom::Start(offset + end as u64))?;
    Ok(Some(ZlibDecoder::new(BufReader::with_capacity(PIECE, pack))))
}

/// Whether the object is in the pack of this index.
pub(crate) fn is_in(index: &Path, id: ObjectId) -> bool {
    File::open(index).and_then(|mut index| offset(&mut index, id)).is_ok_and(|offset| offset.is_some())
}

/// Where in its pack the object is, by the pack's index of version 2 (Git: `gitformat-pack`).
fn offset(index: &mut File, id: ObjectId) -> io::Result<Option<u64>> {
    /// Bytes of the magic number and the version, before the counts of ids by their first byte.
    const COUNTS: u64 = 8;
    const NAMES: u64 = COUNTS + 256 * 4;
    if number::<8>(index, 0)? != 0xff74_4f63_0000_0002 {
        return Ok(None);
    }
    let first = u64::from(id.as_bytes()[0]);
    let mut from = if first == 0 { 0 } else { number::<4>(index, COUNTS + (first - 1) * 4)? };
    let mut to = number::<4>(index, COUNTS + first * 4)?;
    let all = number::<4>(index, COUNTS + 255 * 4)?;
    while from < to {
        let middle = from.midpoint(to);
        let mut name = [0; 20];
        read_at(index, NAMES + middle * 20, &mut name)?;
        match name.cmp(id.as_bytes()) {
            Ordering::Less => from = middle + 1,
            Ordering::Greater => to = middle,
            Ordering::Equal => {
                // Behind the names are checksums, offsets, and the offsets that need more than 31 bits.
                let offsets = NAMES + all * 24;
                let offset = number::<4>(index, offsets + middle * 4)?;
                return match offset.checked_sub(1 << 31) {
                    Some(long) => number::<8>(index, offsets + all * 4 + long * 8).map(Some),
                    None => Ok(Some(offset)),
                };
            }
        }
    }
    Ok(None)
}

/// The number of `N` bytes, at most eight, at a place.
fn number<const N: usize>(file: &mut File, at: u64) -> io::Result<u64> {
    let mut bytes = [0; N];
    read_at(file, at, &mut bytes)?;
    Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn read_at(file: &mut File, at: u64, into: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(into)
}
