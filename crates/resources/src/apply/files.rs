//! Files, from their reading to the writing of their objects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;

use super::load::{self, Content, Loaded};
use super::summary::Stopped;
use super::target::{DeleteTarget, Dropped};
use super::{Applier, Subject, action_of, removed};
use crate::Kind;
use crate::objects::{Effect, Observed, duplicate, holder};
use crate::outcome::{Action, ItemResult, Reason};
use crate::parse::{Document, ParsedResource};
use crate::paths;
use crate::plan::{Deletion, FileWrite, Known, Target};

/// A file whose objects may be written.
pub(super) struct Claimed {
    write: FileWrite,
    objects: Vec<ParsedResource>,
    /// The objects that its former content describes; nothing if that is not known of all.
    previous: Option<Vec<(Kind, String)>>,
    /// Whether it has documents that are not understood, which may be of any object that came from it before.
    in_doubt: bool,
}

impl Applier {
    /// Reads, parses and writes files. Parsing runs ahead of writing, in the files' order, which decides which of
    /// two files that claim one object is the first.
    pub(super) async fn write_files(self: &Arc<Self>, writes: Vec<FileWrite>) {
        let loaded = stream::iter(load::batches(writes))
            .map(|batch| load::load(self.job.clone(), batch))
            .buffered(2)
            .flat_map(stream::iter);
        let claimed = loaded.filter_map(|loaded| {
            let claimed = self.claim(loaded);
            async move { claimed }
        });
        self.each(claimed, Self::write_file).await;
    }

    /// Deletes what the files at these paths no longer stand for, and no other has taken meanwhile.
    pub(super) async fn delete_dropped(self: &Arc<Self>, paths: impl Fn(&str) -> bool) {
        let dropped = self.state.take_dropped(|dropped| paths(&dropped.path));
        self.each(stream::iter(dropped), Self::delete_former).await;
    }

    /// Finds what moved from files that are gone into new ones, or into other files of several documents: it keeps its
    /// objects. Answers the other deletions, the files that are written before folders go, and the rest. Files are read
    /// for it only where something is deleted.
    pub(super) async fn follow_moves(
        self: &Arc<Self>,
        deletions: Vec<Deletion>,
        files: Vec<FileWrite>,
    ) -> (Vec<Deletion>, Vec<FileWrite>, Vec<FileWrite>) {
        let may_gain = |write: &&FileWrite| {
            write.previous_path.is_none() && (!write.is_update() || paths::is_yaml(&write.path))
        };
        let gaining: Vec<FileWrite> = files.iter().filter(may_gain).cloned().collect();
        if deletions.is_empty() || gaining.is_empty() {
            return (deletions, Vec::new(), files);
        }
        // Who claims an object, and whether it is all that is in a new file.
        let mut claims: HashMap<(Kind, String), (String, bool)> = HashMap::new();
        for batch in load::batches(gaining) {
            for Loaded { write, content, .. } in load::load(self.job.clone(), batch).await {
                let Content::Documents(documents) = content else { continue };
                let is_all = documents.len() == 1 && !write.is_update();
                for resource in documents.into_iter().filter_map(|document| document.content.ok()) {
                    let claim = claims.entry((resource.kind, resource.name));
                    claim.or_insert_with(|| (write.path.clone(), is_all));
                }
            }
        }
        let (mut left, mut origins, mut early) = (Vec::new(), HashMap::new(), HashSet::new());
        for deletion in deletions {
            let targets = self.targets_of(&deletion).await;
            let claim = |target: &DeleteTarget| claims.get(&(target.kind.clone(), target.name.clone()));
            match &targets[..] {
                [target]
                    if claim(target).is_some_and(|(path, is_all)| *is_all && !origins.contains_key(path)) =>
                {
                    origins.extend(claim(target).map(|(path, _)| (path.clone(), deletion)));
                }
                targets if targets.iter().any(|target| claim(target).is_some()) => {
                    for DeleteTarget { kind, name, .. } in targets.iter().filter(|it| claim(it).is_none()) {
                        let target = Target::Named(kind.clone(), name.clone());
                        left.push(Deletion { path: deletion.path.clone(), target });
                    }
                    early.extend(targets.iter().filter_map(claim).map(|(path, _)| path.clone()));
                }
                _ => left.push(deletion),
            }
        }
        let (mut moved, mut others) = (Vec::new(), Vec::new());
        for mut write in files {
            if let Some(Deletion { path, target }) = origins.remove(&write.path) {
                write.previous_path = Some(path);
                write.known = match target {
                    Target::Listed(existing) => Known::Listed(vec![existing]),
                    _ => Known::Nothing,
                };
                moved.push(write);
            } else if early.contains(&write.path) {
                moved.push(write);
            } else {
                others.push(write);
            }
        }
        (left, moved, others)
    }

