//! `move`: moves files and folders into another folder, and with them what was made from them. Grafana: `jobs/move`.

use std::collections::HashSet;

use async_trait::async_trait;
use windlass_api::JobAction;
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_repository::Stage;
use windlass_resources::TakeOver;
use windlass_resources::parse::has_several_documents;

use super::selection::{Selected, Selection};
use super::{Files, Writing, pull_after};
use crate::pull::Pull;
use crate::worker::{JobContext, JobError, Worker};

/// Runs `move` jobs.
pub(crate) struct Move(pub(crate) Pull);

#[async_trait]
impl Worker for Move {
    fn name(&self) -> &'static str {
        "move"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Move
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let options = job.job.spec.move_.as_ref().ok_or(JobError::MissingOptions { field: "spec.move" })?;
        if !options.target_path.ends_with('/') {
            return Err(JobError::MissingOptions { field: "spec.move.targetPath that ends with a slash" });
        }
        job.progress.total(options.paths.len() + options.resources.len());
        let default = format!("Move files from Grafana {}", job.name());
        let writing = Writing::open(&self.0, job, &options.reference, "", default).await?;
        let selection = Selection::of(&self.0, job, &options.paths, &options.resources).await?;
        let stage = |files: &Files, staged: &mut Stage, results: &mut Vec<ResourceResult>| {
            stage(job, &selection, options.target_path.trim_matches('/'), files, staged, results)
        };
        writing
            .run(&selection.shared(), stage)
            .await
            .map_err(|error| error.within("move files in repository"))?;
        if !writing.is_configured() {
            return Ok(());
        }
        job.progress.reset(false);
        pull_after(&self.0, job, TakeOver::default()).await
    }
}

fn stage(
    job: &JobContext,
    selection: &Selection,
    target: &str,
    files: &Files,
    staged: &mut Stage,
    results: &mut Vec<ResourceResult>,
) -> Result<(), JobError> {
    if let Some(unknown) = selection.unknown.first() {
        let result = ResourceResult::new("", &unknown.group, &unknown.kind, ResourceAction::Renamed);
        let failure =
            Failure::error("no file of the repository stands for it; look at its name, kind and group");
        results.push(result.named(&unknown.name).failed(failure));
        return Err(JobError::TooManyErrors { count: 1 });
    }
    let (mut gone, mut taken) = (HashSet::new(), HashSet::new());
    for Selected { path, object } in &selection.paths {
        if let Some((kind, name)) = object
            && files.present.get(path).is_some_and(|content| has_several_documents(path, content))
        {
            let result = ResourceResult::new(path, &*kind.group, &*kind.kind, ResourceAction::Renamed);
            let why = "its file has other documents, too; move the file by its path, or give the resource a file of its own";
            results.push(result.named(name).failed(Failure::error(why)));
            return Err(JobError::TooManyErrors { count: 1 });
        }
        let from = path.trim_end_matches('/');
        let base = from.rsplit('/').next().unwrap_or(from);
        let to = if target.is_empty() { base.to_owned() } else { format!("{target}/{base}") };
        if to == from {
            job.progress.message(format!("Skipping {path}"));
            results.push(ResourceResult::new(path, "", "", ResourceAction::Ignored));
            continue;
        }
        job.progress.message(format!("Moving {path} to {to}"));
        let result = ResourceResult::new(&*to, "", "", ResourceAction::Renamed).moved_from(path);
        match moves(files, path, from, &to) {
            Moves::All(moves) => {
                for (from, to) in moves {
                    // It was named before its folder was.
                    if !gone.insert(from.clone()) {
                        continue;
                    }
                    if taken.contains(&to) {
                        results.push(result.failed(Failure::error(format!("two files would be at {to:?}"))));
                        return Err(JobError::TooManyErrors { count: 1 });
                    }
                    staged.rename(&from, &to).map_err(JobError::Write)?;
                    taken.insert(to);
                }
                results.push(result);
            }
            // An earlier try of the job did.
            Moves::Done => results.push(ResourceResult::new(&*to, "", "", ResourceAction::Ignored)),
            Moves::Refused(why) => {
                results.push(result.failed(Failure::error(why)));
                return Err(JobError::TooManyErrors { count: 1 });
            }
        }
    }
    Ok(())
}

enum Moves {
    /// From where to where.
    All(Vec<(String, String)>),
    /// It is there already, and nothing is where it was.
    Done,
    /// It cannot be moved.
    Refused(String),
}

/// The files to move for `from`, which is a folder if `path` ends with a slash or no file is there.
fn moves(files: &Files, path: &str, from: &str, to: &str) -> Moves {
    let is_file = !path.ends_with('/') && files.file(from).is_some();
    let moves: Vec<(String, String)> = if is_file {
        vec![(from.to_owned(), to.to_owned())]
    } else {
        let moved = |path: &str| format!("{to}{}", &path[from.len()..]);
        files.below(from).map(|entry| (entry.path.clone(), moved(&entry.path))).collect()
    };
    let is_taken = |path: &str| files.file(path).is_some() || files.below(path).next().is_some();
    if moves.is_empty() {
        return if !files.is_versioned && is_taken(to) {
            Moves::Done
        } else {
            Moves::Refused("file not found".to_owned())
        };
    }
    if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
        return Moves::Refused(format!("a folder cannot be moved into itself ({to})"));
    }
    // Part of a folder may have been moved before the process ended.
    let taken = moves.iter().find(|(_, to)| is_taken(to)).filter(|_| !files.may_be_done || is_file);
    match taken {
        Some((_, taken)) => {
            Moves::Refused(format!("something is at {taken:?} already; move or delete it first"))
        }
        None if !files.may_be_done && !is_file && is_taken(to) => {
            Moves::Refused(format!("something is at {to:?} already; move or delete it first"))
        }
        None => Moves::All(moves),
    }
}
