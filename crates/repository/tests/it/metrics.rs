//! What is told of operations on files.

use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
use windlass_git::{Git, GitConfig};
use windlass_repository::{Base, Commit, METRICS, Opener, Signature};
use windlass_telemetry::{Metrics, metrics_differences};

use crate::api_server;

#[tokio::test]
async fn every_operation_on_files_is_told_with_how_it_ended_and_how_large_it_was() {
    windlass_git::init_process().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = folder.path().join("files");
    std::fs::create_dir(&files).unwrap();
    for (name, text) in [("a", "A"), ("b", "B"), ("c", "C")] {
        std::fs::write(files.join(name), text.repeat(200)).unwrap();
    }
    let metrics = Metrics::new().unwrap();
    let git = Git::new(GitConfig::new(folder.path().join("cache"))).unwrap();
    let opener = Opener::new(git, None, vec![folder.path().to_owned()]).with_metrics(&metrics);
    let repository: Repository = serde_json::from_value(json!({
        "metadata": {"name": "dash", "namespace": "default"},
        "spec": {"title": "Dash", "type": "local", "workflows": [], "sync": {"enabled": false},
            "local": {"path": files}},
    }))
    .unwrap();
    let files_of = opener.open(&api_server(), &repository).await.unwrap();
    let cancel = CancellationToken::new();
    let revision = files_of.reader.resolve("", &cancel).await.unwrap();
    let tree = files_of.reader.tree(&revision, "", &cancel).await.unwrap();
    let ids: Vec<_> =
        tree.entries.iter().filter(|entry| entry.kind.is_file()).map(|entry| entry.id).collect();
    assert_eq!(files_of.reader.blobs(&ids, &cancel).await.unwrap().len(), 3);

    let base = Base { branch: String::new(), revision, is_new: false };
    let mut stage = files_of.writer.unwrap().stage(base);
    stage.put("d", "D".repeat(1_000)).unwrap();
    stage.delete("a").unwrap();
    stage.rename("b", "e").unwrap();
    let who = Signature { name: "A".to_owned(), email: "a@example.com".to_owned() };
    let commit = Commit {
        message: "m".to_owned(),
        author: who.clone(),
        committer: who,
        seconds: 0,
        job: String::new(),
    };
    stage.push(&commit, &cancel).await.unwrap();
    std::fs::remove_dir_all(&files).unwrap();
    let elsewhere = windlass_git::Revision::nothing();
    files_of.reader.tree(&elsewhere, "", &cancel).await.unwrap_err();

    let text = metrics.render().unwrap();
    let ours: Vec<&str> = text.lines().filter(|line| line.contains("_repository_operation")).collect();
    let ours = ours.join(
        "
",
    );
    assert_eq!(metrics_differences(METRICS, &ours), Vec::<String>::new(), "{ours}");
    for line in [
        r#"operations_total{operation="read",outcome="success"} 3"#,
        r#"operations_total{operation="write",outcome="success"} 1"#,
        r#"operations_total{operation="delete",outcome="success"} 1"#,
        r#"operations_total{operation="move",outcome="success"} 1"#,
        r#"operations_total{operation="list",outcome="success"} 1"#,
        r#"operations_total{operation="list",outcome="error"} 1"#,
        r#"operation_size_bytes_bucket{operation="read",le="128"} 0"#,
        r#"operation_size_bytes_bucket{operation="read",le="256"} 3"#,
        r#"operation_size_bytes_sum{operation="write"} 1000"#,
        r#"operation_duration_seconds_count{operation="read"} 1"#,
    ] {
        assert!(ours.contains(line), "no {line} in\n{ours}");
    }
}
