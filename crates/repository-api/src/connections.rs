//! `GET connections/{name}/repositories`: the repositories that a connection's App is installed for.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use kube::Api;
use windlass_api::{Connection, ConnectionType, ExternalRepository, ExternalRepositoryList, GROUP, status};
use windlass_auth::Caller;
use windlass_github::{ErrorKind, GithubError};
use windlass_repository::ConnectionOpenError;
use windlass_telemetry::ErrorChain;

use crate::answer::Refusal;
use crate::calls::CALL;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Lists them, as GitHub has them now.
pub(crate) async fn repositories(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit_to(&state, caller.as_ref(), ("get", "connections", "repositories")).await?;
    let api: Api<Connection> = Api::namespaced(state.provisioning.clone(), &target.namespace);
    let get = || api.get_opt(&target.name);
    let connection = CALL.read(format!("get connection {}", target.name), get).await?;
    let connection = connection.ok_or_else(|| status::not_found(GROUP, "connections", &target.name))?;
    let github = state.opener.app(&state.core, &connection).await.map_err(|error| of_open(&error))?;
    let Some(apps) = github.apps() else {
        return Err(Refusal::new(501, "the connection is no App's"));
    };
    let server = match (connection.spec.kind, &connection.spec.github_enterprise) {
        (ConnectionType::GithubEnterprise, Some(settings)) => {
            settings.server_url.trim_end_matches('/').to_owned()
        }
        _ => format!("https://{}", github.web_host()),
    };
    let found = apps.repositories().await.map_err(|error| of_github(&error))?;
    let items = found.iter().map(|repository| ExternalRepository {
        name: repository.name.name().to_owned(),
        owner: repository.name.owner().to_owned(),
        url: format!("{server}/{}", repository.name),
    });
    Ok(target.typed(200, "ExternalRepositoryList", &ExternalRepositoryList { items: items.collect() }))
}

fn of_open(error: &ConnectionOpenError) -> Refusal {
    let code = match error {
        ConnectionOpenError::Unsupported { .. } => 501,
        ConnectionOpenError::Read(_) => 503,
        _ => 422,
    };
    Refusal::new(code, ErrorChain(error).to_string())
}

fn of_github(error: &GithubError) -> Refusal {
    let code = match error.kind() {
        ErrorKind::RateLimited { .. } => 429,
        _ if error.is_transient() => 503,
        // Not 401 nor 403: the caller may ask, and the App is not the caller.
        _ => 422,
    };
    Refusal::new(code, error.to_string())
}
