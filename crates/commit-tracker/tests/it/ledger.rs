//! The ledger against an API server in process: what it remembers, what it refuses, and that nothing is counted twice.

mod faults;
mod line;
mod opening;
mod records;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::Caller;
use windlass_commit_tracker::ledger::{
    Accounted, CommitCounts, Ledger, LedgerConfig, LedgerError, Outcome, Pending, Record, mark_of,
};
use windlass_commit_tracker::{Instrument, Revision, SourceKind};
use windlass_runtime::{ManualClock, ObjectKey};
use windlass_telemetry::ErrorChain;

use self::line::{Fate, Line};

const HEAD: &str = "flux-commit-tracker-ledger";

/// An API server without anything in it.
struct World {
    router: axum::Router,
    /// Meets no faults, and is not counted.
    client: Client,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        let server = ApiServer::builder(in_memory(&StoreOptions::default()).unwrap()).build().unwrap();
        let router = server.router();
        let client = client_of(router.clone(), Caller::system("test"));
        let clock = ManualClock::following_tokio("2026-11-21T16:00:00Z".parse::<Timestamp>().unwrap());
        Self { router, client, clock: Arc::new(clock) }
    }

    fn config(&self) -> LedgerConfig {
        LedgerConfig::new(self.clock.clone())
    }

    /// A process's way to the server.
    fn line(&self) -> Line {
        Line::new(self.router.clone())
    }

    /// Waits until what nobody waits for is written.
    async fn written(&self) {
        let LedgerConfig { gather, linger, .. } = self.config();
        tokio::time::sleep((gather + linger) * 2).await;
    }

    async fn open(&self) -> Ledger {
        self.open_over(&self.line()).await.unwrap()
    }

    async fn open_over(&self, line: &Line) -> Result<Ledger, LedgerError> {
        Ledger::open(line.client(), "default", self.config()).await
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// The data of every `ConfigMap`, by name.
    async fn data(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let all = self.maps().list(&ListParams::default()).await.unwrap();
        all.items.into_iter().map(|map| (map.name_any(), map.data.unwrap_or_default())).collect()
    }

    /// Changes a `ConfigMap` as a human with kubectl does.
    async fn patch(&self, name: &str, patch: Value) {
        self.maps().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

/// The revision after `n` steps.
fn revision(n: usize) -> Revision {
    format!("main@sha1:{n:040x}").parse().unwrap()
}

/// The `n`th step of a Kustomization, from 1 on: one commit, that took `n` seconds.
fn step(uid: &str, n: usize) -> Record {
    Record {
        uid: uid.into(),
        key: Arc::new(ObjectKey::new("flux-system", format!("name-of-{uid}"))),
        source_kind: SourceKind::GitRepository,
        from: (n > 1).then(|| revision(n - 1)),
        to: Some(Accounted { revision: revision(n), origin: None }),
        observations: vec![(Instrument::EndToEnd, f64::from(u32::try_from(n).unwrap()))],
        commits: CommitCounts { counted: 1, ..CommitCounts::default() },
        outcome: Some(Outcome::Measured),
        last: None,
        skipped: Vec::new(),
        pending: Vec::new(),
    }
}

/// The first sight of a Kustomization, which had applied its first step before.
fn first(uid: &str) -> Record {
    let (observations, commits) = (Vec::new(), CommitCounts::default());
    Record { outcome: Some(Outcome::Baseline), observations, commits, ..step(uid, 1) }
}

/// Records all of these at once.
async fn record_all(ledger: &Ledger, records: impl IntoIterator<Item = Record>) {
    for answer in join_all(records.into_iter().map(|record| ledger.record(record))).await {
        answer.unwrap();
    }
}

/// How many steps are remembered of a Kustomization, after checking that all of it says the same.
fn steps(ledger: &Ledger, uid: &str) -> usize {
    let Some(entry) = ledger.entry(uid) else { return 0 };
    let count = usize::try_from(entry.commits.counted).unwrap();
    let histogram = entry.histogram(Instrument::EndToEnd).unwrap();
    let seconds = Duration::from_secs_f64(histogram.sum()).as_secs();
    let observed = (entry.commits.counted, (1..=entry.commits.counted).sum::<u64>());
    assert_eq!((histogram.count(), seconds), observed, "{uid}: {entry:#?}");
    assert_eq!(entry.revisions, [(Outcome::Measured, histogram.count())], "{uid}: {entry:#?}");
    let frontier: Vec<_> = entry.accounted.iter().map(|accounted| accounted.revision.clone()).collect();
    let expected: Vec<_> = (count.saturating_sub(16) + 1..=count).map(revision).collect();
    assert_eq!(frontier, expected, "{uid}");
    count
}

/// `count` UIDs in the shard of the first one.
fn neighbours(count: usize) -> Vec<String> {
    let shard = |uid: &str| {
        uid.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
            % 128
    };
    let all = (0..).map(|number| format!("uid-{number}"));
    all.filter(|uid| shard(uid) == shard("uid-0")).take(count).collect()
}
