//! What tests are given: objects that say nothing but what a test is about.

use jiff::Timestamp;
use windlass_runtime::ObjectKey;

use crate::ledger::{Accounted, CommitCounts, Entry};
use crate::{SourceKey, SourceKind, Standing, Step};

/// A revision that was applied at once, and certainly then.
pub(crate) fn step(revision: &str, ready: Timestamp) -> Step {
    Step {
        revision: revision.parse().unwrap(),
        origin: None,
        seen: None,
        fetched: None,
        applied: None,
        ready,
        latest: ready,
        health_checked: false,
        estimated: false,
        replaced: false,
    }
}

/// The Kustomization `apps/shop` of the `GitRepository` `fleet`, which applied these revisions, and no others ever.
pub(crate) fn standing(created: Timestamp, steps: Vec<Step>) -> Standing {
    Standing {
        key: ObjectKey::new("apps", "shop"),
        uid: "1".to_owned(),
        created: Some(created),
        source: Some(SourceKey {
            kind: SourceKind::GitRepository,
            namespace: "apps".to_owned(),
            name: "fleet".to_owned(),
        }),
        whole: true,
        attempted: None,
        failing: None,
        suspended: false,
        deleted: false,
        steps,
    }
}

/// What is remembered of it when these revisions are accounted for.
pub(crate) fn entry(began: Timestamp, accounted: &[&str]) -> Entry {
    let accounted = accounted.iter().map(|text| Accounted { revision: text.parse().unwrap(), origin: None });
    Entry {
        namespace: "apps".into(),
        name: "shop".into(),
        source_kind: SourceKind::GitRepository,
        began,
        accounted: accounted.collect(),
        older: Vec::new(),
        pending: Vec::new(),
        last: None,
        histograms: Vec::new(),
        commits: CommitCounts::default(),
        revisions: Vec::new(),
    }
}
