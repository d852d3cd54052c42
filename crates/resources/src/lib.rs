//! Files of a repository become objects of an API: parsing, folders, ownership, comparison, ordered writing.
//!
//! The crate knows what a file means (a dashboard, a folder's metadata), which object it is kept in, and in which
//! order objects may be written and deleted. It refuses to know jobs, progress and status: results are handed to
//! a callback, and the caller decides what they mean.
//!
//! # A sync, start to end
//!
//! 1. [`managed::list`] asks the API what the repository manages now (metadata only);
//! 2. [`folders::read_metadata`] reads the `_folder.json` files that changed;
//! 3. [`plan::full`] or [`plan::incremental`] compares that with the tree and returns a [`Plan`], a plain value;
//! 4. [`apply::run`] reads and parses the files that the plan names, and writes, at most
//!    [`Options::workers`](apply::Options::workers) requests at a time.
//!
//! Files that did not change are neither read nor parsed; those that did are in memory a few megabytes at a time.
//! Every write to an existing object carries the resourceVersion that was looked at, and every create says that
//! nothing may be there, so that a writer that was overtaken cannot undo what came after it.
//!
//! Folders and dashboards are always there; the settings may allow further kinds ([`FurtherKinds`]), which are looked
//! up in the API server's discovery and written by server-side apply.
//!
//! Start reading at [`plan`](mod@plan); `names.rs` and `parse.rs` hold what must stay exactly as it is for objects
//! to keep their identity.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")
)]

pub mod apply;
pub mod export;
pub mod finalize;
pub mod folders;
pub mod ignore_file;
pub mod managed;
pub mod parse;
pub mod paths;
pub mod plan;
pub mod serialise;

mod context;
mod digest;
mod discovery;
mod kinds;
mod names;
mod objects;
mod outcome;
mod wire;

#[cfg(test)]
mod test_reader;

pub use self::context::{Clients, SyncContext};
pub use self::discovery::{FurtherKinds, Kinds};
pub use self::kinds::{DASHBOARD, FOLDER, Kind, KindNames};
pub use self::managed::{ListError, Managed, ManagedItem, list_resources};
pub use self::objects::{Preview, PreviewError, TakeOver};
pub use self::outcome::{Action, Failure, ItemResult, MayWrite, OnResult, Reason};
pub use self::plan::Plan;
