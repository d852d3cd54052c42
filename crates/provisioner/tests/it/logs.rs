//! What the log says of a tree, and the status does not.

use serde_json::{Value, json};
use windlass_telemetry::{CapturedLog, LogFormat};

use crate::managed::{Running, eventually};
use crate::server::Server;

#[tokio::test]
async fn what_a_server_says_is_logged_with_owner_and_node_and_not_told_in_the_status() {
    let logged = CapturedLog::start(LogFormat::Json, "info,windlass_provisioner=debug").unwrap();
    let server = Server::new();
    let running = Running::start(server.client.clone(), |_| {});
    server.create_site(json!({"tree": {"serial": [{"map": "Not_A_Name"}]}})).await;
    server.site_is("Errored", "failed to apply ConfigMap default/Not_A_Name (422 Invalid) (Refused)").await;
    let line: Value = eventually("the failure is logged", async || {
        let text = logged.text();
        let line = text.lines().find(|line| line.contains("a node failed")).map(str::to_owned);
        line.map(|line| serde_json::from_str(&line).unwrap()).ok_or(text)
    })
    .await;
    let status = server.sites().get("a").await.unwrap().data["status"].to_string();
    let words = "lowercase RFC 1123 subdomain";
    assert!(line.to_string().contains(words) && !status.contains(words), "{line:#}\n{status}");
    assert_eq!(
        (&line["object"], &line["path"]),
        (&json!("default/a"), &json!("site/Not_A_Name")),
        "{line:#}"
    );
    running.stop().await;
}
