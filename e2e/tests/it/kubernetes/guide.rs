//! `docs/how-to/kubernetes.md` as a reader follows it: every command in a console block is run, in order.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;
use windlass_cluster::{Cluster, Program};
use windlass_e2e::{Operator, Programs, Remote, Scene, dashboard};

const TOKEN: &str = "guide-token-71c2";

/// The commands of the page's console blocks; a here document belongs to its command.
fn commands(page: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            commands.push(command.to_owned());
        } else if inside && let Some(command) = commands.last_mut() {
            command.push('\n');
            command.push_str(line);
        }
    }
    commands
}

#[tokio::test]
async fn the_guide_to_kubernetes_leads_where_it_says() {
    let Some(cluster) = Cluster::own().await.unwrap() else { return };
    let remote = Remote::private(vec![("team/a.json".to_owned(), dashboard("a", "A"))], TOKEN).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/how-to/kubernetes.md")).unwrap();
    let commands = commands(&page);
    assert!(commands.len() > 15, "{commands:#?}");
    let kubectl = Program::Kubectl.find_or_build().unwrap().unwrap();
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut controllers: Vec<Operator> = Vec::new();
    let mut printed = String::new();
    for command in commands {
        if command.contains(" rollout status ") {
            // Nothing runs pods here: the same programs run under the accounts that the page made.
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
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        printed.extend(["$ ", &command, "\n", &out, &err]);
        let logs: Vec<String> = controllers.iter().map(|operator| operator.process.output()).collect();
        assert!(output.status.success(), "{printed}\n{}", logs.join("\n"));
    }
    for expected in [
        "deployment.apps/windlass-jobs-controller created",
        "intervalSeconds",
        "repository.provisioning.grafana.app/dashboards condition met",
        "Ready=True Available: Resource is available",
        "PullStatus=True Success",
        "dashboard.dashboard.grafana.app/a",
        "yes",
        "No resources found",
    ] {
        assert!(printed.contains(expected), "{expected:?} is not in:\n{printed}");
    }
    let wide = printed.lines().any(|line| line.starts_with("dashboards ") && line.contains(&remote.url()));
    assert!(wide, "the column of the URL is empty:\n{printed}");
    assert_eq!(controllers.len(), 2, "the page starts no controllers");
    for operator in &controllers {
        assert!(!operator.process.output().contains(TOKEN), "the token is in a log");
    }
}

#[tokio::test]
async fn the_sub_resources_and_the_example_are_accepted_as_they_are_deployed() {
    let Some(scene) = Scene::shared(&[]).await.unwrap() else { return };
    let namespace =
        scene.kubectl(&["create", "namespace", "windlass", "--dry-run=client", "-o", "json"]).await;
    scene.kubectl_with(&["apply", "-f", "-"], &namespace.unwrap()).await.unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").canonicalize().unwrap();
    let dry = |folder: String| {
        let scene = &scene;
        async move { scene.kubectl(&["--namespace=windlass", "apply", "--dry-run=server", "-k", &folder]).await }
    };
    dry(root.join("example").display().to_string()).await.unwrap();
    scene
        .kubectl(&[
            "apply",
            "--dry-run=server",
            "-f",
            &root.join("rbac/cluster").display().to_string(),
            "--namespace=windlass",
        ])
        .await
        .unwrap();

    let copy = scene.folder.path().join("deploy");
    let copied = Command::new("cp").arg("-r").arg(&root).arg(&copy).status().await.unwrap();
    assert!(copied.success());
    let mut file = std::fs::read_to_string(copy.join("kustomization.yaml")).unwrap();
    file.push_str("components:\n- repository-api\n");
    std::fs::write(copy.join("kustomization.yaml"), file).unwrap();
    let applied = dry(copy.display().to_string()).await.unwrap();
    assert!(applied.contains("service/windlass-repository-api"), "{applied}");
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
