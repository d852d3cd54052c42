//! What the tracker reads from the statuses that a real kustomize-controller writes, beside the test's own clock.
//!
//! With `WINDLASS_RECORD=<folder>` the statuses are written there: so the fixtures of `commit-tracker/src/facts` were made.

use std::collections::BTreeMap;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use windlass_commit_tracker::objects::{Kustomization as Object, Source as SourceObject};
use windlass_commit_tracker::{Standing, Step, standing};
use windlass_e2e::eventually;
use windlass_e2e::flux::{FluxScene, GitRemote, Kustomization, NewCommit, Published, Source};

use super::delivery::CUT;

/// How long a health check that nothing ends goes on, in seconds.
const HEALTH_TIMEOUT: i64 = 30;

fn config_map(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: fleet}}\ndata: {{value: {value}}}\n")
}

/// A claim is healthy once somebody says that it is bound, which nobody but the test does here.
fn claim() -> String {
    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: claim}\nspec:\n  accessModes: [ReadWriteOnce]\n  \
     resources: {requests: {storage: 1Mi}}\n"
        .to_owned()
}

/// A Kustomization of its own source, and what was seen of it.
struct Case<'a> {
    scene: &'a FluxScene,
    name: &'static str,
    remote: GitRemote,
    source: Source,
    kustomization: Kustomization,
    /// Between which times each revision was ready first.
    truth: BTreeMap<String, Between>,
}

/// Two times of the test's own clock between which something happened.
#[derive(Clone, Copy, Debug)]
struct Between {
    /// Before whatever led to it was done.
    begun: Timestamp,
    /// After it was seen.
    seen: Timestamp,
}

impl Between {
    /// Holds that a time that was read may be the one that it happened at, but for the rounding of what Flux writes.
    #[track_caller]
    fn holds(self, read: Timestamp, step: &Step) {
        self.meets(read, read, step);
    }

    /// The same for the two times between which it is read to have happened.
    #[track_caller]
    fn meets(self, earliest: Timestamp, latest: Timestamp, step: &Step) {
        let cut = SignedDuration::from_secs_f64(CUT);
        let may_be = earliest <= self.seen + cut && latest >= self.begun - cut;
        assert!(may_be, "read {earliest} to {latest} of {self:?}: {step:#?}");
    }
}

impl<'a> Case<'a> {
    async fn new(scene: &'a FluxScene, name: &'static str, mut spec: Value) -> Self {
        spec["namePrefix"] = format!("{name}-").into();
        let remote = GitRemote::new().await.unwrap();
        let source = scene.git_repository(name, &remote).await.unwrap();
        let kustomization = scene.kustomization(name, &source, spec).await.unwrap();
        Self { scene, name, remote, source, kustomization, truth: BTreeMap::new() }
    }

    async fn publish(&self, path: &str, content: String) -> Published {
        let commit = NewCommit::new(path, Timestamp::now(), path, content);
        let commit = self.remote.commit(commit).await.unwrap();
        self.source.publish(&self.scene.artifacts, &self.remote, &commit).await.unwrap()
    }

    async fn applied(&mut self, published: &Published) {
        let seen = self.kustomization.applied(&published.revision).await.unwrap().seen;
        self.truth.insert(published.revision.clone(), Between { begun: published.begun, seen });
    }

    /// Publishes a file, and waits until it is applied.
    async fn publish_and_apply(&mut self, path: &str, content: String) -> String {
        let published = self.publish(path, content).await;
        self.applied(&published).await;
        published.revision
    }

