use std::time::Duration;

use serde_json::{Value, json};
use windlass_runtime::{ObjectKey, Watched as _};

use super::*;
use crate::SourceKind;
use crate::given::read;

fn kustomization() -> Value {
    serde_json::from_str(include_str!("fixtures/kustomization.json")).unwrap()
}

#[test]
fn what_is_needed_of_a_kustomization_is_read_and_nothing_else_kept() {
    let Kustomization { metadata, spec, status } = read(kustomization());
    assert_eq!((&*metadata.key, &*metadata.uid), (&ObjectKey::new("flux-system", "apps"), "a-uid"));
    assert_eq!(metadata.created, Some("2026-03-04T09:15:00Z".parse().unwrap()));
    assert_eq!((metadata.generation, metadata.deleted), (3, false));

    let source = &spec.source_ref;
    assert_eq!((source.kind, source.name.as_deref()), (Some(SourceKind::OciRepository), Some("manifests")));
    assert_eq!(source.namespace, None);
    assert!(spec.suspend && !spec.wait && spec.checks_health());
    assert_eq!(spec.interval, Some(Duration::from_mins(10)));
    assert_eq!(spec.health_timeout(), Duration::from_secs(90));

    let applied = status.last_applied_revision.as_ref().unwrap();
    assert_eq!(&**applied, "latest@sha256:aa");
    assert_eq!(status.last_applied_origin_revision.as_deref(), Some("main@sha1:bb"));
    assert_eq!(status.ready, None, "it says no more than the history does");
    assert_eq!(&*status.healthy.as_ref().unwrap().message, "Health check passed in 12ms");
    let [snapshot] = &*status.history else { panic!("{:?}", status.history) };
    assert_eq!((snapshot.outcome, snapshot.total), (Outcome::Succeeded, 3));
    assert_eq!(snapshot.duration, Some(Duration::from_millis(1250)));
    assert!(snapshot.first < snapshot.last);
    // A revision is kept once however often it is named.
    for named in [&status.last_attempted_revision, &snapshot.revision] {
        assert!(std::sync::Arc::ptr_eq(applied, named.as_ref().unwrap()));
    }
}

#[test]
fn an_object_without_spec_and_status_is_read_and_a_long_message_cut_between_two_characters() {
    let new: Kustomization = read(json!({"metadata": {"name": "new"}}));
    assert_eq!((&*new.key(), new.uid(), new.version()), (&ObjectKey::new("", "new"), None, None));
    assert_eq!((new.spec, new.status), (Spec::default(), Status::default()));
    let mut failed = kustomization();
    let condition = &mut failed["status"]["conditions"][1];
    (condition["status"], condition["message"]) = (json!("False"), json!("\u{e4}".repeat(5000)));
    let read: Kustomization = read(failed);
    assert!(read.status.ready.unwrap().message.len() <= 1024);
}

#[test]
fn a_source_is_read_whatever_its_kind() {
    let Source { spec, status, .. } = read(json!({
        "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}},
        "spec": {"url": "oci://a", "insecure": true, "secretRef": {"name": "s"}, "certSecretRef": {"name": "c"}},
        "status": {"artifact": {"revision": "main@sha1:aa", "lastUpdateTime": "2026-03-04T09:15:00Z",
            "metadata": {"org.opencontainers.image.revision": "b"}}},
    }));
    assert_eq!((spec.url.as_deref(), spec.insecure), (Some("oci://a"), true));
    let secrets = [spec.secret_ref, spec.cert_secret_ref].map(|secret| secret.unwrap().name);
    assert_eq!(secrets.each_ref().map(|name| &**name), ["s", "c"]);
    let artifact = status.artifact.unwrap();
    assert_eq!((&*artifact.revision, artifact.metadata.len()), ("main@sha1:aa", 1));
    assert!(artifact.last_update_time.is_some());
    let plurals = SourceKind::ALL.map(|kind| kind.resource().plural);
    assert_eq!(plurals, ["gitrepositories", "ocirepositories", "buckets", "externalartifacts"]);
}
