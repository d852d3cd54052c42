//! `POST …/test`: whether a repository, stored or proposed, can be used.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_api::repositories::{self, RepositoryRules};
use windlass_api::{Repository, status};
use windlass_auth::Caller;
use windlass_repository::check::check;
use windlass_repository::inspect::{Inspected, inspect};

use crate::answer::Refusal;
use crate::request::{Target, object, read};
use crate::state::RepositoryApi;

/// What a form calls a repository that has no name yet. It is no name that one can have.
const NOT_NAMED_YET: &str = "new";
/// A name that one can have, to check the rest with.
const A_NAME: &str = "new-repository";

/// Checks the repository in the body, or the stored one when the body is empty or `{}`. The HTTP status is the result's code.
///
/// A proposed repository may leave its token out: the stored one's is used then, but only for the same URL, so that
/// nobody can send a stored token to a server of their own.
pub(crate) async fn run(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
    body: Body,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("create", "test")).await?;
    let repository = meant(&state, &target, body).await?;
    // Dropping the request drops the check, and with it whatever it waits for.
    let cancel = CancellationToken::new();
    let _stop = cancel.clone().drop_guard();
    let checked = check(&state.opener, &state.core, &repository, &state.repository_rules, &cancel).await;
    let inspected = if checked.results.success {
        inspect(&state.opener, &state.core, &repository, &cancel).await
    } else {
        Inspected::default()
    };
    let checked = checked.and_writable(inspected.writable.as_ref());
    let code = u16::try_from(checked.results.code).unwrap_or(500);
    Ok(target.typed(code, "TestResults", &checked.results))
}

/// The repository that a request is about: the one that its body proposes, or the stored one when the body is empty or
/// `{}`.
pub(crate) async fn meant(state: &RepositoryApi, target: &Target, body: Body) -> Result<Repository, Refusal> {
    let body = read(body).await?;
    let stored = target.repository(&state.provisioning).await?;
    if says_nothing(&body) {
        return stored.ok_or_else(|| target.missing());
    }
    let mut proposed: Repository = object(&body)
        .map_err(|error| status::bad_request(format!("the body is not a Repository: {error}")))?;
    propose(&mut proposed, stored, target, &state.repository_rules);
    Ok(proposed)
}

/// Whether a body proposes nothing: it is empty, or `{}` as clients send it that always send JSON.
fn says_nothing(body: &[u8]) -> bool {
    body.trim_ascii().is_empty()
        || serde_json::from_slice::<Map<String, Value>>(body).is_ok_and(|fields| fields.is_empty())
}

/// Makes a proposed repository what the server would make of it, but for its token.
fn propose(proposed: &mut Repository, stored: Option<Repository>, target: &Target, rules: &RepositoryRules) {
    proposed.metadata.namespace = Some(target.namespace.clone());
    proposed.metadata.name =
        Some(if target.name == NOT_NAMED_YET { A_NAME } else { &target.name }.to_owned());
    proposed.metadata.uid = stored.as_ref().and_then(|stored| stored.metadata.uid.clone());
    proposed.metadata.finalizers = stored.as_ref().and_then(|stored| stored.metadata.finalizers.clone());
    repositories::mutate(proposed, stored.as_ref(), rules);
    // A reference to a Secret is honoured for the stored repository's own token and URL alone.
    let token = &mut proposed.secure.token;
    token.name.clear();
    if let Some(stored) = stored
        && stored.spec.url() == proposed.spec.url()
        && token.create.is_none()
        && !token.remove
    {
        token.name = stored.secure.token.name;
    }
}
