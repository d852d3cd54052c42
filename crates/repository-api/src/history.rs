//! `GET …/history`: the commits of a repository, the newest first, a page at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Extension, Query, State};
use axum::response::Response;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use windlass_api::{HistoryAuthor, HistoryItem, HistoryList, status};
use windlass_auth::Caller;
use windlass_git::{HistoryCommit, HistoryQuery, ObjectId, Revision};

use crate::answer::Refusal;
use crate::files::{Asked, Place, Where, options_of, target_of};
use crate::state::RepositoryApi;

/// Commits of a page when the request does not say.
const DEFAULT: usize = 30;
/// Commits of a page at most.
const MOST: usize = 100;

/// The commits that a reference holds.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    target: Where,
    query: Asked,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    let target = target_of(target)?;
    target.admit(&state, caller.as_ref(), ("get", "history")).await?;
    let Query(query) = query.map_err(|error| status::bad_request(error.body_text()))?;
    let page = Page::parse(&query)?;
    let options = options_of(Ok(Query(query)))?;
    let repository = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
    let place = Place::open(&state, repository).await?;
    let Some(versioned) = &place.opened.versioned else {
        return Err(Refusal::new(501, "local repository has no history: a folder keeps no commits"));
    };
    let (new, skipped) = match page.after {
        Some((tip, skipped)) => (tip, skipped),
        None => (place.revision(&options.reference).await?, 0),
    };
    let wanted = skipped.saturating_add(page.limit);
    let query = HistoryQuery { new: new.clone(), known: Vec::new(), max: wanted };
    let history = versioned.history(&query, &place.cancel).await?;
    let shown = history.commits.iter().rev().skip(skipped).take(page.limit);
    let items: Vec<HistoryItem> = shown.map(item).collect();
    let more = history.truncated && !items.is_empty();
    let continue_ = more.then(|| format!("{new}.{wanted}"));
    let metadata = ListMeta { continue_, ..ListMeta::default() };
    Ok(target.typed(200, "HistoryList", &HistoryList { metadata, items }))
}

struct Page {
    limit: usize,
    /// The commit that the first page began with, and how many commits came before this page.
    after: Option<(Revision, usize)>,
}

impl Page {
    fn parse(query: &BTreeMap<String, String>) -> Result<Self, Refusal> {
        let given = |name: &str| query.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let limit = match given("limit").map(str::parse) {
            None | Some(Ok(0)) => DEFAULT,
            Some(Ok(limit)) => MOST.min(limit),
            Some(Err(_)) => {
                return Err(status::bad_request("limit is a number of commits, such as 30").into());
            }
        };
        let token = |text: &str| {
            let (tip, skipped) = text.split_once('.')?;
            Some((tip.parse::<ObjectId>().ok()?.into(), skipped.parse().ok()?))
        };
        let after = match given("continue").map(token) {
            None => None,
            Some(Some(after)) => Some(after),
            Some(None) => {
                let message = "continue is what metadata.continue of the page before says";
                return Err(status::bad_request(message).into());
            }
        };
        Ok(Self { limit, after })
    }
}

fn item(commit: &HistoryCommit) -> HistoryItem {
    let author = HistoryAuthor { name: commit.author.clone(), ..HistoryAuthor::default() };
    HistoryItem {
        reference: commit.id.to_string(),
        message: commit.subject.clone(),
        authors: vec![author],
        created_at: commit.committed.saturating_mul(1_000),
    }
}
