//! The pages for users, as a reader follows them: every command in a shell block is run.
//!
//! Pages about a cluster have their tests beside the cluster's others (`kubernetes/guide.rs`, `tracker/guide.rs`).

use windlass_cluster::{Cluster, Program};
use windlass_e2e::page::{Reader, blocks, pages};
use windlass_e2e::{Operator, Peers, Programs, Remote, Server, dashboard, free_port, repository};

/// Pages with shell blocks, each with the test that runs them all.
const FOLLOWED: &[(&str, &str)] = &[
    ("README.md", "the_readme_and_the_tutorial_lead_where_they_say"),
    ("docs/tutorial/first-repository.md", "the_readme_and_the_tutorial_lead_where_they_say"),
    ("docs/tutorial/provisioners.md", "the_tutorial_of_provisioners_shows_what_its_program_prints"),
    ("docs/how-to/operators.md", "the_operators_run_apart_as_the_page_says"),
    ("docs/how-to/write-back.md", "the_guide_to_writing_back_makes_the_commit_that_it_shows"),
    ("docs/how-to/source-controller.md", "the_guide_to_the_source_controller_leads_where_it_says"),
    ("docs/how-to/commit-tracker.md", "the_guide_to_the_commit_tracker_leads_where_it_says"),
    ("docs/how-to/kubernetes.md", "the_guide_to_kubernetes_leads_where_it_says"),
    ("docs/reference/repository-api.md", "the_sub_resources_answer_as_the_page_shows"),
    ("docs/reference/commit-tracker-ledger.md", "the_ledger_reads_as_its_page_says"),
];

/// README's first command: a smaller program, which the gate lints as it is built there. What is run here has all of it.
const DEMO: &str = "cargo run -p windlass --no-default-features -- demo";

/// Pages whose shell blocks no test can run, with the reason.
const NOT_FOLLOWED: &[(&str, &str)] = &[
    (
        "docs/how-to/backup.md",
        "it moves the store of a server that stands still; `backup.rs` gives the same commands to one that it stops itself",
    ),
    (
        "docs/how-to/commit-tracker-oci.md",
        "it takes Flux's command-line program, and a pipeline that builds artifacts",
    ),
    (
        "docs/reference/api-server.md",
        "its commands are for a folder and a token of the reader's; `keys.rs` gives them to a running server",
    ),
    ("docs/how-to/history.md", "it takes a Loki; what it reads is read by the page of the sub-resources too"),
];

#[test]
fn every_shell_block_of_every_page_is_followed_by_a_test() {
    let known = |page: &str| FOLLOWED.iter().chain(NOT_FOLLOWED).any(|(known, _)| *known == page);
    let mut missing = pages().unwrap();
    missing.retain(|page| !known(page) && !blocks(page).unwrap().is_empty());
    assert!(
        missing.is_empty(),
        "no test follows the commands of these pages: {missing:?}; write one, and name it in FOLLOWED"
    );
}

/// The commands of a page, in order.
fn commands(page: &str) -> Vec<String> {
    blocks(page).unwrap().into_iter().flat_map(|block| block.commands).collect()
}

/// The folder of kubectl at the front of the search path.
fn search_path() -> Option<String> {
    let kubectl = Program::Kubectl.find_or_build().unwrap()?;
    Some(format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap()))
}

