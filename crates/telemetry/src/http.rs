//! The HTTP face: `/metrics`, `/livez`, `/readyz`.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::{ErrorChain, Failing, Health, Metrics};

/// Serves `/metrics` (Prometheus text), `/livez` and `/readyz`.
///
/// The health paths answer 200 with `ok`, or 503 with one line for each thing that fails: `name: reason`.
pub fn router(health: Health, metrics: Metrics) -> Router {
    scrape(metrics).merge(probes(health))
}

/// Serves `/metrics` alone.
pub fn scrape(metrics: Metrics) -> Router {
    Router::new().route("/metrics", get(render)).with_state(metrics)
}

/// Serves the probes alone: `/livez` (or `/healthz`, its older name) and `/readyz`.
pub fn probes(health: Health) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/healthz", get(livez))
        .route("/readyz", get(readyz))
        .with_state(health)
}

async fn livez(State(health): State<Health>) -> Response {
    answer(&health.stalled())
}

async fn readyz(State(health): State<Health>) -> Response {
    answer(&health.not_ready())
}

async fn render(State(metrics): State<Metrics>) -> Response {
    match metrics.scrape() {
        Ok(scrape) => {
            let body = Body::from_stream(futures::stream::iter(scrape.map(Ok::<_, Infallible>)));
            ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], body).into_response()
        }
        Err(error) => {
            tracing::error!(error = %ErrorChain(&error), "metrics could not be rendered");
            (StatusCode::INTERNAL_SERVER_ERROR, "failed to render the metrics\n").into_response()
        }
    }
}

fn answer(failing: &[Failing]) -> Response {
    if failing.is_empty() {
        return (StatusCode::OK, "ok\n").into_response();
    }
    let lines: Vec<String> = failing.iter().map(ToString::to_string).collect();
    let body = lines.join("\n") + "\n";
    (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::to_bytes;
    use axum::http::Request;
    use tower::ServiceExt as _;

    use super::*;

    async fn check(router: &Router, path: &str, status: u16, body: &str) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let answered = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        assert_eq!((answered, std::str::from_utf8(&bytes).unwrap()), (status, body), "at {path}");
    }

    #[tokio::test(start_paused = true)]
    async fn probes_name_what_fails_and_why() {
        let health = Health::new();
        let router = router(health.clone(), Metrics::new().unwrap());
        check(&router, "/readyz", 200, "ok\n").await;
        let (watch, store) = (health.component("watch jobs"), health.component("store"));
        watch.not_ready("initial list not finished");
        check(&router, "/readyz", 503, "watch jobs: initial list not finished\nstore: starting\n").await;
        watch.ready();
        store.ready();
        check(&router, "/readyz", 200, "ok\n").await;

        let progress = health.progress("watch jobs", Duration::from_secs(5));
        check(&router, "/livez", 200, "ok\n").await;
        tokio::time::advance(Duration::from_secs(6)).await;
        check(&router, "/livez", 503, "watch jobs: no progress for 6 s (limit 5 s)\n").await;
        progress.tick();
        check(&router, "/livez", 200, "ok\n").await;
    }

    #[tokio::test]
    async fn metrics_are_served_as_prometheus_text() {
        let metrics = Metrics::new().unwrap();
        metrics.meter("a").u64_counter("seen_total").build().add(1, &[]);
        let router = router(Health::new(), metrics);
        let request = Request::get("/metrics").body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        assert!(std::str::from_utf8(&bytes).unwrap().contains("\nseen_total 1\n"));
    }
}
