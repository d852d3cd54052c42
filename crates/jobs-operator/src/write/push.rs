//! `push`: writes what nobody manages into the repository, as files. Grafana: `jobs/export`.

use async_trait::async_trait;
use windlass_api::JobAction;
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_repository::Stage;
use windlass_resources::FOLDER;
use windlass_resources::export::{self, Export, ExportedFile, Selection, Unmanaged};

use super::{Files, Writing};
use crate::pull::Pull;
use crate::worker::{JobContext, JobError, Worker};

/// Runs `push` jobs.
pub(crate) struct Push(pub(crate) Pull);

#[async_trait]
impl Worker for Push {
    fn name(&self) -> &'static str {
        "push"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Push
    }

    /// What is pushed gets names of its own: it stays beside what it was made from when it is pulled.
    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let options = job.job.spec.push.as_ref().ok_or(JobError::MissingOptions { field: "spec.push" })?;
        let default = format!("Export from Grafana {}", job.name());
        let writing = Writing::open(&self.0, job, &options.branch, &options.message, default).await?;
        let uid = job.job.metadata.uid.clone().unwrap_or_default();
        let selection = Selection {
            repository: &job.job.spec.repository,
            path: &options.path,
            folder: &options.folder,
            resources: &options.resources,
            new_names: Some(&uid),
            new_folder_names: options.generate_new_folder_ids.then_some(&uid),
            folder_metadata: options.generate_new_folder_ids,
        };
        let (unmanaged, export) = collect(&self.0, job, &selection).await?;
        job.progress.message("start resource export");
        let stage = |files: &Files, staged: &mut Stage, results: &mut Vec<ResourceResult>| {
            ignored(&unmanaged, &selection, results);
            for (object, failure) in &export.failed {
                let result =
                    ResourceResult::new("", &*object.kind.group, &*object.kind.kind, ResourceAction::Ignored);
                results.push(result.named(&object.name).failed(Failure::error(&failure.message)));
            }
            for file in &export.files {
                let mut result = created(file);
                if files.file(&file.path).is_some() {
                    result.action = ResourceAction::Ignored;
                } else {
                    staged.put(&file.path, file.content.clone()).map_err(JobError::Write)?;
                }
                results.push(result);
            }
            Ok(())
        };
        writing.run(&[], stage).await?;
        Ok(())
    }
}

/// What is to be written: all of it, or the job fails.
pub(super) async fn collect(
    pull: &Pull,
    job: &JobContext,
    selection: &Selection<'_>,
) -> Result<(Unmanaged, Export), JobError> {
    job.progress.message("read folder tree from API server");
    let namespace = job.job.metadata.namespace.as_deref().unwrap_or_default();
    let unmanaged = export::list(&pull.clients, namespace).await.map_err(JobError::List)?;
    job.progress.message("write folders to repository");
    let export = unmanaged.place(selection);
    let used: i64 = job.repository()?.status.stats.iter().map(|count| count.count).sum();
    let wanted = usize::try_from(used).unwrap_or_default() + export.files.len();
    let limit = pull.limits.resources;
    if limit > 0 && wanted > limit {
        return Err(JobError::ExportQuota { wanted, limit });
    }
    if let Some((missing, why)) = export.missing.first() {
        let kind = format!("{} {}", missing.kind, missing.name);
        return Err(JobError::NotExported { what: kind, why: why.clone() });
    }
    job.progress.total(export.files.len() + export.failed.len() + unmanaged.managed.len());
    Ok((unmanaged, export))
}

/// What somebody manages is left where it is, and counted.
fn ignored(unmanaged: &Unmanaged, selection: &Selection<'_>, results: &mut Vec<ResourceResult>) {
    if !selection.resources.is_empty() || !selection.folder.is_empty() {
        return;
    }
    let managed = unmanaged.managed.iter().filter(|(kind, ..)| *kind != FOLDER);
    results.extend(managed.map(|(kind, name, _)| {
        ResourceResult::new("", &*kind.group, &*kind.kind, ResourceAction::Ignored).named(name)
    }));
}

/// The result of a file that is written.
pub(super) fn created(file: &ExportedFile) -> ResourceResult {
    let kind = &file.object.kind;
    ResourceResult::new(&*file.path, &*kind.group, &*kind.kind, ResourceAction::Created)
        .named(&*file.object.name)
}