#[tokio::test]
async fn the_readme_and_the_tutorial_lead_where_they_say() {
    let Some(path) = search_path().filter(|_| Peers::present(&["git", "curl", "jq"]).unwrap()) else {
        return;
    };
    let remote = Remote::private(vec![("grafana/a.json".into(), dashboard("a", "A"))], "tutorial-token")
        .await
        .unwrap();
    let (api, exchange) = (free_port().unwrap(), free_port().unwrap());
    let windlass = Programs::path("windlass").unwrap().display().to_string();
    let mut reader = Reader::new().unwrap();
    let home = reader.home().to_owned();
    std::fs::write(home.join("token.txt"), "tutorial-token").unwrap();
    let addresses = format!("--api-address 127.0.0.1:{api} --exchange-address 127.0.0.1:{exchange}");
    reader.replace(DEMO, format!("{windlass} demo {addresses}"));
    reader.replace("cargo run -p windlass -- demo", format!("{windlass} demo {addresses}"));
    reader.replace("cargo run -p windlass -- serve", format!("{windlass} serve {addresses}"));
    reader.replace("localhost:6446", format!("localhost:{api}"));
    reader.replace("localhost:6481", format!("localhost:{exchange}"));
    reader.replace("https://git.example.com/team/dashboards.git", remote.url());
    reader.replace("token.txt", home.join("token.txt").display().to_string());
    reader.replace("./data", home.join("data").display().to_string());
    reader.export("PATH", &path);
    let mut all = Vec::new();
    for page in ["README.md", "docs/tutorial/first-repository.md"] {
        all.extend(commands(page));
    }
    assert_eq!(all[0], DEMO);
    let mut followed = 0;
    for command in all {
        followed += 1;
        if command == "cargo xtask ci" {
            // It runs this test.
            continue;
        }
        if command == DEMO || command.starts_with("cargo run -p windlass -- demo") {
            reader.start("windlass", &command, "Ctrl-C ends everything").await.unwrap();
            let printed = reader.printed();
            let kubeconfig = printed.rsplit("export KUBECONFIG=").next().unwrap().lines().next().unwrap();
            reader.export("KUBECONFIG", kubeconfig.trim());
        } else if command.starts_with("cargo run -p windlass -- serve") {
            reader.start("windlass", &command, "kubeconfig").await.unwrap();
        } else if command.starts_with("export KUBECONFIG=…") {
            // Done when the demo printed it.
        } else {
            reader.run(&command).await.unwrap();
        }
    }
    let printed = reader.printed();
    for expected in
        ["repository.provisioning.grafana.app/sample condition met", "success", "\"kind\":\"Job\""]
    {
        let found = printed.contains(expected) || printed.replace(": ", ":").contains(expected);
        assert!(found, "{expected:?} is not in:\n{printed}");
    }
    assert!(!printed.contains("tutorial-token\""), "{printed}");
    assert!(followed > 10, "{followed} commands");
}

#[tokio::test]
async fn the_operators_run_apart_as_the_page_says() {
    let (api, exchange) = (free_port().unwrap(), free_port().unwrap());
    let mut reader = Reader::new().unwrap();
    let home = reader.home().to_owned();
    let data = home.join("data").display().to_string();
    let addresses = format!("--api-address 127.0.0.1:{api} --exchange-address 127.0.0.1:{exchange}");
    reader.replace("--data-dir /var/lib/windlass", format!("--data-dir {data} {addresses}"));
    reader.replace("/var/lib/windlass", &*data);
    for (program, then) in [("windlass", " serve"), ("jobs-controller", " --")] {
        let path = Programs::path(program).unwrap().display().to_string();
        reader.replace(&format!("{program}{then}"), format!("{path}{then}"));
    }
    reader.replace("localhost:6446", format!("localhost:{api}"));
    reader.replace("localhost:6481", format!("localhost:{exchange}"));
    // What the example of a settings file says of this machine's ports.
    for server in ["PROVISIONING", "FOLDERS", "DASHBOARDS"] {
        let variable = format!("GF_OPERATOR_{server}_SERVER_URL");
        reader.export(&variable, &format!("https://localhost:{api}"));
    }
    let exchange_url = format!("http://localhost:{exchange}/sign/access-token");
    reader.export("GF_GRPC_CLIENT_AUTHENTICATION_TOKEN_EXCHANGE_URL", &exchange_url);
    reader.export("GF_OPERATOR_GIT_CACHE_DIR", &home.join("git").display().to_string());
    let mut started = Vec::new();
    for command in commands("docs/how-to/operators.md") {
        let stays = |name: &str| command.contains(name) && !command.contains("--print-config");
        let operator = ["provisioning-jobs", "provisioning-repo", "jobs-controller"];
        if let Some(name) = operator.into_iter().find(|name| stays(name)) {
            let health = free_port().unwrap();
            reader.export("GF_OPERATOR_METRICS_ADDRESS", &format!("127.0.0.1:{health}"));
            reader.start(name, &command, "started").await.unwrap();
            let ready = windlass_e2e::eventually("the operator is ready", || async {
                let answer = reqwest::get(format!("http://127.0.0.1:{health}/readyz")).await?;
                anyhow::ensure!(answer.status() == 200, "{}", answer.text().await?);
                Ok(Some(()))
            })
            .await;
            ready.unwrap_or_else(|error| panic!("{error:#}\n{}", reader.printed()));
            started.push(name);
        } else if stays("windlass serve") {
            reader.start("serve", &command, "kubeconfig").await.unwrap();
            started.push("serve");
        } else {
            reader.run(&command).await.unwrap();
        }
    }
    assert_eq!(started, ["serve", "provisioning-jobs", "provisioning-repo", "serve", "jobs-controller"]);
    let printed = reader.printed();
    let setting = format!("provisioning_server_url = https://localhost:{api}");
    assert!(printed.contains(&setting), "{printed}");
    assert!(!printed.contains("ProvisioningAdminToken\""), "{printed}");
}

