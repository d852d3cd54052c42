//! GET, PUT and PATCH of the scale of a custom object: how many there are to be of what it stands for, as a `Scale` of
//! the group `autoscaling`, whatever the object calls it.

use axum::body::Body;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::conform::{conform, strict};
use super::context::Context;
use super::patch::{PatchKind, read_patch, unreadable_result};
use super::render::Renderer;
use super::update::{check_place, check_uid, check_version};
use crate::failure::{self, Failure, Result};
use crate::kinds::{ScalePaths, count_error, find};
use crate::request::{WriteQuery, check_type, read_bytes, read_object};
use crate::writer::{Owners, Writer, stored_owners};
use windlass_apimachinery::document;
use windlass_apimachinery::fields::{Managers, Operation};
use windlass_apimachinery::json::Parsed;
use windlass_apimachinery::metadata;

type Object = Map<String, Value>;

pub(super) async fn answer(context: Context, method: &Method, body: Body) -> Result<Response> {
    context.accept()?;
    let served = context.target.served.clone();
    let paths = served.served().scale.as_ref().ok_or_else(Failure::unknown_path)?;
    match method.as_str() {
        "GET" => {
            let name = context.name()?;
            let current =
                context.find(name).await?.ok_or_else(|| Failure::not_found(context.kind(), name))?;
            let object = context.inner.load(context.kind(), &current)?;
            if find(&object, &paths.spec).is_none() {
                let path = paths.spec.join(".");
                return Err(Failure::bad_request(format!(
                    "the spec replicas field \".{path}\" does not exist"
                )));
            }
            context.scaled(paths, &object, current.revision)
        }
        "PUT" => put(context, paths, body).await,
        "PATCH" => patch(context, paths, body).await,
        _ => Err(Failure::method_not_allowed()),
    }
}

async fn put(context: Context, paths: &ScalePaths, body: Body) -> Result<Response> {
    let query = WriteQuery::parse(&context.query, "UpdateOptions")?;
    let bytes = read_bytes(body).await?;
    let parsed = read_object(&paths.scale, &context.parts.headers, &bytes)?;
    let conformed = conform(&paths.scale, parsed, query.field_validation)?;
    strict(&paths.scale, &conformed.problems, query.field_validation)?;
    let name = context.name()?.to_owned();
    let writer = context.writer_of(&query);
    let mut tries = writer.tries(&name);
    while tries.next().await {
        let (current, old) = context.present(&name).await?;
        let mut scale = conformed.object.clone();
        check_place(&context, &mut scale, &name)?;
        check_uid(&context, &name, &old, &scale)?;
        let version = context.version_of(&scale, &name, current.revision)?;
        if let Some(response) = context.scale_to(&writer, paths, &current, &old, &scale).await? {
            return Ok(warned(response, &conformed.problems));
        }
        if version.is_some() {
            break;
        }
    }
    Err(Failure::modified(context.kind(), &name))
}

async fn patch(context: Context, paths: &ScalePaths, body: Body) -> Result<Response> {
    let query = WriteQuery::parse(&context.query, "PatchOptions")?;
    let bytes = read_bytes(body).await?;
    let patch: PatchKind = read_patch(&context, &bytes)?;
    let name = context.name()?.to_owned();
    let writer = context.writer_of(&query);
    let mut tries = writer.tries(&name);
    while tries.next().await {
        let (current, old) = context.present(&name).await?;
        let mut document = Value::Object(scale_of(paths, &old));
        document["metadata"]["resourceVersion"] = json!(current.revision.to_string());
        patch.apply(&mut document)?;
        if let Value::Object(scale) = &document {
            check_type(&paths.scale, scale, Failure::unknown_path)?;
        }
        let parsed = Parsed { value: document, problems: Vec::new() };
        let conformed = conform(&paths.scale, parsed, query.field_validation)
            .map_err(|failure| unreadable_result(failure, &bytes, &context))?;
        strict(&paths.scale, &conformed.problems, query.field_validation)?;
        let mut scale = conformed.object.clone();
        check_place(&context, &mut scale, &name)?;
        context.version_of(&scale, &name, current.revision)?;
        if let Some(response) = context.scale_to(&writer, paths, &current, &old, &scale).await? {
            return Ok(warned(response, &conformed.problems));
        }
        if patch.names_version() {
            break;
        }
    }
    Err(Failure::modified(context.kind(), &name))
}

