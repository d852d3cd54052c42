//! Files, from their reading to the writing of their objects.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;

use super::load::{self, Content, Loaded};
use super::{Applier, DeleteTarget, Stopped, Subject, action_of, removed};
use crate::Kind;
use crate::objects::{Effect, Observed, duplicate};
use crate::outcome::{Action, Failure, ItemResult, Reason};
use crate::parse::ParsedResource;
use crate::plan::{Deletion, FileWrite, Known, Target};

impl Applier {
    /// Reads, parses and writes files. Parsing runs ahead of writing, in the files' order, which decides which of
    /// two files that claim one object is the first.
    pub(super) async fn write_files(self: &Arc<Self>, writes: Vec<FileWrite>) {
        let loaded = stream::iter(load::batches(writes))
            .map(|batch| {
                let task = tokio::spawn(load::load(self.job.clone(), batch.clone()));
                async move { task.await.unwrap_or_else(|_panicked| load::failed(batch)) }
            })
            .buffered(2)
            .flat_map(stream::iter);
        let claimed = loaded.filter_map(|loaded| {
            let claimed = self.claim(loaded);
            async move { claimed }
        });
        self.each(claimed, Self::write_file).await;
    }

    /// Finds files that moved and changed at once: each is a deletion and a new file of one object, which it keeps. Answers
    /// the other deletions, the moved files, and the other files. New files are read for it only where something is
    /// deleted.
    pub(super) async fn follow_moves(
        self: &Arc<Self>,
        deletions: Vec<Deletion>,
        files: Vec<FileWrite>,
    ) -> (Vec<Deletion>, Vec<FileWrite>, Vec<FileWrite>) {
        let is_new = |write: &&FileWrite| !write.is_update() && write.previous_path.is_none();
        let new: Vec<FileWrite> = files.iter().filter(is_new).cloned().collect();
        if deletions.is_empty() || new.is_empty() {
            return (deletions, Vec::new(), files);
        }
        let mut claims: HashMap<(Kind, String), String> = HashMap::new();
        for batch in load::batches(new) {
            for Loaded { write, content, .. } in load::load(self.job.clone(), batch).await {
                if let Content::Resource(resource) = content {
                    claims.entry((resource.kind, resource.name)).or_insert(write.path);
                }
            }
        }
        let (mut left, mut origins) = (Vec::new(), HashMap::new());
        for deletion in deletions {
            let mut targets = self.targets_of(&deletion).await;
            let claim = match (targets.pop(), targets.is_empty()) {
                (Some(target), true) => claims.remove(&(target.kind, target.name)),
                _ => None,
            };
            match claim {
                Some(path) => drop(origins.insert(path, deletion)),
                None => left.push(deletion),
            }
        }
        let (mut moved, mut others) = (Vec::new(), Vec::new());
        for mut write in files {
            let Some(Deletion { path, target }) = origins.remove(&write.path) else {
                others.push(write);
                continue;
            };
            write.previous_path = Some(path);
            write.known = match target {
                Target::Listed(existing) => Known::Listed(vec![existing]),
                _ => Known::Nothing,
            };
            moved.push(write);
        }
        (left, moved, others)
    }

    /// Settles, in order, whether a file may be written at all.
    fn claim(&self, loaded: Loaded) -> Option<Loaded> {
        let path = &loaded.write.path;
        let failure = match &loaded.content {
            Content::NotAResource => return Some(loaded),
            Content::Cancelled => {
                self.state.stop(Stopped::Cancelled);
                return None;
            }
            Content::Failed(failure) => failure.clone(),
            Content::Resource(_) if self.state.is_below_failed_folder(path) => {
                self.state.record_skipped(loaded.result(), Reason::SkippedParentFolderNotCreated);
                self.file_failed(&loaded.write);
                return None;
            }
            Content::Resource(resource) => match self.state.claim(&resource.kind, &resource.name, path) {
                Ok(()) => return Some(loaded),
                Err(holder) => duplicate(&resource.kind, &resource.name, &holder),
            },
        };
        self.fail(&loaded, failure);
        None
    }

