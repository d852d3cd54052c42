//! The pages for users, as a reader follows them: every command in a shell block is run.
//!
//! `docs/how-to/kubernetes.md` has its own test beside the cluster's others (`kubernetes/guide.rs`).

use windlass_cluster::Program;
use windlass_e2e::page::{Reader, blocks, pages};
use windlass_e2e::{Peers, Programs, Remote, dashboard, free_port};

/// Pages with shell blocks, each with the test that runs them all.
const FOLLOWED: &[(&str, &str)] = &[
    ("README.md", "the_readme_and_the_tutorial_lead_where_they_say"),
    ("docs/tutorial/first-repository.md", "the_readme_and_the_tutorial_lead_where_they_say"),
    ("docs/how-to/operators.md", "the_operators_run_apart_as_the_page_says"),
    ("docs/how-to/commit-tracker.md", "the_guide_to_the_commit_tracker_leads_where_it_says"),
    ("docs/how-to/kubernetes.md", "the_guide_to_kubernetes_leads_where_it_says"),
];

/// Pages whose shell blocks no test can run, with the reason.
const NOT_FOLLOWED: &[(&str, &str)] = &[
    (
        "docs/how-to/commit-tracker-oci.md",
        "it takes Flux's command-line program, and a pipeline that builds artifacts",
    ),
    (
        "docs/how-to/source-controller.md",
        "it fetches from GitHub: `source.rs` starts the same program over a Git server of its own",
    ),
];

#[test]
fn every_shell_block_of_every_page_is_followed_by_a_test() {
    for page in pages().unwrap() {
        if blocks(&page).unwrap().is_empty() {
            continue;
        }
        let known = FOLLOWED.iter().chain(NOT_FOLLOWED).any(|(known, _)| *known == page);
        assert!(known, "no test follows the commands of {page}: write one, and name it in FOLLOWED");
    }
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
    reader.replace("cargo run -p windlass -- demo", format!("{windlass} demo {addresses}"));
    reader.replace("cargo run -p windlass -- serve", format!("{windlass} serve {addresses}"));
    reader.replace("localhost:6446", format!("localhost:{api}"));
    reader.replace("localhost:6481", format!("localhost:{exchange}"));
    reader.replace("https://git.example.com/team/dashboards.git", remote.url());
    reader.replace("token.txt", home.join("token.txt").display().to_string());
    reader.replace("./data", home.join("data").display().to_string());
    reader.export("PATH", &path);
    let mut commands = Vec::new();
    for page in ["README.md", "docs/tutorial/first-repository.md"] {
        commands.extend(blocks(page).unwrap().into_iter().flat_map(|block| block.commands));
    }
    let mut followed = 0;
    for command in commands {
        followed += 1;
        if command == "cargo xtask ci" {
            // It runs this test.
            continue;
        }
        if command.starts_with("cargo run -p windlass -- demo") {
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
    for program in ["windlass", "jobs-controller"] {
        let path = Programs::path(program).unwrap().display().to_string();
        reader.replace(&format!("{program} se"), format!("{path} se"));
        reader.replace(&format!("{program} --"), format!("{path} --"));
    }
    let data = home.join("data").display().to_string();
    let addresses = format!("--api-address 127.0.0.1:{api} --exchange-address 127.0.0.1:{exchange}");
    reader.replace("--data-dir /var/lib/windlass", format!("--data-dir {data} {addresses}"));
    reader.replace("/var/lib/windlass", &*data);
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
    for command in blocks("docs/how-to/operators.md").unwrap().into_iter().flat_map(|block| block.commands) {
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
