//! What the server will not do is refused, and the reference says so.

use http::Method;
use serde_json::{Value, json};

use crate::common::*;

const REFERENCE: &str = include_str!("../../../../docs/reference/api-server.md");
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

#[tokio::test]
async fn kinds_that_it_will_not_do_are_not_found_and_not_discovered() {
    let server = server();
    let (_, refused) = REFERENCE.split_once("## What it will not do").unwrap();
    let (refused, _) = refused.split_once("\n## ").unwrap();
    let groups = get(&server, "/apis").await.expect(200);
    for (api, resources) in [
        (ADMISSION, &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"][..]),
        (ADMISSION, &["mutatingadmissionpolicies", "validatingadmissionpolicies"]),
        (ADMISSION, &["validatingadmissionpolicybindings"]),
        (RBAC, &["clusterroles", "clusterrolebindings", "namespaces/default/roles"]),
        (RBAC, &["namespaces/default/rolebindings"]),
        ("apps/v1", &["namespaces/default/deployments", "namespaces/default/statefulsets"]),
        ("apps/v1", &["namespaces/default/daemonsets", "namespaces/default/replicasets"]),
        ("batch/v1", &["namespaces/default/jobs", "namespaces/default/cronjobs"]),
        ("v1", &["namespaces/default/pods", "namespaces/default/services", "nodes"]),
    ] {
        assert!(refused.contains(&format!("`{api}`")), "the reference lists {api}");
        let is_core = api == "v1";
        let base = if is_core { format!("/api/{api}") } else { format!("/apis/{api}") };
        for resource in resources {
            let (path, body) = (format!("{base}/{resource}"), json!({ "metadata": { "name": "a" } }));
            let one = format!("{path}/a");
            for (method, path) in [
                (Method::GET, &path),
                (Method::POST, &path),
                (Method::GET, &one),
                (Method::PUT, &one),
                (Method::PATCH, &one),
                (Method::DELETE, &one),
            ] {
                let answer = raw(method.clone(), path)
                    .header("content-type", if method == Method::PATCH { MERGE } else { "application/json" })
                    .json(&body)
                    .send(&server)
                    .await;
                let status = answer.expect(404);
                assert_eq!(
                    (&status["kind"], &status["reason"]),
                    (&json!("Status"), &json!("NotFound")),
                    "{path}"
                );
                // What kubectl prints after "Error from server (NotFound): ".
                let message = "the server could not find the requested resource";
                assert_eq!(status["message"], message, "{method} {path}");
                assert!(refused.contains(message));
            }
        }
        if is_core {
            let found = get(&server, &base).await.expect(200);
            let is_there =
                |name: &str| found["resources"].as_array().unwrap().iter().any(|one| one["name"] == name);
            assert!(is_there("configmaps") && !is_there("pods") && !is_there("services"), "{found}");
        } else {
            // A client that asks what there is says so itself: no matches for kind "Deployment" in version "apps/v1".
            get(&server, &base).await.expect(404);
            let (group, _) = api.split_once('/').unwrap();
            get(&server, &format!("/apis/{group}")).await.expect(404);
            let is_it = |one: &Value| one["name"] == group;
            assert!(!groups["groups"].as_array().unwrap().iter().any(is_it), "{group}");
        }
    }
}
