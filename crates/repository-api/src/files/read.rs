//! Reading files.

use std::collections::HashSet;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use serde_json::{Value, json};
use windlass_api::{FileItem, FileList, ResourceAction, status};
use windlass_auth::Caller;
use windlass_git::{Entry, Tree};
use windlass_resources::Preview;
use windlass_resources::parse::ParsedResource;

use super::options::Options;
use super::path::{FileClass, FilePath};
use super::place::{Place, below, find};
use super::trial::{DryRunner, Trial, TriedObject};
use super::wrapper;
use crate::answer::Refusal;
use crate::request::Target;
use crate::state::RepositoryApi;

/// Files, or those below a folder. Works on a repository that is not healthy.
pub(super) async fn list(
    state: &RepositoryApi,
    target: &Target,
    options: &Options,
    folder: Option<&FilePath>,
) -> Result<Response, Refusal> {
    let place = open(state, target).await?;
    listed(target, &place.tree_at(&options.reference).await?, folder)
}

/// One file, as it is (`raw`) or with its object; or what is below a folder.
pub(super) async fn read(
    state: &RepositoryApi,
    target: &Target,
    options: &Options,
    caller: &Caller,
) -> Result<Response, Refusal> {
    let path = FilePath::parse(&target.path)?;
    if path.is_folder {
        return list(state, target, options, Some(&path)).await;
    }
    let place = open(state, target).await?;
    let tree = place.tree_at(&options.reference).await?;
    let Some(entry) = find(&tree, &path.text) else {
        return listed(target, &tree, Some(&path));
    };
    if !entry.kind.is_file() {
        let message = format!("{:?} is a link or a submodule, which is not followed", path.text);
        return Err(status::bad_request(message).into());
    }
    let runner = DryRunner { state, target, caller, place: &place };
    let content = runner.read(&path.text, entry.size, entry.id).await?;
    let looked = look(&runner, &path, entry, &content, &tree, options).await?;
    if options.raw {
        return Ok(raw(&path, entry, content));
    }
    let Looked { trial, action, plain, errors } = looked;
    let hash = entry.id.to_string();
    let reference =
        if options.reference.is_empty() { place.repository.spec.branch() } else { &options.reference };
    let mut answer = wrapper::around(&place, &path.text, reference, hash);
    answer.resource = wrapper::objects(trial, action);
    if answer.resource.file.is_none() {
        answer.resource.file = plain;
    }
    answer.errors = errors;
    Ok(wrapper::answer(target, &answer))
}

/// A file, as far as it can be understood.
#[derive(Default)]
struct Looked {
    trial: Trial,
    action: Option<ResourceAction>,
    /// The file as JSON, where it stands for no object.
    plain: Option<Value>,
    errors: Vec<String>,
}

async fn look(
    runner: &DryRunner<'_>,
    path: &FilePath,
    entry: &Entry,
    content: &Bytes,
    tree: &Tree,
    options: &Options,
) -> Result<Looked, Refusal> {
    let mut looked = Looked::default();
    let text = || String::from_utf8_lossy(content);
    match path.class() {
        FileClass::Resource => {}
        FileClass::FolderMetadata => {
            let checked = runner.preview().check_folder(content);
            looked.errors.extend(checked.err().map(|error| error.to_string()));
            looked.plain = serde_json::from_slice(content).ok();
            return Ok(looked);
        }
        FileClass::Markdown => {
            looked.plain = Some(json!({ "content": text() }));
            return Ok(looked);
        }
        FileClass::Other if options.raw => return Ok(looked),
        FileClass::Other => {
            let message = format!("{:?} stands for no object; raw=true answers the file itself", path.text);
            return Err(status::bad_request(message).into());
        }
    }
    let preview = runner.preview();
    let documents = match runner.parse(&preview, &path.text, content, entry.id, tree).await? {
        Ok(documents) => documents,
        Err(error) => {
            looked.errors.push(error.to_string());
            looked.plain = serde_json::from_slice(content).ok();
            return Ok(looked);
        }
    };
    for document in documents {
        let resource = match document.content {
            Ok(resource) => resource,
            Err(error) => {
                looked.errors.push(error.to_string());
                continue;
            }
        };
        runner.may("get", &resource).await?;
        if !options.raw {
            look_at(&preview, entry, resource, (tree, options.skip_dry_run), &mut looked).await;
        }
    }
    Ok(looked)
}

/// Looks at one object of a file.
async fn look_at(
    preview: &Preview,
    entry: &Entry,
    resource: ParsedResource,
    (tree, skip_dry_run): (&Tree, bool),
    looked: &mut Looked,
) {
    let document = preview.document(&resource);
    let mut tried = TriedObject { resource, document, existing: None, dry_run: None };
    let resource = &tried.resource;
    match preview.existing(&resource.kind, &resource.version, &resource.name).await {
        Ok(existing) => {
            let action = if existing.is_some() { ResourceAction::Update } else { ResourceAction::Create };
            looked.action.get_or_insert(action);
            if !skip_dry_run {
                let kept: HashSet<String> = tree
                    .entries
                    .iter()
                    .filter(|other| other.path != entry.path)
                    .map(|other| other.path.clone())
                    .collect();
                match preview.dry_run(resource, &entry.path, existing.as_ref(), &kept).await {
                    Ok(dry_run) => tried.dry_run = Some(dry_run),
                    Err(error) => looked.errors.push(error.to_string()),
                }
            }
            tried.existing = existing;
        }
        Err(error) => looked.errors.push(error.to_string()),
    }
    looked.trial.objects.push(tried);
}

async fn open(state: &RepositoryApi, target: &Target) -> Result<Place, Refusal> {
    let repository = target.repository(&state.provisioning).await?.ok_or_else(|| target.missing())?;
    Place::open(state, repository).await
}

fn listed(target: &Target, tree: &Tree, folder: Option<&FilePath>) -> Result<Response, Refusal> {
    let items: Vec<FileItem> = match folder {
        Some(folder) => below(tree, &folder.text).map(item).collect(),
        None => tree.entries.iter().map(item).collect(),
    };
    match folder.filter(|_| items.is_empty()) {
        Some(folder) => Err(Refusal::new(404, format!("file not found: {:?}", folder.text))),
        None => Ok(target.typed(200, "FileList", &FileList { items })),
    }
}

pub(crate) fn item(entry: &Entry) -> FileItem {
    FileItem {
        path: entry.path.clone(),
        size: i64::try_from(entry.size).unwrap_or(i64::MAX),
        hash: entry.id.to_string(),
        ..FileItem::default()
    }
}

/// The file itself. Browsers are told to take it for nothing else than what it is called.
fn raw(path: &FilePath, entry: &Entry, content: Bytes) -> Response {
    let kind = match path.text.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()) {
        Some(extension) if extension == "json" => "application/json",
        Some(extension) if extension == "yaml" || extension == "yml" => "application/yaml",
        Some(extension) if extension == "md" => "text/markdown; charset=utf-8",
        _ => "application/octet-stream",
    };
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    wrapper::tag(&mut response, &entry.id.to_string());
    response
}
