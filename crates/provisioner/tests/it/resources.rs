//! The resource node over an API server.

use std::sync::Arc;

use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use windlass_provisioner::{
    Cluster, DeletionPolicy, Disposition, Memory, OWNER, Observation, Outcome, Provisioner as _, Reason,
    Scope, Tree, WakeOn, Watches, leaf, serial,
};

use crate::server::{Server, kind_of, map, thing};

fn reason(outcome: &Outcome) -> Option<Reason> {
    match outcome {
        Outcome::Ready => None,
        Outcome::Yield { reason, .. } => Some(*reason),
    }
}

#[tokio::test]
async fn an_object_is_applied_once_and_set_back_when_somebody_changes_it() {
    let (server, node) = (Server::new(), map("a", "one"));
    let scope = server.scope("owner-1");
    assert!(node.provision(&scope).await.unwrap().is_ready());
    assert_eq!(server.requests(), ["GET a", "PATCH a"]);
    assert!(node.provision(&scope).await.unwrap().is_ready());
    assert_eq!(server.requests(), ["GET a"], "what has not changed is not written");

    let patch = Patch::Merge(json!({"data": {"key": "theirs", "more": "x"}}));
    server.maps().patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert!(node.provision(&scope).await.unwrap().is_ready());
    let data = server.maps().get("a").await.unwrap().data.unwrap();
    assert_eq!((data["key"].as_str(), data["more"].as_str()), ("one", "x"), "fields of others stay");

    assert!(map("a", "two").provision(&scope).await.unwrap().is_ready());
    assert_eq!(server.maps().get("a").await.unwrap().data.unwrap()["key"], "two");
}

/// A watch that has not heard of anything yet.
struct Behind;

impl Watches for Behind {
    fn observe(&self, _object: &WakeOn) -> Observation {
        Observation::Absent
    }

    fn follow(&self, _cluster: &Cluster, _object: &WakeOn) {}
}

#[tokio::test]
async fn what_somebody_else_made_is_not_overwritten_although_the_watch_has_not_seen_it_yet() {
    let server = Server::new();
    let object =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"key": "theirs"}})).unwrap();
    server.maps().create(&PostParams::default(), &object).await.unwrap();
    let memory = Arc::new(Memory::with_watches(Arc::new(Behind)));
    let scope = Scope { memory, ..server.scope("owner-1") };
    let error = map("a", "ours").provision(&scope).await.unwrap_err();
    assert_eq!((error.reason, error.disposition), (Reason::NotOurs, Disposition::UserAction));
    assert_eq!(server.requests(), ["PATCH a", "GET a"]);
    assert_eq!(server.maps().get("a").await.unwrap().data.unwrap()["key"], "theirs");
    assert!(map("b", "ours").provision(&scope).await.unwrap().is_ready());
    assert_eq!(server.requests(), ["PATCH b"]);
}

#[tokio::test]
async fn what_somebody_else_made_is_refused_unless_adoption_is_asked_for_and_never_deleted() {
    let server = Server::new();
    let object =
        serde_json::from_value(json!({"metadata": {"name": "a"}, "data": {"key": "theirs"}})).unwrap();
    server.maps().create(&PostParams::default(), &object).await.unwrap();
    let (node, scope) = (map("a", "ours"), server.scope("owner-1"));
    let error = node.provision(&scope).await.unwrap_err();
    assert_eq!((error.reason, error.disposition), (Reason::NotOurs, Disposition::UserAction));
    assert_eq!(error.message, "ConfigMap default/a is there already and belongs to somebody else");
    assert!(node.deprovision(&scope).await.unwrap().is_ready());
    assert_eq!(server.maps().get("a").await.unwrap().data.unwrap()["key"], "theirs");

    assert!(node.clone().adopt().provision(&scope).await.unwrap().is_ready());
    assert_eq!(server.maps().get("a").await.unwrap().annotations()[OWNER], "owner-1");
    assert!(node.provision(&server.scope("owner-2")).await.is_err());
}

#[tokio::test]
async fn an_object_is_awaited_by_its_status_and_its_removal_until_it_is_gone() {
    let (server, node) = (Server::new(), thing("a", json!({"size": 1})));
    let scope = server.scope("owner-1");
    let things: Api<DynamicObject> =
        Api::namespaced_with(server.observer(), "default", &kind_of("Thing", "things"));
    assert!(node.provision(&scope).await.unwrap().is_ready(), "without conditions it is as it should be");
    let status = |ready: serde_json::Value| Patch::Merge(json!({"status": {"conditions": ready}}));
    let not_ready = status(json!([{"type": "Ready", "status": "False"}]));
    things.patch_status("a", &PatchParams::default(), &not_ready).await.unwrap();
    let Outcome::Yield { reason: why, message, wake_on, .. } = node.provision(&scope).await.unwrap() else {
        panic!("it is not ready")
    };
    assert_eq!((why, message.as_str()), (Reason::NotReady, "Thing default/a: it is not Ready"));
    assert_eq!((wake_on[0].kind.as_str(), wake_on[0].name.as_str()), ("Thing", "a"));
    let foreign = status(json!({"Ready": "yes"}));
    things.patch_status("a", &PatchParams::default(), &foreign).await.unwrap();
    assert_eq!(reason(&node.provision(&scope).await.unwrap()), Some(Reason::ForeignStatus));

    let finalizer = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/theirs"]}}));
    things.patch("a", &PatchParams::default(), &finalizer).await.unwrap();
    let scope = scope.deleting(DeletionPolicy::Background);
    assert_eq!(reason(&node.deprovision(&scope).await.unwrap()), Some(Reason::Deleting));
    assert_eq!(reason(&node.deprovision(&scope).await.unwrap()), Some(Reason::Deleting));
    assert_eq!(
        reason(&node.provision(&scope).await.unwrap()),
        Some(Reason::Deleting),
        "it is not applied then"
    );
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    things.patch("a", &PatchParams::default(), &released).await.unwrap();
    assert!(node.deprovision(&scope).await.unwrap().is_ready());
}

