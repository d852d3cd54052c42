//! The wire as a user of curl and jq sees it.

use serde_json::{Value, json};
use windlass_e2e::{Operator, Peers, Remote, Server, dashboard};

/// The lines of the documentation, with the ports of the test.
const TOKEN: &str = r#"export ACCESS_TOKEN=$(curl -sS -X POST http://localhost:$EXCHANGE/sign/access-token \
  -H "X-Realms: [{\"type\":\"system\",\"identifier\":\"system\"}]" -H "X-Org-ID: 0" -H "Content-Type: application/json" \
  -H "Authorization: Bearer ProvisioningAdminToken" \
  -d '{ "namespace": "*", "audiences": ["provisioning.grafana.app"] }' | jq -r '.data.token')
"#;
const POST: &str = r#"curl -sS -X POST https://localhost:$API/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/test6/jobs \
  -H "Content-Type: application/json" --insecure -H "X-Access-Token: Bearer $ACCESS_TOKEN" \
  -d '{ "action": "pull", "pull": { "incremental": false } }'
"#;

#[tokio::test]
async fn the_documented_lines_queue_a_pull_that_runs() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    server.create_repository("test6", &remote.url()).await.unwrap();
    server.healthy("test6").await.unwrap();

    let answer: Value =
        serde_json::from_str(&server.shell(&format!("{TOKEN}{POST}")).await.unwrap()).unwrap();
    assert_eq!(answer["kind"], "Job", "{answer}");
    assert_eq!(answer["metadata"]["name"], "test6-sync");
    assert_eq!(answer["spec"]["pull"]["incremental"], false);
    let filed = server.filed(answer["metadata"]["uid"].as_str().unwrap()).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");
    let found = server.get(&["dashboards", "a"]).await.unwrap();
    assert_eq!(found["spec"]["title"], "A");
    assert_eq!(found["metadata"]["annotations"]["grafana.app/managerId"], "test6");

    let uid = answer["metadata"]["uid"].as_str().unwrap();
    let base =
        "https://localhost:$API/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/test6";
    let get = |path: &str| {
        format!("{TOKEN} curl -sS --cacert \"$CA\" -H \"X-Access-Token: Bearer $ACCESS_TOKEN\" {base}/{path}")
    };
    let list: Value = serde_json::from_str(&server.shell(&get("jobs")).await.unwrap()).unwrap();
    assert_eq!(list["kind"], "JobList");
    assert_eq!(list["items"][0]["status"]["state"], "success", "{list:#}");
    let one: Value =
        serde_json::from_str(&server.shell(&get(&format!("jobs/{uid}"))).await.unwrap()).unwrap();
    assert_eq!(one["spec"]["action"], "pull", "{one:#}");
    let resources: Value = serde_json::from_str(&server.shell(&get("resources")).await.unwrap()).unwrap();
    let paths: Vec<&str> =
        resources["items"].as_array().unwrap().iter().filter_map(|i| i["path"].as_str()).collect();
    assert!(paths.contains(&"a.json"), "{resources:#}");
    let test = format!("{} -X POST", get("test"));
    let tested: Value = serde_json::from_str(&server.shell(&test).await.unwrap()).unwrap();
    assert_eq!((tested["code"].clone(), tested["success"].clone()), (json!(200), json!(true)), "{tested:#}");
}

