//! Started as the original is.

use windlass_e2e::Programs;
use windlass_e2e::flux::{FluxScene, GitRemote, NewCommit, Tracker};
use windlass_otlp_receiver::{Receiver, Value};

use super::{DEADLINE, Delivery, borrowed, tells};

/// A fleet whose Kustomization has this name, with one commit that is two hours old, applied.
async fn named(
    scene: &FluxScene,
    name: &str,
) -> (GitRemote, windlass_e2e::flux::Source, windlass_e2e::flux::Kustomization) {
    let remote = GitRemote::new().await.unwrap();
    let old = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() - 7200).unwrap();
    let map = super::delivery::config_map(name);
    let first = remote.commit(NewCommit::new("begin", old, "map.yaml", map)).await.unwrap();
    let source = scene.git_repository(name, &remote).await.unwrap();
    let spec = serde_json::json!({"namePrefix": format!("{name}-")});
    let kustomization = scene.kustomization(name, &source, spec).await.unwrap();
    let published = source.publish(&scene.artifacts, &remote, &first).await.unwrap();
    kustomization.applied(&published.revision).await.unwrap();
    (remote, source, kustomization)
}

#[tokio::test]
async fn the_start_line_of_the_original_tracks_the_one_kustomization_that_it_names() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let namespace = scene.namespace.name();
    let (remote, source, its) = named(&scene, &format!("kube-manifests-oci-{namespace}")).await;
    let (other_remote, other_source, other) = named(&scene, "another").await;
    // `docker run … --log-level=debug`, in a pod whose namespace the variable says.
    let origins = format!("{}|{}", remote.origin(), other_remote.origin());
    let environment = [("RUNTIME_NAMESPACE", namespace), ("GF_OPERATOR_ALLOWED_GIT_ORIGINS", &origins)];
    let (folder, kubeconfig) = (scene.folder.path(), &scene.tracker.kubeconfig);
    let mut tracker = Tracker::spawn(folder, kubeconfig, &["--log-level=debug"], &environment).unwrap();
    tracker.ready().await.unwrap();
    for (remote, source, kustomization) in [(&other_remote, &other_source, &other), (&remote, &source, &its)]
    {
        let change =
            NewCommit::new("change", jiff::Timestamp::now(), "map.yaml", super::delivery::config_map("new"));
        let commit = remote.commit(change).await.unwrap();
        let published = source.publish(&scene.artifacts, remote, &commit).await.unwrap();
        kustomization.applied(&published.revision).await.unwrap();
    }
    super::says(&tracker, "calculated deployment times").await;
    tracker.stop().await.unwrap();
    let names: Vec<String> = tracker.told().into_iter().map(|told| told.kustomization.1).collect();
    assert_eq!(names, std::slice::from_ref(&its.name));
}

#[tokio::test]
async fn one_of_many_operators_spells_names_as_the_readme_does_with_classic_buckets() {
    const NAME: &str = "flux_commit_tracker.e2e.export-time";
    let Some(mut fleet) = Delivery::start().await else { return };
    let receiver = Receiver::start().unwrap();
    let told = tells(receiver.address());
    let (namespace, origin) = (fleet.namespace.name().to_owned(), fleet.remote.origin());
    let mut environment = borrowed(&told);
    environment.extend([
        ("GF_DEFAULT_TARGET", "operator"),
        ("GF_OPERATOR_NAME", "flux-commit-tracker"),
        ("GF_OPERATOR_NAMESPACE", &namespace),
        ("GF_OPERATOR_ALLOWED_GIT_ORIGINS", &origin),
        ("GF_COMMIT_TRACKER_ALL", "true"),
        ("GF_COMMIT_TRACKER_METRIC_NAMES", "readme"),
        ("GF_COMMIT_TRACKER_HISTOGRAMS", "classic"),
    ]);
    let windlass = Programs::path("windlass").unwrap();
    let (folder, kubeconfig) = (fleet.folder.path(), &fleet.scene.tracker.kubeconfig);
    let mut tracker =
        Tracker::spawn_as(&windlass, &["server", "target"], folder, kubeconfig, &[], &environment).unwrap();
    tracker.ready().await.unwrap();
    fleet.deliver(2).await;
    let found = receiver.until(DEADLINE, |received| {
        let (series, sample) = received.of(NAME).find(|(_, sample)| sample.value.count() == Some(2))?;
        Some((series.clone(), sample.clone()))
    });
    let Some((series, sample)) = found.await else { panic!("{}", tracker.process.output()) };
    let Value::Histogram { bounds, .. } = &sample.value else { panic!("{sample:?}") };
    let classic = [15.0, 30.0, 60.0, 120.0, 180.0, 300.0, 420.0, 600.0, 900.0, 1200.0, 1800.0];
    assert_eq!(bounds[..], classic);
    assert_eq!(sample.unit, "s");
    assert_eq!(series.resource["service.name"], "flux-commit-tracker");
    let attributes: Vec<(&str, &str)> =
        series.attributes.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(
        attributes,
        [
            ("k8s.namespace.name", &*namespace),
            ("k8s.resource.name", "fleet"),
            ("k8s.source.kind", "GitRepository")
        ]
    );
    tracker.stop().await.unwrap();
    fleet.all_told(&[&tracker]).await;
}
