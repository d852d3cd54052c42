//! `docs/how-to/kubernetes.md` as a reader follows it: every command in a console block is run, in order.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;
use windlass_cluster::{Cluster, Program};
use windlass_e2e::page::{Reader, blocks};
use windlass_e2e::{Operator, Programs, Remote, Scene, dashboard, free_port};

const TOKEN: &str = "guide-token-71c2";

#[tokio::test]
async fn the_guide_to_kubernetes_leads_where_it_says() {
    let Some(cluster) = Cluster::own().await.unwrap() else { return };
    let remote = Remote::private(vec![("team/a.json".to_owned(), dashboard("a", "A"))], TOKEN).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubectl = Program::Kubectl.find_or_build().unwrap().unwrap();
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let sub_resources = format!("127.0.0.1:{}", free_port().unwrap());
    let mut reader = Reader::new().unwrap();
    reader.replace("127.0.0.1:6447", sub_resources.as_str());
    reader.export("PATH", &path);
    reader.export("KUBECONFIG", &cluster.admin_kubeconfig().display().to_string());
    reader.export("TOKEN", TOKEN);
    reader.export("URL", &remote.url());
    let mut controllers: Vec<Operator> = Vec::new();
    for command in blocks("docs/how-to/kubernetes.md").unwrap().into_iter().flat_map(|block| block.commands) {
        if command.contains(" rollout status ") {
            // Nothing runs pods here: the same programs run under the accounts that the page made.
            for name in ["jobs-controller", "repository-controller"] {
                let sub_resources = [("GF_OPERATOR_REPOSITORY_API_ADDRESS", sub_resources.as_str())];
                controllers
                    .push(controller(&cluster, folder.path(), name, &remote.origin(), &sub_resources).await);
            }
            continue;
        }
        if command.contains(" port-forward ") {
            // The controller is on this machine already.
            continue;
        }
        let ran = reader.run(&command).await;
        let logs: Vec<String> = controllers.iter().map(|operator| operator.process.output()).collect();
        ran.unwrap_or_else(|error| panic!("{error:#}\n{}", logs.join("\n")));
    }
    let printed = reader.printed();
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
async fn controller(
    cluster: &Cluster,
    folder: &Path,
    name: &str,
    origin: &str,
    more: &[(&str, &str)],
) -> Operator {
    let account = format!("windlass-{name}");
    let token = cluster.kubectl(&["-n", "windlass", "create", "token", &account], "").await.unwrap();
    let admin = std::fs::read_to_string(cluster.admin_kubeconfig()).unwrap();
    let mut kubeconfig: Value = windlass_api::yaml::parse(&admin).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": token.trim()});
    let file = folder.join(name);
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let file = file.display().to_string();
    let account = [("GF_OPERATOR_KUBECONFIG", file.as_str()), ("GF_OPERATOR_NAMESPACE", "windlass")];
    let environment = [&account, more].concat();
    let program = Programs::path(name).unwrap();
    let operator = Operator::spawn(folder, &[origin.to_owned()], &program, &[], &environment).unwrap();
    operator.ready().await.unwrap();
    operator
}
