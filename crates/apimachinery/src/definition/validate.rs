//! Everything that is wrong with a definition beside its metadata.
//!
//! kube-apiserver judges the form that it keeps in memory, where what all versions say alike stands once, under
//! `spec.validation`, `spec.subresources` and so on; its errors name those places, and so do these.

use serde_json::{Map, Value, json};

use super::structural::text;
use super::{Object, keywords};
use crate::cel::Rules;
use crate::field_error::{FieldError, Found};
use crate::metadata;
use crate::names;

const APPROVAL: &str = "api-approved.kubernetes.io";
const MOST_SELECTABLE: usize = 8;

/// What is wrong with a new definition, or with the change of one.
pub fn validate(old: Option<&Object>, new: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let empty = Map::new();
    let spec = new.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let names = spec.get("names").and_then(Value::as_object).unwrap_or(&empty);
    let name = metadata::text(new, "name");
    if old.is_none() && name != format!("{}.{}", text(names, "plural"), text(spec, "group")) {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", &json!(name), detail));
    }
    check_spec(spec, names, &mut errors);
    if let Some(old) = old {
        immutable(old, spec, &mut errors);
    }
    let accepted = new.get("status").map_or(&Value::Null, |status| &status["acceptedNames"]);
    check_names(accepted.as_object().unwrap_or(&empty), "status.acceptedNames", &mut errors);
    check_stored(new, spec, &mut errors);
    if old.is_none() && is_protected(text(spec, "group")) {
        check_approval(new, &mut errors);
    }
    if spec.get("preserveUnknownFields") == Some(&json!(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
    errors
}

fn label(field: &str, text: &str, what: &str, errors: &mut Vec<FieldError>) {
    let problems = if what.is_empty() {
        names::dns1035_problems(text)
    } else {
        names::dns1035_problems(&text.to_lowercase())
    };
    if !text.is_empty() && !problems.is_empty() {
        errors.push(FieldError::invalid(field, &json!(text), &format!("{what}{}", problems.join(","))));
    }
}

/// A part of a version that stands once where all versions say it alike.
struct Parts<'a> {
    versions: Vec<&'a Object>,
}

impl<'a> Parts<'a> {
    /// The part that all versions have.
    fn common(&self, part: &str) -> Option<&'a Value> {
        let mut parts =
            self.versions.iter().map(|version| version.get(part).filter(|value| !value.is_null()));
        let first = parts.next()??;
        parts.all(|other| other == Some(first)).then_some(first)
    }

    /// The part of one version that the others do not have alike.
    fn own(&self, version: &'a Object, part: &str) -> Option<&'a Value> {
        version.get(part).filter(|value| !value.is_null() && self.common(part).is_none())
    }
}

fn check_spec(spec: &Object, names: &Object, errors: &mut Vec<FieldError>) {
    check_group(text(spec, "group"), errors);
    match text(spec, "scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let allowed = ["Cluster", "Namespaced"].map(str::to_owned);
            errors.push(FieldError::not_supported("spec.scope", &json!(other), &allowed));
        }
    }
    let no_versions = Vec::new();
    let versions = spec.get("versions").and_then(Value::as_array).unwrap_or(&no_versions);
    let parts = Parts { versions: versions.iter().filter_map(Value::as_object).collect() };
    if parts.common("schema").is_none() {
        for (index, version) in versions.iter().enumerate() {
            if version["schema"]["openAPIV3Schema"].is_null() {
                let at = format!("spec.versions[{index}].schema.openAPIV3Schema");
                errors.push(FieldError::required(at, ""));
            }
        }
    }
    if spec.get("preserveUnknownFields") == Some(&json!(true)) && has_defaults(versions) {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
    for (index, version) in parts.versions.iter().enumerate() {
        check_version(&parts, version, &format!("spec.versions[{index}]"), errors);
    }
    let labels: Vec<&str> = parts.versions.iter().map(|version| text(version, "name")).collect();
    if (1..labels.len()).any(|index| labels[..index].contains(&labels[index])) {
        errors.push(FieldError::invalid(
            "spec.versions",
            &json!(labels),
            "must contain unique version names",
        ));
    }
    if parts.versions.iter().filter(|version| version.get("storage") == Some(&json!(true))).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &json!(labels), detail));
    }
    if let Some(first) = labels.first() {
        label("spec.version", first, "", errors);
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(names, field).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    check_names(names, "spec.names", errors);
    let with_status = parts.versions.iter().any(|version| has_status(version));
    check_parts(|part| parts.common(part), with_status, "spec.validation", &mut Found::at("spec", errors));
    check_conversion(spec, errors);
}

fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    let problems = names::subdomain_problems(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid("spec.group", &json!(group), &problems.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", &json!(group), detail));
    }
}

fn has_status(version: &Object) -> bool {
    version.get("subresources").is_some_and(|subresources| subresources["status"].is_object())
}

fn has_defaults(versions: &[Value]) -> bool {
    let mut found = false;
    for version in versions {
        super::walk(&version["schema"]["openAPIV3Schema"], &mut |node| found |= node.contains_key("default"));
    }
    found
}

fn check_version(parts: &Parts<'_>, version: &Object, at: &str, errors: &mut Vec<FieldError>) {
    label(&format!("{at}.name"), text(version, "name"), "", errors);
    if text(version, "name").is_empty() {
        let detail = names::dns1035_problems("").join(",");
        errors.push(FieldError::invalid(format!("{at}.name"), &json!(""), &detail));
    }
    if let Some(warning) = version.get("deprecationWarning").filter(|warning| !warning.is_null()) {
        let text = warning.as_str().unwrap_or_default();
        let mut refuse = |detail: &str| {
            errors.push(FieldError::invalid(format!("{at}.deprecationWarning"), warning, detail));
        };
        if version.get("deprecated") != Some(&json!(true)) {
            refuse("can only be set for deprecated versions");
        } else if text.len() > 256 {
            refuse("must be <= 256 characters long");
        } else if text.is_empty() {
            refuse("must not be an empty string");
        } else if let Some(at) = text.char_indices().find(|(_, c)| c.is_control()).map(|(at, _)| at) {
            refuse(&format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            ));
        }
    }
    let schema_at = format!("{at}.schema");
    let part = |part: &str| parts.own(version, part);
    check_parts(part, has_status(version), &schema_at, &mut Found::at(at, errors));
}

fn check_parts<'a>(
    part: impl Fn(&str) -> Option<&'a Value>,
    with_status: bool,
    schema_at: &str,
    at: &mut Found<'_>,
) {
    let schema = part("schema");
    if let Some(schema) = schema {
        check_schema(schema, schema_at, with_status, at);
    }
    check_subresources(part("subresources"), at);
    check_columns(part("additionalPrinterColumns"), at);
    match (part("selectableFields"), schema) {
        (Some(fields), Some(schema)) => check_selectable(fields, schema, &mut at.below(".selectableFields")),
        (Some(_), None) => at.invalid(".selectableFields", "", "may only be set with a schema beside it"),
        (None, _) => {}
    }
}

fn check_schema(schema: &Value, schema_at: &str, with_status: bool, at: &mut Found<'_>) {
    let schema = &schema["openAPIV3Schema"];
    let schema_at = format!("{schema_at}.openAPIV3Schema");
    let mut problems = keywords::problems(schema, &schema_at, with_status);
    // Rules are compiled for what is a schema.
    if problems.is_empty()
        && let Ok(schema) = serde_json::from_value(schema.clone())
    {
        problems.extend(Rules::compile(&schema, &schema_at).err().into_iter().flatten());
    }
    at.errors.extend(problems);
}

