//! What a change would do to objects: parsed, allowed to the caller, and tried against the API.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::Value;
use windlass_api::ResourceAction;
use windlass_auth::Caller;
use windlass_git::{ObjectId, Tree};
use windlass_resources::parse::{Document, FileError, ParsedResource};
use windlass_resources::paths::is_yaml;
use windlass_resources::{FOLDER, Preview, PreviewError, folders};

use super::change::Change;
use super::path::FileClass;
use super::place::{Place, find};
use crate::answer::Refusal;
use crate::request::Target;
use crate::state::{FILE_LIMIT, RepositoryApi};

/// What is known of the objects of a file, in its order; there are none of one that stands for no object.
#[derive(Debug, Default)]
pub(super) struct Trial {
    pub(super) objects: Vec<TriedObject>,
}

/// What is known of an object.
#[derive(Debug)]
pub(super) struct TriedObject {
    /// The document, understood.
    pub(super) resource: ParsedResource,
    /// As the file has it.
    pub(super) document: Value,
    /// As the API has it.
    pub(super) existing: Option<Value>,
    /// As the API would have it.
    pub(super) dry_run: Option<Value>,
}

impl Trial {
    /// The one object of the file, if it has one.
    pub(super) fn only(&self) -> Option<&TriedObject> {
        if let [only] = &self.objects[..] { Some(only) } else { None }
    }
}

impl TriedObject {
    pub(super) fn title(&self) -> &str {
        self.document["spec"]["title"].as_str().unwrap_or_default()
    }
}

/// Makes trials for a caller.
pub(super) struct DryRunner<'a> {
    pub(super) state: &'a RepositoryApi,
    pub(super) target: &'a Target,
    pub(super) caller: &'a Caller,
    pub(super) place: &'a Place,
}

