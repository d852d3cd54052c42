//! Operators as programs of their own: how they are started, refused and reached.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_e2e::{Operator, Peers, Process, Programs, Remote, Server, dashboard, eventually};

/// Jobs that two controllers share.
const JOBS: usize = 200;

const END: Duration = Duration::from_secs(30);

/// Runs a program to its end and answers its exit code and words.
async fn run(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut process =
        Process::start(&Programs::path(program).unwrap(), arguments, environment, &log).unwrap();
    (process.end(END).await.unwrap(), process.output())
}

#[tokio::test]
async fn an_unknown_or_foreign_operator_is_refused_with_the_known_ones() {
    let operator = |name| [("GF_DEFAULT_TARGET", "operator"), ("GF_OPERATOR_NAME", name)];
    let (code, said) = run("windlass", &["server", "target"], &operator("provisioning-job")).await;
    assert_eq!(code, 2, "{said}");
    for known in ["provisioning-jobs", "provisioning-jobqueue", "provisioning-repo"] {
        assert!(said.contains(known), "{said}");
    }
    let (code, said) = run("jobs-controller", &[], &operator("provisioning-repo")).await;
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("not in this binary") && said.contains("provisioning-jobqueue"), "{said}");
    let (code, said) = run("windlass", &["server", "target"], &[("GF_DEFAULT_TARGET", "all")]).await;
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("GF_DEFAULT_TARGET"), "{said}");
}

#[tokio::test]
async fn every_program_names_the_commit_that_it_was_built_from() {
    let given = std::env::var("WINDLASS_COMMIT").is_ok_and(|commit| !commit.is_empty());
    let named = given || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../.git").exists();
    for program in ["windlass", "jobs-controller", "repository-controller", "flux-commit-tracker"] {
        let (code, said) = run(program, &["--version"], &[]).await;
        assert_eq!(code, 0, "{said}");
        let mut words = said.split_whitespace();
        assert_eq!(words.next(), Some(program));
        assert!(words.next().is_some_and(|version| version.starts_with("0.")), "{said}");
        let commit = words.next().and_then(|word| word.strip_prefix('(')?.strip_suffix(')'));
        assert_eq!(commit.is_some_and(|commit| commit.len() == 12), named, "{said}");
    }
}

#[tokio::test]
async fn the_api_server_takes_the_settings_of_the_operators() {
    let folder = tempfile::tempdir().unwrap();
    let ini = folder.path().join("operator.ini");
    std::fs::write(&ini, "[operator]\nallowed_git_origins = http://127.0.0.1:3080\n").unwrap();
    let (config, missing) = (format!("--config={}", ini.display()), folder.path().join("none.pem"));
    let missing = missing.display().to_string();
    let arguments = ["serve", &config, "--git-ca-file", &missing, "--print-config"];
    let (code, said) = run("windlass", &arguments, &[("GF_PROVISIONING_MAX_REPOSITORIES", "7")]).await;
    assert_eq!(code, 0, "{said}");
    let line = |key: &str| said.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    assert!(line("allowed_git_origins = http://127.0.0.1:3080 ").ends_with("operator.ini:2"), "{said}");
    assert!(line("max_repositories = 7 ").ends_with("GF_PROVISIONING_MAX_REPOSITORIES"), "{said}");
    assert!(line(&format!("git_ca_file = {missing}")).ends_with("command line"), "{said}");
    let data = folder.path().join("data").display().to_string();
    let (code, said) = run("windlass", &["serve", "--git-ca-file", &missing, "--data-dir", &data], &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("none.pem"), "{said}");
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let ini = folder.path().join("operator.ini");
    std::fs::write(&ini, "[operator]\njob_intervall = 30s\nmax_job_timeout = soon\n").unwrap();
    let config = format!("--config={}", ini.display());
    let environment = [("GF_DEFAULT_TARGET", "operator"), ("GF_OPERATOR_NAME", "provisioning-jobs")];
    let (code, said) = run("windlass", &["server", "target", &config], &environment).await;
    assert_eq!(code, 2, "{said}");
    for expected in
        ["operator.ini:2", "job_intervall", "job_interval", "operator.ini:3", "max_job_timeout", "soon"]
    {
        assert!(said.contains(expected), "{expected:?} is missing in:\n{said}");
    }
    std::fs::write(&ini, "[operator]\nlease_renewal_interval = 30s\n").unwrap();
    let (code, said) = run("windlass", &["server", "target", &config], &environment).await;
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("lease_renewal_interval") && said.contains("lease_expiry"), "{said}");
}