fn check_names(names: &Object, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular"] {
        label(&format!("{path}.{field}"), text(names, field), "", errors);
    }
    for field in ["kind", "listKind"] {
        let mixed = "may have mixed case, but should otherwise match: ";
        label(&format!("{path}.{field}"), text(names, field), mixed, errors);
    }
    let mut at = Found::at(path, errors);
    for field in ["shortNames", "categories"] {
        for (index, name) in names.get(field).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let problems = names::dns1035_problems(name.as_str().unwrap_or_default());
            if !problems.is_empty() {
                at.invalid(&format!(".{field}[{index}]"), name.clone(), &problems.join(","));
            }
        }
    }
    if !text(names, "kind").is_empty() && names.get("kind") == names.get("listKind") {
        at.invalid(".listKind", text(names, "listKind"), "kind and listKind may not be the same");
    }
}

fn check_simple_path(path: &str, step: &str, at: &mut Found<'_>) -> bool {
    let is_simple = path.starts_with('.');
    if !is_simple {
        at.invalid(step, path, "must be a simple json path starting with .");
    }
    is_simple
}

fn check_subresources(subresources: Option<&Value>, at: &mut Found<'_>) {
    let Some(scale) = subresources.and_then(|subresources| subresources["scale"].as_object()) else { return };
    for (field, prefixes, place) in [
        ("specReplicasPath", &[".spec."][..], ".spec"),
        ("statusReplicasPath", &[".status."][..], ".status"),
        ("labelSelectorPath", &[".spec.", ".status."][..], "either .spec or .status"),
    ] {
        let (path, step) = (text(scale, field), format!(".subresources.scale.{field}"));
        if path.is_empty() {
            if field != "labelSelectorPath" {
                at.required(&step, "");
            }
        } else if check_simple_path(path, &step, at)
            && !prefixes.iter().any(|prefix| path.starts_with(prefix))
        {
            at.invalid(&step, path, &format!("should be a json path under {place}"));
        }
    }
}

fn check_columns(columns: Option<&Value>, at: &mut Found<'_>) {
    const TYPES: &str = "boolean,date,integer,number,string";
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    let is_among = |one: &str, all: &str| all.split(',').any(|known| known == one);
    for (index, column) in columns.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let mut at = at.below(&format!(".additionalPrinterColumns[{index}]"));
        let field = |name: &str| column[name].as_str().unwrap_or_default();
        if field("name").is_empty() {
            at.required(".name", "");
        }
        if field("type").is_empty() {
            at.required(".type", &format!("must be one of {TYPES}"));
        } else if !is_among(field("type"), TYPES) {
            at.invalid(".type", field("type"), &format!("must be one of {TYPES}"));
        }
        if !field("format").is_empty() && !is_among(field("format"), FORMATS) {
            at.invalid(".format", field("format"), &format!("must be one of {FORMATS}"));
        }
        if field("jsonPath").is_empty() {
            at.required(".JSONPath", "");
        } else {
            check_simple_path(field("jsonPath"), ".JSONPath", &mut at);
        }
    }
}

fn check_selectable(fields: &Value, schema: &Value, at: &mut Found<'_>) {
    let mut seen = Vec::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let step = format!("[{index}].jsonPath");
        let path = field["jsonPath"].as_str().unwrap_or_default();
        let mut node = Some(&schema["openAPIV3Schema"]);
        for part in path.trim_start_matches('.').split('.') {
            node = node.and_then(|node| node["properties"].get(part));
        }
        match node {
            _ if path.is_empty() => {
                at.required(&step, "");
                continue;
            }
            _ if !path.starts_with('.') => {
                at.invalid(&step, path, "is an invalid path: expected [ or . but got: end of input");
                continue;
            }
            None => {
                at.invalid(&step, path, "is an invalid path: does not refer to a valid field");
                continue;
            }
            Some(_) if path.split('.').nth(1) == Some("metadata") => {
                at.invalid(&step, path, "must not point to fields in metadata");
            }
            Some(node) if !matches!(node["type"].as_str(), Some("string" | "boolean" | "integer")) => {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                              with formats are allowed.";
                at.invalid(&step, path, detail);
            }
            Some(_) => {}
        }
        if seen.contains(&path) {
            at.errors.push(FieldError::duplicate(at.path(&step), &json!(path)));
        } else {
            seen.push(path);
        }
    }
    if seen.len() > MOST_SELECTABLE {
        at.errors.push(FieldError::too_many(at.path(""), seen.len(), MOST_SELECTABLE as u64));
    }
}