    /// Has everything run again, as it is when an interval has passed.
    async fn run(&self) {
        let now = Timestamp::now().to_string();
        let annotations = json!({"reconcile.fluxcd.io/requestedAt": now});
        self.kustomization.patch(json!({"metadata": {"annotations": annotations}})).await.unwrap();
        eventually("the run has ended", || async {
            let status = self.kustomization.get().await?["status"].take();
            let ready = status["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            Ok((ready && status["lastHandledReconcileAt"] == now).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Waits until what comes next is told apart from what was, although times have whole seconds.
    async fn settle(&self) {
        let last = self.truth.values().map(|truth| truth.seen).max().unwrap();
        eventually("some seconds have passed", || async {
            Ok((Timestamp::now().duration_since(last) > SignedDuration::from_secs(3)).then_some(()))
        })
        .await
        .unwrap();
    }

    /// Waits for this many runs by the clock.
    async fn runs(&self, more: u64) {
        let total =
            |object: &Value| object["status"]["history"][0]["totalReconciliations"].as_u64().unwrap_or(0);
        let until = total(&self.kustomization.get().await.unwrap()) + more;
        eventually("there were more runs", || async {
            Ok((total(&self.kustomization.get().await?) >= until).then_some(()))
        })
        .await
        .unwrap();
    }

    /// What is read of the object as it is now.
    async fn standing(&self, moment: &str) -> Standing {
        let object = self.kustomization.get().await.unwrap();
        let source = self.scene.get(&["gitrepository.source.toolkit.fluxcd.io", self.name]).await.unwrap();
        self.record(moment, &object, &source);
        let source: SourceObject = serde_json::from_value(source).unwrap();
        standing(&serde_json::from_value::<Object>(object).unwrap(), Some(&source))
    }

    fn record(&self, moment: &str, object: &Value, source: &Value) {
        let Some(folder) = std::env::var_os("WINDLASS_RECORD") else { return };
        let mut status = object["status"].clone();
        status.as_object_mut().unwrap().remove("inventory");
        let metadata = |of: &Value| {
            json!({
                "name": of["metadata"]["name"], "namespace": "team", "uid": of["metadata"]["uid"],
                "generation": of["metadata"]["generation"], "creationTimestamp": of["metadata"]["creationTimestamp"],
            })
        };
        let mut spec = object["spec"].clone();
        spec.as_object_mut().unwrap().remove("targetNamespace");
        let artifact = &source["status"]["artifact"];
        let fixture = json!({
            "kustomization": {"metadata": metadata(object), "spec": spec, "status": status},
            "source": {
                "metadata": metadata(source),
                "status": {"artifact": {
                    "revision": artifact["revision"], "lastUpdateTime": artifact["lastUpdateTime"],
                }},
            },
            "seen_ready": self.truth.iter().map(|(revision, truth)| (revision, truth.seen)).collect::<BTreeMap<_, _>>(),
        });
        let path = std::path::Path::new(&folder).join(format!("{}-{moment}.json", self.name));
        std::fs::write(path, format!("{fixture:#}\n")).unwrap();
    }

    /// Checks that the steps are those of these revisions, and ready when they were seen to be. Answers the last.
    ///
    /// What was before the last may have been ready as late as its bound says: when an earlier revision had the same
    /// manifests only the times of its commits tell, which `measure` knows.
    fn check(&self, standing: &Standing, revisions: &[&str]) -> Step {
        let read: Vec<_> = standing.steps.iter().map(|step| step.revision.as_str()).collect();
        assert_eq!(read, revisions, "{standing:#?}");
        for step in &standing.steps {
            assert!(!step.estimated, "{step:#?}");
        }
        let (last, before) = standing.steps.split_last().unwrap();
        self.truth[last.revision.as_str()].holds(last.ready, last);
        for step in before {
            self.truth[step.revision.as_str()].meets(step.ready, step.latest, step);
        }
        last.clone()
    }

    /// Waits until the status says this, and answers when it was seen.
    async fn says(&self, what: &str, is_said: impl Fn(&Value) -> bool) -> Timestamp {
        eventually(what, || async {
            let status = self.kustomization.get().await?["status"].take();
            Ok(is_said(&status).then(Timestamp::now))
        })
        .await
        .unwrap()
    }
}

#[tokio::test]
async fn what_flux_writes_is_read_as_of_when_it_was() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    tokio::join!(
        manifests_change_and_do_not(&scene),
        intervals_pass(&scene),
        an_apply_fails(&scene),
        health_is_waited_for(&scene),
        health_comes_too_late(&scene),
        nothing_happens_while_suspended(&scene),
    );
}

async fn manifests_change_and_do_not(scene: &FluxScene) {
    let mut case = Case::new(scene, "changes", json!({})).await;
    let first = case.publish_and_apply("map.yaml", config_map("first")).await;
    let step = case.check(&case.standing("first").await, &[&first]);
    assert_eq!((step.applied, step.health_checked), (Some(step.ready), false));
    assert!(step.fetched.is_some_and(|fetched| fetched < step.ready));
    case.settle().await;
    case.run().await;
    let second = case.publish_and_apply("map.yaml", config_map("second")).await;
    case.settle().await;
    case.run().await;
    case.check(&case.standing("second-after-a-run").await, &[&first, &second]);
    case.settle().await;
    // The manifests stay the same.
    let third = case.publish_and_apply("README.md", "words".to_owned()).await;
    case.check(&case.standing("identical").await, &[&first, &third]);
    // What was first comes back: a revert.
    let fourth = case.publish_and_apply("map.yaml", config_map("first")).await;
    case.check(&case.standing("reverted").await, &[&third, &fourth]);
}

async fn intervals_pass(scene: &FluxScene) {
    let mut case = Case::new(scene, "intervals", json!({"interval": "2s"})).await;
    let first = case.publish_and_apply("map.yaml", config_map("first")).await;
    case.runs(2).await;
    let step = case.check(&case.standing("first").await, &[&first]);
    assert_eq!(step.fetched, None);
    let second = case.publish_and_apply("README.md", "words".to_owned()).await;
    case.runs(2).await;
    let standing = case.standing("identical").await;
    let [step] = &standing.steps[..] else { panic!("{standing:#?}") };
    assert_eq!((step.revision.as_str(), step.estimated), (&*second, true));
    // An estimate between what is known: it was published before, and had ended when a later run had.
    case.truth[&second].meets(step.ready, step.latest, step);
    Between { begun: case.truth[&second].begun, seen: Timestamp::now() }.holds(step.ready, step);
}

async fn an_apply_fails(scene: &FluxScene) {
    let mut case = Case::new(scene, "fails", json!({})).await;
    let failed = case.publish("map.yaml", config_map("[no, text]")).await;
    // It is tried again soon, and says nothing of the failure while it is.
    let standing = eventually("it is read as failed", || async {
        let standing = case.standing("failed").await;
        let failed = |failing: &String| failing.starts_with("ReconciliationFailed: ");
        Ok(standing.failing.as_ref().is_some_and(failed).then_some(standing))
    })
    .await
    .unwrap();
    assert_eq!(standing.steps, []);
    assert_eq!(standing.attempted.unwrap().as_str(), failed.revision);
    let fixed = case.publish_and_apply("map.yaml", config_map("text")).await;
    let step = case.check(&case.standing("fixed").await, &[&fixed]);
    case.truth[&fixed].holds(step.fetched.unwrap(), &step);
}

/// Waits until a claim is there, and answers when it was made: in whole seconds, cut off.
async fn claimed(scene: &FluxScene, name: &str) -> Timestamp {
    eventually("the claim is there", || async {
        let claim = scene.get(&["persistentvolumeclaim", name]).await?;
        let created = claim["metadata"]["creationTimestamp"].as_str().context("it was never made")?;
        Ok(Some(created.parse()?))
    })
    .await
    .unwrap()
}

async fn bind(scene: &FluxScene, name: &str) {
    let patch = json!({"status": {"phase": "Bound"}}).to_string();
    let arguments =
        ["patch", "persistentvolumeclaim", name, "--subresource=status", "--type=merge", "--patch", &patch];
    scene.kubectl(&arguments).await.unwrap();
}

async fn health_is_waited_for(scene: &FluxScene) {
    let mut case = Case::new(scene, "waits", json!({"wait": true, "timeout": "50s"})).await;
    let published = case.publish("claim.yaml", claim()).await;
    let begun = claimed(scene, "waits-claim").await;
    // The apply has ended when this is said.
    let is_checked = |status: &Value| {
        status["conditions"].as_array().into_iter().flatten().any(|condition| condition["type"] == "Healthy")
    };
    let applied = Between { begun, seen: case.says("health is waited for", is_checked).await };
    let standing = case.standing("waiting").await;
    assert_eq!(standing.steps, []);
    bind(scene, "waits-claim").await;
    case.applied(&published).await;
    let step = case.check(&case.standing("healthy").await, &[&published.revision]);
    assert!(step.health_checked);
    applied.holds(step.applied.unwrap(), &step);
    case.settle().await;
    case.run().await;
    let step = case.check(&case.standing("healthy-after-a-run").await, &[&published.revision]);
    assert_eq!((step.health_checked, step.applied, step.fetched), (true, None, None));
}

async fn health_comes_too_late(scene: &FluxScene) {
    let timeout = format!("{HEALTH_TIMEOUT}s");
    let mut case = Case::new(scene, "late", json!({"wait": true, "timeout": timeout})).await;
    let published = case.publish("claim.yaml", claim()).await;
    let begun = claimed(scene, "late-claim").await;
    // The condition is replaced by the next run, which begins a second later. The history stays.
    let has_failed = |status: &Value| {
        let mut history = status["history"].as_array().into_iter().flatten();
        history.any(|snapshot| snapshot["lastReconciledStatus"] == "HealthCheckFailed")
    };
    let failed = case.says("the health check has failed", has_failed).await;
    // It was applied before its health was waited for, all of the time that there was.
    let applied = Between { begun, seen: failed - SignedDuration::from_secs(HEALTH_TIMEOUT) };
    bind(scene, "late-claim").await;
    case.applied(&published).await;
    let step = case.check(&case.standing("healthy").await, &[&published.revision]);
    assert!(step.health_checked);
    applied.holds(step.applied.unwrap(), &step);
}

async fn nothing_happens_while_suspended(scene: &FluxScene) {
    let mut case = Case::new(scene, "suspended", json!({})).await;
    let first = case.publish_and_apply("map.yaml", config_map("first")).await;
    case.kustomization.patch(json!({"spec": {"suspend": true}})).await.unwrap();
    case.publish("map.yaml", config_map("second")).await;
    let standing = case.standing("suspended").await;
    assert!(standing.suspended);
    case.check(&standing, &[&first]);
}
