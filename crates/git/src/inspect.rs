//! Looks into a packfile as it streams by, before libgit2 sees it: how many objects it says it has, and what each
//! unfolds to. libgit2 unfolds deltas in memory and believes their sizes up to 2 GiB; a few kilobytes would be
//! enough to end the process.

use flate2::{Decompress, FlushDecompress, Status};

use crate::{GitError, Limits};

/// Why a pack goes no further.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is no packfile.
    Damaged(String),
    /// It is more than the limits accept.
    Exceeds(GitError),
}

impl From<&str> for Refused {
    fn from(what: &str) -> Self {
        Self::Damaged(what.to_owned())
    }
}

/// Bytes of a delta that hold its two sizes, each at most ten bytes of seven bits.
const DELTA_HEAD: usize = 20;

/// A reader of packfiles (Git: `gitformat-pack`) that is fed in pieces of any size.
pub(crate) struct Inspector {
    max_objects: u32,
    max_delta: u64,
    max_unpacked: u64,
    state: State,
    /// Bytes of a header that is not whole yet.
    head: Vec<u8>,
    objects: u32,
    left: u32,
    unpacked: u64,
    inflate: Decompress,
    scratch: Vec<u8>,
}

enum State {
    /// `PACK`, version, number of objects.
    File,
    /// Kind and size of an object, and what a delta is based on.
    Entry,
    /// An object's compressed bytes.
    Content { size: u64, delta: bool },
    /// The checksum, whose bytes are still to come; libgit2 compares it.
    Trailer(usize),
}

