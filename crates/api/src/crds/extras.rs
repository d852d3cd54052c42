//! What a definition says beyond the Rust type: required fields, defaults, bounds of names, and rules.

use serde_json::{Value, json};

use crate::repositories::MAX_NAME_LENGTH;
use crate::rules::{attach, place_mut};
use crate::{connection, jobs, repositories};

/// The settings of a remote; in each the branch is always written.
const REMOTES: [&str; 5] = ["github", "githubEnterprise", "git", "bitbucket", "gitlab"];

pub(super) fn none(_: &mut Value) {}

pub(super) fn repository(schema: &mut Value) {
    // The name is a label of the repository's jobs and resources.
    place_mut(schema, "metadata")["properties"] =
        json!({ "name": { "type": "string", "maxLength": MAX_NAME_LENGTH } });
    require(schema, "spec", &["title", "type"]);
    default(schema, "spec.workflows", json!([]));
    default(schema, "spec.sync", json!({}));
    default(schema, "spec.sync.enabled", json!(false));
    default(schema, "spec.sync.intervalSeconds", json!(60));
    for remote in REMOTES {
        default(schema, &format!("spec.{remote}.branch"), json!(""));
    }
    attach(schema, repositories::RULES);
}

pub(super) fn connection(schema: &mut Value) {
    require(schema, "spec", &["title", "type"]);
    attach(schema, connection::RULES);
}

pub(super) fn job(schema: &mut Value) {
    historic_job(schema);
    attach(schema, jobs::RULES);
}

/// A record says what was asked for. It is written once, and by then there is nothing to be refused.
pub(super) fn historic_job(schema: &mut Value) {
    require(schema, "", &["spec"]);
    require(schema, "spec", &["action", "repository"]);
    let repository = place_mut(schema, "spec.repository");
    repository["minLength"] = json!(1);
    repository["maxLength"] = json!(MAX_NAME_LENGTH);
    for list in ["spec.push", "spec.migrate", "spec.delete", "spec.move"] {
        require(schema, &format!("{list}.resources[]"), &["name", "kind"]);
    }
    require(schema, "spec.test", &["duration"]);
    default(schema, "spec.pull.incremental", json!(false));
}

fn require(schema: &mut Value, at: &str, fields: &[&str]) {
    place_mut(schema, at)["required"] = json!(fields);
}

fn default(schema: &mut Value, at: &str, value: Value) {
    place_mut(schema, at)["default"] = value;
}
