//! GitHub's REST API, as far as Windlass uses it: histories and files, repositories and what protects their branches, hooks, pull requests and their
//! comments, Apps and the tokens of their installations.
//!
//! [`Github`] is one API (github.com's or a GitHub Enterprise Server's) with one set of [`Credentials`]: none, a token,
//! or an App's installation whose tokens are minted and renewed. It is `octocrab` over a service of ours (`service.rs`),
//! which is the road of every request: equal reads that are under way share one request, answers are kept as long as
//! GitHub says and revalidated afterwards with a conditional request, which costs no rate limit. When GitHub says to
//! come back later, nothing is sent until then and every call fails with [`ErrorKind::RateLimited`], which says how long
//! that is. Answers are bounded, every step has a deadline, what failed is tried again within it where that repeats
//! nothing, and credentials go to the API's own origin only.
//!
//! What is read here is read into structures of our own, with the fields that are used: octocrab's models ask for more
//! than GitHub always gives (a comment's author may be gone), and one such value would fail a whole list. No type of
//! octocrab's, chrono's or snafu's is part of this crate's interface.
//!
//! Start reading at [`Github`]; `service.rs` has the road of every request.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

mod app;
mod apps;
mod client;
mod commits;
mod credentials;
mod error;
mod files;
mod hooks;
mod installation_token;
mod name;
mod options;
mod permissions;
mod protection;
mod pulls;
mod repository;
mod route;
mod service;

pub use app::{App, AppError};
pub use apps::{AppInfo, Apps, InstallationInfo};
pub use client::Github;
pub use commits::{Commit, CommitPage};
pub use credentials::Credentials;
pub use error::{Caller, ErrorKind, GithubError, OptionsError};
pub use hooks::{Delivery, Hook, HookRequest, Hooks};
pub use installation_token::{InstallationToken, TokenRequest};
pub use name::{ParseNameError, RepositoryName};
pub use options::Options;
pub use permissions::{Access, Permissions};
pub use protection::Protection;
pub use pulls::{Branch, ChangedFile, Comment, FileChange, PullRequest, PullRequestFiles, Pulls};
pub use repository::RepositoryInfo;

pub use windlass_http_client::{AddressPolicy, Deadlines, HostRates, RateLeft, Retries, Tls};
