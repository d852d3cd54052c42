//! `metadata`: which of its fields clients set, which the server sets, and what each may hold.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Map, Value, json};

use crate::bounds::may_be_told;
use crate::field_error::FieldError;
use crate::json::type_name;
use crate::names;
use crate::schema::Schema;

/// The schema of `ObjectMeta`, as it is published.
static SCHEMA: LazyLock<Result<Schema, String>> = LazyLock::new(|| {
    let document: JSONSchemaProps = serde_json::from_value(document()).map_err(|error| error.to_string())?;
    Schema::node(&document)
});

const FINALIZERS: &str = "metadata.finalizers";

/// Finalizers that need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

const UNQUALIFIED: &str = "name is neither a standard finalizer name nor is it fully qualified";

/// Where `kubectl apply` records what it applied.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What names a kind's objects may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Those of labels, as namespaces have.
    Labels,
    /// Capitals and underscores too.
    Free,
    /// Those of subdomains, as nearly all kinds have.
    Subdomains,
}

/// How the metadata of a kind's objects is judged.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// The kind's name.
    pub kind: &'a str,
    /// Whether it is a Go type on a real server.
    pub is_core: bool,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// What they may be called.
    pub names: Names,
    /// Whether changes of the desired state are counted.
    pub has_generation: bool,
}

/// The published schema of `ObjectMeta`, but for its descriptions.
pub(crate) fn document() -> Value {
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let text = json!({ "type": "string" });
    let time = json!({ "type": "string", "format": "date-time" });
    let number = json!({ "type": "integer" });
    json!({ "type": "object", "properties": {
        "annotations": texts,
        "creationTimestamp": time,
        "deletionGracePeriodSeconds": number,
        "deletionTimestamp": time,
        "finalizers": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
        "generateName": text,
        "generation": number,
        "labels": texts,
        "managedFields": { "type": "array", "items": { "type": "object" } },
        "name": text,
        "namespace": text,
        "ownerReferences": { "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
            "items": { "type": "object", "x-kubernetes-map-type": "atomic", "properties": {
                "apiVersion": text, "blockOwnerDeletion": { "type": "boolean" },
                "controller": { "type": "boolean" }, "kind": text, "name": text, "uid": text } } },
        "resourceVersion": text,
        "selfLink": text,
        "uid": text,
    } })
}

/// The metadata of an object; an object without any gets an empty one.
pub fn of(object: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    if !metadata.is_object() {
        *metadata = json!({});
    }
    match metadata {
        Value::Object(metadata) => metadata,
        _ => unreachable!("it was just made an object"),
    }
}

fn field<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field)
}