#[tokio::test]
async fn the_configuration_is_printed_with_its_origins_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let ini = folder.path().join("operator.ini");
    std::fs::write(&ini, "[grpc_client_authentication]\ntoken = hush-hush\n[operator]\njob_interval = 7s\n")
        .unwrap();
    let config = format!("--config={}", ini.display());
    let environment = [("GF_OPERATOR_CONCURRENT_DRIVERS", "9")];
    let (code, said) =
        run("jobs-controller", &[&config, "--print-config", "--history-expiration=3h"], &environment).await;
    assert_eq!(code, 0, "{said}");
    for expected in ["7s", "operator.ini:4", "GF_OPERATOR_CONCURRENT_DRIVERS", "9", "3h", "redacted"] {
        assert!(said.contains(expected), "{expected:?} is missing in:\n{said}");
    }
    assert!(!said.contains("hush-hush"), "{said}");
}

#[tokio::test]
async fn the_stand_alone_controllers_run_with_the_flags_of_the_original() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let (url, exchange, ca) = (server.url(), server.exchange_url(), server.ca_file().display().to_string());
    let arguments = [
        "--token",
        "ProvisioningAdminToken",
        "--token-exchange-url",
        &exchange,
        "--provisioning-server-url",
        &url,
        "--tls-ca-file",
        &ca,
    ];
    let program = Programs::path("repository-controller").unwrap();
    let _repo = Operator::run(&server, &program, &arguments, &[]).await.unwrap();
    let with_history = [&arguments[..], &["--history-expiration", "15s"]].concat();
    let program = Programs::path("jobs-controller").unwrap();
    let jobs = Operator::run(&server, &program, &with_history, &[]).await.unwrap();
    server.create_repository("alone", &remote.url()).await.unwrap();
    server.healthy("alone").await.unwrap();
    let filed = server.pull("alone", false).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}");

    let said = jobs.process.output();
    let notified = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|line| line["msg"] == "job create notification received");
    let notified = notified.unwrap_or_else(|| panic!("no notification in:\n{said}"));
    assert_eq!(notified["logger"], "provisioning-job-controller");
    assert_eq!(notified["job"], "alone-sync");
    for line in said.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "not JSON: {line}");
    }
    eventually("history is pruned", || async {
        let list = server.get(&["historicjobs"]).await?;
        Ok(list["items"].as_array().is_some_and(Vec::is_empty).then_some(()))
    })
    .await
    .unwrap();
    let metrics = server.shell(&format!("curl -sSf http://127.0.0.1:{}/metrics", jobs.health)).await.unwrap();
    for name in
        ["grafana_provisioning_jobs_processed_total", "grafana_provisioning_jobs_queue_wait_seconds_bucket"]
    {
        assert!(metrics.contains(name), "{name} is missing in:\n{metrics}");
    }
    server.shell(&format!("curl -sSf http://127.0.0.1:{}/livez", jobs.health)).await.unwrap();
}

