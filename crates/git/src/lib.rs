//! Git repositories: refs, trees, differences and file contents of a remote, and commits and pushes to it: all of them
//! methods of [`RemoteRepository`].
//!
//! This is the only crate that names `git2`, and it uses libgit2 for what it is good at: object database, pack
//! index and pack building. The wire is our own, protocol v2 over one HTTP client with rustls (or over SSH, `ssh.rs`), so
//! that every address is checked when it is connected to, every byte is counted, every wait has a deadline and a sync
//! costs two requests (one, when nothing moved). There is never a checkout: files are read from the object
//! store, commits are made in it, and every name in a tree is judged by Git's own rules before anybody sees it.
//!
//! What it refuses to know: Kubernetes, dashboards, jobs. It maps failures to [`GitError`], whose
//! [`reason`](GitError::reason) and [`http_code`](GitError::http_code) are all that callers need to report one.
//!
//! Built without the feature `ssh` it has no keys for `ssh:` URLs, without `signing` none that sign or verify.
//!
//! Start reading at [`Git`]; then `remote.rs` (what a sync does), `protocol/` (the wire), `cache.rs` (the object
//! store on disk), `blob.rs` (large files, in pieces), `tree.rs` and `names.rs` (what is accepted from a stranger),
//! `edit.rs`, `commit.rs` and `signing.rs` (what is written), `verifying.rs` (whose it is).
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_git::GitError> {
//! use tokio_util::sync::CancellationToken;
//! use windlass_git::{Git, GitConfig, Remote};
//!
//! windlass_git::init_process()?; // first thing in `main`
//! let git = Git::new(GitConfig::new("/var/cache/windlass/git"))?;
//! let source = git.remote(Remote { url: "https://example.com/dashboards.git".into(), ..Remote::default() })?;
//! let cancel = CancellationToken::new();
//! let tip = source.resolve("main", &cancel).await?;
//! for file in source.tree(&tip, "grafana", &cancel).await?.entries {
//!     println!("{} {}", file.id, file.path);
//! }
//! # Ok(()) }
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod blob;
mod cache;
mod call;
mod commit;
mod config;
mod credentials;
mod diff;
mod edit;
mod error;
mod git;
mod history;
mod hosts;
mod http;
mod inspect;
mod limits;
mod metrics;
mod names;
mod object_id;
mod pack;
mod pktline;
mod policy;
mod private;
mod process;
mod protocol;
mod proxy;
mod redact;
mod remote;
mod request;
mod service;
mod shared;
#[cfg(feature = "signing")]
mod signing;
#[cfg(not(feature = "signing"))]
#[path = "signing/absent.rs"]
mod signing;
#[cfg(feature = "ssh")]
mod ssh;
#[cfg(not(feature = "ssh"))]
#[path = "ssh/absent.rs"]
mod ssh;
mod submodules;
mod tree;
mod types;
mod upload;
#[cfg(feature = "signing")]
mod verifying;

pub use self::blob::BlobReader;
pub use self::commit::{CommitMeta, Signature};
pub use self::config::GitConfig;
pub use self::credentials::Credentials;
pub use self::edit::TreeChange;
pub use self::error::GitError;
pub use self::git::{Git, Remote};
pub use self::history::{History, HistoryCommit, HistoryQuery, JOB_TRAILER};
pub use self::limits::{Deadlines, Limits};
pub use self::metrics::{GitMetrics, METRICS, OWN_METRICS};
pub use self::names::{refuse as refuse_name, shown as printable_path};
pub use self::object_id::{ObjectId, ParseObjectIdError};
pub use self::policy::{Origin, UrlPolicy};
pub use self::process::init_process;
pub use self::proxy::Proxy;
pub use self::remote::RemoteRepository;
pub use self::signing::SigningKey;
pub use self::ssh::{SshAlgorithms, SshIdentity};
pub use self::submodules::{Submodule, submodule_url, submodules};
pub use self::types::{Change, ChangeKind, Diff, Entry, EntryKind, Ref, Rejected, Revision, Tree, batches};
#[cfg(feature = "signing")]
pub use self::verifying::{VerifyError, VerifyingKeys};
pub use windlass_http_client::{Rate, Tls};
