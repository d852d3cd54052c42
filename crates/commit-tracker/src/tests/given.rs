//! What tests are given: objects that say nothing but what a test is about, and answers as text.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::changes::{Accounted, Changes, ChangesError, ChangesQuery, SecretValues, Secrets};
use crate::histogram::Histogram;
use crate::ledger::Entry;
use crate::objects::Kustomization;
use crate::{SourceKey, SourceKind, Standing, Step};

/// A time of the day on which most of this happens.
pub(crate) fn at(time: &str) -> Timestamp {
    format!("2026-03-04T{time}Z").parse().unwrap()
}

/// So many seconds after nine.
pub(crate) fn second(seconds: i64) -> Timestamp {
    at("09:00:00") + SignedDuration::from_secs(seconds)
}

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

pub(crate) fn histogram(seconds: impl IntoIterator<Item = f64>) -> Histogram {
    let mut histogram = Histogram::default();
    seconds.into_iter().for_each(|seconds| histogram.add(seconds).unwrap());
    histogram
}

/// A revision that was applied at once, and certainly then.
pub(crate) fn step(revision: &str, ready: Timestamp) -> Step {
    let step = json!({"revision": revision, "ready": ready, "latest": ready, "health_checked": false,
        "estimated": false, "replaced": false});
    read(step)
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
    let entry = json!({"namespace": "apps", "name": "shop", "source": "GitRepository", "began": began,
        "accounted": accounted});
    read(entry)
}

/// A revision that was known, with its origin.
pub(crate) fn accounted(revision: &str, origin: Option<&str>) -> Accounted {
    Accounted { revision: revision.parse().unwrap(), origin: origin.map(Into::into) }
}

/// The question which commits came with `to` over `known`, for a source `apps/fleet`.
pub(crate) fn question(kind: SourceKind, url: &str, to: &str, known: &[&str]) -> ChangesQuery {
    ChangesQuery {
        source: SourceKey { kind, namespace: "apps".into(), name: "fleet".into() },
        url: url.to_owned(),
        insecure: false,
        secret: None,
        cert_secret: None,
        known: known.iter().map(|known| accounted(known, None)).collect(),
        to: to.parse().unwrap(),
        origin: None,
        metadata: BTreeMap::new(),
        generation: 1,
    }
}

/// An artifact that no registry has.
pub(crate) fn gone() -> String {
    format!("latest@sha256:{:064}", 0)
}

/// The ids of the commits, and what else is found.
pub(crate) fn told(changes: &Changes) -> String {
    let Changes { older, incomplete, unrelated, rewritten, truncated, .. } = *changes;
    let names = ["older", "incomplete", "unrelated", "rewritten", "truncated"];
    let found = names.into_iter().zip([older, incomplete, unrelated, rewritten, truncated]);
    let ids = changes.commits.iter().map(|commit| commit.id.as_str());
    ids.chain(found.filter(|(_, is)| *is).map(|(name, _)| name)).collect::<Vec<_>>().join(" ")
}

/// Secrets by name, all in the namespace `apps`.
pub(crate) fn secrets(all: &[(&'static str, &[(&str, &str)])]) -> Arc<dyn Secrets> {
    let values = |values: &[(&str, &str)]| {
        values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned().into())).collect()
    };
    Arc::new(all.iter().map(|(name, own)| (*name, values(own))).collect::<BTreeMap<_, SecretValues>>())
}

#[async_trait]
impl Secrets for BTreeMap<&'static str, SecretValues> {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<SecretValues>, ChangesError> {
        assert_eq!(namespace, "apps");
        Ok(self.get(name).cloned())
    }
}
