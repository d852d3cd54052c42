//! Ten thousand Kustomizations as a fleet has them, with the statuses that kustomize-controller writes.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{Timestamp, ToSpan as _};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_cluster::Etcd;
use windlass_e2e::flux::{GitRemote, Kind, Kustomization, NewCommit, Source};

/// Requests at a time.
const CLIENTS: usize = 32;
/// Objects that a Kustomization has applied, as its inventory lists them.
const APPLIED: usize = 25;
/// Entries of its history: as many as kustomize-controller keeps.
const HISTORY: usize = 5;

/// Where statuses are written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way<'a> {
    /// As controllers write them. Validating a status, and keeping track of who owns which of its fields, costs the API
    /// server several milliseconds: it is what a burst waits for.
    ApiServer,
    /// Beneath the API server, which tells whoever watches sooner than it can write.
    Etcd(&'a Etcd),
}

/// Statuses that are put together and not written yet.
pub(super) struct Prepared<'a> {
    way: Way<'a>,
    /// Name or key, and status or object.
    values: Vec<(String, Value)>,
}

/// Kustomizations of one Git repository, which nobody applies.
pub(super) struct Fleet {
    pub(super) remote: GitRemote,
    api: Api<DynamicObject>,
    client: kube::Client,
    namespace: String,
    /// What all of them have applied at the beginning.
    base: String,
}

impl Fleet {
    /// So many, all at the first commit of a repository.
    pub(super) async fn create(client: &kube::Client, namespace: &str, count: usize) -> Result<Self> {
        let remote = GitRemote::new().await?;
        let hour_ago = Timestamp::now().checked_sub(1.hour())?;
        let base = remote.commit(NewCommit::new("begin", hour_ago, "fleet.yaml", "{}")).await?;
        let api = Api::namespaced_with(client.clone(), namespace, &Kustomization::resource());
        let fleet = Self { remote, api, client: client.clone(), namespace: namespace.to_owned(), base };
        let source =
            Source::create(client, namespace, Kind::GitRepository, "fleet", &fleet.remote.url()).await?;
        let artifacts = windlass_e2e::flux::Artifacts::start().await?;
        source.publish(&artifacts, &fleet.remote, &fleet.base).await?;
        let before = revision(&fleet.base);
        stream::iter(0..count)
            .map(|number| fleet.create_one(number, &source, &before))
            .buffer_unordered(CLIENTS)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(fleet)
    }

    async fn create_one(&self, number: usize, source: &Source, revision: &str) -> Result<()> {
        let spec = json!({
            "dependsOn": [{"name": "namespaces"}, {"name": "definitions"}],
            "path": format!("./teams/team-{}/app-{number}", number % 100),
            "postBuild": {"substitute": {"cluster": "bench", "team": format!("team-{}", number % 100)}},
            "serviceAccountName": "kustomize-controller",
        });
        let mut document = Kustomization::document(&self.namespace, &name(number), source, &spec);
        document["metadata"]["labels"] = json!({
            "app.kubernetes.io/part-of": format!("team-{}", number % 100),
            "kustomize.toolkit.fluxcd.io/name": "flux-system",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
        });
        let params =
            PostParams { field_manager: Some("kustomize-controller".into()), ..PostParams::default() };
        self.api.create(&params, &serde_json::from_value(document)?).await?;
        self.write_status(&name(number), &status(number, &[revision.to_owned()])?).await
    }

    async fn write_status(&self, name: &str, status: &Value) -> Result<()> {
        let params =
            PatchParams { field_manager: Some("gotk-kustomize-controller".into()), ..PatchParams::default() };
        self.api
            .patch_status(name, &params, &Patch::Merge(json!({"status": status})))
            .await
            .with_context(|| format!("failed to write the status of {name}"))?;
        Ok(())
    }

    /// Commits on branches of their own, each on top of the first commit, a minute old.
    pub(super) async fn branches(&self, count: usize) -> Result<Vec<String>> {
        let minute_ago = Timestamp::now().checked_sub(1.minute())?;
        let commits = (0..count).map(|number| {
            let (message, path) = (format!("change app {number}"), format!("app-{number}.yaml"));
            NewCommit::new(message, minute_ago, path, "{}").on(&[&self.base])
        });
        let ids = self.remote.commits(commits.collect()).await?;
        let mut updates = String::new();
        for id in &ids {
            writeln!(updates, "create refs/heads/env-{id} {id}")?;
        }
        self.remote.git_with(&["update-ref", "--stdin"], &updates).await?;
        Ok(ids)
    }

