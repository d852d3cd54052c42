//! `fixFolderMetadata`: gives each directory that has none a `_folder.json`, so that its folder keeps its name wherever the
//! directory goes. Grafana: `jobs/fixfoldermetadata`.

use std::collections::BTreeSet;

use async_trait::async_trait;
use windlass_api::JobAction;
use windlass_lease_queue::progress::{ResourceAction, ResourceResult};
use windlass_repository::Stage;
use windlass_resources::export::renamed;
use windlass_resources::paths::{self, Class, FOLDER_METADATA};
use windlass_resources::{FOLDER, serialise};

use super::{Files, Writing};
use crate::pull::Pull;
use crate::worker::{JobContext, JobError, Worker};

/// Runs `fixFolderMetadata` jobs.
pub(crate) struct FixFolderMetadata(pub(crate) Pull);

#[async_trait]
impl Worker for FixFolderMetadata {
    fn name(&self) -> &'static str {
        "fixFolderMetadata"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::FixFolderMetadata
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let branch = job.job.spec.fix_folder_metadata.as_ref().map_or("", |options| &options.reference);
        let place = if branch.is_empty() { "default branch".to_owned() } else { format!("branch {branch}") };
        job.progress.message(format!("Writing folder metadata files on {place}"));
        let created = job.job.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        let (name, at) = (job.name(), created.unwrap_or_default());
        let default = format!("Add folder metadata files\n\nTriggered by job {name} at {at}");
        let writing = Writing::open(&self.0, job, branch, "", default).await?;
        let uid = job.job.metadata.uid.clone().unwrap_or_default();
        let stage = |files: &Files, staged: &mut Stage, results: &mut Vec<ResourceResult>| {
            stage(&uid, files, staged, results)
        };
        writing.run(&[], stage).await?;
        job.progress.final_message(format!("Folder metadata fixed on {place}"));
        Ok(())
    }
}

fn stage(
    uid: &str,
    files: &Files,
    staged: &mut Stage,
    results: &mut Vec<ResourceResult>,
) -> Result<(), JobError> {
    for directory in directories(files) {
        let path = format!("{directory}/{FOLDER_METADATA}");
        if files.file(&path).is_some() {
            continue;
        }
        let title = directory.rsplit('/').next().unwrap_or(&directory);
        let name = renamed(uid, &directory);
        staged.put(&path, serialise::folder_file(&name, title)).map_err(JobError::Write)?;
        let keep = format!("{directory}/.keep");
        if files.file(&keep).is_some() {
            staged.delete(&keep).map_err(JobError::Write)?;
        }
        results.push(
            ResourceResult::new(path, &*FOLDER.group, &*FOLDER.kind, ResourceAction::Created).named(name),
        );
    }
    Ok(())
}

/// Every directory that becomes a folder.
fn directories(files: &Files) -> BTreeSet<String> {
    let mut directories = BTreeSet::new();
    for entry in &files.tree.entries {
        let mut directory = match paths::classify(&entry.path, entry.kind) {
            Class::Skipped { safe, .. } => safe,
            _ => paths::parent(&entry.path),
        };
        while !directory.is_empty() && directories.insert(directory.to_owned()) {
            directory = paths::parent(directory);
        }
    }
    directories
}
