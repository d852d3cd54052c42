//! The sub-resources under `repositories/{name}/…`: what is asked of a repository that no stored object answers.
//!
//! It is an `axum::Router` over a Kubernetes client, so that the same code stands beside the embedded API server and
//! beside a real one. It expects the [`Caller`](windlass_auth::Caller) in the request's extensions: who puts it
//! there is the server's business, what a caller may do is decided here.
//!
//! It refuses to know how objects are stored, and how jobs are run.
//! Start reading at [`router`]; then one file a sub-resource: `jobs.rs`, `test.rs`, `resources.rs`, `unsynced.rs`, `webhook.rs`.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

mod answer;
mod jobs;
mod page;
mod request;
mod resources;
mod state;
mod test;
mod unknown;
mod unsynced;
mod webhook;

use std::sync::Arc;

use axum::extract::Request;
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use tower::ServiceExt as _;

pub use self::state::{BODY_LIMIT, RepositoryApi};

/// Where a repository is.
const REPOSITORY: &str =
    "/apis/provisioning.grafana.app/{version}/namespaces/{namespace}/repositories/{name}";

/// The routes, with their full paths, for a server that has no other ones of repositories.
///
/// Grafana: `pkg/registry/apis/provisioning/{jobs,test,resources}.go`.
pub fn router(state: RepositoryApi) -> Router {
    let reception = Extension(Arc::new(webhook::Reception::default()));
    Router::new()
        .route(&format!("{REPOSITORY}/jobs"), get(jobs::list).post(jobs::create))
        .route(&format!("{REPOSITORY}/jobs/{{uid}}"), get(jobs::read_by_uid).post(jobs::refuse_post))
        .route(&format!("{REPOSITORY}/test"), post(test::run))
        .route(&format!("{REPOSITORY}/resources"), get(resources::list))
        .route(&format!("{REPOSITORY}/unsynced"), get(unsynced::list))
        .route(&format!("{REPOSITORY}/webhook"), post(webhook::receive).layer(reception))
        .route(&format!("{REPOSITORY}/{{subresource}}"), any(unknown::answer))
        .route(&format!("{REPOSITORY}/{{subresource}}/{{*rest}}"), any(unknown::answer))
        .with_state(Arc::new(state))
}

/// The routes over those of an API server, which answers everything else.
pub fn router_over(state: RepositoryApi, api_server: Router) -> Router {
    let status = api_server.clone();
    let pass = move |request: Request| status.clone().oneshot(request);
    router(state).route(&format!("{REPOSITORY}/status"), any(pass)).fallback_service(api_server)
}