    /// Settles, in order, what of a file may be written at all.
    fn claim(&self, loaded: Loaded) -> Option<Claimed> {
        let Loaded { write, content, previous } = loaded;
        let documents = match content {
            Content::Cancelled => {
                self.state.stop(Stopped::Cancelled);
                return None;
            }
            Content::Failed(failure) => {
                self.state.record(result(&write, None).failed(failure));
                self.file_failed(&write);
                return None;
            }
            Content::Documents(documents) => documents,
        };
        let mut claimed = Claimed { write, objects: Vec::new(), previous, in_doubt: false };
        let (mut failed, without_folder) = (false, self.state.is_below_failed_folder(&claimed.write.path));
        for Document { number, content } in documents {
            let path = &claimed.write.path;
            let failure = match &content {
                Err(error) => {
                    claimed.in_doubt = true;
                    error.clone().into()
                }
                Ok(resource) if without_folder => {
                    let item = result(&claimed.write, Some(resource));
                    self.state.record_skipped(item, Reason::SkippedParentFolderNotCreated);
                    failed = true;
                    continue;
                }
                Ok(resource) => {
                    match self.state.claim(&resource.kind, &resource.name, holder(path, number)) {
                        Ok(()) => {
                            claimed.objects.extend(content.ok());
                            continue;
                        }
                        Err(holder) => duplicate(&resource.kind, &resource.name, &holder),
                    }
                }
            };
            failed = true;
            self.state.record(result(&claimed.write, content.as_ref().ok()).failed(failure));
        }
        if failed {
            self.file_failed(&claimed.write);
        }
        (!failed || !claimed.objects.is_empty()).then_some(claimed)
    }

    fn file_failed(&self, write: &FileWrite) {
        self.state.write_failed(&write.path, write.previous_path.as_deref());
    }