    /// The statuses of Kustomizations, the first of these numbers and those after it, that each applied its commit.
    pub(super) async fn prepare<'a>(
        &self,
        first: usize,
        commits: &[String],
        way: Way<'a>,
    ) -> Result<Prepared<'a>> {
        let mut prepared = Vec::new();
        for (number, commit) in (first..).zip(commits) {
            let status = status(number, &[revision(&self.base), revision(commit)])?;
            prepared.push(match way {
                Way::ApiServer => (name(number), status),
                Way::Etcd(etcd) => {
                    let (kind, name) = ("kustomize.toolkit.fluxcd.io/kustomizations", name(number));
                    let key = format!("/registry/{kind}/{}/{name}", self.namespace);
                    let mut object: Value = serde_json::from_slice(&etcd.get(&key).await?)?;
                    object["status"] = status;
                    (key, object)
                }
            });
        }
        Ok(Prepared { way, values: prepared })
    }

    /// Writes them, as fast as they are taken.
    pub(super) async fn write(&self, prepared: Prepared<'_>) -> Result<()> {
        let way = prepared.way;
        stream::iter(prepared.values)
            .map(async |(key, value)| match way {
                Way::ApiServer => self.write_status(&key, &value).await,
                Way::Etcd(etcd) => etcd.put(&key, &serde_json::to_vec(&value)?).await.map(drop),
            })
            .buffer_unordered(CLIENTS)
            .try_collect()
            .await
    }

    /// How often somebody wrote a `ConfigMap`, which is where a ledger is, as the API server counts.
    pub(super) async fn ledger_writes(&self) -> Result<f64> {
        let text = self.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let is_write = |line: &&str| {
            line.starts_with("apiserver_request_total{")
                && line.contains("resource=\"configmaps\"")
                && !["GET", "LIST", "WATCH"].iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")))
        };
        let counts =
            text.lines().filter(is_write).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        Ok(counts.sum())
    }

    /// Bytes and number of the `ConfigMap`s in the namespace.
    pub(super) async fn ledger(&self) -> Result<(usize, usize)> {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let found = maps.list(&kube::api::ListParams::default()).await?.items;
        let bytes = found
            .iter()
            .map(|map| serde_json::to_vec(map).map(|text| text.len()))
            .sum::<Result<usize, _>>()?;
        Ok((bytes, found.len()))
    }
}

fn name(number: usize) -> String {
    format!("app-{number:05}")
}

fn revision(commit: &str) -> String {
    format!("main@sha1:{commit}")
}

/// The status of a Kustomization that applied these one after the other, the last just now.
fn status(number: usize, revisions: &[String]) -> Result<Value> {
    let now = Timestamp::now();
    let second = |time: Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let newest = revisions.last().context("nothing was applied")?;
    let mut history = Vec::new();
    for (age, revision) in revisions.iter().rev().take(HISTORY).enumerate() {
        let first = now.checked_sub((i64::try_from(age)? * 10).minutes())?;
        let last = if age == 0 { first } else { first.checked_add(9.minutes())? };
        history.push(json!({
            "digest": format!("sha256:{:064x}", number * HISTORY + age),
            "firstReconciled": second(first),
            "lastReconciled": second(last),
            "lastReconciledDuration": "251.207391ms",
            "lastReconciledStatus": "ReconciliationSucceeded",
            "totalReconciliations": age + 1,
            "metadata": {"revision": revision},
        }));
    }
    let entries: Vec<Value> = (0..APPLIED)
        .map(|entry| json!({"id": format!("team-{}_app-{number}-{entry}_apps_Deployment", number % 100), "v": "v1"}))
        .collect();
    Ok(json!({
        "conditions": [{
            "type": "Ready",
            "status": "True",
            "reason": "ReconciliationSucceeded",
            "message": format!("Applied revision: {newest}"),
            "lastTransitionTime": second(now),
            "observedGeneration": 1,
        }],
        "history": history,
        "inventory": {"entries": entries},
        "lastAppliedRevision": newest,
        "lastAttemptedRevision": newest,
        "observedGeneration": 1,
    }))
}