#[tokio::test]
async fn the_guide_to_writing_back_makes_the_commit_that_it_shows() {
    let Some(path) = search_path().filter(|_| Peers::present(&["git"]).unwrap()) else { return };
    let (api, exchange) = (free_port().unwrap(), free_port().unwrap());
    let windlass = Programs::path("windlass").unwrap().display().to_string();
    let mut reader = Reader::new().unwrap();
    let addresses = format!("--api-address 127.0.0.1:{api} --exchange-address 127.0.0.1:{exchange}");
    reader.replace("cargo run -p windlass -- demo", format!("{windlass} demo {addresses}"));
    reader.export("PATH", &path);
    let (mut history, mut log) = (String::new(), String::new());
    for command in commands("docs/how-to/write-back.md") {
        if command.starts_with("cargo run -p windlass -- demo") {
            reader.start("windlass", &command, "Ctrl-C ends everything").await.unwrap();
            let printed = reader.printed();
            let after = |text: &str, end: char| {
                let rest = printed.rsplit_once(text).unwrap_or_else(|| panic!("{text}: {printed}")).1;
                rest.split(end).next().unwrap().trim().to_owned()
            };
            reader.export("KUBECONFIG", &after("export KUBECONFIG=", '\n'));
            reader.replace("…/sample.git", after("git -C ", ' '));
        } else if command.starts_with("export KUBECONFIG=…") {
            // Done when the demo printed it.
        } else {
            let said = reader.run(&command).await.unwrap();
            if command.starts_with("git ") {
                log = said;
            } else if command.contains("historicjobs") {
                history = said;
            }
        }
    }
    assert!(history.lines().any(|line| line.contains("push") && line.contains("success")), "{history}");
    for expected in ["Keep what was made by hand", "made-by-hand.json", "1 file changed", "Windlass-Job: "] {
        assert!(log.contains(expected), "{expected:?} is not in:\n{log}");
    }
}

#[tokio::test]
async fn the_tutorial_of_provisioners_shows_what_its_program_prints() {
    let page = "docs/tutorial/provisioners.md";
    let program = Programs::example("windlass-provisioner", "site").unwrap();
    let mut reader = Reader::new().unwrap();
    reader.replace("cargo run -p windlass-provisioner --example site", program.display().to_string());
    let mut printed = String::new();
    for command in commands(page) {
        printed += &reader.run(&command).await.unwrap();
    }
    let text = std::fs::read_to_string(windlass_e2e::page::root().join(page)).unwrap();
    let shown = text.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(shown.lines().count() > 5, "{shown}");
    for line in shown.lines() {
        assert!(printed.contains(line.trim()), "{line:?} is not in:\n{printed}");
    }
}

