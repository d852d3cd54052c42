//! Repositories that an exporter writes: its payload says which commits it exported.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_cluster::{Registry, RegistryLogin};
use windlass_e2e::flux::{FluxScene, GitRemote, Kind, Kustomization, NewCommit, Published, Source, Tracker};
use windlass_github_stand_in::StandIn;

use super::delivery::{CUT, config_map};

/// The media type of the exporter's layer.
const LAYER: &str = "application/vnd.grafana.exporter-info.v1+json";
/// The histogram of the exporter's part of the way.
const EXPORT_COUNT: &str = "flux_commit_tracker_kube_manifests_exporter_export_time_seconds_count";
/// The histogram of Flux's part.
const RECONCILE_COUNT: &str = "flux_commit_tracker_flux_reconcile_time_seconds_count";

/// The exporter's payload of this number with these commits: names and seconds since their merge.
fn payload(number: usize, commits: &[(&str, i64)]) -> (Vec<u8>, Vec<(String, Timestamp)>) {
    let now = Timestamp::now().as_second();
    let (mut listed, mut merged) = (Vec::new(), Vec::new());
    for (name, age) in commits {
        let time = Timestamp::from_second(now - age).unwrap();
        listed.push(json!({
            "hash": name, "summary": format!("change {name}"), "author": "A. Writer",
            "email": "a.writer@example.org", "time": time.to_string(),
        }));
        merged.push(((*name).to_owned(), time));
    }
    let document = json!({
        "commit": format!("export-{number}"), "previous_commit": format!("export-{}", number - 1),
        "commits_since_last_export": listed,
        "export_build_link": "https://ci.example.org/runs/77",
    });
    (document.to_string().into_bytes(), merged)
}

/// Holds what was told of commits against the test's own clock: they were applied after they were published, and before
/// that was seen.
async fn check(tracker: &Tracker, merged: &[(String, Timestamp)], published: &Published, seen: Timestamp) {
    // A line comes a moment after its commit is counted.
    let lines = windlass_e2e::eventually("the commits are told", || async {
        let told = tracker.told();
        let is_told = |(commit, _): &(String, Timestamp)| told.iter().any(|told| told.commit == *commit);
        Ok(merged.iter().all(is_told).then_some(()))
    });
    lines.await.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", tracker.process.output()));
    for (commit, merged) in merged {
        let told: Vec<_> = tracker.told().into_iter().filter(|told| &told.commit == commit).collect();
        let since = |time: Timestamp| time.duration_since(*merged).as_secs_f64();
        let (least, most) = (since(published.begun) - CUT, since(seen) + CUT);
        let [one] = &told[..] else { panic!("{commit} was told as {told:?}") };
        assert!((least..=most).contains(&one.end_to_end), "{one:?} took {least} to {most}");
    }
}

/// Publishes what the applier is to apply under a revision.
async fn publish(
    scene: &FluxScene,
    source: &Source,
    revision: &str,
    metadata: &BTreeMap<String, String>,
) -> Published {
    let files = GitRemote::new().await.unwrap();
    let map = NewCommit::new("files", Timestamp::now(), "map.yaml", config_map(revision));
    let files = files.archive(&files.commit(map).await.unwrap()).await.unwrap();
    source.publish_as(&scene.artifacts, revision, files, metadata).await.unwrap()
}

/// Publishes what the applier is to apply under a revision, and waits for it.
async fn apply(
    scene: &FluxScene,
    source: &Source,
    kustomization: &Kustomization,
    revision: &str,
    metadata: &BTreeMap<String, String>,
) -> (Published, Timestamp) {
    let published = publish(scene, source, revision, metadata).await;
    let applied = kustomization.applied(revision).await;
    let applied = applied.unwrap_or_else(|error| panic!("{error:#}; {}", scene.flux_said()));
    (published, applied.seen)
}

async fn until(tracker: &Tracker, name: &str, count: f64) {
    let counted = windlass_e2e::eventually(&format!("{name} is {count}"), || async {
        let found = tracker.metric(name, &[]).await?;
        if (found - count).abs() > 0.1 {
            anyhow::bail!("it is {found}");
        }
        Ok(Some(()))
    })
    .await;
    counted.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", tracker.process.output()));
}

