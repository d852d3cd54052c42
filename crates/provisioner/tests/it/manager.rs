//! The manager over an API server in process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use windlass_provisioner::{
    Manager, ManagerError, ManagerOptions, ManagerProvisioner, Node, ProvisionError, Scope, reference,
};
use windlass_runtime::{EventRecorder, SystemClock};
use windlass_telemetry::Metrics;

use crate::managed::{FINALIZER, Running, Site, Sites, eventually};
use crate::server::Server;

/// A map and a thing after it.
fn small() -> serde_json::Value {
    json!({"tree": {"serial": [{"map": "first"}, {"thing": "second"}]}})
}

#[tokio::test]
async fn a_site_comes_up_says_so_and_goes() {
    let server = Server::new();
    let metrics = Metrics::new().unwrap();
    let (events, writer) = EventRecorder::new("example.com/sites", "test", Arc::new(SystemClock));
    tokio::spawn(writer.run(server.observer(), tokio_util::sync::CancellationToken::new()));
    let running = Running::start(server.client.clone(), |options| {
        options.meter = Some(metrics.meter("provisioner"));
        options.events = Some(events);
    });
    server.create_site(small()).await;
    server.site_is("Provisioned", "Provisioned").await;
    let site = server.sites().get("a").await.unwrap();
    assert_eq!(site.finalizers(), [FINALIZER]);
    let nodes = site.data["status"]["provisioning"]["nodes"].as_array().unwrap();
    let shown: Vec<_> =
        nodes.iter().map(|node| (node["path"].as_str().unwrap(), node["state"].as_str().unwrap())).collect();
    assert_eq!(shown, [("site", "Ready"), ("site/first", "Ready"), ("site/second", "Ready")]);
    let text = metrics.render().unwrap();
    assert!(text.contains("provisioner_node_seconds_count{node=\"site/first\",outcome=\"ready\""), "{text}");
    let told: Api<k8s_openapi::api::events::v1::Event> = Api::namespaced(server.observer(), "default");
    eventually("an Event tells of it", async || {
        let events = told.list(&kube::api::ListParams::default()).await.unwrap();
        let reasons: Vec<_> = events.iter().map(|event| event.reason.clone().unwrap_or_default()).collect();
        if reasons.contains(&"Provisioned".to_owned()) { Ok(()) } else { Err(format!("{reasons:?}")) }
    })
    .await;

    server.sites().delete("a", &DeleteParams::default()).await.unwrap();
    server.site_is_gone().await;
    assert!(server.left().await.is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_change_of_what_is_waited_for_or_was_up_wakes_the_owner() {
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    server.create_site(small()).await;
    server.site_is("Provisioned", "").await;
    let ready =
        |status: &str| Patch::Merge(json!({"status": {"conditions": [{"type": "Ready", "status": status}]}}));
    let patched = Instant::now();
    server.things().patch_status("second", &PatchParams::default(), &ready("False")).await.unwrap();
    server.site_is("Provisioning", "site/second: Thing default/second: it is not Ready (NotReady)").await;
    server.things().patch_status("second", &PatchParams::default(), &ready("True")).await.unwrap();
    server.site_is("Provisioned", "").await;
    server.maps().delete("first", &DeleteParams::default()).await.unwrap();
    eventually("what was deleted by hand is back", async || {
        server.maps().get_opt("first").await.unwrap().map(|_| ()).ok_or_else(String::new)
    })
    .await;
    assert!(
        patched.elapsed() < Duration::from_secs(8),
        "less than the default yield: {:?}",
        patched.elapsed()
    );
    running.stop().await;
}

#[tokio::test]
async fn a_visit_to_a_settled_tree_asks_the_server_nothing() {
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    let unwanted = json!({"if": false, "then": {"map": "third"}});
    let tree = json!({"tree": {"serial": [{"map": "first"}, {"thing": "second"}, unwanted]}});
    server.create_site(tree).await;
    server.site_is("Provisioned", "").await;
    // A label of the site's is a reason for a visit, and makes no difference to its objects.
    let mut visits = 0;
    eventually("a visit costs no request about an object", async || {
        visits += 1;
        server.requests();
        server.patch_site(json!({"metadata": {"labels": {"visit": visits.to_string()}}})).await;
        server.patch_site(json!({"metadata": {"generation": visits}, "spec": {"more": visits}})).await;
        server.site_is_observed().await;
        let asked = server.requests();
        let about: Vec<_> = asked
            .iter()
            .filter(|asked| [" first", " second", " third"].iter().any(|name| asked.ends_with(name)))
            .collect();
        if about.is_empty() { Ok(()) } else { Err(format!("{about:?}")) }
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn deletion_overrides_pause_waits_for_references_and_for_nobody_elses_finalizer() {
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    server.create_site(small()).await;
    server.site_is("Provisioned", "").await;
    let needed = reference("shops.example.com", "default", "b");
    server.patch_site(json!({"spec": {"paused": true}, "metadata": {"finalizers": [FINALIZER, needed, "theirs.example.com/x"]}})).await;
    server.sites().delete("a", &DeleteParams::default()).await.unwrap();
    server.site_is("Deprovisioning", "others still need it: shops.example.com.default.b (Referenced)").await;
    assert_eq!(server.left().await, ["first", "second"]);
    server.patch_site(json!({"metadata": {"finalizers": [FINALIZER, "theirs.example.com/x"]}})).await;
    eventually("only their finalizer is left", async || {
        let site = server.sites().get("a").await.unwrap();
        if site.finalizers() == ["theirs.example.com/x"] {
            Ok(())
        } else {
            Err(format!("{:?}", site.finalizers()))
        }
    })
    .await;
    server.site_is("Deprovisioned", "").await;
    assert!(server.left().await.is_empty());
    running.stop().await;
}

/// Sites, and how often it was asked whether one is paused.
struct Counted(Arc<AtomicUsize>);

impl ManagerProvisioner for Counted {
    type Object = Site;

    fn tree(&self, site: &Site) -> Result<Node<Scope>, ProvisionError> {
        Sites.tree(site)
    }

    fn is_paused(&self, site: &Site) -> bool {
        self.0.fetch_add(1, Ordering::SeqCst);
        Sites.is_paused(site)
    }
}

#[tokio::test]
async fn a_paused_site_is_left_as_it_is_until_it_is_not() {
    let (server, asked) = (Server::new(), Arc::new(AtomicUsize::new(0)));
    server.create_site(json!({"paused": true, "tree": {"map": "first"}})).await;
    let running = Running::of(Counted(Arc::clone(&asked)), server.client.clone(), |_| {});
    // One thread: who asked has gone on to its end, or to a request.
    eventually("the site is looked at", async || {
        if asked.load(Ordering::SeqCst) > 0 { Ok(()) } else { Err(String::new()) }
    })
    .await;
    assert!(server.requests().iter().all(|asked| asked == "GET sites"), "it is neither held nor told of");
    server.patch_site(json!({"spec": {"paused": false}})).await;
    server.site_is("Provisioned", "").await;
    running.stop().await;
}

#[tokio::test]
async fn what_the_user_has_to_mend_is_parked_with_its_reason_and_revived_by_a_change() {
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    server.create_site(json!({"tree": {"broken": "version 2 is not in the catalogue"}})).await;
    server.site_is("Errored", "version 2 is not in the catalogue (VersionNotFound)").await;
    server
        .patch_site(json!({"spec": {"tree": {"broken": null, "serial": [{"map": "x"}, {"map": "x"}]}}}))
        .await;
    server.site_is("Errored", "site has two children named \"x\", or one without a name (InvalidTree)").await;
    server.patch_site(json!({"spec": {"tree": {"serial": [{"map": "x"}]}}})).await;
    server.site_is("Provisioned", "").await;
    server
        .patch_site(
            json!({"spec": {"tree": {"serial": [{"if": false, "then": {"map": "x"}}, {"map": "y"}]}}}),
        )
        .await;
    eventually("what is not wanted is gone", async || {
        let left = server.left().await;
        if left == ["y"] { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn conditions_of_a_foreign_shape_are_left_alone_and_the_tree_is_shown() {
    let server = Server::new();
    server.create_site(small()).await;
    let foreign = Patch::Merge(json!({"status": {"conditions": {"Available": "yes"}}}));
    server.sites().patch_status("a", &PatchParams::default(), &foreign).await.unwrap();
    let running = Running::start(server.client.clone(), |_| {});
    let site = eventually("the tree is up", async || {
        let site = server.sites().get("a").await.unwrap();
        if site.data["status"]["provisioning"]["ready"] == 3 { Ok(site) } else { Err(format!("{site:#?}")) }
    })
    .await;
    assert_eq!(site.data["status"]["conditions"], json!({"Available": "yes"}));
    running.stop().await;
}

#[tokio::test]
async fn attempts_and_times_survive_a_restart_of_the_process() {
    let server = Server::new();
    let theirs = serde_json::from_value(json!({"metadata": {"name": "first"}})).unwrap();
    server.maps().create(&kube::api::PostParams::default(), &theirs).await.unwrap();
    server.create_site(small()).await;
    let running = Running::start(server.client.clone(), |_| {});
    server.site_is("Errored", "ConfigMap default/first is there already").await;
    running.stop().await;
    let node =
        async || server.sites().get("a").await.unwrap().data["status"]["provisioning"]["nodes"][1].clone();
    let before = node().await;
    let running = Running::start(server.client.clone(), |_| {});
    let after = eventually("it is tried again", async || {
        let after = node().await;
        if after["attempts"].as_i64() > before["attempts"].as_i64() {
            Ok(after)
        } else {
            Err(after.to_string())
        }
    })
    .await;
    assert_eq!((&after["since"], &after["path"]), (&before["since"], &json!("site/first")));
    running.stop().await;
}

#[test]
fn a_finalizer_without_a_domain_is_refused() {
    let refused = Manager::new(Sites, ManagerOptions::new("provisioner"));
    assert!(matches!(refused.err(), Some(ManagerError::UnqualifiedFinalizer(_))));
}

#[tokio::test]
async fn what_the_watch_says_is_not_there_is_made_without_a_question() {
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    server.create_site(json!({"tree": {"serial": [{"map": "first"}]}})).await;
    server.site_is("Provisioned", "").await;
    let mut number = 0;
    eventually("one request makes one object", async || {
        number += 1;
        server.requests();
        let name = format!("more-{number}");
        server.patch_site(json!({"spec": {"tree": {"serial": [{"map": "first"}, {"map": name}]}}})).await;
        eventually("it is there", async || {
            server.maps().get_opt(&name).await.unwrap().map(drop).ok_or_else(String::new)
        })
        .await;
        let asked: Vec<_> = server.requests().into_iter().filter(|asked| asked.ends_with(&name)).collect();
        if asked == [format!("PATCH {name}")] { Ok(()) } else { Err(format!("{asked:?}")) }
    })
    .await;
    running.stop().await;
}
