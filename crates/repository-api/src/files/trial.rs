//! What a change would do to objects: parsed, allowed to the caller, and tried against the API.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::Value;
use windlass_api::ResourceAction;
use windlass_auth::Caller;
use windlass_git::{ObjectId, Tree};
use windlass_resources::parse::{FileError, ParsedResource};
use windlass_resources::paths::is_yaml;
use windlass_resources::{FOLDER, Preview, PreviewError, folders};

use super::change::Change;
use super::path::FileClass;
use super::place::{Place, find};
use crate::answer::Refusal;
use crate::request::Target;
use crate::state::{FILE_LIMIT, RepositoryApi};

/// What is known of the object of a file.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// The file, understood; nothing if it stands for no object.
    pub(super) resource: Option<ParsedResource>,
    /// The object that the file stands for.
    pub(super) document: Option<Value>,
    /// The object as the API has it.
    pub(super) existing: Option<Value>,
    /// The object as the API would have it.
    pub(super) dry_run: Option<Value>,
}

impl Trial {
    pub(super) fn title(&self) -> &str {
        self.document.as_ref().and_then(|document| document["spec"]["title"].as_str()).unwrap_or_default()
    }
}

/// Who tries.
pub(super) struct Trying<'a> {
    pub(super) state: &'a RepositoryApi,
    pub(super) target: &'a Target,
    pub(super) caller: &'a Caller,
    pub(super) place: &'a Place,
}

impl Trying<'_> {
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
        let former_object = match &former {
            Some((id, content)) => self.parse(&preview, &former_path.text, content, *id, tree).await?.ok(),
            None => None,
        };
        if change.action == ResourceAction::Delete {
            let Some(resource) = former_object else { return Ok(Trial::default()) };
            self.may(verb, &resource).await?;
            let existing = preview.existing(&resource.kind, &resource.version, &resource.name).await?;
            let document = Some(preview.document(&resource));
            return Ok(Trial { resource: Some(resource), document, existing, dry_run: None });
        }
        let content = change.content.as_ref().or(former.as_ref().map(|(_, content)| content));
        let Some(content) = content else { return Ok(Trial::default()) };
        let id = match &self.place.opened.writer {
            Some(writer) => writer.id_of(content),
            None => ObjectId::of_blob(content),
        };
        let parsed = self.parse(&preview, &change.path.text, content, id, tree).await?;
        let resource = match parsed {
            Ok(resource) => resource,
            // What moves as it is was no object before.
            Err(_) if change.content.is_none() => return Ok(Trial::default()),
            Err(error) => return Err(of_file(&change.path.text, &error)),
        };
        let existing = preview.existing(&resource.kind, &resource.version, &resource.name).await?;
        self.may(if existing.is_some() { "update" } else { "create" }, &resource).await?;
        // An object that the file no longer describes goes.
        if let Some(gone) = former_object.filter(|it| it.kind != resource.kind || it.name != resource.name) {
            self.may("delete", &gone).await?;
        }
        let mut trial = Trial { document: Some(preview.document(&resource)), existing, ..Trial::default() };
        if dry_run {
            let kept: HashSet<String> = tree
                .entries
                .iter()
                .filter(|entry| change.paths().all(|path| path != entry.path))
                .map(|entry| entry.path.clone())
                .collect();
            let path = &change.path.text;
            let tried = preview.dry_run(&resource, path, trial.existing.as_ref(), &kept).await?;
            trial.dry_run = Some(tried);
        }
        trial.resource = Some(resource);
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
        let Ok(resource) = sent else { return Ok(None) };
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
    ) -> Result<Result<ParsedResource, FileError>, Refusal> {
        let Place { opened, context, cancel, .. } = self.place;
        let folder = folders::holding(&*opened.reader, tree, path, context, cancel).await?;
        Ok(preview.parse(path, content, folder.as_deref(), &id.to_string()).await)
    }

    pub(super) async fn may(&self, verb: &'static str, resource: &ParsedResource) -> Result<(), Refusal> {
        let object = (&resource.kind, resource.name.as_str());
        self.target.admit_object(self.state, self.caller, verb, object).await
    }
}

fn of_file(path: &str, error: &FileError) -> Refusal {
    let code = if matches!(error, FileError::TooLarge { .. }) { 413 } else { 400 };
    Refusal::new(code, format!("{path:?}: {error}"))
}

impl From<PreviewError> for Refusal {
    fn from(error: PreviewError) -> Self {
        // What is the fault of neither the caller nor the file is nobody's to mend in the request.
        let code = if (400..500).contains(&error.code) && error.code != 401 { error.code } else { 503 };
        Self::new(code, error.message)
    }
}
