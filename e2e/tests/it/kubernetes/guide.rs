//! `docs/how-to/kubernetes.md` as a reader follows it: every command in a console block is run, in order.

use std::path::Path;

use tokio::process::Command;
use windlass_e2e::{Remote, Scene, dashboard};

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

/// Whether a command needs what no process here can be: pods.
fn needs_pods(command: &str) -> bool {
    command == "kubectl apply -k deploy" || command.contains(" rollout status ")
}

#[tokio::test]
async fn the_guide_to_kubernetes_leads_where_it_says() {
    let remote = Remote::private(vec![("team/a.json".to_owned(), dashboard("a", "A"))], TOKEN).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    // The controllers run as processes under the Roles that the page applies.
    let _controllers =
        (scene.repository_controller(&[]).await.unwrap(), scene.jobs_controller(&[]).await.unwrap());
    let namespace =
        scene.kubectl(&["create", "namespace", "windlass", "--dry-run=client", "-o", "json"]).await;
    scene.kubectl_with(&["apply", "-f", "-"], &namespace.unwrap()).await.unwrap();

    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/how-to/kubernetes.md")).unwrap();
    let commands = commands(&page);
    assert!(commands.len() > 15, "{commands:#?}");
    let programs = scene.folder.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(&scene.program, programs.join("kubectl")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let here = scene.namespace.name();
    let mut printed = String::new();
    for command in commands.iter().filter(|command| !needs_pods(command)) {
        let command = command
            .replace("-n windlass ", &format!("-n {here} "))
            .replace("namespace: windlass", &format!("namespace: {here}"))
            .replace("serviceaccount:windlass:", &format!("serviceaccount:{here}:"));
        let output = Command::new("bash")
            .args(["-c", &command])
            .current_dir(&root)
            .env("PATH", &path)
            .env("KUBECONFIG", &scene.kubeconfig)
            .env("HOME", scene.folder.path())
            .env("TOKEN", TOKEN)
            .env("URL", remote.url())
            .output()
            .await
            .unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command}\n{out}{err}\nbefore it:\n{printed}");
        printed.extend(["$ ", &command, "\n", &out, &err]);
    }
    for expected in [
        "deployment.apps/windlass-jobs-controller",
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