impl Inspector {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            max_objects: limits.objects,
            max_delta: limits.delta_bytes,
            max_unpacked: limits.unpacked_bytes,
            state: State::File,
            head: Vec::new(),
            objects: 0,
            left: 0,
            unpacked: 0,
            inflate: Decompress::new(true),
            scratch: vec![0; 32 << 10],
        }
    }

    /// Whether the last byte has been seen.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.state, State::Trailer(0))
    }

    /// How many objects it has.
    pub(crate) fn objects(&self) -> u32 {
        self.objects
    }

    /// Looks at the next piece.
    pub(crate) fn feed(&mut self, mut piece: &[u8]) -> Result<(), Refused> {
        while !piece.is_empty() {
            piece = match self.state {
                State::File => self.file(piece)?,
                State::Entry => self.entry(piece)?,
                State::Content { size, delta } => self.content(piece, size, delta)?,
                State::Trailer(0) => return Err("bytes after its end".into()),
                State::Trailer(missing) => {
                    let taken = missing.min(piece.len());
                    self.state = State::Trailer(missing - taken);
                    &piece[taken..]
                }
            };
        }
        Ok(())
    }

    fn next(&mut self) {
        self.head.clear();
        self.state = if self.left == 0 { State::Trailer(20) } else { State::Entry };
    }

    fn file<'a>(&mut self, piece: &'a [u8]) -> Result<&'a [u8], Refused> {
        let (taken, rest) = piece.split_at(piece.len().min(12 - self.head.len()));
        self.head.extend_from_slice(taken);
        let [b'P', b'A', b'C', b'K', v1, v2, v3, v4, a, b, c, d] = self.head[..] else {
            return if self.head.len() < 12 { Ok(rest) } else { Err("it does not begin with PACK".into()) };
        };
        if u32::from_be_bytes([v1, v2, v3, v4]) != 2 {
            return Err("its version is not 2".into());
        }
        self.left = u32::from_be_bytes([a, b, c, d]);
        self.objects = self.left;
        if self.left > self.max_objects {
            return Err(Refused::Exceeds(GitError::LimitExceeded {
                limit: "objects",
                max: self.max_objects.into(),
                what: format!("a transfer of {} objects", self.left),
            }));
        }
        self.next();
        Ok(rest)
    }

    fn entry<'a>(&mut self, mut piece: &'a [u8]) -> Result<&'a [u8], Refused> {
        while let [first, rest @ ..] = piece {
            self.head.push(*first);
            piece = rest;
            if let Some((size, delta)) = entry_head(&self.head)? {
                if !delta {
                    self.account(size)?;
                }
                self.left -= 1;
                self.head.clear();
                self.inflate.reset(true);
                self.state = State::Content { size, delta };
                break;
            }
        }
        Ok(piece)
    }

    fn content<'a>(&mut self, piece: &'a [u8], size: u64, delta: bool) -> Result<&'a [u8], Refused> {
        let (read, wrote) = (self.inflate.total_in(), self.inflate.total_out());
        let status = self
            .inflate
            .decompress(piece, &mut self.scratch, FlushDecompress::None)
            .map_err(|error| Refused::Damaged(format!("an object is not compressed data: {error}")))?;
        let moved = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        let taken = moved(self.inflate.total_in(), read).min(piece.len());
        let produced = moved(self.inflate.total_out(), wrote).min(self.scratch.len());
        if self.inflate.total_out() > size {
            return Err("an object is larger than it says".into());
        }
        if delta && self.head.len() < DELTA_HEAD {
            let wanted = produced.min(DELTA_HEAD - self.head.len());
            self.head.extend_from_slice(&self.scratch[..wanted]);
            let whole = self.head.len() == DELTA_HEAD || status == Status::StreamEnd;
            if whole {
                self.delta()?;
            }
        }
        match status {
            Status::StreamEnd if self.inflate.total_out() < size => {
                Err("an object is smaller than it says".into())
            }
            Status::StreamEnd => {
                self.next();
                Ok(&piece[taken..])
            }
            _ if taken == 0 && produced == 0 => Err("an object does not go on".into()),
            _ => Ok(&piece[taken..]),
        }
    }

    /// Judges what a delta unfolds to.
    fn delta(&mut self) -> Result<(), Refused> {
        let mut head = self.head.iter();
        let mut size = || {
            let mut value = 0_u64;
            for shift in (0..63).step_by(7) {
                let byte = *head.next()?;
                value |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    return Some(value);
                }
            }
            None
        };
        let (Some(base), Some(result)) = (size(), size()) else {
            return Err("a delta without its sizes".into());
        };
        // Both are in memory when it is unfolded.
        if base.max(result) > self.max_delta {
            return Err(Refused::Exceeds(GitError::LimitExceeded {
                limit: "delta_bytes",
                max: self.max_delta,
                what: format!("a delta that unfolds {base} bytes to {result} bytes"),
            }));
        }
        self.account(result)
    }

    fn account(&mut self, size: u64) -> Result<(), Refused> {
        self.unpacked = self.unpacked.saturating_add(size);
        if self.unpacked <= self.max_unpacked {
            return Ok(());
        }
        Err(Refused::Exceeds(GitError::LimitExceeded {
            limit: "unpacked_bytes",
            max: self.max_unpacked,
            what: "what the transfer unfolds to".to_owned(),
        }))
    }
}

/// The size of an object and whether it is a delta, once its head is whole.
pub(crate) fn entry_head(head: &[u8]) -> Result<Option<(u64, bool)>, Refused> {
    if head.len() > 40 {
        return Err("an object's head has no end".into());
    }
    let Some(end) = head.iter().position(|byte| byte & 0x80 == 0) else {
        return if head.len() > 9 { Err("an object's size has no end".into()) } else { Ok(None) };
    };
    let (sizes, base) = head.split_at(end + 1);
    if sizes.len() > 9 {
        return Err("an object's size has no end".into());
    }
    let mut size = u64::from(sizes[0] & 0x0f);
    for (position, byte) in sizes[1..].iter().enumerate() {
        size |= u64::from(byte & 0x7f) << (4 + 7 * position);
    }
    match (sizes[0] >> 4) & 7 {
        1..=4 => Ok(Some((size, false))),
        6 => Ok(base.last().is_some_and(|byte| byte & 0x80 == 0).then_some((size, true))),
        7 => Ok((base.len() == 20).then_some((size, true))),
        kind => Err(Refused::Damaged(format!("an object of kind {kind}"))),
    }
}

#[cfg(test)]
mod tests;
