//! The files that a job names, by path or by the resources that come from them.

use std::collections::HashSet;

use windlass_api::ResourceRef;
use windlass_resources::{Managed, managed};

use crate::pull::Pull;
use crate::worker::{JobContext, JobError};

/// Paths in the order in which they were named, each once, and resources that no file of the repository stands for.
pub(super) struct Selection {
    pub(super) paths: Vec<String>,
    pub(super) unknown: Vec<ResourceRef>,
}

impl Selection {
    /// Looks the resources up among what the repository manages.
    pub(super) async fn of(
        pull: &Pull,
        job: &JobContext,
        paths: &[String],
        resources: &[ResourceRef],
    ) -> Result<Self, JobError> {
        let mut selection = Self { paths: Vec::new(), unknown: Vec::new() };
        let mut seen = HashSet::new();
        let mut add = |path: &str, paths: &mut Vec<String>| {
            if seen.insert(path.trim_end_matches('/').to_owned()) {
                paths.push(path.to_owned());
            }
        };
        for path in paths {
            add(path.trim_start_matches('/'), &mut selection.paths);
        }
        if resources.is_empty() {
            return Ok(selection);
        }
        job.progress.message("Resolving resource paths");
        let namespace = job.job.metadata.namespace.as_deref().unwrap_or_default();
        let listed = managed::list(&pull.clients, namespace, &job.job.spec.repository).await;
        let listed = listed.map_err(JobError::List)?;
        for resource in resources {
            let ResourceRef { name, kind, group } = resource;
            job.progress.message(format!("Finding path for resource {group}/{kind}/{name}"));
            match path_of(&listed, resource) {
                Some(path) => add(&path, &mut selection.paths),
                None => selection.unknown.push(resource.clone()),
            }
        }
        Ok(selection)
    }
}

/// The file of a resource; the directory, with a slash, of a folder.
fn path_of(managed: &Managed, wanted: &ResourceRef) -> Option<String> {
    let is_wanted = |item: &&windlass_resources::ManagedItem| {
        item.name == wanted.name
            && *item.kind.kind == wanted.kind
            && (wanted.group.is_empty() || *item.kind.group == wanted.group)
            && !item.path.is_empty()
    };
    let folder = managed.folders.iter().find(is_wanted).map(|item| format!("{}/", item.path));
    folder.or_else(|| managed.files.iter().find(is_wanted).map(|item| item.path.clone()))
}
