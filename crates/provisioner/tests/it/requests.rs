//! How many requests a tree costs.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::managed::{Running, eventually};
use crate::server::Server;

const NODES: usize = 20;

/// What was asked about objects. That watches are begun is no tree's.
fn about_objects(server: &Server) -> Vec<String> {
    let asked = server.requests();
    asked.into_iter().filter(|asked| asked != "GET sites" && asked != "GET configmaps").collect()
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

    server.requests();
    let parts: Vec<Value> = (0..NODES).map(|part| json!({"map": format!("part-{part}")})).collect();
    server.create_site(json!({"tree": {"serial": parts}})).await;
    server.site_is("Provisioned", "").await;
    let mut asked = about_objects(&server);
    assert!(asked.len() <= NODES + 3, "{asked:#?}");
    assert_eq!(asked.iter().filter(|asked| asked.starts_with("PATCH part-")).count(), NODES, "{asked:#?}");

    // What its own writes wake it for costs nothing, and a change of the owner its status.
    server.patch_site(json!({"spec": {"more": 1}})).await;
    let generation = server.sites().get("a").await.unwrap().metadata.generation;
    eventually("the generation is observed", async || {
        let status = server.sites().get("a").await.unwrap().data["status"].clone();
        if status["observedGeneration"].as_i64() == generation { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    asked.extend(about_objects(&server));
    assert!(asked.len() <= NODES + 4, "{asked:#?}");
    running.stop().await;
}
