//! One abstraction over the places that repositories are in: a folder of this machine, a Git server, GitHub.
//!
//! [`Opener::open`] turns a `Repository` object into [`Opened`], whose fields are what can be done with it: reading
//! always, and the past, writing and links where there are any. They are fields and not one trait that is asked for its
//! abilities, so that whoever wraps one part keeps the others. Webhooks and pull requests are asked for by
//! [`Opener::github`].
//!
//! The crate decides which Secrets a repository's token and signing key may come from (`token.rs`), whom a commit names, and holds what a writer may do to
//! paths inside the repository's own folder ([`Stage`]). It refuses to know what a file means, jobs, and status.
//!
//! Start reading at [`Opened`]; then `local.rs`, `git.rs` and `github.rs`, one for each place.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

pub mod check;
pub mod inspect;
pub mod local;
pub mod webhook;

mod authorship;
mod connection;
mod error;
mod escape;
mod git;
mod github;
mod metrics;
mod opened;
mod opener;
mod signing;
mod stage;
mod template;
mod token;

pub use self::authorship::Authorship;
pub use self::connection::{ConnectionOpenError, PRIVATE_KEY_KEY};
pub use self::error::{OpenError, ReadError, WriteError};
pub use self::escape::encoded;
pub use self::github::{GithubOpenError, GithubRepository};
pub use self::local::LocalError;
pub use self::metrics::{METRICS, OWN_METRICS};
pub use self::opened::{Opened, Reader, Urls, Versioned};
pub use self::opener::{Opener, prefix};
pub use self::stage::{Base, Commit, Signature, Stage, StagedChange, Writer, Written};
pub use self::template::MessageVariables;
pub use self::token::{
    PREVIOUS_WEBHOOK_SECRET_KEY, SIGNING_KEY_KEY, SecretToken, TOKEN_KEY, Token, TokenError, TokenSource,
    WEBHOOK_SECRET_KEY, WebhookSecrets,
};