    /// Writes the objects of a file one after the other. One that cannot be written leaves the others alone.
    async fn write_file(self: Arc<Self>, claimed: Claimed) {
        let Claimed { write, objects, previous, mut in_doubt } = claimed;
        let former_path = write.previous_path.as_ref().unwrap_or(&write.path);
        let mut former: Vec<DeleteTarget> = match (&write.known, previous) {
            (Known::Listed(existing), _) => existing.iter().map(DeleteTarget::from).collect(),
            (Known::FromContent(Some(_)), None) => self.objects_at(former_path).await,
            (_, previous) => previous.into_iter().flatten().map(DeleteTarget::from).collect(),
        };
        // A first object of a new file was reckoned with, and one that takes the place of another.
        let had = |resource: &ParsedResource| former.iter().any(|target| target.is(resource));
        let gone = former.iter().filter(|target| !objects.iter().any(|resource| target.is(resource))).count();
        let mut planned = if former.is_empty() { 1 } else { gone };
        let mut work = Vec::with_capacity(objects.len());
        for resource in &objects {
            let is_new = !had(resource);
            let needs_room = is_new && planned == 0;
            planned -= usize::from(is_new && !needs_room);
            work.push((resource, is_new, needs_room));
        }
        // Of several, those are written whose document changed. If none did, the last one says that the file was read.
        let (mut left, mut is_told) = (work.len(), false);
        for (resource, is_new, needs_room) in work {
            left -= 1;
            let whole = !resource.is_of_several() || (left == 0 && !is_told && !in_doubt);
            if !self.may_go_on() {
                return;
            }
            let observed = observed(&write, resource);
            let was_absent = matches!(observed, Observed::Absent) || matches!(write.known, Known::Nothing);
            let room = needs_room.then_some(&self.room);
            let put = self.objects.put_resource(resource, &write.path, observed, &self.kept, room, whole);
            let done = |effect: Effect, mut item: ItemResult| {
                is_told |= effect != Effect::Unchanged;
                item.unexpected = match effect {
                    Effect::Created => !was_absent && !is_new,
                    effect => effect.was_unlisted(),
                };
                item.drifted = match effect {
                    Effect::Relabelled => true,
                    Effect::Updated => {
                        write.is_repair_of(&resource.kind, &resource.name, resource.content_hash())
                    }
                    _ => false,
                };
                item.action = match action_of(effect) {
                    Action::Updated if write.previous_path.is_some() => Action::Renamed,
                    action => action,
                };
                Some(item)
            };
            if !self.change(result(&write, Some(resource)), put, done).await {
                self.file_failed(&write);
                // It may be a former one under another name.
                in_doubt |= is_new;
            }
        }
        if in_doubt {
            return;
        }
        former.retain(|target| !objects.iter().any(|resource| target.is(resource)));
        self.state.dropped(former.into_iter().map(|target| Dropped { path: former_path.clone(), target }));
    }

    /// Deletes an object that a file no longer describes, if the file was the last to write it.
    async fn delete_former(self: Arc<Self>, dropped: Dropped) {
        let item = dropped.result();
        let Dropped { path, target: DeleteTarget { kind, name, version } } = dropped;
        let work = self.objects.delete(&kind, &name, &path, version.as_deref());
        let done = |effect, item| (effect != Effect::Kept).then(|| removed(effect, item));
        self.change(item, work, done).await;
    }
}

/// What is known about an object before it is written.
fn observed(write: &FileWrite, resource: &ParsedResource) -> Observed {
    let existing = match &write.known {
        Known::Listed(existing) => existing.iter().find(|it| DeleteTarget::from(*it).is(resource)),
        Known::FromContent(None) => None,
        Known::FromContent(Some(_)) | Known::Nothing => return Observed::Unknown,
    };
    let Some(existing) = existing else { return Observed::Absent };
    // Of several documents, it may be another that is not as it should be.
    let may_be_right = resource.is_of_several()
        && write.previous_path.is_none()
        && !existing.drifted
        && existing.checksum.as_deref() == resource.content_hash();
    if may_be_right { Observed::Unknown } else { Observed::At(existing.into()) }
}

/// The result that an object of a file is to have.
fn result(write: &FileWrite, resource: Option<&ParsedResource>) -> ItemResult {
    let action = match (&write.previous_path, write.is_update()) {
        (Some(_), _) => Action::Renamed,
        (None, true) => Action::Updated,
        (None, false) => Action::Created,
    };
    let (kind, name) = resource.map_or((None, ""), |resource| (Some(&resource.kind), &*resource.name));
    let mut item = ItemResult::new(kind, &write.path, name, action);
    item.previous_path.clone_from(&write.previous_path);
    item.hash = Some(write.id);
    item
}

impl Subject for Claimed {
    fn result(&self) -> ItemResult {
        result(&self.write, self.objects.first())
    }
}

impl Subject for Dropped {
    fn result(&self) -> ItemResult {
        let DeleteTarget { kind, name, .. } = &self.target;
        ItemResult::new(Some(kind), &self.path, name, Action::Deleted)
    }
}
