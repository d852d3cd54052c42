//! `delete`: deletes files and folders, and then what was made from them. Grafana: `jobs/delete`.

use std::collections::{BTreeMap, HashSet};

use async_trait::async_trait;
use windlass_api::{JobAction, ResourceRef};
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_repository::Stage;
use windlass_resources::parse::ParseContext;
use windlass_resources::serialise::{self, Remainder};
use windlass_resources::{SyncContext, TakeOver};

use super::selection::{Selected, Selection};
use super::{Files, Writing, pull_after};
use crate::pull::Pull;
use crate::reasons::NOT_FOUND;
use crate::worker::{JobContext, JobError, Worker};

/// Runs `delete` jobs.
pub(crate) struct Delete(pub(crate) Pull);

#[async_trait]
impl Worker for Delete {
    fn name(&self) -> &'static str {
        "delete"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Delete
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let options =
            job.job.spec.delete.as_ref().ok_or(JobError::MissingOptions { field: "spec.delete" })?;
        job.progress.total(options.paths.len() + options.resources.len());
        let default = format!("Delete from Grafana {}", job.name());
        let writing = Writing::open(&self.0, job, &options.reference, "", default).await?;
        let selection = Selection::of(&self.0, job, &options.paths, &options.resources).await?;
        let context = SyncContext::for_repository(job.repository()?);
        let kinds = self.0.clients.further.known().await;
        let of = ParseContext { context: &context, folder: None, checksum: "", kinds: &kinds };
        let stage = |files: &Files, staged: &mut Stage, results: &mut Vec<ResourceResult>| {
            stage(job, &selection, of, files, staged, results)
        };
        writing
            .run(&selection.shared(), stage)
            .await
            .map_err(|error| error.within("delete files from repository"))?;
        if !writing.is_configured() {
            return Ok(());
        }
        job.progress.reset(true);
        pull_after(&self.0, job, TakeOver::default()).await
    }
}

fn stage(
    job: &JobContext,
    selection: &Selection,
    of: ParseContext<'_>,
    files: &Files,
    staged: &mut Stage,
    results: &mut Vec<ResourceResult>,
) -> Result<(), JobError> {
    let mut gone = HashSet::new();
    // What is left of files of several documents.
    let mut left: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for Selected { path, object } in &selection.paths {
        job.progress.message(format!("Deleting {path}"));
        let mut result = ResourceResult::new(path, "", "", ResourceAction::Deleted);
        let missing =
            |what: &str| Failure::warning(NOT_FOUND, format!("{what} not found: nothing was deleted"));
        if let Some((kind, name)) = object
            && let Some(present) = files.present.get(path).filter(|_| !gone.contains(path.as_str()))
        {
            let content = left.get(path.as_str()).map_or(&present[..], |left| &left[..]);
            result =
                ResourceResult::new(path, &*kind.group, &*kind.kind, ResourceAction::Deleted).named(name);
            match serialise::without(kind, name, serialise::File { path, content, of }) {
                // The whole file goes.
                Ok(Remainder::Nothing) => {}
                Ok(Remainder::File(rest)) => {
                    left.insert(path, rest);
                    results.push(result);
                    continue;
                }
                Ok(Remainder::Absent) if files.may_be_done => {
                    results.push(result);
                    continue;
                }
                Ok(Remainder::Absent) => {
                    results.push(result.failed(missing("its document")));
                    continue;
                }
                Err(error) => {
                    results.push(result.failed(Failure::error(error.to_string())));
                    return Err(JobError::TooManyErrors { count: 1 });
                }
            }
        }
        let file = files.file(path).map(|entry| &*entry.path);
        let all: Vec<&str> = match file {
            Some(file) => vec![file],
            None => files.below(path).map(|entry| &*entry.path).collect(),
        };
        if all.is_empty() && !files.may_be_done {
            results.push(result.failed(missing("file")));
            continue;
        }
        for path in all.into_iter().filter(|path| gone.insert((*path).to_owned())) {
            left.remove(path);
            staged.delete(path).map_err(JobError::Write)?;
        }
        results.push(result);
    }
    for (path, rest) in left {
        staged.put(path, rest).map_err(JobError::Write)?;
    }
    // What an earlier try has deleted is no longer known.
    if !files.may_be_done && !files.is_repeated {
        results.extend(selection.unknown.iter().map(unknown));
    }
    Ok(())
}

fn unknown(ResourceRef { name, kind, group }: &ResourceRef) -> ResourceResult {
    let message = "no file of the repository stands for it: nothing was deleted";
    ResourceResult::new("", group, kind, ResourceAction::Deleted)
        .named(name)
        .failed(Failure::warning(NOT_FOUND, message))
}