#[tokio::test]
async fn commits_of_an_artifact_are_those_of_its_exporter_skipped_artifacts_included() {
    let Some(registry) = Registry::start(RegistryLogin::Nobody).await.unwrap() else { return };
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let source = scene.source(Kind::OciRepository, "fleet", &registry.url("fleet")).await.unwrap();
    let fleet = scene.kustomization("fleet", &source, json!({})).await.unwrap();
    let push = async |number: usize, commits: &[(&str, i64)]| {
        let (payload, merged) = payload(number, commits);
        let number = number.to_string();
        let tags = [number.as_str(), "latest"];
        let created = Timestamp::now().to_string();
        let annotations = [("org.opencontainers.image.created".to_owned(), created)].into();
        let layers: [(&str, &[u8]); 2] =
            [("application/vnd.cncf.flux.content.v1.tar+gzip", b"unread"), (LAYER, &payload)];
        let digest = registry.push_artifact("fleet", &tags, &layers, &annotations).await.unwrap();
        (format!("latest@{digest}"), merged, annotations)
    };
    let (first, _, annotations) = push(1, &[("before", 9000)]).await;
    apply(&scene, &source, &fleet, &first, &annotations).await;
    let registries = format!("--allow-registry={}", registry.address());
    let tracker = scene.start_tracker("http://127.0.0.1:1", &[&registries], &[]).await.unwrap();

    let (second, merged, annotations) = push(2, &[("one", 50), ("two", 40)]).await;
    let (published, seen) = apply(&scene, &source, &fleet, &second, &annotations).await;
    until(&tracker, super::END_TO_END_COUNT, 2.0).await;
    check(&tracker, &merged, &published, seen).await;

    // One artifact is seen and never applied: its successor's payload does not list its commits.
    fleet.patch(json!({"spec": {"suspend": true}})).await.unwrap();
    let (third, mut skipped, annotations) = push(3, &[("three", 33)]).await;
    publish(&scene, &source, &third, &annotations).await;
    windlass_e2e::eventually("it waits", || async {
        Ok((tracker.metric("flux_commit_tracker_oldest_unapplied_commit_age_seconds", &[]).await? > 0.0)
            .then_some(()))
    })
    .await
    .unwrap();
    let (fourth, merged, annotations) = push(4, &[("four", 22)]).await;
    let published = publish(&scene, &source, &fourth, &annotations).await;
    fleet.patch(json!({"spec": {"suspend": false}})).await.unwrap();
    let seen = fleet.applied(&fourth).await.unwrap().seen;
    until(&tracker, super::END_TO_END_COUNT, 4.0).await;
    skipped.extend(merged);
    check(&tracker, &skipped, &published, seen).await;
}

#[tokio::test]
async fn the_readmes_start_line_with_a_github_token_counts_what_the_exporter_wrote_down() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let github = StandIn::start().await.unwrap();
    let token = windlass_e2e::secret("a-token-of-github");
    github.allow_token(&token);
    let manifests = github.repository("example/kube-manifests").private();
    let push = |commits: &[(&str, i64)]| {
        let (payload, merged) = payload(1, commits);
        let files: [(&str, Option<&[u8]>); 1] = [("exporter-info.json", Some(&payload))];
        let exported = Timestamp::from_second(Timestamp::now().as_second() - 5).unwrap();
        (format!("main@sha1:{}", manifests.push("export", exported, &files)), merged)
    };
    let source = scene.source(Kind::GitRepository, "fleet", &github.url_of(&manifests)).await.unwrap();
    let namespace = scene.namespace.name();
    let fleet =
        scene.kustomization(&format!("kube-manifests-{namespace}"), &source, json!({})).await.unwrap();
    let nothing = BTreeMap::new();
    let (first, _) = push(&[("before", 9000)]);
    apply(&scene, &source, &fleet, &first, &nothing).await;
    // The start line of the original's README: `docker run -e GITHUB_TOKEN … --log-level=debug`, in a pod.
    let environment = [
        ("GITHUB_TOKEN", "a-token-of-github"),
        ("RUNTIME_NAMESPACE", namespace),
        ("GF_COMMIT_TRACKER_EXPORTER_INFO", "github"),
        ("GF_COMMIT_TRACKER_GITHUB_API_URL", github.api()),
    ];
    let (folder, kubeconfig) = (scene.folder.path(), &scene.tracker.kubeconfig);
    let tracker = Tracker::spawn(folder, kubeconfig, &["--log-level=debug"], &environment).unwrap();
    tracker.ready().await.unwrap();

    let (second, merged) = push(&[("one", 50), ("two", 40)]);
    let (published, seen) = apply(&scene, &source, &fleet, &second, &nothing).await;
    until(&tracker, super::END_TO_END_COUNT, 2.0).await;
    until(&tracker, EXPORT_COUNT, 2.0).await;
    until(&tracker, RECONCILE_COUNT, 1.0).await;
    check(&tracker, &merged, &published, seen).await;
    let lines: Vec<Value> = tracker.process.lines("calculated deployment times");
    for (line, age) in lines.iter().zip([45.0, 35.0]) {
        // The exporter's commit is five seconds old, so its part of the way is known to the second.
        let exported = &line["duration.deployment_tools_commit_to_kube_manifests_commit_seconds"];
        assert!((exported.as_f64().unwrap() - age).abs() <= 1.0, "{line:#}");
    }

    // Its third export is never applied, and not forgotten.
    let (_, mut skipped) = push(&[("three", 33)]);
    let (fourth, merged) = push(&[("four", 22)]);
    let (published, seen) = apply(&scene, &source, &fleet, &fourth, &nothing).await;
    until(&tracker, super::END_TO_END_COUNT, 4.0).await;
    skipped.extend(merged);
    check(&tracker, &skipped, &published, seen).await;
    assert!(!tracker.process.output().contains("a-token-of-github"), "the token is readable in the log");
}
