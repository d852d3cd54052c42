//! Deliveries that fail, or take their time.

use anyhow::bail;
use serde_json::json;
use windlass_e2e::eventually;

use super::delivery::config_map;
use super::{Delivery, END_TO_END_COUNT};

/// The gauge of the oldest commit that is not applied yet.
const OLDEST: &str = "flux_commit_tracker_oldest_unapplied_commit_age_seconds";

#[tokio::test]
async fn a_failing_apply_ages_and_is_counted_once_it_is_mended() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let tracker = fleet.tracker(&[], &[]).await;
    fleet.deliver(1).await;
    fleet.counted(&tracker, 1).await;

    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fleet}\ndata: {value: {no: text}}\n";
    let bad = fleet.commit_files(vec![("map.yaml".to_owned(), broken.to_owned())]).await;
    fleet.publish(&bad).await;
    fleet.kustomization.ready_for("ReconciliationFailed").await.unwrap();
    let merged = fleet.commits[1].merged;
    let age = async || {
        let age = tracker.metric(OLDEST, &[]).await?;
        let truth = jiff::Timestamp::now().duration_since(merged).as_secs_f64();
        if age < 1.0 || age > truth {
            bail!("it is {age} of {truth}");
        }
        anyhow::Ok(Some(age))
    };
    let younger = eventually("the commit is seen to wait", &age).await.unwrap();
    let older = async || Ok(age().await?.filter(|age| *age > younger + 1.0));
    eventually("it grows older", &older).await.unwrap();
    assert!((tracker.metric(END_TO_END_COUNT, &[]).await.unwrap() - 1.0).abs() < 0.1, "it was counted");

    fleet.deliver(1).await;
    fleet.counted(&tracker, 3).await;
    eventually("nothing waits", || async {
        let age = tracker.metric(OLDEST, &[]).await?;
        if age > 0.0 {
            bail!("it is {age}");
        }
        Ok(Some(()))
    })
    .await
    .unwrap();
    fleet.all_told(&[&tracker]).await;
}

#[tokio::test]
async fn a_revision_that_waits_for_health_is_counted_when_it_is_healthy() {
    const HEALTH: &str = "flux_commit_tracker_stage_health_time_seconds";
    let Some(mut fleet) = Delivery::with(json!({"wait": true, "timeout": "1m"})).await else { return };
    let tracker = fleet.tracker(&[], &[]).await;
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "app"}},
            "template": {
                "metadata": {"labels": {"app": "app"}},
                "spec": {"containers": [{"name": "app", "image": "example.org/app:1"}]},
            },
        },
    });
    let commit = fleet.commit_files(vec![("app.yaml".to_owned(), deployment.to_string())]).await;
    let revision = fleet.publish(&commit).await;
    eventually("the deployment is there", || async { fleet.get(&["deployment", "app"]).await.map(Some) })
        .await
        .unwrap();
    fleet.kustomization.ready_for("Progressing").await.unwrap();
    assert!(
        tracker.metric(END_TO_END_COUNT, &[]).await.unwrap() < 0.1,
        "it was counted before it was healthy"
    );

    // What its controller would say, of which there is none here.
    let status = json!({"status": {
        "observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "it is"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "it is"},
        ],
    }});
    let patch =
        ["patch", "deployment", "app", "--subresource=status", "--type=merge", "-p", &status.to_string()];
    fleet.kubectl(&patch).await.unwrap();
    fleet.kustomization.applied(&revision).await.unwrap();
    fleet.counted(&tracker, 1).await;
    fleet.all_told(&[&tracker]).await;
    let health = tracker.metric(&format!("{HEALTH}_count"), &[]).await.unwrap();
    assert!((health - 1.0).abs() < 0.1, "{health} revisions became healthy");
}

#[tokio::test]
async fn a_kustomization_without_a_source_and_one_that_goes_disturb_no_other() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let elsewhere =
        fleet.scene.source(windlass_e2e::flux::Kind::GitRepository, "gone", "http://127.0.0.1:1/x.git");
    let elsewhere = elsewhere.await.unwrap();
    elsewhere.delete().await.unwrap();
    let orphan = fleet.scene.kustomization("orphan", &elsewhere, json!({})).await.unwrap();
    orphan.ready_for("ArtifactFailed").await.unwrap();
    let other =
        fleet.scene.kustomization("other", &fleet.source, json!({"namePrefix": "other-"})).await.unwrap();
    other.applied(&format!("main@sha1:{}", fleet.baseline)).await.unwrap();
    let tracker = fleet.tracker(&[], &[]).await;
    let observed = fleet.deliver(1).await;
    other.applied(&observed.revision).await.unwrap();
    // The same commit, once for each Kustomization.
    fleet.counted(&tracker, 2).await;

    // Sources without commits: `ExternalArtifact`s and buckets whose metadata says nothing.
    let bucket = fleet.scene.source(windlass_e2e::flux::Kind::Bucket, "bucket", "127.0.0.1:1").await.unwrap();
    let of_bucket =
        fleet.scene.kustomization("bucket", &bucket, json!({"namePrefix": "bucket-"})).await.unwrap();
    let files = fleet.remote.archive(&fleet.commits[0].id).await.unwrap();
    let revision = format!("sha256:{}", "b".repeat(64));
    let nothing = std::collections::BTreeMap::new();
    bucket.publish_as(&fleet.artifacts, &revision, files, &nothing).await.unwrap();
    of_bucket.applied(&revision).await.unwrap();

    other.delete().await.unwrap();
    fleet.deliver(1).await;
    eventually("what is left is counted", || async {
        let found = tracker.metric(END_TO_END_COUNT, &[("k8s_resource_name", "fleet")]).await?;
        if (found - 2.0).abs() > 0.1 {
            bail!("{found} are");
        }
        Ok(Some(()))
    })
    .await
    .unwrap();
    let map = fleet.get(&["configmap", "fleet"]).await.unwrap();
    let expected: serde_json::Value = windlass_api::yaml::parse(&config_map("change 2")).unwrap();
    assert_eq!(map["data"], expected["data"]);
}