/// A text field of an object's metadata; empty when absent.
pub fn text<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    field(object, name).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the object is being deleted.
pub fn is_deleting(object: &Map<String, Value>) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// The finalizers of an object.
pub fn finalizers(object: &Map<String, Value>) -> Vec<&str> {
    let found = field(object, "finalizers").and_then(Value::as_array);
    found.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Takes a finalizer off an object.
pub fn remove_finalizer(object: &mut Map<String, Value>, finalizer: &str) {
    let fields = of(object);
    if let Some(Value::Array(finalizers)) = fields.get_mut("finalizers") {
        finalizers.retain(|one| one != finalizer);
        if finalizers.is_empty() {
            fields.remove("finalizers");
        }
    }
}

/// Brings the metadata into the form that is stored: known fields of the right type, nothing empty.
/// The paths of unknown fields are appended.
pub fn conform(
    rules: &Rules<'_>,
    version: &str,
    object: &mut Map<String, Value>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let wrong = |problem: &str| {
        format!("{0} in version {version:?} cannot be handled as a {0}: {problem}", rules.kind)
    };
    match object.get("metadata") {
        None | Some(Value::Null | Value::Object(_)) => {}
        Some(other) => return Err(wrong(&no_metadata(other, "metadata"))),
    }
    let metadata = of(object);
    metadata.remove("selfLink");
    keep_known(metadata, "metadata", unknown).map_err(|problem| wrong(&problem))
}

/// As [`conform`], of the metadata of an embedded resource, which stands at `path`.
pub fn conform_embedded(value: &mut Value, path: &str, unknown: &mut Vec<String>) -> Result<(), String> {
    if value.is_null() {
        *value = json!({});
    }
    match value {
        Value::Object(metadata) => keep_known(metadata, path, unknown),
        other => Err(no_metadata(other, path)),
    }
}

fn no_metadata(found: &Value, path: &str) -> String {
    format!("{path} must be of type object: {:?}", type_name(found))
}

/// Leaves known fields, nothing empty, of metadata that stands at `path`.
fn keep_known(
    metadata: &mut Map<String, Value>,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let schema = SCHEMA.as_ref().map_err(Clone::clone)?;
    metadata.retain(|name, _| {
        let is_known = schema.has_property(name);
        if !is_known && may_be_told(unknown) {
            unknown.push(format!("{path}.{name}"));
        }
        is_known
    });
    if let Some(problem) = schema.decode(metadata, path) {
        return Err(problem);
    }
    metadata.retain(|_, value| match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
    Ok(())
}

/// Everything that is wrong with the metadata of a new or changed object.
pub fn validate(rules: &Rules<'_>, object: &Map<String, Value>) -> Vec<FieldError> {
    let problems = match rules.names {
        Names::Labels => names::label_problems,
        Names::Free => names::free_problems,
        Names::Subdomains => names::subdomain_problems,
    };
    let mut errors = judge(object, problems, rules.namespaced);
    if text(object, "name").is_empty() {
        errors.insert(0, FieldError::required("metadata.name", "name or generateName is required"));
    }
    if rules.is_core {
        check_core_finalizers(&finalizers(object), &mut errors);
    }
    errors
}

/// Everything that is wrong with the metadata of an embedded resource, which needs no name.
pub fn validate_embedded(object: &Map<String, Value>) -> Vec<FieldError> {
    judge(object, names::path_segment_problems, !text(object, "namespace").is_empty())
}

fn judge(
    object: &Map<String, Value>,
    problems: fn(&str) -> Vec<String>,
    namespaced: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let value = |text: &str| Value::String(text.to_owned());
    let name = text(object, "name");
    let generate = text(object, "generateName");
    if !generate.is_empty() {
        // The suffix makes up for a trailing dash. A real server cuts one character more.
        let base = match generate.strip_suffix('-') {
            Some(base) if !base.is_empty() => {
                let last = base.char_indices().next_back().map_or(0, |(at, _)| at);
                format!("{}a", &base[..last])
            }
            _ => generate.to_owned(),
        };
        for problem in problems(&base) {
            errors.push(FieldError::invalid("metadata.generateName", &value(generate), &problem));
        }
    }
    let mut tell = |field: &str, found: &str, problems: Vec<String>| {
        let found = value(found);
        errors.extend(problems.iter().map(|problem| FieldError::invalid(field, &found, problem)));
    };
    if !name.is_empty() {
        tell("metadata.name", name, problems(name));
    }
    if namespaced {
        let namespace = text(object, "namespace");
        tell("metadata.namespace", namespace, names::label_problems(namespace));
    }
    let Some(Value::Object(metadata)) = object.get("metadata") else { return errors };
    if let Some(Value::Object(labels)) = metadata.get("labels") {
        names::check_labels(labels, &mut errors);
    }
    if let Some(Value::Object(annotations)) = metadata.get("annotations") {
        names::check_annotations(annotations, &mut errors);
    }
    check_owners(metadata.get("ownerReferences"), &mut errors);
    check_finalizers(&finalizers(object), &mut errors);
    errors
}

fn check_finalizers(finalizers: &[&str], errors: &mut Vec<FieldError>) {
    for finalizer in finalizers {
        for problem in names::qualified_problems(finalizer) {
            errors.push(FieldError::invalid(FINALIZERS, &json!(finalizer), &problem));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(FINALIZERS, &json!(finalizers), detail));
    }
}

/// What is wrong with the finalizers in the spec of a Namespace.
pub fn check_namespace_finalizers(namespace: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let finalizers = namespace.get("spec").and_then(|spec| spec["finalizers"].as_array());
    for (index, finalizer) in finalizers.into_iter().flatten().enumerate() {
        let (place, name) = (format!("spec.finalizers[{index}]"), finalizer.as_str().unwrap_or_default());
        let mut problems = names::qualified_problems(name);
        if is_unqualified(name) {
            problems.push(UNQUALIFIED.to_owned());
        }
        errors.extend(problems.iter().map(|problem| FieldError::invalid(&*place, finalizer, problem)));
    }
}

fn check_core_finalizers(finalizers: &[&str], errors: &mut Vec<FieldError>) {
    for (index, finalizer) in finalizers.iter().enumerate().filter(|(_, finalizer)| is_unqualified(finalizer))
    {
        errors.push(FieldError::invalid(format!("{FINALIZERS}[{index}]"), &json!(finalizer), UNQUALIFIED));
    }
}

fn is_unqualified(finalizer: &str) -> bool {
    !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer)
}

/// Removes owners that stand there twice. Returns the warning about it.
pub fn dedup_owners(object: &mut Map<String, Value>, patched: bool) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen = HashSet::with_capacity(owners.len());
    let mut first: VecDeque<bool> = owners.iter().map(|owner| seen.insert(owner)).collect();
    let (mut twice, mut told) = (Vec::new(), HashSet::new());
    for (owner, _) in owners.iter().zip(&first).filter(|(_, first)| !**first) {
        let uid = owner["uid"].as_str().unwrap_or_default();
        if told.insert(uid) {
            twice.push(uid.to_owned());
        }
    }
    owners.retain(|_| first.pop_front().unwrap_or_default());
    let when = if patched { " after mutating admission happens" } else { "" };
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in \
             1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) \
             observed: {}",
            twice.join(", ")
        )
    })
}