impl Context {
    async fn present(&self, name: &str) -> Result<(windlass_store::Object, Object)> {
        let current = self.find(name).await?.ok_or_else(|| Failure::not_found(self.kind(), name))?;
        let object = self.inner.load(self.kind(), &current)?;
        Ok((current, object))
    }

    /// The version that a scale names, which must be the latest one; none is any.
    fn version_of(&self, scale: &Object, name: &str, current: u64) -> Result<Option<u64>> {
        if metadata::text(scale, "resourceVersion").is_empty() {
            return Ok(None);
        }
        check_version(self.kind(), name, scale, current)
    }

    /// Changes an object to what a scale asks for. `None`: it was changed meanwhile.
    async fn scale_to(
        &self,
        writer: &Writer,
        paths: &ScalePaths,
        current: &windlass_store::Object,
        old: &Object,
        scale: &Object,
    ) -> Result<Option<Response>> {
        let replicas = scale.get("spec").and_then(|spec| spec["replicas"].as_i64()).unwrap_or_default();
        let errors = count_error(&paths.spec, &json!(replicas)).into_iter().collect();
        writer.fail_on(errors, metadata::text(old, "name"))?;
        let mut new = old.clone();
        set(&mut new, &paths.spec, json!(replicas));
        let before = self.inner.plain(self.kind(), &current.value)?;
        let owners = Owners::Known(owners_of_scaled(writer, old, &new, stored_owners(&before)));
        drop(before);
        match writer.replace(current, old, new.clone(), owners).await? {
            Some(written) => self.scaled(paths, &new, written.revision).map(Some),
            None => Ok(None),
        }
    }

    fn scaled(&self, paths: &ScalePaths, object: &Object, revision: u64) -> Result<Response> {
        let scale = scale_of(paths, object);
        let plain = document::encode(&paths.scale.served().head, &scale, b"");
        let renderer = Renderer::new(&self.inner, &paths.scale, self.accept()?, &self.query)?;
        Ok(renderer.response(StatusCode::OK, &plain, revision))
    }
}

/// The managers of an object whose scale was changed. As on a real server, nobody knows when.
fn owners_of_scaled(writer: &Writer, old: &Object, new: &Object, before: Managers) -> Managers {
    let update = writer.update_of(Operation::Update);
    let mut managers = update.update(old, new, before).unwrap_or_default();
    managers.forget_time(&update.writer);
    managers
}

fn warned(mut response: Response, problems: &[String]) -> Response {
    failure::warn(&mut response, problems);
    response
}

/// The scale of an object, but for its version.
fn scale_of(paths: &ScalePaths, object: &Object) -> Object {
    let mut meta = Map::new();
    for field in ["name", "namespace", "uid", "creationTimestamp"] {
        let text = metadata::text(object, field);
        if !text.is_empty() {
            meta.insert(field.to_owned(), json!(text));
        }
    }
    let number = |path: &[String]| find(object, path).and_then(Value::as_i64);
    let (mut spec, mut status) = (Map::new(), Map::new());
    if let Some(replicas) = number(&paths.spec).filter(|replicas| *replicas != 0) {
        spec.insert("replicas".to_owned(), json!(replicas));
    }
    status.insert("replicas".to_owned(), json!(number(&paths.status).unwrap_or_default()));
    let selector = paths.selector.as_ref().and_then(|path| find(object, path)).and_then(Value::as_str);
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status.insert("selector".to_owned(), json!(selector));
    }
    let version = paths.scale.served();
    Map::from_iter([
        ("apiVersion".to_owned(), json!(version.api_version)),
        ("kind".to_owned(), json!(paths.scale.kind.kind)),
        ("metadata".to_owned(), Value::Object(meta)),
        ("spec".to_owned(), Value::Object(spec)),
        ("status".to_owned(), Value::Object(status)),
    ])
}

fn set(object: &mut Object, path: &[String], value: Value) {
    let Some((last, above)) = path.split_last() else { return };
    let mut place = object;
    for name in above {
        let below = place.entry(name.as_str()).or_insert_with(|| json!({}));
        if !below.is_object() {
            *below = json!({});
        }
        let Value::Object(below) = below else { return };
        place = below;
    }
    place.insert(last.clone(), value);
}
