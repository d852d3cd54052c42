use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_runtime::{ObjectKey, Watched as _};

use super::*;
use crate::SourceKind;

fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn kustomization() -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
        "kind": "Kustomization",
        "metadata": {
            "name": "apps", "namespace": "flux-system", "uid": "a-uid", "resourceVersion": "77",
            "creationTimestamp": "2026-03-04T09:15:00Z", "generation": 3,
            "labels": {"team": "a"}, "annotations": {"long": "text"},
            "managedFields": [{"manager": "kustomize-controller", "fieldsV1": {"f:status": {}}}],
            "finalizers": ["finalizers.fluxcd.io"],
        },
        "spec": {
            "interval": "10m", "timeout": "1m30s", "prune": true, "path": "./apps", "wait": false, "suspend": true,
            "healthChecks": [{"kind": "Deployment", "name": "a"}],
            "sourceRef": {"kind": "OCIRepository", "name": "manifests"},
        },
        "status": {
            "lastAppliedRevision": "latest@sha256:aa", "lastAttemptedRevision": "latest@sha256:aa",
            "lastAppliedOriginRevision": "main@sha1:bb", "observedGeneration": 3,
            "inventory": {"entries": [{"id": "default_a_apps_Deployment", "v": "v1"}]},
            "conditions": [
                {"type": "Healthy", "status": "True", "reason": "Succeeded", "message": "Health check passed in 12ms",
                 "lastTransitionTime": "2026-03-04T09:20:01Z", "observedGeneration": 3},
                {"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded",
                 "message": "Applied revision: latest@sha256:aa", "lastTransitionTime": "2026-03-04T09:20:02Z"},
                {"type": "Stalled", "status": "False", "reason": "x", "message": "y", "lastTransitionTime": "2026-03-04T09:20:02Z"},
            ],
            "history": [{
                "digest": "sha256:cc", "firstReconciled": "2026-03-04T09:20:02Z",
                "lastReconciled": "2026-03-04T09:40:02Z", "lastReconciledDuration": "1.25s",
                "lastReconciledStatus": "ReconciliationSucceeded", "totalReconciliations": 3,
                "metadata": {"revision": "latest@sha256:aa", "originRevision": "main@sha1:bb"},
            }],
        },
    })
}

#[test]
fn what_is_needed_of_a_kustomization_is_read_and_nothing_else_kept() {
    let read: Kustomization = read(kustomization());
    assert_eq!(*read.key(), ObjectKey::new("flux-system", "apps"));
    assert_eq!((read.uid(), read.version()), (Some("a-uid"), Some("77")));
    assert_eq!(read.metadata.created, Some("2026-03-04T09:15:00Z".parse().unwrap()));
    assert_eq!((read.metadata.generation, read.metadata.deleted), (3, false));

    assert_eq!(read.spec.source_ref.kind, Some(SourceKind::OciRepository));
    assert_eq!(read.spec.source_ref.name.as_deref(), Some("manifests"));
    assert_eq!(read.spec.source_ref.namespace, None);
    assert!(read.spec.suspend && !read.spec.wait && read.spec.checks_health());
    assert_eq!(read.spec.interval, Some(Duration::from_mins(10)));
    assert_eq!(read.spec.health_timeout(), Duration::from_secs(90));

    let status = &read.status;
    assert_eq!(status.last_applied_revision.as_deref(), Some("latest@sha256:aa"));
    assert_eq!(status.last_applied_origin_revision.as_deref(), Some("main@sha1:bb"));
    assert_eq!(status.ready, None, "it says no more than the history does");
    assert_eq!(&*status.healthy.as_ref().unwrap().message, "Health check passed in 12ms");
    let [snapshot] = &*status.history else { panic!("{:?}", status.history) };
    assert_eq!(snapshot.outcome, Outcome::Succeeded);
    assert_eq!(snapshot.duration, Some(Duration::from_millis(1250)));
    assert_eq!((snapshot.total, snapshot.first < snapshot.last), (3, true));
    assert_eq!(snapshot.revision, status.last_applied_revision);
}

#[test]
fn a_revision_is_kept_once_however_often_it_is_named() {
    let read: Kustomization = read(kustomization());
    let applied = read.status.last_applied_revision.unwrap();
    let named = [read.status.last_attempted_revision.as_ref(), read.status.history[0].revision.as_ref()];
    assert!(named.iter().all(|other| std::sync::Arc::ptr_eq(&applied, other.unwrap())));
}

#[test]
fn an_object_without_spec_and_status_is_read() {
    let read: Kustomization = read(json!({"metadata": {"name": "new"}}));
    assert_eq!(*read.key(), ObjectKey::new("", "new"));
    assert_eq!((read.uid(), read.version()), (None, None));
    assert_eq!((read.spec, read.status), (Spec::default(), Status::default()));
}

#[test]
fn a_source_is_read_whatever_its_kind() {
    let source: Source = read(json!({
        "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}},
        "spec": {"url": "https://git.example.org/a.git", "insecure": true, "secretRef": {"name": "s"},
            "certSecretRef": {"name": "c"}},
        "status": {"artifact": {
            "revision": "main@sha1:aa", "lastUpdateTime": "2026-03-04T09:15:00Z",
            "metadata": {"org.opencontainers.image.revision": "b"},
        }},
    }));
    assert_eq!(source.spec.url.as_deref(), Some("https://git.example.org/a.git"));
    let name = |secret: &Option<SecretRef>| secret.as_ref().map(|secret| secret.name.to_string());
    assert_eq!((source.spec.insecure, name(&source.spec.secret_ref)), (true, Some("s".to_owned())));
    assert_eq!(name(&source.spec.cert_secret_ref).as_deref(), Some("c"));
    let artifact = source.status.artifact.unwrap();
    assert_eq!((&*artifact.revision, artifact.metadata.len()), ("main@sha1:aa", 1));
    assert!(artifact.last_update_time.is_some());
    let [git, oci, bucket, external] = SourceKind::ALL.map(SourceKind::resource);
    let plurals = [git.plural, oci.plural, bucket.plural, external.plural];
    assert_eq!(plurals, ["gitrepositories", "ocirepositories", "buckets", "externalartifacts"]);
}

#[test]
fn a_long_message_is_cut_between_two_characters() {
    let mut failed = kustomization();
    failed["status"]["conditions"][1]["status"] = json!("False");
    failed["status"]["conditions"][1]["message"] = json!("\u{e4}".repeat(5000));
    let read: Kustomization = read(failed);
    assert!(read.status.ready.unwrap().message.len() <= 1024);
}
