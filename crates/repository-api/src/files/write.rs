//! A write, from the request to the answer.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::repositories::write_refusal;
use windlass_api::{Repository, ResourceAction, Workflow};
use windlass_auth::Caller;
use windlass_git::ObjectId;
use windlass_resources::parse::ParsedResource;

use super::attempt::{Attempt, Written};
use super::change::Change;
use super::options::Options;
use super::path::FilePath;
use super::place::{Place, find};
use super::trial::DryRunner;
use super::{apply, wrapper};
use crate::answer::Refusal;
use crate::request::{Target, read_up_to, refuse_unless_usable};
use crate::state::{FILE_LIMIT, RepositoryApi};
use crate::turns::Turns;

/// A write that was asked for by somebody who may ask.
pub(super) struct Write {
    target: Target,
    caller: Caller,
    options: Options,
    change: Change,
}

/// The branch that is written to.
#[derive(Debug)]
pub(super) struct Branch {
    /// Its short name; empty for a folder.
    pub(super) name: String,
    /// Whether it is the one that is pulled.
    pub(super) is_pulled: bool,
}

impl Write {
    pub(super) fn new(
        target: Target,
        caller: Caller,
        mut options: Options,
        headers: HeaderMap,
        action: ResourceAction,
    ) -> Result<Self, Refusal> {
        let path = FilePath::parse(&target.path)?;
        let original = options.original_path.take();
        if original.is_some() && action != ResourceAction::Move {
            return Err(Refusal::new(400, "originalPath is for POST, which moves the file that is there"));
        }
        let expected = wrapper::expected(&headers)?;
        let sent = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let media_type = sent.split(';').next().unwrap_or_default().trim();
        let is_json = media_type.eq_ignore_ascii_case("application/json");
        let change = Change { action, path, original, content: None, is_json, expected };
        Ok(Self { target, caller, options, change })
    }

    /// Writes, and answers once the object has followed. It goes on when the caller goes away: between commit and object is
    /// no place to stop.
    pub(super) async fn run(
        mut self,
        state: Arc<RepositoryApi>,
        turns: Turns,
        body: Body,
    ) -> Result<Response, Refusal> {
        let content = read_up_to(body, FILE_LIMIT).await?;
        self.change.content = (!content.is_empty()).then_some(content);
        self.change.check()?;
        let stored = self.target.repository(&state.provisioning).await?;
        let repository = refuse_unless_usable(&self.target, stored)?;
        refuse_over_quota(&repository, self.change.action)?;
        refuse_read_only(&repository)?;
        let task = tokio::spawn(async move {
            let _turn = turns.take(&self.target).await?;
            self.write(&state, repository).await
        });
        task.await.unwrap_or_else(|panicked| {
            tracing::error!(error = %panicked, "the write of a file ended early");
            Err(Refusal::new(
                500,
                "the write ended unexpectedly; look whether it was made before it is repeated",
            ))
        })
    }

    async fn write(self, state: &RepositoryApi, repository: Repository) -> Result<Response, Refusal> {
        let Self { target, caller, options, change } = &self;
        let place = Place::open(state, repository).await?;
        let branch = branch(&place, &options.reference).await?;
        refuse_folders(&branch, change)?;
        let runner = DryRunner { state, target, caller, place: &place };
        let attempt = Attempt { runner: &runner, options, change, branch: &branch };
        let Written { before, after, trial, mut errors } = attempt.run().await?;

        if branch.is_pulled
            && let Some(after) = &after
        {
            let diff = change.diff(&before, after);
            errors.extend(apply::run(state, target, &place, diff, after).await);
        }
        let resources: Vec<ParsedResource> =
            trial.objects.iter().map(|tried| tried.resource.clone()).collect();
        let hash = after.and_then(|after| Some(find(&after, &change.path.text)?.id.to_string()));
        let path = &change.path.text;
        let mut answer = wrapper::around(&place, path, &branch.name, hash.unwrap_or_default());
        answer.resource = if change.path.is_folder {
            wrapper::folder(change)
        } else {
            wrapper::objects(trial, Some(change.action))
        };
        if branch.is_pulled && change.action != ResourceAction::Delete {
            answer.resource.upsert = wrapper::upserted(&runner.preview(), &resources).await;
        }
        answer.errors = errors;
        Ok(wrapper::answer(target, &answer))
    }
}

/// The branch that a write goes to, if the repository lets it.
async fn branch(place: &Place, reference: &str) -> Result<Branch, Refusal> {
    let spec = &place.repository.spec;
    if place.opened.versioned.is_none() && !reference.is_empty() {
        return Err(Refusal::new(400, "local repository does not support ref"));
    }
    if reference.parse::<ObjectId>().is_ok() {
        return Err(Refusal::new(400, "ref is the id of a commit; only branches are written to"));
    }
    let pulled = place.branch().await?;
    let is_pulled = reference.is_empty() || reference == pulled;
    let (needed, what) = if is_pulled {
        (Workflow::Write, "\"write\" to its own branch")
    } else {
        (Workflow::Branch, "\"branch\" to other branches than its own")
    };
    if !spec.workflows.contains(&needed) {
        let message = format!("the repository's spec.workflows do not allow {what}");
        return Err(Refusal::new(403, message));
    }
    if is_pulled && let Some(why) = write_refusal(&place.repository) {
        return Err(Refusal::new(403, why));
    }
    Ok(Branch { name: if is_pulled { pulled } else { reference.to_owned() }, is_pulled })
}

/// Many objects are the work of a job, which says how it goes and can be taken up again.
fn refuse_folders(branch: &Branch, change: &Change) -> Result<(), Refusal> {
    let many = change.path.is_folder && change.action != ResourceAction::Create;
    if !(branch.is_pulled && many) {
        return Ok(());
    }
    let job = if change.action == ResourceAction::Delete { "delete" } else { "move" };
    let message = format!(
        "a folder of the branch that is pulled is changed by a job: POST …/jobs with the action {job:?}"
    );
    Err(Refusal::new(405, message))
}

fn refuse_read_only(repository: &Repository) -> Result<(), Refusal> {
    if repository.spec.workflows.is_empty() {
        return Err(Refusal::new(403, "the repository is read-only: its spec.workflows are empty"));
    }
    Ok(())
}

fn refuse_over_quota(repository: &Repository, action: ResourceAction) -> Result<(), Refusal> {
    let quota = conditions::find(&repository.status.conditions, types::RESOURCE_QUOTA);
    let refused = match quota.map(|condition| condition.reason.as_str()) {
        Some(reasons::QUOTA_EXCEEDED) => action != ResourceAction::Delete,
        Some(reasons::QUOTA_REACHED) => action == ResourceAction::Create,
        _ => false,
    };
    match quota.filter(|_| refused) {
        Some(condition) => Err(Refusal::new(403, condition.message.clone())),
        None => Ok(()),
    }
}
