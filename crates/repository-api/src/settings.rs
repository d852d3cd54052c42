//! `GET …/settings`: what the server offers, and a namespace's repositories in brief.

use std::sync::Arc;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use kube::Api;
use windlass_api::{AvailableResource, Repository, RepositoryView, RepositoryViewList};
use windlass_auth::Caller;
use windlass_runtime::ListRequest;

use crate::answer::Refusal;
use crate::calls::CALL;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Everything that a form of a new repository has to know.
pub(crate) async fn read(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit_to(&state, caller.as_ref(), ("get", "settings", "")).await?;
    let repositories: Api<Repository> = Api::namespaced(state.provisioning.clone(), &target.namespace);
    let found = ListRequest::of(&repositories, "list repositories", CALL).items::<Repository>().await?;
    let mut items: Vec<RepositoryView> = found.items.into_iter().map(view).collect();
    items.sort_by(|one, other| one.name.cmp(&other.name));
    let kinds = state.resources.kinds().await;
    let offered = |kind: &windlass_resources::Kind| AvailableResource {
        group: kind.group.to_string(),
        kind: kind.kind.to_string(),
        disabled: false,
    };
    let rules = &state.repository_rules;
    let settings = RepositoryViewList {
        allowed_targets: rules.targets.clone(),
        allow_image_rendering: rules.image_rendering,
        max_repositories: rules.max_repositories,
        available_repository_types: rules.types.clone(),
        available_connection_types: Vec::new(),
        available_resources: kinds.iter().map(offered).collect(),
        items,
    };
    Ok(target.typed(200, "RepositoryViewList", &settings))
}

fn view(repository: Repository) -> RepositoryView {
    let Repository { metadata, spec, .. } = repository;
    RepositoryView {
        name: metadata.name.unwrap_or_default(),
        kind: spec.kind,
        target: spec.sync.target,
        branch: spec.branch().to_owned(),
        url: spec.url().unwrap_or_default().to_owned(),
        path: spec.path().to_owned(),
        title: spec.title,
        workflows: spec.workflows,
        commit: spec.commit,
        branch_options: spec.branch,
        pull_request: spec.pull_request,
    }
}
