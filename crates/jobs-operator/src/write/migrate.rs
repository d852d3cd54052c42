//! `migrate`: writes what nobody manages into the repository, and makes it the repository's. Grafana: `jobs/migrate`.
//!
//! Nothing is deleted that the repository does not hold: what was exported is known by its version, and an object that has
//! changed since, or came later, stays.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_api::{JobAction, MigrateOptions, SyncTarget};
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_repository::Stage;
use windlass_resources::export::{self, Export, ExportedFile, ExportedObject, Selection};
use windlass_resources::{FOLDER, TakeOver};

use super::push::{collect, created};
use super::{Files, Writing, pull_after};
use crate::pull::Pull;
use crate::worker::{JobContext, JobError, Worker};

/// Runs `migrate` jobs.
pub(crate) struct Migrate(pub(crate) Pull);

#[async_trait]
impl Worker for Migrate {
    fn name(&self) -> &'static str {
        "migrate"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Migrate
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let options =
            job.job.spec.migrate.as_ref().ok_or(JobError::MissingOptions { field: "spec.migrate" })?;
        let target = job.repository()?.spec.sync.target.unwrap_or(SyncTarget::Folder);
        if target == SyncTarget::Instance && !options.resources.is_empty() {
            return Err(JobError::SelectiveInstance);
        }
        job.progress.total(10);
        let default = format!("Export from Grafana {}", job.name());
        let writing = Writing::open(&self.0, job, &options.branch, &options.message, default).await?;
        let mut exported = self.export(job, options, &writing).await?;
        if writing.is_configured() {
            let keeps_name =
                |object: &&ExportedObject| object.kind != FOLDER || !options.generate_new_folder_ids;
            let named = |object: &ExportedObject| (object.kind.clone(), object.name.clone());
            let take_over: TakeOver = Arc::new(exported.iter().filter(keeps_name).map(named).collect());
            job.progress.reset(false);
            pull_after(&self.0, job, take_over).await?;
            exported.retain(|object| target == SyncTarget::Instance || !keeps_name(&object));
        }
        let recorder = job.progress.recorder();
        if options.skip_resource_deletion || recorder.error_count() + recorder.warning_count() > 0 {
            return Ok(());
        }
        if target == SyncTarget::Instance {
            return self.clean(job, exported, "remove unprovisioned resources").await;
        }
        if writing.is_configured() {
            return Ok(());
        }
        exported.retain(|object| object.kind != FOLDER);
        self.clean(job, exported, "delete migrated resources").await
    }
}

impl Migrate {
    /// Writes the files; answers the objects that the repository holds then.
    async fn export(
        &self,
        job: &JobContext,
        options: &MigrateOptions,
        writing: &Writing<'_>,
    ) -> Result<Vec<ExportedObject>, JobError> {
        let uid = job.job.metadata.uid.clone().unwrap_or_default();
        let selection = Selection {
            repository: &job.job.spec.repository,
            resources: &options.resources,
            new_folder_names: options.generate_new_folder_ids.then_some(&uid),
            folder_metadata: true,
            ..Selection::default()
        };
        let (_, export) = collect(&self.0, job, &selection).await?;
        let paths: Vec<&str> = export.files.iter().map(|file| &*file.path).collect();
        let stage = |files: &Files, staged: &mut Stage, results: &mut Vec<ResourceResult>| {
            stage(&export, files, staged, results)
        };
        let written = writing.run(&paths, stage).await?;
        let mut files = export.files;
        if written.repeated {
            // The earlier try may not have known all of them.
            let held = writing.files(&written.revision, &paths_of(&files)).await?;
            files.retain(|file| says(&held, file));
        }
        Ok(files.into_iter().map(|file| file.object).collect())
    }

    /// Deletes what was exported and is still as it was then; what the pull has taken over is not.
    async fn clean(
        &self,
        job: &JobContext,
        exported: Vec<ExportedObject>,
        what: &'static str,
    ) -> Result<(), JobError> {
        job.progress.message(what);
        let namespace = job.job.metadata.namespace.as_deref().unwrap_or_default();
        let unmanaged = export::list(&self.0.clients, namespace).await.map_err(JobError::List)?;
        let unmanaged: HashSet<ExportedObject> = unmanaged.objects().into_iter().collect();
        let mut left: Vec<ExportedObject> =
            exported.into_iter().filter(|object| unmanaged.contains(object)).collect();
        // Folders when they are empty, those inside others first.
        left.reverse();
        left.sort_by_key(|object| object.kind == FOLDER);
        for object in left {
            if job.cancel().is_cancelled() {
                return Err(JobError::Stopped);
            }
            let lease = job.lease.clone();
            let fence = (job.cancel().clone(), Arc::new(move || lease.valid()) as _);
            let deleted = export::delete_exported(&self.0.clients, namespace, &object, fence).await;
            let kind = &object.kind;
            let result =
                |action| ResourceResult::new("", &*kind.group, &*kind.kind, action).named(&*object.name);
            match deleted {
                Ok(true) => job.progress.record(&result(ResourceAction::Deleted)),
                Ok(false) => job.progress.record(&result(ResourceAction::Ignored)),
                Err(_) if !job.lease.valid() => return Err(JobError::LeaseLost),
                Err(failure) => {
                    job.progress
                        .record(&result(ResourceAction::Deleted).failed(Failure::error(failure.message)));
                    return Err(JobError::TooManyErrors { count: 1 });
                }
            }
        }
        Ok(())
    }
}

/// One file that cannot be written ends the job before anything is: nothing is half migrated.
fn stage(
    export: &Export,
    files: &Files,
    staged: &mut Stage,
    results: &mut Vec<ResourceResult>,
) -> Result<(), JobError> {
    if let Some((object, failure)) = export.failed.first() {
        let result =
            ResourceResult::new("", &*object.kind.group, &*object.kind.kind, ResourceAction::Created);
        results.push(result.named(&*object.name).failed(Failure::error(&failure.message)));
        return Err(JobError::TooManyErrors { count: 1 });
    }
    for file in &export.files {
        let mut result = created(file);
        if files.file(&file.path).is_none() {
            staged.put(&file.path, file.content.clone()).map_err(JobError::Write)?;
        } else if says(files, file) {
            result.action = ResourceAction::Ignored;
        } else {
            let why = "another file is there; move or delete it, or give the resource another title";
            results.push(result.failed(Failure::error(why)));
            return Err(JobError::TooManyErrors { count: 1 });
        }
        results.push(result);
    }
    Ok(())
}

fn paths_of(files: &[ExportedFile]) -> Vec<&str> {
    files.iter().map(|file| &*file.path).collect()
}

fn says(files: &Files, file: &ExportedFile) -> bool {
    files.present.get(&file.path).is_some_and(|content| content.as_ref() == file.content.as_bytes())
}
