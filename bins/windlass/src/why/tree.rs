//! What an object waits for whose controller is a tree of provisioners: the leaves of it that hold up the others.

use anyhow::{Context as _, Result};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;
use windlass_provisioner::{AVAILABLE, NodeView, State, TreeView};

use super::findings::{Finding, Report, Weight, finding};

/// Answers for the object `name` of the kind `PLURAL.GROUP`, in the version that the server prefers.
pub(super) async fn ask(client: &Client, namespace: &str, kind: &str, name: &str) -> Result<Report> {
    let (plural, group) = kind.split_once('.').context("a kind is PLURAL.GROUP")?;
    let groups = client.list_api_groups().await.context("failed to list the API groups")?.groups;
    let served = groups.into_iter().find(|served| served.name == group);
    let served = served.with_context(|| format!("the server has no API group {group}"))?;
    let version = served.preferred_version.or_else(|| served.versions.into_iter().next());
    let version = version.with_context(|| format!("the server has no version of {group}"))?;
    let kinds = client.list_api_group_resources(&version.group_version).await;
    let kinds = kinds.with_context(|| format!("failed to list the kinds of {}", version.group_version))?;
    let found = kinds.resources.into_iter().find(|kind| kind.name == plural || kind.singular_name == plural);
    let found = found.with_context(|| format!("{} has no kind {plural}", version.group_version))?;
    let kind = ApiResource {
        group: group.to_owned(),
        version: version.version,
        api_version: version.group_version,
        kind: found.kind,
        plural: found.name,
    };
    let api: Api<DynamicObject> = if found.namespaced {
        Api::namespaced_with(client.clone(), namespace, &kind)
    } else {
        Api::all_with(client.clone(), &kind)
    };
    let object = api.get_opt(name).await.with_context(|| format!("failed to read {plural}/{name}"))?;
    let object =
        object.with_context(|| format!("there is no {plural}/{name} in the namespace {namespace}"))?;
    Ok(of_owner(&object, &format!("{}.{group}/{name}", kind.plural)))
}

/// What its status says.
fn of_owner(object: &DynamicObject, shown: &str) -> Report {
    let (status, meta) = (&object.data["status"], &object.metadata);
    let mut findings = Vec::new();
    if meta.deletion_timestamp.is_some() {
        let left = meta.finalizers.clone().unwrap_or_default().join(", ");
        findings.push(finding(Weight::Waits, format!("it is being deleted; still there: {left}")));
    }
    let (generation, observed) = (meta.generation, status["observedGeneration"].as_i64());
    if let Some(generation) = generation.filter(|generation| observed != Some(*generation)) {
        let observed = observed.map_or_else(|| "none".to_owned(), |observed| observed.to_string());
        let text = format!(
            "its controller has not looked at generation {generation} yet, but at {observed}: is it running?"
        );
        findings.push(finding(Weight::Waits, text));
    }
    match TreeView::of_status(status) {
        None => {
            let text = "its status shows no tree: its controller has not begun, or makes none";
            findings.push(finding(Weight::Waits, text));
        }
        Some(view) => {
            let leaves: Vec<Finding> = view.holding_up().map(of_leaf).collect();
            // Before its tree is visited, something else may be in the way: whoever refers to it, say.
            if leaves.is_empty() {
                findings.extend(of_condition(status));
            }
            findings.extend(leaves);
        }
    }
    Report::new(shown.to_owned(), meta.namespace.as_deref(), findings)
}

/// A leaf that holds up the others.
fn of_leaf(leaf: &NodeView) -> Finding {
    let state = &leaf.state;
    let weight = match state.state {
        State::Errored => Weight::Blocked,
        State::Held => Weight::Note,
        _ => Weight::Waits,
    };
    let mut text = format!("{} ({}) is {}", leaf.path, leaf.kind, state.state.as_str());
    if !state.reason.is_empty() {
        text = format!("{text} ({}): {}", state.reason, state.message);
    }
    if state.attempts > 0 {
        text = format!("{text}; failed {} times", state.attempts);
    }
    Finding { since: Some(state.since), ..finding(weight, text) }
}