#[tokio::test]
async fn what_has_the_name_of_a_deleted_object_is_not_deleted_in_its_place() {
    let (server, node) = (Server::new(), map("a", "one"));
    let scope = server.scope("owner-1");
    let _ = node.provision(&scope).await.unwrap();
    server.maps().delete("a", &DeleteParams::default()).await.unwrap();
    let object = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
    let theirs = server.maps().create(&PostParams::default(), &object).await.unwrap();
    assert!(node.deprovision(&scope).await.unwrap().is_ready());
    assert_eq!(server.maps().get("a").await.unwrap().uid(), theirs.uid());
}

#[tokio::test]
async fn what_is_to_be_kept_stays_without_its_owners_mark() {
    let server = Server::new();
    let (node, scope) = (map("a", "one").deleted_by(DeletionPolicy::Orphan), server.scope("owner-1"));
    let _ = node.provision(&scope).await.unwrap();
    assert!(node.deprovision(&scope).await.unwrap().is_ready());
    assert!(!server.maps().get("a").await.unwrap().annotations().contains_key(OWNER));
    assert!(node.deprovision(&scope).await.unwrap().is_ready());
}

#[tokio::test]
async fn a_kind_that_is_not_served_and_a_refused_object_are_named() {
    let server = Server::new();
    let scope = server.scope("owner-1");
    let nowhere = windlass_provisioner::Resource::new(
        "a",
        &kind_of("Ghost", "ghosts"),
        json!({"metadata": {"name": "a", "namespace": "default"}}),
    );
    let error = nowhere.provision(&scope).await.unwrap_err();
    assert_eq!((error.reason, error.disposition), (Reason::DependencyNotFound, Disposition::Retry));
    let error = map("Not_A_Name", "x").provision(&scope).await.unwrap_err();
    assert_eq!((error.reason, error.disposition), (Reason::Refused, Disposition::UserAction));
    assert!(!error.message.contains("RFC"), "the server's own words are for the log: {}", error.message);
}

#[test]
fn two_nodes_about_one_object_are_refused() {
    let twice = serial("root", [serial("one", [leaf(map("a", "x"))]), serial("two", [leaf(map("a", "y"))])]);
    let error = Tree::new(twice).unwrap_err();
    assert_eq!(error.to_string(), "root/one/a and root/two/a are both about configmaps./default/a");
}

#[tokio::test]
async fn exactly_one_namespace_may_have_the_labels() {
    let (server, labels) =
        (Server::new(), std::collections::BTreeMap::from([("team".to_owned(), "a".to_owned())]));
    let scope = server.scope("owner-1");
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.observer());
    let found = async || windlass_provisioner::util::namespace_by_labels(&scope, &labels).await;
    assert_eq!(found().await.unwrap_err().message, "0 namespaces have the labels team=a, and not one");
    for (name, expected) in [("one", Some("one")), ("two", None)] {
        let document = json!({"metadata": {"name": name, "labels": labels}});
        namespaces.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
        assert_eq!(found().await.ok().as_deref(), expected);
    }
}

/// A watch that counts changes and has not heard of anything yet.
#[derive(Default)]
struct Late(std::sync::atomic::AtomicU64);

impl Watches for Late {
    fn observe(&self, _object: &WakeOn) -> Observation {
        Observation::Absent
    }

    fn follow(&self, _cluster: &Cluster, _object: &WakeOn) {}

    fn changes(&self, _object: &WakeOn) -> Option<u64> {
        Some(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_just_written_is_not_asked_for_until_the_watch_has_heard_of_something_or_had_the_time_to() {
    let (server, node, late) = (Server::new(), map("a", "one"), Arc::new(Late::default()));
    let scope = Scope {
        memory: Arc::new(Memory::with_watches(Arc::<Late>::clone(&late))),
        ..server.scope("owner-1")
    };
    let costs = async || {
        assert!(node.provision(&scope).await.unwrap().is_ready());
        server.requests()
    };
    assert_eq!(costs().await, ["PATCH a"]);
    assert!(costs().await.is_empty());
    // It came and went.
    late.0.fetch_add(2, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(costs().await, ["PATCH a"]);
    assert!(costs().await.is_empty());
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    assert_eq!(costs().await, ["PATCH a"]);
}
