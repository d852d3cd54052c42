//! How much, and how long.

use std::time::Duration;

/// How much of a stranger's repository is accepted. Crossing one is [`GitError::LimitExceeded`], which
/// names it.
///
/// [`GitError::LimitExceeded`]: crate::GitError::LimitExceeded
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one transfer; checked while they arrive, so that nothing larger is ever on disk. Also the bytes of a file
    /// that is read in pieces. 1 GiB.
    pub pack_bytes: u64,
    /// Objects of one transfer. 2,000,000.
    pub objects: u32,
    /// Bytes that one delta of a transfer may unfold to, and of what it is based on: unfolding happens in memory. Where
    /// one is larger, each revision is transferred by itself, which is refused if that does not help. Git makes no deltas
    /// of files over 512 MiB. 128 MiB.
    pub delta_bytes: u64,
    /// Bytes that a transfer may unfold to as a whole; bounds the time that a small malicious pack can take. 16 GiB.
    pub unpacked_bytes: u64,
    /// Bytes of one file that is read whole or written, all of which are in memory at a time. 10 MiB.
    pub blob_bytes: u64,
    /// Bytes of one directory's listing. 16 MiB.
    pub tree_bytes: u64,
    /// Files and directories of one tree, or looked at for one difference. 100,000.
    pub entries: usize,
    /// Directories inside each other. 64.
    pub depth: usize,
    /// Bytes of one path; a longer one is rejected by itself. 4,096 (Linux's `PATH_MAX`).
    pub path_bytes: usize,
    /// Refs of one answer. 50,000.
    pub refs: usize,
    /// Bytes of an answer that lists refs or describes the server. 16 MiB.
    pub refs_bytes: u64,
    /// Commits of one transfer of history, and of one repository's history that is remembered; also how far back a
    /// history is followed. What is beyond makes an answer a truncated one. A commit counts once more for each parent
    /// beyond its second. 20,000.
    pub history_commits: u32,
    /// Commits that are remembered of all repositories together, each some 300 bytes, counted likewise; the histories
    /// that were asked about least recently go. 50,000.
    pub remembered_commits: usize,
    /// Bytes of one transfer of history, where the server leaves out the files; else `pack_bytes` bounds it. 64 MiB.
    pub history_bytes: u64,
}

impl Limits {
    /// The end of a message about a limit, by the name of its field: which setting raises it, if there is one.
    pub fn raised_by(limit: &str) -> &'static str {
        match limit {
            "blob_bytes" => "; git_max_file_bytes raises it",
            "pack_bytes" => "; git_max_pack_bytes raises it",
            "entries" => "; git_max_files raises it",
            _ => "",
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pack_bytes: 1 << 30,
            objects: 2_000_000,
            delta_bytes: 128 << 20,
            unpacked_bytes: 16 << 30,
            blob_bytes: 10 << 20,
            tree_bytes: 16 << 20,
            entries: 100_000,
            depth: 64,
            path_bytes: 4_096,
            refs: 50_000,
            refs_bytes: 16 << 20,
            history_commits: 20_000,
            remembered_commits: 50_000,
            history_bytes: 64 << 20,
        }
    }
}

/// How long a remote may take. Each is [`GitError::Timeout`] when it passes.
///
/// [`GitError::Timeout`]: crate::GitError::Timeout
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Until a connection is made, TLS included. 10 s.
    pub connect: Duration,
    /// Between two pieces of an answer, the first included. 30 s.
    pub read: Duration,
    /// A listing of refs as a whole. 30 s.
    pub refs: Duration,
    /// A transfer of objects as a whole, a push too. 10 min.
    pub fetch: Duration,
    /// Bytes a second that a transfer must make, on average over each [`window`](Self::window) of waiting; 0 for none.
    /// Less is [`GitError::TooSlow`](crate::GitError::TooSlow). 1,024.
    pub min_throughput: u64,
    /// How long the throughput may be low before it is judged. A server that prepares a large transfer is silent but for
    /// a few bytes. 30 s.
    pub window: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(30),
            refs: Duration::from_secs(30),
            fetch: Duration::from_mins(10),
            min_throughput: 1_024,
            window: Duration::from_secs(30),
        }
    }
}
