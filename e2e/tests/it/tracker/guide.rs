//! The commit tracker's pages as a reader follows them: every command is typed, in order.

use windlass_cluster::{Cluster, Program};
use windlass_e2e::page::{Reader, blocks};
use windlass_e2e::{Peers, Programs, eventually, free_port};

use super::Delivery;

#[tokio::test]
async fn the_guide_to_the_commit_tracker_leads_where_it_says() {
    let Some(cluster) = Cluster::own().await.unwrap() else { return };
    cluster.establish_flux().await.unwrap();
    let kubectl = Program::Kubectl.find_or_build().unwrap().unwrap();
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut reader = Reader::new().unwrap();
    let kubeconfig = reader.home().join("kubeconfig");
    std::fs::copy(cluster.admin_kubeconfig(), &kubeconfig).unwrap();
    let program = Programs::path("flux-commit-tracker").unwrap().display().to_string();
    reader.replace("cargo run --release -p flux-commit-tracker --", program);
    let (metrics, health) = (free_port().unwrap(), free_port().unwrap());
    for (name, value) in [
        ("PATH", path),
        ("KUBECONFIG", kubeconfig.display().to_string()),
        ("METRICS_ADDR", format!("127.0.0.1:{metrics}")),
        ("HEALTH_ADDR", format!("127.0.0.1:{health}")),
        ("GF_OPERATOR_GIT_CACHE_DIR", reader.home().join("git").display().to_string()),
    ] {
        reader.export(name, &value);
    }
    reader
        .run("kubectl config rename-context \"$(kubectl config current-context)\" my-cluster")
        .await
        .unwrap();
    for namespace in ["windlass", "flux-system"] {
        reader.run(&format!("kubectl create namespace {namespace}")).await.unwrap();
    }
    let mut followed = 0;
    let commands = blocks("docs/how-to/commit-tracker.md").unwrap();
    for command in commands.into_iter().flat_map(|block| block.commands) {
        followed += 1;
        if command.contains("flux-commit-tracker --") {
            reader.start("tracker", &command, "starting").await.unwrap();
            let ready = eventually("the tracker is ready", || async {
                let answer = reqwest::get(format!("http://127.0.0.1:{health}/readyz")).await?;
                anyhow::ensure!(answer.status() == 200, "{}", answer.text().await?);
                Ok(Some(()))
            });
            ready.await.unwrap_or_else(|error| panic!("{error:#}\n{}", reader.printed()));
            // On somebody's machine it observes only.
            let left = reader.run("kubectl get lease,configmap -A -o name").await.unwrap();
            assert!(!left.contains("flux-commit-tracker"), "{left}");
        } else if command.contains("rollout status") || command.starts_with("docker ") {
            // Nothing runs pods or containers here.
        } else {
            reader.run(&command).await.unwrap();
        }
    }
    let deployed = reader.run("kubectl -n windlass get deployment,role -o name").await.unwrap();
    assert!(deployed.contains("deployment.apps/flux-commit-tracker"), "{deployed}");
    assert!(followed > 4, "{followed} commands");
}

#[tokio::test]
async fn the_ledger_reads_as_its_page_says() {
    if !Peers::present(&["jq"]).unwrap() {
        return;
    }
    let Some(mut fleet) = Delivery::start().await else { return };
    let mut tracker = fleet.tracker(&[], &[]).await;
    fleet.deliver(2).await;
    fleet.counted(&tracker, 2).await;
    tracker.stop().await.unwrap();
    let kubectl = Program::Kubectl.find_or_build().unwrap().unwrap();
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut reader = Reader::new().unwrap();
    reader.replace("-n windlass", format!("-n {}", fleet.namespace.name()));
    reader.replace("\"apps\"", "\"fleet\"");
    reader.export("PATH", &path);
    reader.export("KUBECONFIG", &fleet.cluster.admin_kubeconfig().display().to_string());
    let mut printed = Vec::new();
    let commands = blocks("docs/reference/commit-tracker-ledger.md").unwrap();
    for command in commands.into_iter().flat_map(|block| block.commands) {
        printed.push(reader.run(&command).await.unwrap());
    }
    let [head, one, all] = <[String; 3]>::try_from(printed).unwrap();
    for expected in ["\"identity\"", "\"began\"", "\"format\""] {
        assert!(head.contains(expected), "{expected} is not in {head}");
    }
    let entry: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert_eq!((&entry["name"], &entry["commits"]["counted"]), (&"fleet".into(), &2.into()), "{entry:#}");
    let columns: Vec<&str> = all.trim_end_matches('\n').split('\t').collect();
    let last = fleet.commits.last().unwrap();
    assert_eq!((columns[1], columns[3]), ("fleet", "2"), "{all}");
    assert!(columns[2].ends_with(&last.id), "{all}");
}
