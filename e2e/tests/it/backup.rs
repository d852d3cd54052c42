//! `windlass store` beside and without a server, as the how-to has it.

use tokio::process::Command;
use windlass_e2e::{Peers, Programs, Server};

/// Runs `windlass store …` in the server's folder: whether it succeeded, and what it said.
async fn store(server: &Server, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(Programs::path("windlass").unwrap())
        .arg("store")
        .args(arguments)
        .current_dir(server.folder.path())
        .output()
        .await
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test]
async fn a_server_that_runs_is_copied_and_restored_after_its_store_was_lost() {
    if !Peers::present(&["kubectl"]).unwrap() {
        return;
    }
    let mut server = Server::start(&[]).await.unwrap();
    server.kubectl(&["create", "configmap", "kept", "--from-literal=a=b"]).await.unwrap();
    server.kubectl(&["create", "secret", "generic", "s", "--from-literal=token=hunter2"]).await.unwrap();
    let (done, said) = store(&server, &["backup", "data", "copy"]).await;
    assert!(done, "{said}");
    server.kubectl(&["create", "configmap", "late", "--from-literal=a=b"]).await.unwrap();
    let (done, said) = store(&server, &["compact", "data"]).await;
    assert!(!done && said.contains("another process has it open"), "{said}");
    server.process.kill().await.unwrap();

    let (done, said) = store(&server, &["get", "data", "configmaps", "default/kept"]).await;
    assert!(done && said.contains(r#""data":{"a":"b"}"#), "{said}");
    let (done, said) = store(&server, &["get", "data", "configmaps", "default/none"]).await;
    assert!(!done && said.contains("there is no configmaps default/none"), "{said}");
    for file in ["store.redb", "store.redb.wal"] {
        std::fs::remove_file(server.folder.path().join("data").join(file)).unwrap();
    }
    let (done, said) = store(&server, &["restore", "copy", "data"]).await;
    assert!(done, "{said}");
    let (done, said) = store(&server, &["restore", "copy", "data"]).await;
    assert!(!done && said.contains("it exists"), "{said}");
    for command in ["check", "compact"] {
        let (done, said) = store(&server, &[command, "data"]).await;
        assert!(done, "{said}");
    }
    server.restart().await.unwrap();
    let maps = server.names("configmaps").await.unwrap();
    assert!(maps.contains(&"kept".to_owned()) && !maps.contains(&"late".to_owned()), "{maps:?}");
    let secret = server.get(&["secret", "s"]).await.unwrap();
    assert_eq!(secret["data"]["token"], "aHVudGVyMg==");
}
