//! The sub-resources under `repositories/{name}/…` and `connections/{name}/…`: what is asked of a repository that no stored object answers.
//!
//! It is an `axum::Router` over a Kubernetes client, so that the same code stands beside the embedded API server and
//! beside a real one. It expects the [`Caller`](windlass_auth::Caller) in the request's extensions: who puts it
//! there is the server's business, what a caller may do is decided here.
//!
//! It refuses to know how objects are stored, and how jobs are run.
//! Start reading at [`router`]; then one file a sub-resource: `files.rs` and what is below it,
//! `jobs.rs`, `refs.rs`, `history.rs`, `test.rs`, `webhook.rs`, …
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

mod answer;
mod author;
mod calls;
mod connections;
mod files;
mod filetree;
mod history;
mod jobs;
mod page;
mod refs;
mod render;
mod request;
mod resources;
mod settings;
mod state;
mod stats;
mod test;
mod turns;
mod unknown;
mod unsynced;
mod webhook;

use std::sync::Arc;

use axum::extract::Request;
use axum::routing::{any, get, post};
use axum::{Extension, Router};
use tower::ServiceExt as _;

pub use self::state::{BODY_LIMIT, FILE_LIMIT, RepositoryApi};
use self::turns::Turns;
pub use self::webhook::{METRICS, WebhookMetrics};

/// Where a repository is.
const REPOSITORY: &str =
    "/apis/provisioning.grafana.app/{version}/namespaces/{namespace}/repositories/{name}";

/// Where a connection is.
const CONNECTION: &str = "/apis/provisioning.grafana.app/{version}/namespaces/{namespace}/connections/{name}";

/// Where a namespace's own are.
const NAMESPACE: &str = "/apis/provisioning.grafana.app/{version}/namespaces/{namespace}";

/// The routes, with their full paths, for a server that has no other ones of repositories.
///
/// Grafana: `pkg/registry/apis/provisioning/{jobs,test,resources,files,history,refs}.go`.
pub fn router(state: RepositoryApi) -> Router {
    let reception = Extension(Arc::new(windlass_repository::webhook::Reception::default()));
    Router::new()
        .route(&format!("{NAMESPACE}/settings"), get(settings::read))
        .route(&format!("{NAMESPACE}/stats"), get(stats::read))
        .route(&format!("{CONNECTION}/repositories"), get(connections::repositories))
        .route(&format!("{REPOSITORY}/files"), get(files::list))
        .route(&format!("{REPOSITORY}/files/"), get(files::list))
        .route(
            &format!("{REPOSITORY}/files/{{*path}}"),
            get(files::read).post(files::create).put(files::update).delete(files::delete),
        )
        .route(&format!("{REPOSITORY}/refs"), get(refs::list))
        .route(&format!("{REPOSITORY}/history"), get(history::list))
        .route(&format!("{REPOSITORY}/history/{{*path}}"), get(history::list))
        .route(&format!("{REPOSITORY}/filetree"), post(filetree::list))
        .route(&format!("{REPOSITORY}/reftree"), post(filetree::refs))
        .route(&format!("{REPOSITORY}/render/{{*rest}}"), get(render::answer))
        .route(&format!("{REPOSITORY}/jobs"), get(jobs::list).post(jobs::create))
        .route(&format!("{REPOSITORY}/jobs/{{uid}}"), get(jobs::read_by_uid).post(jobs::refuse_post))
        .route(&format!("{REPOSITORY}/test"), post(test::run))
        .route(&format!("{REPOSITORY}/resources"), get(resources::list))
        .route(&format!("{REPOSITORY}/unsynced"), get(unsynced::list))
        .route(&format!("{REPOSITORY}/webhook"), post(webhook::receive).layer(reception))
        .route(&format!("{REPOSITORY}/{{subresource}}"), any(unknown::answer))
        .route(&format!("{REPOSITORY}/{{subresource}}/{{*rest}}"), any(unknown::answer))
        .layer(Extension(Turns::default()))
        .with_state(Arc::new(state))
}

/// The routes over those of an API server, which answers everything else.
pub fn router_over(state: RepositoryApi, api_server: Router) -> Router {
    let status = api_server.clone();
    let pass = move |request: Request| status.clone().oneshot(request);
    router(state).route(&format!("{REPOSITORY}/status"), any(pass)).fallback_service(api_server)
}
