//! The commands of `docs/how-to/kubernetes.md`, taken from the document itself, on a cluster of their own.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;
use windlass_cluster::{Cluster, Program};
use windlass_e2e::{Operator, Programs, Remote, dashboard};

const TOKEN: &str = "canary-0c5d92fe";

/// The commands in blocks of `console`: lines that begin with a dollar, each with the text that it is given to read.
fn commands(document: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut inside = false;
    for line in document.lines() {
        match (inside, line.strip_prefix("$ ")) {
            (_, _) if line.starts_with("```") => inside = line == "```console",
            (true, Some(command)) => found.push(command.to_owned()),
            (true, None) => {
                if let Some(last) = found.last_mut() {
                    last.push('\n');
                    last.push_str(line);
                }
            }
            (false, _) => {}
        }
    }
    found
}

#[tokio::test]
async fn the_documented_commands_lead_to_a_synced_repository_and_back() {
    let Some(cluster) = Cluster::own().await.unwrap() else { return };
    let remote = Remote::private(vec![("a.json".into(), dashboard("a", "A"))], TOKEN).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let document = std::fs::read_to_string(root.join("docs/how-to/kubernetes.md")).unwrap();
    let kubectl = Program::Kubectl.find_or_build().unwrap().unwrap();
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut controllers: Vec<Operator> = Vec::new();
    for command in commands(&document) {
        if command.contains("rollout status") {
            // Nothing runs pods here: the same programs run under the same accounts instead.
            for name in ["jobs-controller", "repository-controller"] {
                controllers.push(controller(&cluster, folder.path(), name, &remote.origin()).await);
            }
            continue;
        }
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &command])
            .current_dir(&root)
            .env("PATH", &path)
            .env("HOME", folder.path())
            .env("KUBECONFIG", cluster.admin_kubeconfig())
            .env("TOKEN", TOKEN)
            .env("URL", remote.url())
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        let logs: Vec<String> = controllers.iter().map(|operator| operator.process.output()).collect();
        assert!(output.status.success(), "{command}\n{said}{complained}\n{}", logs.join("\n"));
        if command.ends_with("get folders,dashboards") && !command.contains("delete") {
            let gone = cluster.kubectl(&["-n", "windlass", "get", "repo"], "").await.unwrap().is_empty();
            assert_eq!(said.contains("dashboard.dashboard.grafana.app/a"), !gone, "{command}\n{said}");
        }
    }
    assert_eq!(controllers.len(), 2, "the document starts no controllers");
    for operator in &controllers {
        assert!(!operator.process.output().contains(TOKEN));
    }
}

/// One of our programs under the account that the documented commands made for it.
async fn controller(cluster: &Cluster, folder: &Path, name: &str, origin: &str) -> Operator {
    let account = format!("windlass-{name}");
    let token = cluster.kubectl(&["-n", "windlass", "create", "token", &account], "").await.unwrap();
    let admin = std::fs::read_to_string(cluster.admin_kubeconfig()).unwrap();
    let mut kubeconfig: Value = windlass_api::yaml::parse(&admin).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
    let file = folder.join(name);
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let file = file.display().to_string();
    let environment = [("GF_OPERATOR_KUBECONFIG", file.as_str()), ("GF_OPERATOR_NAMESPACE", "windlass")];
    let program = Programs::path(name).unwrap();
    let operator = Operator::spawn(folder, &[origin.to_owned()], &program, &[], &environment).unwrap();
    operator.ready().await.unwrap();
    operator
}
