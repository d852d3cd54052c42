//! Artifacts: archives of the files of a source, where they are kept, and the server that hands them out.
//!
//! - [`Rules`]: which files a `.sourceignore` leaves out, as Flux reads it, which is not quite as Git does.
//! - [`Member`] and [`write_archive`]: a reproducible `tar.gz` straight from the objects of a repository. There is never a
//!   checkout.
//! - [`Store`]: files by their digest, published at once or not at all, kept for a time, checked before they are believed.
//! - [`Server`]: the files over HTTP, with entity tags and ranges, and without listings.
//!
//! What it refuses to know: Kubernetes, and what a file means.
//!
//! Start reading at [`Store`]; `archive.rs` says what an archive looks like.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod archive;
mod digest;
mod ignore;
mod server;
mod store;
mod tar;
mod unpack;

pub use self::archive::{ArchiveError, Blobs, Content, Member, Node, members, stays_inside, write_archive};
pub use self::digest::{Algorithm, Digest, Hasher, ParseDigestError};
pub use self::ignore::{IGNORE_FILE, IgnoreError, Rules};
pub use self::server::{Missing, Server};
pub use self::store::{ArtifactPath, Draft, Kept, Place, Retention, Store, StoreError, Verdict};
pub use self::unpack::unpack;