/// Versions differ in their names only: nothing here calls a webhook.
fn check_conversion(spec: &Object, errors: &mut Vec<FieldError>) {
    let conversion = spec.get("conversion").unwrap_or(&Value::Null);
    match conversion["strategy"].as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" if !conversion["webhook"].is_null() => {
            let detail = "should not be set when strategy is not set to Webhook";
            errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", detail));
        }
        "None" => {}
        "Webhook" => {
            let detail = "this server does not convert by webhook; with strategy None the versions differ in their \
                          apiVersion only";
            errors.push(FieldError::forbidden("spec.conversion.strategy", detail));
        }
        other => {
            let allowed = ["None", "Webhook"].map(str::to_owned);
            errors.push(FieldError::not_supported("spec.conversion.strategy", &json!(other), &allowed));
        }
    }
}

fn immutable(old: &Object, spec: &Object, errors: &mut Vec<FieldError>) {
    let empty = Map::new();
    let before = old.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let mut fixed = |path: &[&str]| {
        let get = |object: &Object| {
            let first = object.get(path[0]).cloned().unwrap_or_default();
            path[1..].iter().fold(first, |value, name| value[*name].clone())
        };
        if get(before) != get(spec) {
            let at = format!("spec.{}", path.join("."));
            errors.push(FieldError::invalid(at, &get(spec), "field is immutable"));
        }
    };
    if super::is_true(old, "Established") {
        fixed(&["scope"]);
        fixed(&["names", "kind"]);
    }
    fixed(&["group"]);
    fixed(&["names", "plural"]);
}

fn check_stored(new: &Object, spec: &Object, errors: &mut Vec<FieldError>) {
    const AT: &str = "status.storedVersions";
    let stored = new.get("status").map_or(Value::Null, |status| status["storedVersions"].clone());
    let Some(names) = stored.as_array().filter(|names| !names.is_empty()) else {
        errors.push(FieldError::invalid(AT, &Value::Null, "must have at least one stored version"));
        return;
    };
    let versions = spec.get("versions").and_then(Value::as_array);
    let exists = |name: &Value| versions.into_iter().flatten().any(|version| version["name"] == *name);
    for version in versions.into_iter().flatten() {
        if version["storage"] == true && !names.contains(&version["name"]) {
            let name = version["name"].as_str().unwrap_or_default();
            errors.push(FieldError::invalid(AT, &stored, &format!("must have the storage version {name}")));
        }
    }
    for (index, name) in names.iter().enumerate().filter(|(_, name)| !exists(name)) {
        let shown = name.as_str().unwrap_or_default();
        let detail = format!(
            "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {shown} and removes {shown} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{AT}[{index}]"), name, &detail));
    }
}

/// `k8s.io`, `kubernetes.io` and what is below them.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|owner| {
        group.strip_suffix(owner).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

fn check_approval(new: &Object, errors: &mut Vec<FieldError>) {
    let annotations = new.get("metadata").map_or(&Value::Null, |metadata| &metadata["annotations"]);
    let found = annotations[APPROVAL].as_str().unwrap_or_default();
    let at = format!("metadata.annotations[{APPROVAL}]");
    let is_url = found.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.split('/').next().unwrap_or_default().is_empty()
    });
    if found.is_empty() || !(is_url || found.starts_with("unapproved")) {
        let detail = format!(
            "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \
             \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
        );
        errors.push(if found.is_empty() {
            FieldError::required(at, &detail)
        } else {
            FieldError::invalid(at, &json!(found), &detail)
        });
    }
}
