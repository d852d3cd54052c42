//! How many requests a tree costs.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::managed::Running;
use crate::server::Server;

const NODES: usize = 20;
/// A list or a watch of what trees have made.
const WATCH: &str = "GET configmaps (metadata)";

/// What was asked about objects. That watches are begun is no tree's.
fn about_objects(server: &Server) -> Vec<String> {
    let asked = server.requests();
    asked.into_iter().filter(|asked| asked != "GET sites" && asked != WATCH).collect()
}

#[tokio::test]
async fn a_tree_comes_up_with_a_request_a_node_and_two_about_its_owner() {
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    // The watches are there after another site.
    server.create_site(json!({"tree": {"map": "before"}})).await;
    server.site_is("Provisioned", "").await;
    server.sites().delete("a", &DeleteParams::default()).await.unwrap();
    server.site_is_gone().await;
    let mut watches = server.requests();
    watches.retain(|asked| asked.starts_with("GET configmaps"));
    assert!(watches.contains(&WATCH.to_owned()), "{watches:#?}");
    assert!(
        watches.iter().all(|asked| asked == WATCH),
        "a node alone reads what is in an object: {watches:#?}"
    );

    let parts: Vec<Value> = (0..NODES).map(|part| json!({"map": format!("part-{part}")})).collect();
    server.create_site(json!({"tree": {"serial": parts}})).await;
    server.site_is("Provisioned", "").await;
    let mut asked = about_objects(&server);
    assert!(asked.len() <= NODES + 3, "{asked:#?}");
    assert_eq!(asked.iter().filter(|asked| asked.starts_with("PATCH part-")).count(), NODES, "{asked:#?}");

    // What its own writes wake it for costs nothing, and a change of the owner its status.
    server.patch_site(json!({"spec": {"more": 1}})).await;
    server.site_is_observed().await;
    asked.extend(about_objects(&server));
    assert!(asked.len() <= NODES + 4, "{asked:#?}");
    running.stop().await;
}