/// Sends one request and answers the HTTP code and the body.
async fn send(server: &Server, token: &str, more: &str, path: &str) -> (u16, Value) {
    let line = format!(
        "curl -sS --cacert \"$CA\" -o answer.json -w '%{{http_code}}' {token} {more} \
         https://localhost:$API/apis/provisioning.grafana.app/v0alpha1/namespaces/{path}; echo; cat answer.json"
    );
    let output = server.shell(&format!("cd \"$HOME\"; {line}")).await.unwrap();
    let (code, body) = output.split_once('\n').unwrap();
    (code.parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

/// A token for these audiences and namespace.
async fn token(server: &Server, body: &Value) -> String {
    let line = format!(
        "curl -sSf -X POST http://localhost:$EXCHANGE/sign/access-token -H 'Content-Type: application/json' \
         -H 'Authorization: Bearer ProvisioningAdminToken' -d '{body}' | jq -r .data.token"
    );
    format!("-H 'X-Access-Token: Bearer {}'", server.shell(&line).await.unwrap().trim())
}

#[tokio::test]
async fn bad_requests_get_a_status_that_says_which() {
    if !Peers::present(&["curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let server = Server::start(&[]).await.unwrap();
    let all = json!({"namespace": "*", "audiences": ["provisioning.grafana.app"]});
    let good = token(&server, &all).await;
    let post = |body: &str| format!("-X POST -H 'Content-Type: application/json' -d '{body}'");
    let pull = post(r#"{"action":"pull","pull":{}}"#);
    let jobs = "default/repositories/missing/jobs";

    let check = |(code, status): (u16, Value), expected: u16, words: &[&str]| {
        assert_eq!(code, expected, "{status:#}");
        assert_eq!(status["kind"], "Status", "{status:#}");
        assert_eq!(status["code"], expected, "{status:#}");
        let message = status["message"].as_str().unwrap();
        for word in words {
            assert!(message.contains(word), "{word:?} is missing in {message:?}");
        }
    };
    check(send(&server, "", &pull, jobs).await, 401, &["token"]);
    check(send(&server, "-H 'X-Access-Token: Bearer nonsense'", &pull, jobs).await, 401, &["token"]);
    let other = token(&server, &json!({"namespace": "*", "audiences": ["folder.grafana.app"]})).await;
    check(send(&server, &other, &pull, jobs).await, 403, &["audience", "provisioning.grafana.app"]);
    let elsewhere =
        token(&server, &json!({"namespace": "other", "audiences": ["provisioning.grafana.app"]})).await;
    check(send(&server, &elsewhere, &pull, jobs).await, 403, &["namespace"]);
    let short =
        token(&server, &json!({"namespace": "*", "audiences": ["provisioning.grafana.app"], "expiresIn": 1}))
            .await;
    let expired = windlass_e2e::eventually("the token expires", || async {
        let (code, status) = send(&server, &short, &pull, jobs).await;
        Ok((code == 401).then_some((code, status)))
    });
    check(expired.await.unwrap(), 401, &["expired"]);
    check(send(&server, &good, &pull, jobs).await, 404, &["missing"]);

    let local = json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "metadata": {"name": "sick"},
        "spec": {"title": "sick", "type": "git", "workflows": [], "sync": {"enabled": false, "target": "folder"},
                 "git": {"url": "https://git.invalid/x.git", "branch": "main"}},
    });
    server.kubectl_with(&["create", "-f", "-"], &local.to_string()).await.unwrap();
    let sick = "default/repositories/sick/jobs";
    check(send(&server, &good, &pull, sick).await, 424, &["not healthy"]);
    server
        .kubectl(&[
            "patch",
            "repository",
            "sick",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"health":{"healthy":true,"checked":1}}}"#,
        ])
        .await
        .unwrap();
    check(send(&server, &good, &post(r#"{"action":"dance"}"#), sick).await, 422, &["spec.action"]);
    let mixed = post(r#"{"action":"pull","pull":{},"push":{"branch":"x"}}"#);
    let (code, status) = send(&server, &good, &mixed, sick).await;
    assert!(code == 422 || code == 400, "{status:#}");
    assert!(status["message"].as_str().unwrap().contains("push"), "{status:#}");
    check(send(&server, &good, &post("{"), sick).await, 400, &["decoding"]);
    let large = "-X POST -H 'Content-Type: application/json' --data-binary @large".to_owned();
    std::fs::write(server.folder.path().join("large"), vec![b' '; 5 << 20]).unwrap();
    check(send(&server, &good, &large, sick).await, 413, &[]);
    server.kubectl(&["delete", "repository", "sick", "--wait=false"]).await.unwrap();
    check(send(&server, &good, &pull, sick).await, 409, &["being deleted"]);
    let (code, _) = send(&server, &good, &post("{}"), "default/repositories/sick/jobs/abc").await;
    assert_eq!(code, 400);
    check(
        send(&server, &good, "", "default/repositories/sick/jobs/no-such-uid").await,
        404,
        &["no-such-uid"],
    );
}
