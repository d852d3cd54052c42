//! What people do with kubectl all day, against the embedded server: explain, describe, edit, diff, apply by several
//! managers, wait, delete with dependants, and kinds of their own.

use serde_json::{Value, json};
use windlass_e2e::{Peers, Server};

use crate::client_go::WIDGETS;

const WIDGET: &str = r"
apiVersion: example.com/v1
kind: Widget
metadata: {name: gear}
spec: {size: 3}
";

/// A server that serves widgets, if there is a kubectl.
async fn server() -> Option<Server> {
    if !Peers::present(&["kubectl"]).unwrap() {
        return None;
    }
    let server = Server::start(&[]).await.unwrap();
    server.kubectl_with(&["apply", "-f", "-"], WIDGETS).await.unwrap();
    let established = ["wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=180s"];
    server.kubectl(&established).await.unwrap();
    Some(server)
}

/// Runs a line of shell in which `kubectl` reaches the server.
async fn shell(server: &Server, line: &str) -> String {
    let line = format!("export KUBECONFIG={}; {line}", server.kubeconfig().display());
    server.shell(&line).await.unwrap()
}

fn has(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[tokio::test]
async fn explain_tells_what_fields_are_for() {
    let Some(server) = server().await else { return };
    let repository = server.kubectl(&["explain", "repositories.spec.sync"]).await.unwrap();
    has(&repository, &["GROUP:", "provisioning.grafana.app", "intervalSeconds", "<integer>", "DESCRIPTION:"]);
    let all = server.kubectl(&["explain", "widgets", "--recursive"]).await.unwrap();
    has(
        &all,
        &[
            "A widget is what these tests are about.",
            "size\t<integer>",
            "parts\t<[]Object>",
            "apiVersion\t<string>",
        ],
    );
    let map = server.kubectl(&["explain", "configmap.data"]).await.unwrap();
    has(&map, &["map[string]string"]);
    let wrong = server.kubectl(&["explain", "widgets.spec.sise"]).await.unwrap_err().to_string();
    assert!(wrong.contains("sise"), "{wrong}");
}

#[tokio::test]
async fn resources_and_versions_are_listed() {
    let Some(server) = server().await else { return };
    let resources = server.kubectl(&["api-resources", "--verbs=list,watch", "-o", "wide"]).await.unwrap();
    has(&resources, &["widgets", "wd", "example.com/v1", "true", "configmaps", "customresourcedefinitions"]);
    let versions = server.kubectl(&["api-versions"]).await.unwrap();
    has(&versions, &["example.com/v1\n", "provisioning.grafana.app/v0alpha1\n", "v1\n"]);
    let raw: Value =
        serde_json::from_str(&server.kubectl(&["get", "--raw", "/apis/example.com/v1"]).await.unwrap())
            .unwrap();
    assert_eq!(raw["kind"], "APIResourceList");
    assert!(
        raw["resources"].as_array().unwrap().iter().any(|resource| resource["name"] == "widgets"),
        "{raw}"
    );
}

#[tokio::test]
async fn objects_are_scaled_where_their_kind_says_how() {
    let Some(server) = server().await else { return };
    server.kubectl_with(&["apply", "-f", "-"], WIDGET).await.unwrap();
    let refused = server.kubectl(&["scale", "widget/gear", "--replicas=5"]).await.unwrap_err().to_string();
    assert!(refused.contains("scale") || refused.contains("not found"), "{refused}");
    let paths = "    storage: true\n    subresources: {scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}\n";
    let scaled = WIDGETS.replace("    storage: true\n", paths);
    server.kubectl_with(&["apply", "-f", "-"], &scaled).await.unwrap();
    // kubectl keeps for hours what it has discovered.
    std::fs::remove_dir_all(server.folder.path().join(".kube/cache")).unwrap();
    server.kubectl(&["scale", "widget/gear", "--replicas=5"]).await.unwrap();
    assert_eq!(server.get(&["widget", "gear"]).await.unwrap()["spec"]["size"], 5);
    server.kubectl(&["scale", "widget/gear", "--current-replicas=5", "--replicas=6"]).await.unwrap();
    let scale = server.kubectl(&["get", "widget/gear", "--subresource=scale"]).await.unwrap();
    has(&scale, &["NAME", "DESIRED", "AVAILABLE", "gear", "6"]);
    let other = ["scale", "widget/gear", "--current-replicas=5", "--replicas=7"];
    let refused = server.kubectl(&other).await.unwrap_err().to_string();
    assert!(refused.contains("Expected replicas to be 5, was 6"), "{refused}");
}

#[tokio::test]
async fn objects_of_a_users_own_kind_are_defaulted_shown_and_checked() {
    let Some(server) = server().await else { return };
    server.kubectl_with(&["apply", "-f", "-"], WIDGET).await.unwrap();
    let gear = server.get(&["wd", "gear"]).await.unwrap();
    assert_eq!(gear["spec"], json!({"size": 3, "colour": "grey"}));
    let table = server.kubectl(&["get", "widgets"]).await.unwrap();
    has(&table, &["NAME", "SIZE", "gear", "3"]);
    let typo = WIDGET.replace("size: 3", "sise: 3");
    let refused = server.kubectl_with(&["apply", "-f", "-"], &typo).await.unwrap_err().to_string();
    assert!(refused.contains("unknown field \"spec.sise\""), "{refused}");
    let text = WIDGET.replace("size: 3", "size: large");
    let refused = server.kubectl_with(&["apply", "-f", "-"], &text).await.unwrap_err().to_string();
    assert!(refused.contains("spec.size") && refused.contains("integer"), "{refused}");
    server.kubectl(&["delete", "crd", "widgets.example.com", "--timeout=180s"]).await.unwrap();
    let gone = server.kubectl(&["get", "widgets"]).await.unwrap_err().to_string();
    assert!(gone.contains("widgets") || gone.contains("NotFound"), "{gone}");
}

#[tokio::test]
async fn edit_writes_what_the_editor_left() {
    let Some(server) = server().await else { return };
    server.kubectl_with(&["create", "-f", "-"], WIDGET).await.unwrap();
    let said = shell(&server, "EDITOR='sed -i s/size:.3/size:\\ 7/' kubectl edit widget gear").await;
    has(&said, &["widget.example.com/gear edited"]);
    assert_eq!(server.get(&["widget", "gear"]).await.unwrap()["spec"]["size"], 7);
    let said = shell(&server, "EDITOR=true kubectl edit widget gear 2>&1").await;
    has(&said, &["no changes made"]);
}

#[tokio::test]
async fn diff_shows_what_an_apply_would_change_and_changes_nothing() {
    let Some(server) = server().await else { return };
    server.kubectl_with(&["apply", "-f", "-"], WIDGET).await.unwrap();
    let before = server.get(&["widget", "gear"]).await.unwrap();
    let file = server.folder.path().join("changed.yaml");
    std::fs::write(&file, WIDGET.replace("size: 3", "size: 4")).unwrap();
    for options in ["", "--server-side --force-conflicts"] {
        let line = format!("kubectl diff {options} -f {} || test $? = 1", file.display());
        let said = shell(&server, &line).await;
        has(&said, &["-  size: 3", "+  size: 4"]);
    }
    std::fs::write(&file, WIDGET).unwrap();
    let same = shell(&server, &format!("kubectl diff -f {}", file.display())).await;
    assert_eq!(same, "");
    let after = server.get(&["widget", "gear"]).await.unwrap();
    assert_eq!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn managers_share_an_object_by_server_side_apply() {
    let Some(server) = server().await else { return };
    let apply = |manager: &'static str, more: &'static [&'static str]| {
        [&["apply", "--server-side", "-f", "-", "--field-manager", manager], more].concat()
    };
    server.kubectl_with(&apply("one", &[]), WIDGET).await.unwrap();
    let larger = WIDGET.replace("size: 3", "size: 9");
    let refused = server.kubectl_with(&apply("two", &[]), &larger).await.unwrap_err().to_string();
    has(&refused, &["conflict with \"one\"", ".spec.size", "--force-conflicts"]);
    server.kubectl_with(&apply("two", &["--force-conflicts"]), &larger).await.unwrap();
    let quiet = WIDGET.replace("size: 3", "colour: red");
    server.kubectl_with(&apply("one", &[]), &quiet).await.unwrap();
    let gear = server.get(&["widget", "gear", "--show-managed-fields"]).await.unwrap();
    assert_eq!(gear["spec"], json!({"size": 9, "colour": "red"}));
    let managers = gear["metadata"]["managedFields"].as_array().unwrap();
    for (manager, field) in [("one", "f:colour"), ("two", "f:size")] {
        let entry = managers.iter().find(|entry| entry["manager"] == manager).unwrap();
        assert_eq!(entry["operation"], "Apply");
        assert_eq!(entry["fieldsV1"]["f:spec"], json!({field: {}}), "{managers:#?}");
    }
    let hidden = server.get(&["widget", "gear"]).await.unwrap();
    assert_eq!(hidden["metadata"].get("managedFields"), None);
}

#[tokio::test]
async fn every_type_of_patch_is_taken_and_waited_for() {
    let Some(server) = server().await else { return };
    server.kubectl(&["create", "configmap", "m", "--from-literal=a=1"]).await.unwrap();
    for (kind, patch) in [
        ("strategic", r#"{"data":{"b":"2"}}"#),
        ("merge", r#"{"data":{"a":null}}"#),
        ("json", r#"[{"op":"add","path":"/data/c","value":"3"}]"#),
    ] {
        server.kubectl(&["patch", "configmap", "m", "--type", kind, "-p", patch]).await.unwrap();
    }
    assert_eq!(server.get(&["configmap", "m"]).await.unwrap()["data"], json!({"b": "2", "c": "3"}));
    server.kubectl(&["wait", "configmap/m", "--for=jsonpath={.data.c}=3", "--timeout=180s"]).await.unwrap();
    server.kubectl(&["label", "configmap", "m", "team=a"]).await.unwrap();
    server.kubectl(&["annotate", "configmap", "m", "note=n"]).await.unwrap();
    let described = server.kubectl(&["describe", "configmap", "m"]).await.unwrap();
    has(&described, &["Name:         m", "team=a", "note: n", "c:\n----\n3"]);
    server.kubectl(&["delete", "configmap", "m", "--timeout=180s"]).await.unwrap();
}

#[tokio::test]
async fn describe_shows_an_object_with_its_events() {
    let Some(server) = server().await else { return };
    server.kubectl_with(&["create", "-f", "-"], WIDGET).await.unwrap();
    let uid = server.get(&["widget", "gear"]).await.unwrap()["metadata"]["uid"].clone();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "gear.1", "namespace": "default"},
        "involvedObject": {
            "apiVersion": "example.com/v1", "kind": "Widget", "name": "gear", "namespace": "default", "uid": uid,
        },
        "reason": "Turned", "message": "it turned once", "type": "Normal", "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": {"component": "a-test"},
    });
    server.kubectl_with(&["create", "-f", "-"], &event.to_string()).await.unwrap();
    let events = server.kubectl(&["events", "--for", "widget/gear"]).await.unwrap();
    has(&events, &["Turned", "it turned once", "Widget/gear"]);
    let described = server.kubectl(&["describe", "widget", "gear"]).await.unwrap();
    has(&described, &["Name:         gear", "Size:    3", "Turned", "it turned once", "a-test"]);
}

#[tokio::test]
async fn dependants_go_with_their_owner_or_are_left() {
    let Some(server) = server().await else { return };
    for (cascade, stays) in [("background", false), ("foreground", false), ("orphan", true)] {
        server.kubectl_with(&["create", "-f", "-"], WIDGET).await.unwrap();
        let uid = server.get(&["widget", "gear"]).await.unwrap()["metadata"]["uid"].clone();
        let owner = json!([{
            "apiVersion": "example.com/v1", "kind": "Widget", "name": "gear", "uid": uid,
            "blockOwnerDeletion": true, "controller": true,
        }]);
        let dependant = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": cascade, "ownerReferences": owner},
        });
        server.kubectl_with(&["create", "-f", "-"], &dependant.to_string()).await.unwrap();
        let option = format!("--cascade={cascade}");
        server.kubectl(&["delete", "widget", "gear", &option, "--timeout=180s"]).await.unwrap();
        if stays {
            let left = server.get(&["configmap", cascade]).await.unwrap();
            assert_eq!(left["metadata"].get("ownerReferences"), None, "{left}");
        } else {
            let gone = ["wait", "--for=delete", &format!("configmap/{cascade}"), "--timeout=180s"];
            server.kubectl(&gone).await.unwrap();
        }
    }
}
