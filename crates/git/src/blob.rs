//! The content of a file in pieces: libgit2 reads what is in a pack whole, and a large file should not be in memory.
//!
//! An object that is in a pack as itself is found with the pack's index and inflated from there; one that is there as a
//! difference from another is left to libgit2. Git sends large files as themselves, unless two versions of one are sent.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use flate2::bufread::ZlibDecoder;
use git2::{ObjectType, Odb};

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
    Held(Cursor<Vec<u8>>),
}

impl BlobReader {
    pub(crate) fn open(odb: &Odb<'_>, packs: &Path, id: ObjectId, limits: &Limits) -> Result<Self, GitError> {
        let (size, kind) = tree::header(odb, id)?;
        if kind != ObjectType::Blob {
            return Err(GitError::Damaged { detail: format!("{id} is a {kind} where a blob should be") });
        }
        if size > limits.pack_bytes {
            let what = format!("{kind} {id} of {size} bytes");
            return Err(GitError::LimitExceeded { limit: "pack_bytes", max: limits.pack_bytes, what });
        }
        let packed = packed(packs, id, size).map_err(|error| GitError::cache("read a pack", error))?;
        let content = match packed {
            Some((index, content)) => Content::Packed(index, content),
            // No delta unfolds to more: it would have been refused when it came.
            None if size > limits.delta_bytes => {
                return Err(GitError::cache("read a pack", format!("{id}, of {size} bytes, is in none")));
            }
            None => {
                let blob = tree::read(odb, id, ObjectType::Blob, ("delta_bytes", limits.delta_bytes))?;
                Content::Held(Cursor::new(blob.data().to_vec()))
            }
        };
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(format!("blob {size}\0").as_bytes());
        Ok(Self { id, left: size, hash, content })
    }

    /// Bytes that are still to be read.
    pub fn left(&self) -> u64 {
        self.left
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.next(buffer);
        if let (Err(error), Content::Packed(index, _)) = (&read, &self.content)
            && error.kind() != io::ErrorKind::Interrupted
        {
            // Without its index the pack is not read again: whoever misses what is in it has the cache rebuilt.
            tracing::warn!(index = %index.display(), %error, "a pack of a git cache is damaged");
            let _ = std::fs::remove_file(index);
        }
        read
    }
}

impl BlobReader {
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
            Content::Held(content) => content.read(&mut buffer[..most])?,
        };
        if read == 0 {
            return Err(damaged(&format!("{} ends early", self.id)));
        }
        self.left -= read as u64;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The content of an object that a pack has as itself, and the index of that pack.
fn packed(
    packs: &Path,
    id: ObjectId,
    size: u64,
) -> io::Result<Option<(PathBuf, ZlibDecoder<BufReader<File>>)>> {
    for entry in std::fs::read_dir(packs)? {
        let index = entry?.path();
        if index.extension().is_none_or(|it| it != "idx") {
            continue;
        }
        let Some(offset) = offset(&mut File::open(&index)?, id)? else { continue };
        let mut pack = File::open(index.with_extension("pack"))?;
        pack.seek(SeekFrom::Start(offset))?;
        let mut head = Vec::new();
        (&pack).take(MAX_HEAD).read_to_end(&mut head)?;
        let is_whole =
            |end: &usize| matches!(entry_head(&head[..*end]), Ok(Some((found, false))) if found == size);
        let Some(end) = (1..=head.len()).find(is_whole) else { continue };
        pack.seek(SeekFrom::Start(offset + end as u64))?;
        return Ok(Some((index, ZlibDecoder::new(BufReader::with_capacity(PIECE, pack)))));
    }
    Ok(None)
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
