//! `GET …/refs`: the branches of a repository.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Path, State};
use axum::response::Response;
use windlass_api::{RefItem, RefList, RepositoryType};
use windlass_auth::Caller;
use windlass_runtime::BoxError;
use windlass_telemetry::ErrorChain;

use crate::answer::Refusal;
use crate::files::Place;
use crate::request::Target;
use crate::state::RepositoryApi;

/// How long the provider may take to say which branches are protected.
const ASKED: Duration = Duration::from_secs(5);

/// Every branch, by name. Works on a repository that is not healthy.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    Path(target): Path<Target>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    target.admit(&state, caller.as_ref(), ("get", "refs")).await?;
    let repository = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
    let place = Place::open(&state, repository).await?;
    Ok(target.typed(200, "RefList", &branches(&state, &place).await?))
}

/// The branches of an open repository.
pub(crate) async fn branches(state: &RepositoryApi, place: &Place) -> Result<RefList, Refusal> {
    let Some(versioned) = &place.opened.versioned else {
        return Err(Refusal::new(501, "local repository has no refs: a folder has no branches"));
    };
    let (found, protected) =
        tokio::join!(versioned.refs("refs/heads/", &place.cancel), protected(state, place));
    let found = found?;
    let mut items: Vec<RefItem> = found
        .iter()
        .filter_map(|found| {
            let name = found.branch()?;
            let page = place.opened.urls.as_ref().map(|urls| urls.reference(name));
            Some(RefItem {
                name: name.to_owned(),
                hash: found.id.to_string(),
                ref_url: page.unwrap_or_default(),
                protected: protected.as_ref().map(|protected| protected.contains(name)),
            })
        })
        .collect();
    items.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(RefList { items })
}

/// Which branches are protected, where the provider says so. That it cannot be asked keeps nobody from the list.
async fn protected(state: &RepositoryApi, place: &Place) -> Option<BTreeSet<String>> {
    if !matches!(place.repository.spec.kind, RepositoryType::Github | RepositoryType::GithubEnterprise) {
        return None;
    }
    let told = async {
        let at = state.opener.github(&state.core, &place.repository).await?;
        Ok::<_, BoxError>(at.api.protected_branches(&at.name).await?)
    };
    match tokio::time::timeout(ASKED, told).await {
        Ok(Ok(protected)) => protected,
        Ok(Err(error)) => {
            tracing::debug!(error = %ErrorChain(&*error), "it is not known which branches are protected");
            None
        }
        Err(_elapsed) => None,
    }
}
