//! One file of a pull request: what it stands for, and what merging it would do.

use std::collections::HashSet;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_git::{Entry, EntryKind, Revision, Tree};
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_repository::{Opened, ReadError, encoded};
use windlass_resources::parse::{Document, ParsedResource};
use windlass_resources::paths::{Class, classify};
use windlass_resources::{Preview, Reason, SyncContext, folders};

use crate::worker::JobError;

/// A file that the pull request changes, seen from the repository's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) path: String,
    /// Where it was, if it moves.
    pub(super) previous: Option<String>,
    /// Whether it goes; then `path` is where it was.
    pub(super) is_gone: bool,
}

impl Changed {
    /// Whether files of its name become objects.
    pub(super) fn is_resource(&self) -> bool {
        matches!(classify(&self.path, EntryKind::File), Class::Resource)
    }
}

/// What merging does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Create,
    Update,
    Move,
    Delete,
}

/// What is told of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileReport {
    pub(super) path: String,
    pub(super) action: Action,
    /// Of the object: kind, group, and title or name; empty where the file could not be understood.
    pub(super) kind: String,
    pub(super) group: String,
    pub(super) title: String,
    /// The file's page.
    pub(super) source: Option<String>,
    /// The page of the object as it is now.
    pub(super) current: Option<String>,
    /// The page of the object as it would be.
    pub(super) preview: Option<String>,
    /// What the API says against it.
    pub(super) error: Option<String>,
}

impl FileReport {
    pub(super) fn is_dashboard(&self) -> bool {
        self.kind == "Dashboard"
    }

    pub(super) fn result(&self) -> ResourceResult {
        let result = ResourceResult::new(&self.path, &self.group, &self.kind, ResourceAction::Ignored);
        match &self.error {
            Some(error) => result.failed(Failure::warning(Reason::ResourceInvalid.as_str(), error)),
            None => result,
        }
    }
}

/// Where people open objects.
#[derive(Clone, Debug)]
pub(super) struct Links {
    pub(super) base: String,
    pub(super) repository: String,
    /// The pull request's branch.
    pub(super) reference: String,
    /// The pull request's page.
    pub(super) pull: String,
}

impl Links {
    fn current(&self, name: &str, title: &str) -> String {
        let dashed = |c: char| if c.is_alphanumeric() { c } else { '-' };
        let slug: String = title.to_lowercase().chars().map(dashed).collect();
        let slug = slug.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
        format!("{}/d/{}/{}", self.base, encoded(name, false), encoded(&slug, false))
    }

    fn preview(&self, path: &str) -> String {
        let (path, reference) = (encoded(path, true), encoded(&self.reference, false));
        let repository = encoded(&self.repository, false);
        let base = &self.base;
        let page = format!("{base}/admin/provisioning/{repository}/dashboard/preview/{path}?ref={reference}");
        if self.pull.is_empty() {
            return page;
        }
        format!("{page}&pull_request_url={}", encoded(&self.pull, false))
    }
}

/// What looking takes.
pub(super) struct FileLook<'a> {
    pub(super) opened: &'a Opened,
    pub(super) preview: Preview,
    pub(super) context: SyncContext,
    /// What the pull request would bring.
    pub(super) head: (&'a Revision, &'a Tree),
    /// What is there now; nothing where nothing goes.
    pub(super) base: Option<&'a Tree>,
    pub(super) links: Option<Links>,
    pub(super) cancel: &'a CancellationToken,
}