fn of_condition(status: &Value) -> Option<Finding> {
    let conditions = status["conditions"].as_array()?;
    let available = conditions.iter().find(|condition| condition["type"] == AVAILABLE)?;
    if available["status"] == "True" {
        return None;
    }
    let text = |field: &str| available[field].as_str().unwrap_or_default();
    let weight = if text("reason") == "Errored" { Weight::Blocked } else { Weight::Waits };
    let since = text("lastTransitionTime").parse().ok();
    Some(Finding { since, ..finding(weight, format!("{}: {}", text("reason"), text("message"))) })
}

#[cfg(test)]
mod tests {
    use kube::api::{Patch, PatchParams, PostParams};
    use serde_json::json;
    use windlass_apiserver::ApiServer;
    use windlass_apiserver::store::{StoreOptions, in_memory};

    use super::*;

    fn server() -> ApiServer {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "sites.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Site", "plural": "sites", "singular": "site"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        let definitions = vec![serde_json::from_value(definition).unwrap()];
        ApiServer::builder(in_memory(&StoreOptions::default()).unwrap()).crds(definitions).build().unwrap()
    }

    #[tokio::test]
    async fn the_leaf_that_holds_up_the_others_is_named_with_its_reason() {
        let client = server().client_for_tests();
        let kind = ApiResource {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            api_version: "example.com/v1".to_owned(),
            kind: "Site".to_owned(),
            plural: "sites".to_owned(),
        };
        let sites: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
        sites.create(&PostParams::default(), &DynamicObject::new("demo", &kind)).await.unwrap();
        let asked = async |kind: &str| {
            Ok::<_, anyhow::Error>(ask(&client, "default", kind, "demo").await?.to_string())
        };
        let begun = asked("sites.example.com").await.unwrap();
        assert!(begun.starts_with("sites.example.com/demo waits\n"), "{begun}");
        assert!(begun.contains("its status shows no tree"), "{begun}");

        let since = "2026-01-01T00:00:00Z";
        let node = |path: &str, kind: &str, state: &str, reason: &str, message: &str| json!({"path": path, "kind": kind, "state": state, "reason": reason, "message": message, "since": since});
        let waits = "StatefulSet demo/database: 0 of 1 replicas are ready";
        let mut nodes = vec![
            node("site", "serial", "Provisioning", "NotReady", waits),
            node("site/namespace", "resource", "Ready", "", ""),
            node("site/database", "resource", "Provisioning", "NotReady", waits),
            node("site/shop", "application", "Pending", "", ""),
        ];
        let tell = async |nodes: &[Value]| {
            let status = json!({"status": {"observedGeneration": 1, "provisioning": {"nodes": nodes}}});
            sites.patch_status("demo", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        };
        tell(&nodes).await;
        let expected = format!(
            "sites.example.com/demo waits\n  waits    site/database (resource) is provisioning (NotReady): {waits}, since {since}\n"
        );
        assert_eq!(asked("site.example.com").await.unwrap(), expected);
        nodes[2] = node("site/database", "resource", "Errored", "NotOurs", "it is somebody else's");
        nodes[2]["attempts"] = json!(3);
        tell(&nodes).await;
        let blocked = asked("sites.example.com").await.unwrap();
        let line = "blocked  site/database (resource) is errored (NotOurs): it is somebody else's; failed 3 times, since";
        assert!(blocked.contains("is blocked\n") && blocked.contains(line), "{blocked}");
        assert!(!blocked.contains("shop"), "what comes later holds up nobody: {blocked}");
        let unknown = asked("ghosts.example.com").await.unwrap_err();
        assert_eq!(unknown.to_string(), "example.com/v1 has no kind ghosts");
        assert!(asked("sites.nowhere.example").await.is_err());
    }
}
