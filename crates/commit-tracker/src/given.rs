//! What tests are given: objects that say nothing but what a test is about.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::ledger::Entry;
use crate::objects::Kustomization;
use crate::{Standing, Step};

/// A revision that was applied at once, and certainly then.
pub(crate) fn step(revision: &str, ready: Timestamp) -> Step {
    read(
        json!({"revision": revision, "ready": ready, "latest": ready, "health_checked": false, "estimated": false,
        "replaced": false}),
    )
}

/// The Kustomization `apps/shop` of the `GitRepository` `fleet`, which applied these revisions, and no others ever.
pub(crate) fn standing(created: Timestamp, steps: Vec<Step>) -> Standing {
    let kustomization: Kustomization = read(json!({
        "metadata": {"name": "shop", "namespace": "apps", "uid": "1", "creationTimestamp": created},
        "spec": {"sourceRef": {"kind": "GitRepository", "name": "fleet"}},
    }));
    Standing { steps, ..crate::standing(&kustomization, None) }
}

/// What is remembered of it when these revisions are accounted for.
pub(crate) fn entry(began: Timestamp, accounted: &[&str]) -> Entry {
    let accounted: Vec<_> = accounted.iter().map(|text| json!({ "revision": text })).collect();
    read(
        json!({"namespace": "apps", "name": "shop", "source": "GitRepository", "began": began, "accounted": accounted}),
    )
}

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
