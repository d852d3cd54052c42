//! GitHub's REST API, as far as Windlass asks it: the history of a path, files.
//!
//! [`Github`] is one API (github.com's or a GitHub Enterprise Server's) with one set of [`Credentials`]: nothing, a
//! token, or an App's installation whose tokens are minted and renewed. It asks as little as it can: equal questions
//! that are under way share one request, answers are kept as long as GitHub says and revalidated afterwards with a
//! conditional request, which costs no rate limit. When GitHub says to come back later, nothing is sent until then
//! and every question is answered with [`GithubError::RateLimited`], which says how long that is.
//!
//! Answers are bounded, every step has a deadline, failures of the server are retried within it, and credentials go to
//! the API's own origin only.
//!
//! Start reading at [`Github`]; `api.rs` has the road of every request.
//!
//! The client is our own, over `reqwest`: what is asked for needs the headers of every answer (rate limits,
//! freshness), bounded bodies, a cache that keeps no truncated answer, retries that wait, and one mint of a token for
//! many callers.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

mod api;
mod app;
mod cache;
mod commits;
mod credentials;
mod error;
mod files;
mod flights;
mod limits;
mod name;

pub use app::{App, AppError};
pub use commits::{Commit, CommitPage};
pub use credentials::Credentials;
pub use error::GithubError;
pub use limits::Options;
pub use name::{ParseNameError, RepositoryName};

pub use api::Github;
pub use windlass_http_client::{Deadlines, Retries};
