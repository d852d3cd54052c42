//! A real kube-apiserver, with our operators under exactly the Roles of `deploy/`.

mod crashes;
mod faults;
mod guide;
mod jobs;
mod leader;
mod main_job;
mod refused;
mod repository_api;
mod rules;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_e2e::{Kubectl, job};

/// The specification of a pull.
fn pull(incremental: bool) -> Value {
    json!({"action": "pull", "pull": {"incremental": incremental}})
}

/// Pulls a repository by a plain Job object, and answers the finished job.
async fn pulled(kubectl: &Kubectl, repository: &str, incremental: bool) -> Value {
    let name = format!("{repository}-sync");
    kubectl.run_job(&job(&name, repository, &pull(incremental))).await.unwrap()
}

/// Names and titles of the dashboards.
async fn titles(kubectl: &Kubectl) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dashboards = kubectl.items(&["dashboards"]).await.unwrap();
    dashboards.iter().map(|d| (text(&d["metadata"]["name"]), text(&d["spec"]["title"]))).collect()
}

/// The same as one writes it down.
fn expect(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, title)| ((*name).to_owned(), (*title).to_owned())).collect()
}
