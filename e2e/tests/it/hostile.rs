//! Git servers that do not answer, do not stop, or lie: the condition says so, and the queue goes on.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use windlass_e2e::{Operator, Peers, Remote, Server, dashboard, eventually};

/// A token that must not be seen anywhere.
const CANARY: &str = "canary-8d41c9e7";

/// What a hostile server does with a connection.
#[derive(Clone, Copy)]
enum Manner {
    Silent,
    Endless,
    Lying,
}

/// A server of bad manners on a free port, as long as the test runs. Answers its origin.
async fn hostile(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                match manner {
                    Manner::Silent => while matches!(stream.read(&mut request).await, Ok(1..)) {},
                    Manner::Endless => {
                        let head =
                            "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\r\n";
                        let _ = stream.write_all(head.as_bytes()).await;
                        let lines = format!("003d{} refs/heads/b000\n", "a".repeat(40)).repeat(1000);
                        while stream.write_all(lines.as_bytes()).await.is_ok() {}
                    }
                    Manner::Lying => {
                        let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\
                                      Connection: close\r\nContent-Length: 9\r\n\r\nzzzzhello";
                        let _ = stream.write_all(answer.as_bytes()).await;
                        while matches!(stream.read(&mut request).await, Ok(1..)) {}
                    }
                }
            });
        }
    });
    origin
}

#[tokio::test]
async fn bad_git_servers_make_their_repository_unhealthy_and_hold_up_no_other() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let good = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let unreachable = format!("http://127.0.0.1:{}", windlass_e2e::free_port().unwrap());
    let bad = [
        ("silent", hostile(Manner::Silent).await, "ServiceUnavailable", "within 10s"),
        ("endless", hostile(Manner::Endless).await, "InvalidSpec", "exceeds the limit"),
        ("lying", hostile(Manner::Lying).await, "InvalidSpec", "not a Git repository"),
        ("unreachable", unreachable, "ServiceUnavailable", "failed to reach"),
    ];
    let mut origins: Vec<String> = bad.iter().map(|(_, origin, ..)| origin.clone()).collect();
    origins.push(good.origin());
    let server = Server::start(&origins).await.unwrap();
    let timeouts = [("GF_OPERATOR_GIT_TIMEOUT", "10s"), ("GF_OPERATOR_WORKER_COUNT", "8")];
    let _repo = Operator::start(&server, "provisioning-repo", &timeouts).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &timeouts).await.unwrap();
    for (name, origin, ..) in &bad {
        server.create_repository(name, &format!("{origin}/x.git")).await.unwrap();
    }
    server.create_repository("good", &good.url()).await.unwrap();
    server.healthy("good").await.unwrap();
    let filed = server.pull("good", false).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");
    for (name, _, reason, words) in &bad {
        let repository = eventually("the repository is found to be unhealthy", || async {
            let found = server.get(&["repository", name]).await?;
            Ok((found["status"]["health"]["checked"].as_i64().unwrap_or(0) > 0).then_some(found))
        })
        .await
        .unwrap();
        let status = &repository["status"];
        assert_eq!(status["health"]["healthy"], false, "{name}: {status:#}");
        let ready = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap();
        assert_eq!(ready["status"], "False", "{name}");
        assert_eq!(ready["reason"], *reason, "{name}: {ready:#}");
        assert!(ready["message"].as_str().unwrap().contains(words), "{name}: {ready:#}");
        assert_eq!(status["fieldErrors"][0]["field"], "spec.git.url", "{name}: {status:#}");
    }
}

#[tokio::test]
async fn an_origin_that_is_not_allowed_is_refused_without_a_request() {
    if !Peers::present(&["git", "curl", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let server = Server::start(&[]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    server.create_repository("forbidden", &remote.url()).await.unwrap();
    let ready = eventually("the repository is checked", || async {
        let found = server.get(&["repository", "forbidden"]).await?;
        Ok(found["status"]["conditions"].as_array().and_then(|conditions| conditions.first().cloned()))
    })
    .await
    .unwrap();
    assert_eq!((ready["status"].as_str(), ready["reason"].as_str()), (Some("False"), Some("InvalidSpec")));
    assert!(ready["message"].as_str().unwrap().contains("refused"), "{ready:#}");
    assert_eq!(remote.requests(), 0, "it was asked all the same");
}

#[tokio::test]
async fn a_secret_token_is_used_and_shown_nowhere() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("private.git");
    for bare in [&bare, &folder.path().join("other.git")] {
        let edit = windlass_git_server::seed::Edit::put("a.json", dashboard("a", "A").into_bytes());
        windlass_git_server::seed::commit(bare, "main", [edit], "private").unwrap();
    }
    let remote = windlass_git_server::HttpBackend::new(folder.path())
        .basic_auth("git", windlass_e2e::secret(CANARY))
        .start()
        .await
        .unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let trace = [("GF_OPERATOR_LOG_LEVEL", "trace")];
    let repo = Operator::start(&server, "provisioning-repo", &trace).await.unwrap();
    let jobs = Operator::start(&server, "provisioning-jobs", &trace).await.unwrap();
    let url = format!("{}/private.git", remote.origin());
    server.create_repository("open", &url).await.unwrap();
    let ready = eventually("the missing token is noticed", || async {
        let found = server.get(&["repository", "open"]).await?;
        Ok(found["status"]["conditions"].as_array().and_then(|c| c.first().cloned()))
    })
    .await
    .unwrap();
    assert_eq!(ready["reason"], "AuthenticationFailed", "{ready:#}");

    let repository = json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "metadata": {"name": "private"},
        "spec": {"title": "private", "type": "git", "workflows": [], "sync": {"enabled": false, "target": "folderless"},
                 "git": {"url": format!("{}/other.git", remote.origin()), "branch": "main"}},
        "secure": {"token": {"create": CANARY}},
    });
    server.kubectl_with(&["create", "-f", "-"], &repository.to_string()).await.unwrap();
    server.healthy("private").await.unwrap();
    let read: Value = server.get(&["repository", "private"]).await.unwrap();
    assert_eq!(read["secure"]["token"]["create"], Value::Null, "{read:#}");
    assert!(read["secure"]["token"]["name"].is_string(), "{read:#}");
    let stored = |name: &str| std::fs::read(server.folder.path().join("data").join(name)).unwrap();
    let store = [stored("store.redb"), stored("store.redb.wal")].concat();
    let everything = [
        server.process.output(),
        repo.process.output(),
        jobs.process.output(),
        read.to_string(),
        server.shell(&format!("curl -sSf http://127.0.0.1:{}/metrics", repo.health)).await.unwrap(),
        String::from_utf8_lossy(&store).into_owned(),
    ];
    for text in everything {
        assert!(!text.contains(CANARY), "a secret is readable in: {}", &text[..text.len().min(400)]);
    }
}
