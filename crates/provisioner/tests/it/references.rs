//! What keeps an object on its way down: references of others, and its dependants.

use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_provisioner::{Outcome, Provisioner as _, Reason, Reference, reference};

use crate::managed::Running;
use crate::server::{Server, kind_of, thing};

fn why(outcome: &Outcome) -> Option<(Reason, &str)> {
    match outcome {
        Outcome::Ready => None,
        Outcome::Yield { reason, message, .. } => Some((*reason, message)),
    }
}

#[tokio::test]
async fn a_reference_waits_for_its_object_holds_it_and_lets_it_go() {
    let server = Server::new();
    let scope = server.scope("owner");
    let held = reference("shops.example.com", "default", "b");
    let node = Reference::new("needs", &kind_of("Thing", "things"), "default", "a", held.as_str());
    let absent = Some((Reason::DependencyNotFound, "Thing default/a is not there"));
    assert_eq!(why(&node.provision(&scope).await.unwrap()), absent);
    assert!(node.deprovision(&scope).await.unwrap().is_ready(), "what is not there is not held");

    assert!(thing("a", json!({})).provision(&scope).await.unwrap().is_ready());
    server.requests();
    for asked in [vec!["GET a", "PATCH a"], vec!["GET a"]] {
        assert!(node.provision(&scope).await.unwrap().is_ready());
        assert_eq!(server.requests(), asked);
    }
    assert_eq!(server.things().get("a").await.unwrap().finalizers(), [held]);
    server.things().delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(why(&node.provision(&scope).await.unwrap()), absent, "what goes is not held anew");
    assert!(node.deprovision(&scope).await.unwrap().is_ready());
    assert!(server.things().get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn an_owner_that_is_deleted_in_the_foreground_goes_after_its_dependants() {
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    let site = server.create_site(json!({"tree": {"map": "first"}})).await;
    server.site_is("Provisioned", "").await;
    let dependant = json!({"metadata": {
        "name": "dependant", "finalizers": ["example.com/theirs"],
        "ownerReferences": [{
            "apiVersion": "example.com/v1", "kind": "Site", "name": "a", "uid": site.uid(), "blockOwnerDeletion": true,
        }],
    }});
    let dependant = serde_json::from_value(dependant).unwrap();
    server.maps().create(&PostParams::default(), &dependant).await.unwrap();
    server.sites().delete("a", &DeleteParams::foreground()).await.unwrap();
    server.site_is("Deprovisioning", "its dependants go first (ForegroundDeletion)").await;
    assert_eq!(server.left().await, ["dependant", "first"]);
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    server.maps().patch("dependant", &PatchParams::default(), &released).await.unwrap();
    server.site_is_gone().await;
    assert!(server.left().await.is_empty());
    running.stop().await;
}