    fn fail(&self, loaded: &Loaded, failure: Failure) {
        self.state.record(loaded.result().failed(failure));
        self.file_failed(&loaded.write);
    }

    fn file_failed(&self, write: &FileWrite) {
        self.state.write_failed(&write.path, write.previous_path.as_deref());
    }

    async fn write_file(self: Arc<Self>, loaded: Loaded) {
        let item = loaded.result();
        let Loaded { write, content, previous } = loaded;
        let former_path = write.previous_path.as_ref().unwrap_or(&write.path);
        let Content::Resource(resource) = content else {
            // It may have been one before.
            for target in former_objects(&write, previous) {
                self.delete_former(former_path, target).await;
            }
            return;
        };
        let (observed, former) = objects_of(&write, &resource, previous);
        let is_new = matches!(observed, Observed::Absent) || matches!(write.known, Known::Nothing);
        let is_renamed = !former.is_empty();
        let work = self.objects.put_resource(&resource, &write.path, observed, &self.kept);
        let done = |effect, mut item: ItemResult| {
            item.unexpected = match effect {
                Effect::Created => !is_new && !is_renamed,
                Effect::TakenOver => true,
                _ => false,
            };
            item.drifted = effect == Effect::Updated && write.is_repair_of(&resource.kind, &resource.name);
            item.action = match action_of(effect) {
                Action::Updated if write.previous_path.is_some() => Action::Renamed,
                action => action,
            };
            Some(item)
        };
        if !self.change(item, work, done).await {
            self.file_failed(&write);
            return;
        }
        for target in former {
            self.delete_former(former_path, target).await;
        }
    }

    /// Deletes an object that a file no longer describes, if the file was the last to write it.
    async fn delete_former(&self, path: &str, DeleteTarget { kind, name, version }: DeleteTarget) {
        let item = ItemResult::new(Some(&kind), path, &name, Action::Deleted);
        let work = self.objects.delete(&kind, &name, path, version.as_deref());
        let done = |effect, item| (effect != Effect::Kept).then(|| removed(effect, item));
        self.change(item, work, done).await;
    }
}

/// What is known about the object before it is written, and which other objects the file described before.
fn objects_of(
    write: &FileWrite,
    resource: &ParsedResource,
    previous: Option<(Kind, String)>,
) -> (Observed, Vec<DeleteTarget>) {
    let mut former = former_objects(write, previous);
    former.retain(|target| target.kind != resource.kind || target.name != resource.name);
    let observed = match &write.known {
        Known::Listed(existing) => existing
            .iter()
            .find(|existing| existing.kind == resource.kind && existing.name == resource.name)
            .map_or(Observed::Absent, |existing| Observed::At(existing.into())),
        Known::FromContent(None) => Observed::Absent,
        Known::FromContent(Some(_)) | Known::Nothing => Observed::Unknown,
    };
    (observed, former)
}

/// The objects that the file described before, as far as they are known.
fn former_objects(write: &FileWrite, previous: Option<(Kind, String)>) -> Vec<DeleteTarget> {
    match &write.known {
        Known::Listed(existing) => existing.iter().map(DeleteTarget::from).collect(),
        Known::FromContent(_) | Known::Nothing => {
            previous.into_iter().map(|(kind, name)| DeleteTarget { kind, name, version: None }).collect()
        }
    }
}

impl Subject for Loaded {
    fn result(&self) -> ItemResult {
        let action = match (&self.write.previous_path, self.write.is_update()) {
            (Some(_), _) => Action::Renamed,
            (None, true) => Action::Updated,
            (None, false) => Action::Created,
        };
        let (kind, name) = match &self.content {
            Content::Resource(resource) => (Some(&resource.kind), &*resource.name),
            _ => (None, ""),
        };
        let mut item = ItemResult::new(kind, &self.write.path, name, action);
        item.previous_path.clone_from(&self.write.previous_path);
        item.hash = Some(self.write.id);
        item
    }
}
