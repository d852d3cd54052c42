//! What is told of requests: an audit log and metrics, by the paths and answers alone.
//!
//! It goes around everything that answers at the server's address, so that what authentication refuses is told too. Who
//! called is what authentication left on the answer.

mod about;
mod audit;
mod metrics;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::StatusCode;
use http_body_util::BodyExt as _;
use jiff::Timestamp;

use self::about::About;
pub use self::audit::{AuditError, AuditLog, AuditOptions};
pub use self::metrics::RequestMetrics;
use crate::server::ApiServer;

/// Tells of each request.
#[derive(Clone)]
pub struct Observer {
    server: ApiServer,
    audit: Option<AuditLog>,
    metrics: Option<RequestMetrics>,
}

impl Observer {
    /// Of the requests of this server and of whatever else is served at its address.
    pub fn new(server: &ApiServer, audit: Option<AuditLog>, metrics: Option<RequestMetrics>) -> Self {
        Self { server: server.clone(), audit, metrics }
    }

    /// Puts `router` behind this observer.
    pub fn over(self, router: Router) -> Router {
        router.layer(from_fn_with_state(self, observe))
    }
}

async fn observe(State(observer): State<Observer>, request: Request, next: Next) -> Response {
    let received = Timestamp::now();
    let mut about = About::of(&request);
    let entry = observer.audit.as_ref().filter(|_| !about.is_probe).map(|_| audit::Entry::of(&request));
    let started = tokio::time::Instant::now();
    let running = observer.metrics.as_ref().map(|metrics| metrics.begin(&about));
    let response = next.run(request).await;
    drop(running);
    let status = response.status();
    // Labels are of a bounded number: nothing that only a request says is one.
    let is_served = observer.server.serves(&about.group, &about.version, &about.resource);
    if let (Some(audit), Some(entry)) = (&observer.audit, entry) {
        audit.write(&entry.line(&about, &response, received, Timestamp::now()));
    }
    let is_refused =
        matches!(status, StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    about.forget_unknown(is_served, is_refused);
    let Some(metrics) = &observer.metrics else { return response };
    metrics.ended(&about, status, (!about.is_watch()).then(|| started.elapsed()));
    if !about.is_watch() || status != StatusCode::OK {
        return response;
    }
    let running = metrics.long_running(&about);
    // It is told of until the body goes.
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _ = &running;
            frame
        }))
    })
}
