//! Deletion at every moment of a bring-up.

use kube::api::DeleteParams;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::managed::Running;
use crate::server::Server;

/// A tree whose leaves get names of their own.
fn shape() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![3 => Just("map"), 2 => Just("thing"), 1 => Just("keep")]
        .prop_map(|kind| json!({kind: ""}));
    leaf.prop_recursive(3, 6, 3, |inner| {
        let children = proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (prop_oneof![Just("serial"), Just("concurrent"), Just("graph")], children)
                .prop_map(|(kind, children)| json!({kind: children})),
            (any::<bool>(), inner).prop_map(|(wanted, child)| json!({"if": wanted, "then": child})),
        ]
    })
}

fn name_leaves(node: &mut Value, next: &mut usize, kept: &mut Vec<String>) {
    let Some(fields) = node.as_object_mut() else { return };
    for (kind, value) in fields.iter_mut() {
        match kind.as_str() {
            "map" | "thing" | "keep" => {
                let name = format!("n{next}");
                *next += 1;
                if kind == "keep" {
                    kept.push(name.clone());
                }
                *value = json!(name);
            }
            "then" => name_leaves(value, next, kept),
            _ => value.as_array_mut().into_iter().flatten().for_each(|child| name_leaves(child, next, kept)),
        }
    }
}

/// Deletes the site once the manager's nth write is answered; then lets the manager go on, or kills it and starts another.
async fn delete_at(tree: &Value, write: usize, kept: &[String], restart: bool) {
    let server = Server::new();
    server.create_site(json!({"tree": {"serial": [tree]}})).await;
    let reached = tokio_util::sync::CancellationToken::new();
    let (sites, told) = (server.sites(), reached.clone());
    let client = server.counting(write, move || {
        let (sites, told) = (sites.clone(), told.clone());
        async move {
            sites.delete("a", &DeleteParams::default()).await.unwrap();
            told.cancel();
        }
    });
    let mut running = Running::start(client, |_| {});
    let up = async { server.site_is("Provisioned", "").await };
    tokio::select! {
        () = reached.cancelled() => {}
        () = up => {
            // The tree took fewer writes than that.
            let _ = server.sites().delete("a", &DeleteParams::default()).await;
        }
    }
    if restart {
        running.stop().await;
        running = Running::start(server.client.clone(), |_| {});
    }
    server.site_is_gone().await;
    running.stop().await;
    let left = server.left().await;
    assert!(left.iter().all(|name| kept.contains(name)), "{left:?} of {tree} after write {write}");
}

#[tokio::test]
async fn deletion_at_any_moment_of_a_bring_up_leaves_what_policy_says_and_nothing_else() {
    let mut runner = TestRunner::deterministic();
    for case in 0..12 {
        let mut tree = shape().new_tree(&mut runner).unwrap().current();
        let (mut leaves, mut kept) = (0, Vec::new());
        name_leaves(&mut tree, &mut leaves, &mut kept);
        // The finalizer, each object, and the status of a pass or two.
        for write in 1..leaves + 4 {
            delete_at(&tree, write, &kept, (case + write) % 2 == 0).await;
        }
    }
}