impl DryRunner<'_> {
    /// Tries a change: refused is what is not understood, what the caller may not do to the object, and what the API
    /// would refuse. Nothing is written.
    pub(super) async fn run(&self, change: &Change, tree: &Tree, dry_run: bool) -> Result<Trial, Refusal> {
        let preview = self.preview();
        let verb = match change.action {
            ResourceAction::Create => "create",
            ResourceAction::Update | ResourceAction::Move => "update",
            ResourceAction::Delete => "delete",
        };
        if change.path.is_folder || change.path.class() == FileClass::FolderMetadata {
            if let Some(content) = &change.content {
                preview.check_folder(content).map_err(|error| of_file(&change.path.text, &error))?;
            }
            self.target.admit_object(self.state, self.caller, verb, (&FOLDER, "")).await?;
            return Ok(Trial::default());
        }
        let former_path = change.original.as_ref().unwrap_or(&change.path);
        let former = match find(tree, &former_path.text) {
            Some(entry) => Some((entry.id, self.read(&former_path.text, entry.size, entry.id).await?)),
            None => None,
        };
        let former_documents = match &former {
            Some((id, content)) => self.parse(&preview, &former_path.text, content, *id, tree).await?,
            None => Ok(Vec::new()),
        };
        let former_objects = || understood(former_documents.as_deref().unwrap_or_default());
        let mut trial = Trial::default();
        if change.action == ResourceAction::Delete {
            for resource in former_objects() {
                self.may(verb, resource).await?;
                let existing = preview.existing(&resource.kind, &resource.version, &resource.name).await?;
                let document = preview.document(resource);
                trial.objects.push(TriedObject {
                    resource: resource.clone(),
                    document,
                    existing,
                    dry_run: None,
                });
            }
            return Ok(trial);
        }
        let content = change.content.as_ref().or(former.as_ref().map(|(_, content)| content));
        let Some(content) = content else { return Ok(trial) };
        let id = match &self.place.opened.writer {
            Some(writer) => writer.id_of(content),
            None => ObjectId::of_blob(content),
        };
        let parsed = self.parse(&preview, &change.path.text, content, id, tree).await?;
        let documents = match parsed {
            Ok(documents) => documents,
            // What moves as it is was no object before.
            Err(_) if change.content.is_none() => return Ok(trial),
            Err(error) => return Err(of_file(&change.path.text, &error)),
        };
        for document in documents {
            let resource = match document.content {
                Ok(resource) => resource,
                Err(_) if change.content.is_none() => continue,
                Err(error) => return Err(of_file(&change.path.text, &error)),
            };
            let is_same =
                |it: &TriedObject| it.resource.kind == resource.kind && it.resource.name == resource.name;
            if trial.objects.iter().any(is_same) {
                let (path, kind, name) = (&change.path.text, &resource.kind.kind, &resource.name);
                let message = format!("{path:?}: two documents are of the {} {name:?}", kind.to_lowercase());
                return Err(Refusal::new(400, message));
            }
            let existing = preview.existing(&resource.kind, &resource.version, &resource.name).await?;
            self.may(if existing.is_some() { "update" } else { "create" }, &resource).await?;
            let document = preview.document(&resource);
            trial.objects.push(TriedObject { resource, document, existing, dry_run: None });
        }
        // An object that the file no longer describes goes.
        let stays = |gone: &ParsedResource| {
            trial.objects.iter().any(|it| it.resource.kind == gone.kind && it.resource.name == gone.name)
        };
        for gone in former_objects().filter(|gone| !stays(gone)) {
            self.may("delete", gone).await?;
        }
        if dry_run {
            let kept: HashSet<String> = tree
                .entries
                .iter()
                .filter(|entry| change.paths().all(|path| path != entry.path))
                .map(|entry| entry.path.clone())
                .collect();
            let path = &change.path.text;
            for TriedObject { resource, existing, dry_run, .. } in &mut trial.objects {
                *dry_run = Some(preview.dry_run(resource, path, existing.as_ref(), &kept).await?);
            }
        }
        Ok(trial)
    }

    /// Content that was sent as JSON for a YAML file, as that file is to say it: what it says already stays as it is
    /// written there. Nothing for other content, or what is no object.
    pub(super) async fn as_yaml(&self, change: &Change, tree: &Tree) -> Result<Option<Bytes>, Refusal> {
        let path = &change.path.text;
        let Some(content) = change.content.as_ref().filter(|_| change.is_json && is_yaml(path)) else {
            return Ok(None);
        };
        let preview = self.preview();
        let sent = self.parse(&preview, path, content, ObjectId::of_blob(content), tree).await?;
        let Some(resource) = sent.ok().and_then(|mut sent| sent.pop()?.content.ok()) else { return Ok(None) };
        let former_path = change.original.as_ref().unwrap_or(&change.path);
        let former = match find(tree, &former_path.text) {
            Some(entry) => self.read(&former_path.text, entry.size, entry.id).await?,
            None => Bytes::new(),
        };
        let updated = preview.updated(path, &former, &resource).await;
        let updated = updated.map_err(|error| Refusal::new(400, format!("{path:?}: {error}")))?;
        Ok(Some(updated.into()))
    }

    pub(super) fn preview(&self) -> Preview {
        Preview::new(&self.state.resources, &self.place.context)
    }

    /// Reads a file, unless it is larger than is answered.
    pub(super) async fn read(&self, path: &str, size: u64, id: ObjectId) -> Result<Bytes, Refusal> {
        if size > FILE_LIMIT as u64 {
            let message = format!("{path:?} has {size} bytes; at most {FILE_LIMIT} are read over the API");
            return Err(Refusal::new(413, message));
        }
        Ok(self.place.opened.reader.blob(id, &self.place.cancel).await?)
    }

    /// Parses a file; the inner error says what is wrong with it.
    pub(super) async fn parse(
        &self,
        preview: &Preview,
        path: &str,
        content: &Bytes,
        id: ObjectId,
        tree: &Tree,
    ) -> Result<Result<Vec<Document>, FileError>, Refusal> {
        let Place { opened, context, cancel, .. } = self.place;
        let folder = folders::holding(&*opened.reader, tree, path, context, cancel).await?;
        Ok(preview.parse(path, content, folder.as_deref(), &id.to_string()).await)
    }

    pub(super) async fn may(&self, verb: &'static str, resource: &ParsedResource) -> Result<(), Refusal> {
        let object = (&resource.kind, resource.name.as_str());
        self.target.admit_object(self.state, self.caller, verb, object).await
    }
}

fn understood(documents: &[Document]) -> impl Iterator<Item = &ParsedResource> {
    documents.iter().filter_map(|document| document.content.as_ref().ok())
}

fn of_file(path: &str, error: &FileError) -> Refusal {
    Refusal::new(400, format!("{path:?}: {error}"))
}

impl From<PreviewError> for Refusal {
    fn from(error: PreviewError) -> Self {
        // What is the fault of neither the caller nor the file is nobody's to mend in the request.
        let code = if (400..500).contains(&error.code) && error.code != 401 { error.code } else { 503 };
        Self::new(code, error.message)
    }
}