#[tokio::test]
async fn tls_is_verified_mutual_or_insecure_as_told() {
    if !Peers::present(&["curl", "kubectl"]).unwrap() {
        return;
    }
    let server = Server::start(&[]).await.unwrap();
    let (url, exchange) = (server.url(), server.exchange_url());
    let arguments = [
        "--token",
        "ProvisioningAdminToken",
        "--token-exchange-url",
        &exchange,
        "--provisioning-server-url",
        &url,
    ];
    let program = Programs::path("jobs-controller").unwrap();
    let insecure = [&arguments[..], &["--tls-insecure"]].concat();
    Operator::run(&server, &program, &insecure, &[]).await.unwrap();
    let keys = server.folder.path().join("data/keys");
    let (ca, cert, key) = (keys.join("ca.crt"), keys.join("admin.crt"), keys.join("admin.key"));
    let (ca, cert, key) = (ca.display().to_string(), cert.display().to_string(), key.display().to_string());
    let mutual =
        [&arguments[..], &["--tls-ca-file", &ca, "--tls-cert-file", &cert, "--tls-key-file", &key]].concat();
    Operator::run(&server, &program, &mutual, &[]).await.unwrap();

    // Verified, but by nobody who knows the server's authority: not ready, and the log says what to do.
    let folder = tempfile::tempdir().unwrap();
    let health = format!("127.0.0.1:{}", windlass_e2e::free_port().unwrap());
    let environment = [("GF_OPERATOR_METRICS_ADDRESS", health.as_str())];
    let mut process = Process::start(&program, &arguments, &environment, &folder.path().join("log")).unwrap();
    process.says("tls_ca_file").await.unwrap();
    process.signal("TERM").await.unwrap();
    assert_eq!(process.end(END).await.unwrap(), 0, "{}", process.output());
}

#[tokio::test]
async fn two_controllers_run_each_of_two_hundred_jobs_once() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let first = Operator::start(&server, "provisioning-jobs", &[("GF_OPERATOR_CONCURRENT_DRIVERS", "8")])
        .await
        .unwrap();
    let second =
        Operator::start(&server, "provisioning-jobqueue", &[("GF_OPERATOR_CONCURRENT_DRIVERS", "8")])
            .await
            .unwrap();
    server.create_repository("many", &remote.url()).await.unwrap();
    server.healthy("many").await.unwrap();
    server.post_job("many", &json!({"action": "pull", "pull": {"incremental": false}})).await.unwrap();
    let jobs: Vec<Value> = (1..JOBS)
        .map(|number| {
            json!({"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Job",
                "metadata": {"name": format!("many-test-{number}"),
                    "labels": {"provisioning.grafana.app/repository": "many"}},
                "spec": {"action": "test", "repository": "many", "test": {"duration": "400ms", "progressUpdates": 0}}})
        })
        .collect();
    let documents: Vec<String> = jobs.iter().map(Value::to_string).collect();
    server.kubectl_with(&["create", "-f", "-"], &documents.join("\n")).await.unwrap();
    let filed = eventually("every job is in history", || async {
        let list = server.get(&["historicjobs"]).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        if items.len() < JOBS {
            anyhow::bail!("{} of {JOBS}", items.len());
        }
        Ok(Some(items))
    })
    .await
    .unwrap();
    assert_eq!(filed.len(), JOBS);
    let mut uids: Vec<&str> = filed
        .iter()
        .map(|job| job["metadata"]["labels"]["provisioning.grafana.app/original-uid"].as_str().unwrap())
        .collect();
    uids.sort_unstable();
    uids.dedup();
    assert_eq!(uids.len(), JOBS, "a job is in history twice");
    for job in &filed {
        assert_eq!(job["status"]["state"], "success", "{job:#}");
    }
    let starts = |operator: &Operator| {
        let said = operator.process.output();
        said.lines().filter(|line| line.contains("\"msg\":\"job started\"")).count()
    };
    let (by_first, by_second) = (starts(&first), starts(&second));
    assert_eq!(by_first + by_second, JOBS, "first {by_first}, second {by_second}");
    assert!(by_first > 0 && by_second > 0, "one did it all: first {by_first}, second {by_second}");
}
