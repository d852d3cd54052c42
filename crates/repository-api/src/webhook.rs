//! `POST …/webhook`: a provider says that something happened to a repository. Grafana: `webhooks/webhook.go`.
//!
//! Nobody calls it with a token: the signature is the authentication, so a request is worth little until it holds. One
//! that brings none is refused without asking anybody; then the body is read within its limits, the repository and its
//! secret are read, and only a body that is signed with that secret is parsed and can make us write. Git is not asked at
//! all: that is the job's work.
//!
//! A delivery that is sent again does no harm, on whatever replica: the job of a pull has one name, so it is queued once,
//! and a pull of what was pulled already finds nothing to do. So there is no list of deliveries that were seen.

mod act;
mod decide;
mod metrics;
mod trace;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use tokio::time::Instant;
use windlass_api::{JobAction, Repository, RepositoryType, status};
use windlass_repository::webhook::{Announced, BodyError, Event, LARGEST_BODY, Reception};
use windlass_repository::{TokenError, WebhookSecrets};

use self::decide::{Decision, decide};
pub use self::metrics::{METRICS, WebhookMetrics};
use self::trace::DeliveryTrace;
use crate::answer::Refusal;
use crate::request::Target;
use crate::state::RepositoryApi;

/// How long a delivery may take, its body included.
const DEADLINE: Duration = Duration::from_secs(30);

/// Takes a delivery in.
pub(crate) async fn receive(
    State(state): State<Arc<RepositoryApi>>,
    Extension(reception): Extension<Arc<Reception>>,
    Path(target): Path<Target>,
    request: Request,
) -> Response {
    match tokio::time::timeout(DEADLINE, answer(&state, &reception, &target, request)).await {
        Ok(answered) => answered.unwrap_or_else(Refusal::into_response),
        Err(_elapsed) => {
            Refusal::from(status::timeout("the delivery took too long to come in")).into_response()
        }
    }
}

async fn answer(
    state: &RepositoryApi,
    reception: &Reception,
    target: &Target,
    request: Request,
) -> Result<Response, Refusal> {
    target.check_served(state)?;
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    let busy =
        |seconds| status::too_many_requests("too many deliveries at a time; send it again later", seconds);
    if !reception.admits(peer) {
        return Err(busy(1).into());
    }
    let unsigned = || status::unauthorized("invalid signature");
    let (began, at) = (Instant::now(), Timestamp::now());
    let legacy = || state.accept_sha1.then(|| Announced::with_sha1(request.headers())).flatten();
    let announced = Announced::of(request.headers()).or_else(legacy).ok_or_else(unsigned)?;
    let (body, _reserved) = reception.read(request.into_body()).await.map_err(refused)?;

    let repository = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
    check_listens(&repository, &announced)?;
    let secrets = secrets(state, &repository).await?;
    if !secrets.iter().any(|secret| announced.is_signed_with(&body, secret)) {
        reception.blame(peer);
        tracing::debug!(
            namespace = target.namespace,
            repository = target.name,
            "a delivery with a wrong signature"
        );
        return Err(unsigned().into());
    }
    // From here on the provider itself speaks.
    if !reception.admits_from(&target.namespace, &target.name) {
        return Err(busy(10).into());
    }
    let event = announced.event(&body).map_err(|error| {
        tracing::warn!(namespace = target.namespace, repository = target.name, %error, "a delivery that cannot be read");
        status::bad_request("invalid payload")
    })?;
    drop(body);
    let decision = decide(&repository, announced.provider(), &event);
    let job = match &decision {
        Decision::Queue { job } => Some(job.action.clone()),
        Decision::Answer { .. } => None,
    };
    if let Some(metrics) = &state.webhook_metrics {
        metrics.processed(&event, job.clone());
    }
    // It is recorded of those alone that are signed, so that nobody else fills a collector.
    let trace = state.spans.is_enabled().then(|| DeliveryTrace::new(at));
    let marks = act::marks(&announced, trace.as_ref().map(DeliveryTrace::traceparent));
    // In a box, so that a body that is waited for holds no room for what may follow.
    let acting = Box::pin(act::on(state, target, &repository, marks, decision, pushed(&repository, &event)));
    let answered = match &trace {
        None => acting.await,
        Some(trace) => {
            let (trace_id, span_id) = trace.ids();
            let answered = state.spans.around(trace_id, span_id, acting).await;
            let code = answered.as_ref().map_or_else(Refusal::code, |response| response.status().as_u16());
            state.spans.record(trace.span(target, &announced, code));
            answered
        }
    }?;
    if let Some(metrics) = state.webhook_metrics.as_ref().filter(|_| job == Some(JobAction::Pull)) {
        metrics.queued(began.elapsed());
    }
    Ok(answered)
}

/// The commit that the repository's branch was moved to, where the event says.
fn pushed(repository: &Repository, event: &Event) -> Option<String> {
    let Event::Push(push) = event else { return None };
    let branch = push.branch(repository.spec.branch())?;
    Some(branch.commit.clone())
}

/// Refuses deliveries to a repository that is not told of any.
fn check_listens(repository: &Repository, announced: &Announced) -> Result<(), Refusal> {
    let spec = &repository.spec;
    if spec.kind == RepositoryType::Local {
        return Err(status::bad_request("the repository does not support webhooks").into());
    }
    if spec.webhook.as_ref().is_some_and(|webhook| webhook.disabled) {
        return Err(status::bad_request("webhook integration is disabled for this repository").into());
    }
    if !announced.provider().serves(spec.kind) {
        let message =
            format!("a repository of type {} is not told of anything by another provider", spec.kind);
        return Err(status::bad_request(message).into());
    }
    if repository.secure.webhook_secret.name.is_empty() {
        return Err(status::internal_error("unexpected webhook request").into());
    }
    Ok(())
}

async fn secrets(state: &RepositoryApi, repository: &Repository) -> Result<WebhookSecrets, Refusal> {
    WebhookSecrets::read(&state.core, repository).await.map_err(|error| {
        let name = repository.metadata.name.as_deref();
        tracing::warn!(repository = name, error = %error, "a delivery came, and the webhook's secret cannot be read");
        match error {
            TokenError::Read(_) | TokenError::Timeout { .. } => {
                status::service_unavailable("the webhook's secret could not be read; send it again", 1).into()
            }
            _ => status::error(500, "InternalError", "the webhook's secret is missing").into(),
        }
    })
}

fn refused(error: BodyError) -> Refusal {
    let text = error.to_string();
    match error {
        BodyError::Broken => status::bad_request(text).into(),
        BodyError::TooLarge => status::too_large(LARGEST_BODY).into(),
        BodyError::Busy => status::service_unavailable(&text, 5).into(),
    }
}
