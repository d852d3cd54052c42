//! The sub-resources under `repositories/{name}/…`: what is asked of a repository that no stored object answers.
//!
//! It is an `axum::Router` over a Kubernetes client, so that the same code stands beside the embedded API server and
//! beside a real one. It expects the [`Caller`](windlass_auth::Caller) in the request's extensions: who puts it
//! there is the server's business, what a caller may do is decided here.
//!
//! It refuses to know how objects are stored, and how jobs are run.
//! Start reading at [`router`]; then one file a sub-resource: `jobs.rs`, `test.rs`, `resources.rs`.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

mod answer;
mod jobs;
mod request;
mod resources;
mod state;
mod test;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

pub use self::state::{BODY_LIMIT, RepositoryApi};

/// The routes, with their full paths: they are merged with those of an API server.
///
/// Grafana: `pkg/registry/apis/provisioning/{jobs,test,resources}.go`.
pub fn router(state: RepositoryApi) -> Router {
    let base = "/apis/provisioning.grafana.app/{version}/namespaces/{namespace}/repositories/{name}";
    Router::new()
        .route(&format!("{base}/jobs"), get(jobs::list).post(jobs::create))
        .route(&format!("{base}/jobs/{{uid}}"), get(jobs::read_by_uid).post(jobs::refuse_post))
        .route(&format!("{base}/test"), post(test::run))
        .route(&format!("{base}/resources"), get(resources::list))
        .with_state(Arc::new(state))
}
