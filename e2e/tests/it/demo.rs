//! `windlass demo`, as the README says.

use std::time::Duration;

use windlass_e2e::{Peers, Process, Programs, free_port};

const END: Duration = Duration::from_secs(90);

fn ports() -> (String, String) {
    (format!("127.0.0.1:{}", free_port().unwrap()), format!("127.0.0.1:{}", free_port().unwrap()))
}

#[tokio::test]
async fn the_demo_pulls_its_sample_and_ends_with_success() {
    if !Peers::present(&["git"]).unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (api, exchange) = ports();
    let arguments = ["demo", "--once", "--api-address", &api, "--exchange-address", &exchange];
    let mut demo =
        Process::start(&Programs::path("windlass").unwrap(), &arguments, &[], &folder.path().join("log"))
            .unwrap();
    let code = demo.end(END).await.unwrap();
    let said = demo.output();
    assert_eq!(code, 0, "{said}");
    for expected in
        ["sample is healthy", "success", "Dashboard", "Folder", "repository checked", "job claimed"]
    {
        assert!(said.contains(expected), "{expected:?} is missing in:\n{said}");
    }
}

#[tokio::test]
async fn the_demo_stays_up_until_it_is_told_to_end() {
    if !Peers::present(&["git"]).unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (api, exchange) = ports();
    let arguments = ["demo", "--api-address", &api, "--exchange-address", &exchange];
    let temporary = folder.path().display().to_string();
    let mut demo = Process::start(
        &Programs::path("windlass").unwrap(),
        &arguments,
        &[("TMPDIR", temporary.as_str())],
        &folder.path().join("log"),
    )
    .unwrap();
    demo.says("Ctrl-C ends everything").await.unwrap();
    let said = demo.output();
    assert!(said.contains(&format!("https://localhost:{}", api.rsplit(':').next().unwrap())), "{said}");
    assert!(said.contains("/repositories/sample/jobs"), "{said}");
    demo.signal("INT").await.unwrap();
    assert_eq!(demo.end(END).await.unwrap(), 0);
    let left: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("windlass-demo"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "the demo left its folder behind");
}

#[tokio::test]
async fn a_push_to_the_sample_changes_a_dashboard_at_once() {
    if !Peers::present(&["git", "kubectl"]).unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (api, exchange) = ports();
    let arguments = ["demo", "--api-address", &api, "--exchange-address", &exchange];
    let log = folder.path().join("log");
    let mut demo = Process::start(&Programs::path("windlass").unwrap(), &arguments, &[], &log).unwrap();
    demo.says("Ctrl-C ends everything").await.unwrap();
    let said = demo.output();
    let typed = |beginning: &str| {
        let line = said.lines().map(str::trim).find(|line| line.starts_with(beginning));
        line.unwrap_or_else(|| panic!("no {beginning} in:\n{said}")).to_owned()
    };
    let file = said.split("store --file=").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    let credentials = std::fs::read_to_string(file).unwrap();
    let token = credentials.split('@').next().and_then(|user| user.rsplit(':').next()).unwrap();
    assert!(!token.is_empty() && !said.contains(token), "the token is on the screen:\n{said}");
    let (export, clone, push) = (typed("export KUBECONFIG="), typed("git clone "), typed("sed -i "));
    let script = format!(
        "cd {}; export HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@x GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@x; \
         {clone}; {push}",
        folder.path().display()
    );
    let pushed = std::process::Command::new("bash").args(["-euc", &script]).output().unwrap();
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    demo.says("from push to dashboard").await.unwrap();
    let title = format!("{export}; kubectl get dashboards overview -o jsonpath='{{.spec.title}}'");
    let title = std::process::Command::new("bash").args(["-euc", &title]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&title.stdout), "Is anyone hurt?", "{}", demo.output());
    demo.signal("INT").await.unwrap();
    assert_eq!(demo.end(END).await.unwrap(), 0);
}

#[tokio::test]
async fn a_taken_port_is_an_error_that_names_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (api, exchange) = ports();
    for (flag, arguments) in [
        ("--api-address", ["demo", "--once", "--api-address", &address, "--exchange-address", &exchange]),
        ("--exchange-address", ["demo", "--once", "--api-address", &api, "--exchange-address", &address]),
    ] {
        let log = folder.path().join("log");
        let mut demo = Process::start(&Programs::path("windlass").unwrap(), &arguments, &[], &log).unwrap();
        assert_eq!(demo.end(END).await.unwrap(), 1);
        let said = demo.output();
        assert!(said.contains(&address) && said.contains(&format!("choose another with {flag}")), "{said}");
    }
}

#[tokio::test]
async fn a_repository_that_cannot_be_read_fails_the_demo_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (api, exchange) = ports();
    let url = format!("http://127.0.0.1:{}/nothing.git", free_port().unwrap());
    let arguments = ["demo", "--once", "--api-address", &api, "--exchange-address", &exchange, "--url", &url];
    let log = folder.path().join("log");
    let mut demo = Process::start(&Programs::path("windlass").unwrap(), &arguments, &[], &log).unwrap();
    assert_eq!(demo.end(END).await.unwrap(), 1);
    let said = demo.output();
    assert!(said.contains("is not healthy") && said.contains("127.0.0.1"), "{said}");
}

#[tokio::test]
async fn a_repository_that_the_api_refuses_fails_the_demo_with_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let (api, exchange) = ports();
    let url = "http://user:hush-hush@127.0.0.1:1/nothing.git";
    let arguments = ["demo", "--once", "--api-address", &api, "--exchange-address", &exchange, "--url", url];
    let log = folder.path().join("log");
    let mut demo = Process::start(&Programs::path("windlass").unwrap(), &arguments, &[], &log).unwrap();
    assert_eq!(demo.end(END).await.unwrap(), 1);
    let said = demo.output();
    assert!(said.contains("failed to create the repository") && said.contains("spec.git.url"), "{said}");
    assert!(!said.contains("hush-hush") && !said.contains("StatusDetails"), "{said}");
}

#[tokio::test]
async fn a_kept_folder_pulls_what_the_next_run_names() {
    if !Peers::present(&["git"]).unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept").display().to_string();
    // The sample's server has another port at each run.
    for run in ["first", "second"] {
        let (api, exchange) = ports();
        let arguments =
            ["demo", "--once", "--api-address", &api, "--exchange-address", &exchange, "--data-dir", &kept];
        let log = folder.path().join(run);
        let mut demo = Process::start(&Programs::path("windlass").unwrap(), &arguments, &[], &log).unwrap();
        let code = demo.end(END).await.unwrap();
        assert_eq!(code, 0, "the {run} run:\n{}", demo.output());
    }
}
