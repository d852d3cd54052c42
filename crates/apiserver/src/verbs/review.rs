//! POST of a question about the caller: who it is, and what it may do.

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Map, Value, json};
use windlass_auth::{Audiences, Caller, Namespaces, RequestScope};

use super::conform::read;
use super::context::Context;
use crate::failure::{Failure, FieldError, Result};
use crate::kinds::{Builtin, Registry, Review};
use crate::request::WriteQuery;
use crate::writer::{Owners, Written};
use windlass_apimachinery::document;
use windlass_apimachinery::fields::Managers;

/// The group of everybody who was recognised.
const AUTHENTICATED: &str = "system:authenticated";

pub(super) fn answer(context: &Context, body: &[u8]) -> Result<Response> {
    let query = WriteQuery::parse(&context.query, "CreateOptions")?;
    let conformed = read(context, body, query.field_validation)?;
    let mut object = conformed.object;
    let mut managed = Vec::new();
    let Some(Builtin::Review(review)) = context.kind().builtin else { return Err(Failure::unknown_path()) };
    match review {
        Review::Subject => {
            let now = context.inner.now_text();
            object.insert("metadata".to_owned(), json!({ "creationTimestamp": now }));
            object.insert("status".to_owned(), json!({ "userInfo": user_info(&context.caller) }));
        }
        Review::Access => {
            let status = access(&context.caller, &context.inner.catalog.current(), &object)?;
            // What it was sent with is nobody's.
            object.remove("status");
            let (writer, sent) = (context.writer_of(&query), Owners::Sent(conformed.sent));
            managed = writer.owners(None, &object, &Managers::default(), sent).encode();
            object.insert("status".to_owned(), status);
        }
        Review::Rules => {
            let status = rules(&context.caller, &object)?;
            object.insert("metadata".to_owned(), json!({}));
            object.insert("spec".to_owned(), json!({}));
            object.insert("status".to_owned(), status);
        }
    }
    let plain = Bytes::from(document::encode(&context.kind().stored().head, &object, &managed));
    context.written(StatusCode::CREATED, &Written { plain, revision: 0 }, &conformed.problems)
}

/// Who a caller is, with what its token opens when that is not everything.
fn user_info(caller: &Caller) -> Value {
    let mut groups = caller.groups.clone();
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    let mut info = json!({ "username": caller.name, "uid": caller.uid, "groups": groups });
    if let Audiences::Some(held) = &caller.audiences {
        info["extra"]["windlass.dev/audiences"] = json!(held);
    }
    if let Namespaces::One(held) = &caller.namespaces {
        info["extra"]["windlass.dev/namespace"] = json!([held]);
    }
    info
}

/// Whether the caller may do what the review describes.
fn access(caller: &Caller, registry: &Registry, object: &Map<String, Value>) -> Result<Value> {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let (resource, other) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let mut errors = Vec::new();
    if resource.is_object() && other.is_object() {
        let shown = json!({ "Path": text(other, "path"), "Verb": text(other, "verb") });
        let why = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", &shown, why));
    } else if !resource.is_object() && !other.is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid("spec.resourceAttributes", &Value::Null, why));
    }
    if let Some(metadata) = object.get("metadata").filter(|metadata| metadata != &&json!({})) {
        errors.push(FieldError::invalid("metadata", metadata, "must be empty"));
    }
    Failure::refuse("", "authorization.k8s.io", "", errors)?;
    if other.is_object() {
        // Whoever is recognised may look around.
        let looks = matches!(text(other, "verb"), "get" | "head" | "options");
        let is_open = !matches!(RequestScope::of(text(other, "path")), RequestScope::Resource { .. });
        let is_master = caller.may_use("", "").is_ok();
        return Ok(json!({ "allowed": is_master || looks && is_open }));
    }
    let group = text(resource, "group");
    let kind = registry.kinds.iter().find(|kind| {
        kind.plural == text(resource, "resource") && kind.versions.iter().any(|served| served.group == group)
    });
    if kind.is_some_and(|kind| kind.is_review()) {
        return Ok(json!({ "allowed": text(resource, "verb") == "create" }));
    }
    // A Namespace belongs to itself.
    let field = if kind.is_none_or(|kind| kind.namespaced) { "namespace" } else { "name" };
    let asked = caller.may(text(resource, "verb"), group, text(resource, "resource"), text(resource, field));
    Ok(match asked {
        Ok(()) => json!({ "allowed": true }),
        Err(denied) => json!({ "allowed": false, "reason": denied.to_string() }),
    })
}

/// What the caller may do in the namespace that the review names.
fn rules(caller: &Caller, object: &Map<String, Value>) -> Result<Value> {
    let namespace = object.get("spec").map_or("", |spec| text(spec, "namespace"));
    if namespace.is_empty() {
        return Err(Failure::bad_request("no namespace on request"));
    }
    let mut resources = vec![
        json!({ "verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"] }),
        json!({ "verbs": ["create"], "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"] }),
    ];
    let is_open = match &caller.namespaces {
        Namespaces::All => true,
        Namespaces::One(held) => held == namespace,
    };
    let groups = match &caller.audiences {
        _ if !is_open => Vec::new(),
        Audiences::All => vec!["*".to_owned()],
        Audiences::Some(held) => held.iter().flat_map(|audience| groups_of(audience)).collect(),
    };
    if !groups.is_empty() {
        resources.push(json!({ "verbs": ["*"], "apiGroups": groups, "resources": ["*"] }));
    }
    let paths =
        ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi/*", "/readyz", "/version"];
    Ok(json!({
        "resourceRules": resources,
        "nonResourceRules": [{ "verbs": ["get"], "nonResourceURLs": paths }],
        "incomplete": false,
    }))
}

/// The API groups that a token for this audience opens.
fn groups_of(audience: &str) -> Vec<String> {
    if audience == windlass_api::audience::CORE {
        return ["", "coordination.k8s.io", "events.k8s.io"].map(str::to_owned).to_vec();
    }
    vec![audience.to_owned()]
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
