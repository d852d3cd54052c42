//! The files that a job names, by path or by the resources that come from them.

use std::collections::HashSet;

use windlass_api::ResourceRef;
use windlass_resources::paths::is_yaml;
use windlass_resources::{Kind, Managed, managed};

use crate::pull::Pull;
use crate::worker::{JobContext, JobError};

/// Paths in the order in which they were named, each once, and resources that no file of the repository stands for.
pub(super) struct Selection {
    pub(super) paths: Vec<Selected>,
    pub(super) unknown: Vec<ResourceRef>,
}

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Selected {
    pub(super) path: String,
    /// The object that is meant, where it was named and its file may have others, too.
    pub(super) object: Option<(Kind, String)>,
}

impl Selection {
    /// Files that may have others than the object that is meant.
    pub(super) fn shared(&self) -> Vec<&str> {
        let shared = self.paths.iter().filter(|selected| selected.object.is_some());
        shared.map(|selected| &*selected.path).collect()
    }

    /// Looks the resources up among what the repository manages.
    pub(super) async fn of(
        pull: &Pull,
        job: &JobContext,
        paths: &[String],
        resources: &[ResourceRef],
    ) -> Result<Self, JobError> {
        let mut selection = Self { paths: Vec::new(), unknown: Vec::new() };
        let mut seen = HashSet::new();
        let mut add = |path: &str, object: Option<(Kind, String)>, paths: &mut Vec<Selected>| {
            if seen.insert((path.trim_end_matches('/').to_owned(), object.clone())) {
                paths.push(Selected { path: path.to_owned(), object });
            }
        };
        for path in paths {
            add(path.trim_start_matches('/'), None, &mut selection.paths);
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
                Some((path, object)) => add(&path, object, &mut selection.paths),
                None => selection.unknown.push(resource.clone()),
            }
        }
        Ok(selection)
    }
}

/// The file of a resource, with its object where others may be in it; the directory, with a slash, of a folder.
fn path_of(managed: &Managed, wanted: &ResourceRef) -> Option<(String, Option<(Kind, String)>)> {
    let is_wanted = |item: &&windlass_resources::ManagedItem| {
        item.name == wanted.name
            && *item.kind.kind == wanted.kind
            && (wanted.group.is_empty() || *item.kind.group == wanted.group)
            && !item.path.is_empty()
    };
    if let Some(folder) = managed.folders.iter().find(is_wanted) {
        return Some((format!("{}/", folder.path), None));
    }
    let file = managed.files.iter().find(is_wanted)?;
    let object = is_yaml(&file.path).then(|| (file.kind.clone(), file.name.clone()));
    Some((file.path.clone(), object))
}
