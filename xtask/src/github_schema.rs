//! What GitHub's published description of its API says of the operations that we use, cut out of the whole.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Map, Value, json};

use crate::npm::Package;
use crate::shell::root;

/// The package with GitHub's description, and the version that was taken.
const PACKAGE: &str = "@octokit/openapi";
const VERSION: &str = "23.0.2";
/// The description of github.com's API within it.
const FILE: &str = "generated/api.github.com.json";
/// Where the cut goes.
const TARGET: &str = "github-stand-in/openapi.json";

/// What the stand-in answers.
const OPERATIONS: &[(&str, &str)] = &[
    ("get", "/rate_limit"),
    ("get", "/app"),
    ("get", "/app/installations/{installation_id}"),
    ("get", "/orgs/{org}/installation"),
    ("get", "/users/{username}/installation"),
    ("get", "/installation/repositories"),
    ("get", "/repos/{owner}/{repo}"),
    ("get", "/repos/{owner}/{repo}/branches"),
    ("get", "/repos/{owner}/{repo}/branches/{branch}"),
    ("get", "/repos/{owner}/{repo}/branches/{branch}/protection"),
    ("get", "/repos/{owner}/{repo}/rules/branches/{branch}"),
    ("get", "/repos/{owner}/{repo}/rulesets/{ruleset_id}"),
    ("get", "/repos/{owner}/{repo}/commits"),
    ("get", "/repos/{owner}/{repo}/contents/{path}"),
    ("get", "/repos/{owner}/{repo}/git/blobs/{file_sha}"),
    ("get", "/repos/{owner}/{repo}/hooks"),
    ("post", "/repos/{owner}/{repo}/hooks"),
    ("get", "/repos/{owner}/{repo}/hooks/{hook_id}"),
    ("patch", "/repos/{owner}/{repo}/hooks/{hook_id}"),
    ("delete", "/repos/{owner}/{repo}/hooks/{hook_id}"),
    ("get", "/repos/{owner}/{repo}/hooks/{hook_id}/deliveries"),
    ("post", "/repos/{owner}/{repo}/hooks/{hook_id}/deliveries/{delivery_id}/attempts"),
    ("get", "/repos/{owner}/{repo}/pulls/{pull_number}"),
    ("get", "/repos/{owner}/{repo}/pulls/{pull_number}/files"),
    ("get", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("post", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("patch", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("post", "/app/installations/{installation_id}/access_tokens"),
];

/// What says nothing about a value.
const PROSE: &[&str] = &["description", "title", "example", "examples", "deprecated", "externalDocs"];

pub(crate) fn run() -> Result<()> {
    let whole = Package::fetch(PACKAGE, VERSION)?.json(FILE)?;
    let cut = cut(&whole)?;
    let text = format!("{}\n", serde_json::to_string_pretty(&cut)?);
    std::fs::write(root().join(TARGET), &text)?;
    println!("wrote {TARGET}: {} bytes", text.len());
    Ok(())
}

fn cut(whole: &Value) -> Result<Value> {
    let mut operations = BTreeMap::new();
    for (method, path) in OPERATIONS {
        let described = &whole["paths"][path];
        let operation = described.get(method).with_context(|| format!("{method} {path} is not described"))?;
        let parameters: Vec<Value> = [described, operation]
            .into_iter()
            .flat_map(|level| level["parameters"].as_array().into_iter().flatten())
            .map(|parameter| resolve(whole, parameter))
            .map(|parameter| {
                let schema = schema(&parameter["schema"]);
                json!({ "name": parameter["name"], "in": parameter["in"],
                        "required": parameter["required"].as_bool().unwrap_or_default(), "schema": schema })
            })
            .collect();
        let mut entry = json!({ "parameters": parameters, "responses": {} });
        if let Some(body) = operation.get("requestBody") {
            entry["body"] = schema(&resolve(whole, body)["content"]["application/json"]["schema"]);
        }
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            entry["responses"][status] = answer(whole, &resolve(whole, response));
        }
        operations.insert(format!("{} {path}", method.to_uppercase()), entry);
    }
    // An answer that any operation may give and none lists: 403 and 429 of rate limits, 401, 5xx.
    let error = schema(&json!({ "$ref": "#/components/schemas/basic-error" }));
    let mut definitions = BTreeMap::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    names(&json!([operations, error]), &mut wanted);
    while let Some(name) = wanted.pop_first() {
        if definitions.contains_key(&name) {
            continue;
        }
        let found = schema(&whole["components"]["schemas"][&name]);
        ensure!(!found.is_null(), "the schema {name} is not described");
        names(&found, &mut wanted);
        definitions.insert(name, found);
    }
    Ok(json!({
        "made_by": "cargo xtask github-schema",
        "from": { "package": PACKAGE, "version": VERSION, "file": FILE,
                  "license": whole["info"]["license"]["name"] },
        "operations": operations,
        "error": error,
        "$defs": definitions,
    }))
}

/// What a response may hold: schemas by media type, and those of its headers.
fn answer(whole: &Value, response: &Value) -> Value {
    let schemas = |part: &Value| -> Map<String, Value> {
        let entries = part.as_object().into_iter().flatten();
        entries.map(|(name, one)| (name.clone(), schema(&resolve(whole, one)["schema"]))).collect()
    };
    json!({ "content": schemas(&response["content"]), "headers": schemas(&response["headers"]) })
}

/// What `value` is, or what it refers to.
fn resolve(whole: &Value, value: &Value) -> Value {
    match value["$ref"].as_str().and_then(|target| target.strip_prefix('#')) {
        Some(pointer) => whole.pointer(pointer).cloned().unwrap_or_default(),
        None => value.clone(),
    }
}

/// A schema of `OpenAPI` 3.0 as one of JSON Schema: without prose, `nullable` as a type, references to `$defs`.
fn schema(value: &Value) -> Value {
    let Some(object) = value.as_object() else {
        return match value.as_array() {
            Some(list) => list.iter().map(schema).collect(),
            None => value.clone(),
        };
    };
    let mut made = Map::new();
    for (key, value) in object {
        if PROSE.contains(&key.as_str())
            || key.starts_with("x-")
            || matches!(key.as_str(), "nullable" | "discriminator")
        {
            continue;
        }
        let value = match (key.as_str(), value) {
            // Names of properties are no keywords.
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, one)| (name.clone(), schema(one))).collect()
            }
            ("$ref", Value::String(target)) => {
                json!(target.replace("#/components/schemas/", "#/$defs/"))
            }
            ("enum" | "default" | "const" | "required", value) => value.clone(),
            (_, value) => schema(value),
        };
        made.insert(key.clone(), value);
    }
    if object.get("nullable") == Some(&Value::Bool(true)) {
        return json!({ "anyOf": [made, { "type": "null" }] });
    }
    Value::Object(made)
}

/// Adds the names of all schemas that `value` refers to.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(name) = object.get("$ref").and_then(Value::as_str) {
                found.extend(name.strip_prefix("#/$defs/").map(str::to_owned));
            }
            object.values().for_each(|value| names(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}