#[tokio::test]
async fn the_guide_to_the_source_controller_leads_where_it_says() {
    let Some(path) = search_path().filter(|_| Peers::present(&["git", "curl", "tar"]).unwrap()) else {
        return;
    };
    let manifest = "apiVersion: v1\nkind: Service\nmetadata: {name: podinfo}\n".to_owned();
    let files = vec![("kustomize/service.yaml".to_owned(), manifest), ("main.go".to_owned(), String::new())];
    let remote = Remote::new(files).await.unwrap();
    let (api, exchange, artifacts) = (free_port().unwrap(), free_port().unwrap(), free_port().unwrap());
    let mut reader = Reader::new().unwrap();
    let home = reader.home().display().to_string();
    let program = |name: &str| Programs::path(name).unwrap().display().to_string();
    let addresses = format!("--api-address 127.0.0.1:{api} --exchange-address 127.0.0.1:{exchange}");
    reader.replace("windlass serve", format!("{} serve {addresses}", program("windlass")));
    reader.replace("source-controller --kube", format!("{} --kube", program("source-controller")));
    let (metrics, health) = (free_port().unwrap(), free_port().unwrap());
    let addresses = format!(" --metrics-addr 127.0.0.1:{metrics} --health-addr 127.0.0.1:{health}");
    reader.replace(" >source-controller.log 2>&1 &", addresses);
    reader.replace("./data", format!("{home}/data"));
    reader.replace("./artifacts", format!("{home}/artifacts"));
    reader.replace("127.0.0.1:9090", format!("127.0.0.1:{artifacts}"));
    reader.replace("podinfo.tar.gz", format!("{home}/podinfo.tar.gz"));
    reader.replace("https://github.com/stefanprodan/podinfo", remote.url());
    reader.replace("apply -k ", "apply --dry-run=server -k ");
    reader.export("PATH", &path);
    reader.export("GF_OPERATOR_ALLOWED_GIT_ORIGINS", &remote.origin());
    reader.export("GF_OPERATOR_GIT_CACHE_DIR", &format!("{home}/git"));
    let (mut said, mut expected) = (String::new(), vec!["podinfo.tar.gz: OK", "kustomize/service.yaml"]);
    for command in commands("docs/how-to/source-controller.md") {
        if command.starts_with("windlass serve") {
            reader.start("serve", &command, "kubeconfig").await.unwrap();
            continue;
        }
        if command.starts_with("source-controller ") {
            reader.start("source-controller", &command, "started").await.unwrap();
            continue;
        }
        if command.contains("apply -k ") {
            // It needs the kinds of a cluster.
            let Some(cluster) = Cluster::shared().await.unwrap() else { continue };
            reader.export("KUBECONFIG", &cluster.admin_kubeconfig().display().to_string());
            let _there = reader.run("kubectl create namespace windlass").await;
            expected.push("deployment.apps/source-controller created");
        }
        said += &reader.run(&command).await.unwrap();
    }
    for expected in expected {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}\n{}", reader.printed());
    }
    assert!(!said.contains("main.go"), "{said}");
}

#[tokio::test]
async fn the_sub_resources_answer_as_the_page_shows() {
    let Some(path) = search_path().filter(|_| Peers::present(&["git", "curl", "jq"]).unwrap()) else {
        return;
    };
    let files = vec![("a.json".to_owned(), dashboard("a", "A"))];
    let remote = Remote::writable(files).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _operator = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let mut document = repository("dashboards", &remote.url());
    document["secure"] = serde_json::json!({"token": {"create": "a-token"}});
    server.create(&document).await.unwrap();
    server.healthy("dashboards").await.unwrap();
    let mut reader = Reader::new().unwrap();
    reader.replace("localhost:6446", format!("localhost:{}", server.api));
    reader.replace("localhost:6481", format!("localhost:{}", server.exchange));
    for file in ["> hello.yaml", "@hello.yaml"] {
        let (mark, _) = file.split_at(file.len() - "hello.yaml".len());
        reader.replace(file, format!("{mark}{}/hello.yaml", reader.home().display()));
    }
    reader.export("PATH", &path);
    reader.export("KUBECONFIG", &server.kubeconfig().display().to_string());
    let page = "docs/reference/repository-api.md";
    let text = std::fs::read_to_string(windlass_e2e::page::root().join(page)).unwrap();
    let mut compared = 0;
    for command in commands(page) {
        let said = reader.run(&command).await.unwrap();
        let shown = text.split_once(&format!("$ {command}\n")).unwrap().1;
        let shown = shown.split("$ ").next().unwrap().split("```").next().unwrap();
        if !shown.is_empty() {
            assert_eq!(said, shown, "{command}");
            compared += 1;
        }
    }
    assert!(compared >= 4, "{compared} answers");
}