impl FileLook<'_> {
    /// Looks at the objects of one file. What is wrong with them is told; an error is that of the whole look.
    pub(super) async fn at(&self, file: &Changed) -> Result<Vec<FileReport>, JobError> {
        let (revision, head) = self.head;
        let tree = if file.is_gone { self.base.unwrap_or(head) } else { head };
        let page = self.opened.urls.as_ref().filter(|_| !file.is_gone);
        let mut looked = FileReport {
            path: file.path.clone(),
            action: match (file.is_gone, &file.previous) {
                (true, _) => Action::Delete,
                (false, Some(_)) => Action::Move,
                (false, None) => Action::Create,
            },
            kind: String::new(),
            group: String::new(),
            title: String::new(),
            source: page.map(|urls| urls.file(revision.as_str(), &file.path)),
            current: None,
            preview: None,
            error: None,
        };
        let Some(entry) = tree.entries.iter().find(|entry| entry.path == file.path) else {
            if !file.is_gone {
                looked.error = Some("the file is not in the branch any more".to_owned());
            }
            return Ok(vec![looked]);
        };
        let documents = match self.documents(file, entry, tree).await? {
            Ok(documents) => documents,
            Err(error) => {
                looked.error = Some(error);
                return Ok(vec![looked]);
            }
        };
        let mut all = Vec::with_capacity(documents.len());
        for document in documents {
            let mut looked = looked.clone();
            match document.content {
                Ok(resource) => {
                    looked.error = self.fill_in(&mut looked, file, &resource, tree).await.err();
                }
                Err(error) => looked.error = Some(error.to_string()).filter(|_| !file.is_gone),
            }
            all.push(looked);
        }
        Ok(if all.is_empty() { vec![looked] } else { all })
    }

    /// The documents of the file, or what is wrong with it.
    async fn documents(
        &self,
        file: &Changed,
        entry: &Entry,
        tree: &Tree,
    ) -> Result<Result<Vec<Document>, String>, JobError> {
        let failed = |source: ReadError| JobError::Repository { what: "read a file", source };
        let reader = &self.opened.reader;
        if entry.size > reader.limits().blob_bytes {
            return Ok(Err(format!("the file has {} bytes, which is too much to be read", entry.size)));
        }
        let content = reader.blob(entry.id, self.cancel).await.map_err(failed)?;
        let folder = folders::holding(&**reader, tree, &file.path, &self.context, self.cancel).await;
        let folder = folder.map_err(failed)?;
        let checksum = entry.id.to_string();
        let parsed = self.preview.parse(&file.path, &content, folder.as_deref(), &checksum).await;
        Ok(match parsed {
            // What goes may be anything.
            Err(_) if file.is_gone => Ok(Vec::new()),
            parsed => parsed.map_err(|error| error.to_string()),
        })
    }

    async fn fill_in(
        &self,
        looked: &mut FileReport,
        file: &Changed,
        resource: &ParsedResource,
        tree: &Tree,
    ) -> Result<(), String> {
        looked.kind = resource.kind.kind.to_string();
        looked.group = resource.kind.group.to_string();
        let document = self.preview.document(resource);
        let title = document["spec"]["title"].as_str().filter(|title| !title.is_empty());
        title.unwrap_or(&resource.name).clone_into(&mut looked.title);
        let existing = self.preview.existing(&resource.kind, &resource.version, &resource.name).await;
        let existing = existing.map_err(|error| error.message)?;
        if looked.action == Action::Create && existing.is_some() {
            looked.action = Action::Update;
        }
        if let Some(links) = self.links.as_ref().filter(|_| looked.is_dashboard()) {
            let title_now = existing.as_ref().and_then(|it: &Value| it["spec"]["title"].as_str());
            looked.current = title_now.map(|title| links.current(&resource.name, title));
            looked.preview = (!file.is_gone).then(|| links.preview(&file.path));
        }
        if file.is_gone {
            return Ok(());
        }
        let kept: HashSet<String> = tree
            .entries
            .iter()
            .map(|entry| &entry.path)
            .filter(|path| **path != file.path && Some(*path) != file.previous.as_ref())
            .cloned()
            .collect();
        let tried = self.preview.dry_run(resource, &file.path, existing.as_ref(), &kept).await;
        tried.map(drop).map_err(|error| error.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_leads_a_link_elsewhere() {
        let links = Links {
            base: "https://grafana.example".to_owned(),
            repository: "dash".to_owned(),
            reference: "feature/a&b".to_owned(),
            pull: "https://github.com/o/r/pull/7".to_owned(),
        };
        assert_eq!(
            links.current("a b", "CPU & Disk (prod)"),
            "https://grafana.example/d/a%20b/cpu-disk-prod"
        );
        assert_eq!(
            links.preview("x y/)#?.json"),
            "https://grafana.example/admin/provisioning/dash/dashboard/preview/x%20y/%29%23%3F.json\
             ?ref=feature%2Fa%26b&pull_request_url=https%3A%2F%2Fgithub.com%2Fo%2Fr%2Fpull%2F7"
        );
    }
}