/// What is said of the finalizers of a custom object that are new and not qualified.
pub fn finalizer_warnings(
    rules: &Rules<'_>,
    old: Option<&Map<String, Value>>,
    new: &Map<String, Value>,
) -> Vec<String> {
    if rules.is_core {
        return Vec::new();
    }
    let before: HashSet<&str> = old.map(finalizers).unwrap_or_default().into_iter().collect();
    let plain = |one: &&str| !before.contains(one) && is_unqualified(one);
    finalizers(new)
        .into_iter()
        .filter(plain)
        .map(|finalizer| {
            let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
            format!(
                "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name{path} to avoid \
                 accidental conflicts with other finalizer writers"
            )
        })
        .collect()
}

fn check_owners(owners: Option<&Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "metadata.ownerReferences";
    /// Each is told with the whole list.
    const MOST_CONTROLLERS: usize = 3;
    let mut controller: Option<String> = None;
    let mut told = 0;
    for owner in owners.and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let api_version = field("apiVersion");
        // More than one slash is no version.
        if api_version.is_empty() || api_version.matches('/').count() > 1 {
            let detail = "version must not be empty";
            errors.push(FieldError::invalid(format!("{FIELD}.apiVersion"), &json!(api_version), detail));
        }
        for name in ["kind", "name", "uid"] {
            if field(name).is_empty() {
                errors.push(FieldError::invalid(format!("{FIELD}.{name}"), &json!(""), "must not be empty"));
            }
        }
        if (api_version, field("kind")) == ("v1", "Event") {
            errors.push(FieldError::invalid(
                FIELD,
                owner,
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if told < MOST_CONTROLLERS && owner.get("controller") == Some(&Value::Bool(true)) {
            let name = format!("{}/{}", field("kind"), field("name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for \
                         {first} and {name}"
                    );
                    errors.push(FieldError::invalid(FIELD, owners.unwrap_or(owner), &detail));
                    told += 1;
                }
            }
        }
    }
}

/// Sets what the server sets on a new object.
pub fn fill_new(
    rules: &Rules<'_>,
    namespace: Option<&str>,
    now: &str,
    uid: &str,
    object: &mut Map<String, Value>,
) {
    let metadata = of(object);
    // Kinds that do not count generations keep what they are given.
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"] {
        metadata.remove(field);
    }
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    if rules.has_generation {
        metadata.insert("generation".to_owned(), json!(1));
    }
    metadata.insert("creationTimestamp".to_owned(), json!(now));
    metadata.insert("uid".to_owned(), json!(uid));
}

/// Carries over what an update cannot change.
pub fn carry_over(old: &Map<String, Value>, new: &mut Map<String, Value>) {
    let Some(Value::Object(old)) = old.get("metadata") else { return };
    let metadata = of(new);
    for field in ["creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        match old.get(field) {
            Some(value) => {
                metadata.insert(field.to_owned(), value.clone());
            }
            // Setting a deletion time is refused by `validate_update`.
            None if field == "deletionTimestamp" => {}
            None => {
                metadata.remove(field);
            }
        }
    }
    for field in ["uid", "name", "namespace"] {
        if let (false, Some(value)) = (metadata.contains_key(field), old.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.remove("resourceVersion");
}

/// What an update may not change of the metadata.
pub fn validate_update(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["name", "namespace", "uid", "deletionTimestamp"] {
        let (before, after) = (text(old, field), text(new, field));
        if before != after {
            errors.push(FieldError::invalid(
                format!("metadata.{field}"),
                &json!(after),
                "field is immutable",
            ));
        }
    }
    if is_deleting(old) {
        let before: HashSet<&str> = finalizers(old).into_iter().collect();
        let added: Vec<String> = finalizers(new)
            .into_iter()
            .filter(|finalizer| !before.contains(finalizer))
            .map(|finalizer| format!("{finalizer:?}"))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", &detail));
        }
    }
    errors
}

/// The generation of an object; 0 when it has none.
pub fn generation(object: &Map<String, Value>) -> i64 {
    field(object, "generation").and_then(Value::as_i64).unwrap_or_default()
}

/// Counts the generation up by one.
pub fn bump_generation(object: &mut Map<String, Value>) {
    let next = generation(object) + 1;
    of(object).insert("generation".to_owned(), json!(next));
}

/// Whether anything but metadata (and status, if it has a sub-resource of its own) differs.
pub fn desired_state_differs(old: &Map<String, Value>, new: &Map<String, Value>, with_status: bool) -> bool {
    let counts =
        |name: &str| !matches!(name, "metadata" | "apiVersion" | "kind") && (with_status || name != "status");
    let count = |object: &Map<String, Value>| object.keys().filter(|name| counts(name)).count();
    count(old) != count(new) || new.iter().any(|(name, value)| counts(name) && old.get(name) != Some(value))
}
