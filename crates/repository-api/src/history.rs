//! `GET …/history`: the commits of a repository, the newest first, a page at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{Extension, Query, State};
use axum::response::Response;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use windlass_api::{HistoryAuthor, HistoryItem, HistoryList, status};
use windlass_auth::Caller;
use windlass_git::{HistoryCommit, HistoryQuery, ObjectId, Revision};
use windlass_repository::{Versioned, prefix};

use crate::answer::Refusal;
use crate::files::{FilePath, Place, RawQuery, TargetPath, options_of, target_of};
use crate::state::RepositoryApi;

/// Commits of a page when the request does not say.
const DEFAULT: usize = 30;
/// Commits of a page at most.
const MOST: usize = 100;

/// Commits that are looked at for a page of those that changed one file or folder.
const LOOKED_AT: usize = 100;

/// The commits that a reference holds; with a path those that changed what is there. A page of these may have fewer than
/// were asked for and still not be the last.
pub(crate) async fn list(
    State(state): State<Arc<RepositoryApi>>,
    target: TargetPath,
    query: RawQuery,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    let target = target_of(target)?;
    target.admit(&state, caller.as_ref(), ("get", "history")).await?;
    let Query(query) = query.map_err(|error| status::bad_request(error.body_text()))?;
    let page = Page::parse(&query)?;
    let options = options_of(Ok(Query(query)))?;
    let repository = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
    let place = Place::open(&state, repository).await?;
    let path = (!target.path.is_empty()).then(|| FilePath::parse(&target.path)).transpose()?;
    let Some(versioned) = &place.opened.versioned else {
        return Err(Refusal::new(501, "local repository has no history: a folder keeps no commits"));
    };
    let (new, skipped) = match page.after {
        Some((tip, skipped)) => (tip, skipped),
        None => (place.revision(&options.reference).await?, 0),
    };
    let count = if path.is_some() { LOOKED_AT } else { page.limit };
    let wanted = skipped.saturating_add(count);
    let query = HistoryQuery { new: new.clone(), known: Vec::new(), max: wanted };
    let history = versioned.history(&query, &place.cancel).await?;
    let mut shown: Vec<&HistoryCommit> = history.commits.iter().rev().skip(skipped).take(count).collect();
    let is_more = history.truncated && !shown.is_empty();
    let mut next = is_more.then_some(wanted);
    if let Some(path) = path {
        let changed = changed(&place, &**versioned, &path.text, &shown).await?;
        let mut found: Vec<usize> = (0..shown.len()).filter(|&index| changed[index]).collect();
        if let Some(&beyond) = found.get(page.limit) {
            next = Some(skipped + beyond);
        }
        found.truncate(page.limit);
        shown = found.into_iter().map(|index| shown[index]).collect();
    }
    let continue_ = next.map(|next| format!("{new}.{next}"));
    let metadata = ListMeta { continue_, ..ListMeta::default() };
    let items = shown.into_iter().map(item).collect();
    Ok(target.typed(200, "HistoryList", &HistoryList { metadata, items }))
}

/// Which of the commits changed what is at a path: it is another thing than in each of their parents, as `git log` has it.
async fn changed(
    place: &Place,
    versioned: &dyn Versioned,
    path: &str,
    commits: &[&HistoryCommit],
) -> Result<Vec<bool>, Refusal> {
    let mut ids: Vec<ObjectId> =
        commits.iter().flat_map(|commit| commit.parents.iter().copied().chain([commit.id])).collect();
    ids.sort_unstable();
    ids.dedup();
    let prefix = prefix(&place.repository.spec);
    let path = if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") };
    let found = versioned.ids_at(&ids, &path, &place.cancel).await?;
    let at: HashMap<ObjectId, Option<ObjectId>> = ids.into_iter().zip(found).collect();
    let is_changed = |commit: &&HistoryCommit| {
        let (own, mut parents) = (at[&commit.id], commit.parents.iter().map(|parent| at[parent]).peekable());
        if parents.peek().is_none() { own.is_some() } else { parents.all(|before| before != own) }
    };
    Ok(commits.iter().map(is_changed).collect())
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
