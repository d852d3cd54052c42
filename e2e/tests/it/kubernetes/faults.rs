//! What goes wrong around operators: an API server that is not there, definitions that are not, rights, certificates.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;
use windlass_cluster::{Cluster, OwnCluster, ServingCertificate};
use windlass_e2e::{
    Controller, Operator, Process, Programs, Remote, Scene, dashboard, deployed, eventually, job,
};

use super::{expect, pull, pulled, titles};

/// Enough files for an API server to be killed in the middle of a pull.
const FILES: usize = 400;
const END: Duration = Duration::from_mins(2);

/// Waits until an operator is not ready for a reason with these words.
async fn not_ready(operator: &Operator, words: &[&str]) {
    let waited = eventually("the operator is not ready", || async {
        let (code, said) = operator.ask("/readyz").await?;
        let named = words.iter().all(|word| said.contains(word));
        if code == 200 || !named {
            anyhow::bail!("/readyz answers {code}: {said}");
        }
        Ok(Some(()))
    })
    .await;
    if let Err(error) = waited {
        panic!("{words:?}: {error:#}; it said:\n{}", operator.process.output());
    }
}

/// A cluster of the test's own, and a scene on it.
async fn own(origins: &[String]) -> Option<(OwnCluster, Scene)> {
    let cluster = Cluster::own().await.unwrap()?;
    let scene = Scene::on(&cluster, origins).await.unwrap();
    Some((cluster, scene))
}

/// The lines of a log above `info` that contain a text.
fn complaints(operator: &Operator, text: &str) -> Vec<String> {
    let said = operator.process.output();
    let loud = |line: &&str| line.contains("\"level\":\"warn\"") || line.contains("\"level\":\"error\"");
    said.lines().filter(loud).filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[tokio::test]
async fn operators_wait_for_an_api_server_and_for_its_definitions() {
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some((cluster, scene)) = own(&[remote.origin()]).await else { return };
    let crds = deployed("crds").display().to_string();
    cluster.kubectl(&["delete", "--ignore-not-found", "-f", &crds], "").await.unwrap();
    cluster.stop_apiserver().await.unwrap();

    let repositories = scene.spawn(Controller::Repositories, &[], &[]).unwrap();
    let jobs = scene.spawn(Controller::Jobs, &[], &[]).unwrap();
    let address = cluster.url().trim_start_matches("https://");
    not_ready(&repositories, &["repositories", address]).await;
    not_ready(&jobs, &["jobs", address]).await;

    cluster.start_apiserver().await.unwrap();
    not_ready(&repositories, &["repositories", "404"]).await;
    not_ready(&jobs, &["jobs", "404"]).await;
    cluster.kubectl(&["apply", "-f", &crds], "").await.unwrap();
    repositories.ready().await.unwrap();
    jobs.ready().await.unwrap();
    scene.create_repository("late", &remote.url()).await.unwrap();
    scene.healthy("late").await.unwrap();
    assert_eq!(pulled(&scene, "late", false).await["status"]["state"], "success");
    assert_eq!(titles(&scene).await, expect(&[("a", "A")]));

    cluster.kubectl(&["delete", "crd", "jobs.provisioning.grafana.app"], "").await.unwrap();
    not_ready(&jobs, &["jobs", "404"]).await;
    cluster.kubectl(&["apply", "-f", &crds], "").await.unwrap();
    jobs.ready().await.unwrap();
    eventually("the definition is served again", || async {
        Ok(Some(scene.names("jobs.provisioning.grafana.app").await?))
    })
    .await
    .unwrap();
    remote.commit(vec![("b.json".into(), Some(dashboard("b", "B")))]).await.unwrap();
    assert_eq!(pulled(&scene, "late", true).await["status"]["state"], "success");
    assert_eq!(titles(&scene).await, expect(&[("a", "A"), ("b", "B")]));
}

#[tokio::test]
async fn a_pull_and_quiet_watches_outlive_a_restart_of_the_api_server_and_a_compaction() {
    let file =
        |number: usize| (format!("f{:02}/{number}.json", number % 20), dashboard(&format!("d{number}"), "D"));
    let remote = Remote::new((0..FILES).map(file).collect()).await.unwrap();
    let Some((cluster, scene)) = own(&[remote.origin()]).await else { return };
    let repositories = scene.repository_controller(&[]).await.unwrap();
    let one_at_a_time = [("GF_OPERATOR_MAX_SYNC_WORKERS", "1")];
    let jobs = scene.jobs_controller(&one_at_a_time).await.unwrap();
    scene.create_repository("outage", &remote.url()).await.unwrap();
    scene.healthy("outage").await.unwrap();
    let created = scene.create(&job("outage-sync", "outage", &pull(false))).await.unwrap();
    eventually("the pull is under way", || async {
        let count = scene.kubectl(&["get", "dashboards", "-o", "name"]).await?.lines().count();
        Ok((count > 20).then_some(()))
    })
    .await
    .unwrap();
    cluster.kill_apiserver().await.unwrap();
    cluster.start_apiserver().await.unwrap();
    let filed = scene.filed(created["metadata"]["uid"].as_str().unwrap()).await.unwrap();
    assert_eq!(filed["status"]["state"], "success", "{filed:#}\n{}", jobs.process.output());
    assert_eq!(scene.names("dashboards").await.unwrap().len(), FILES);
    assert_eq!(scene.items(&["historicjobs"]).await.unwrap().len(), 1);

    // What was deleted and made while nobody watched, and was compacted away since, is found by listing again.
    for operator in [&repositories, &jobs] {
        operator.ready().await.unwrap();
        operator.process.signal("STOP").await.unwrap();
    }
    scene.create_repository("meanwhile", &remote.url()).await.unwrap();
    scene.kubectl(&["delete", "repository", "outage", "--wait=false"]).await.unwrap();
    cluster.compact_etcd().await.unwrap();
    cluster.stop_apiserver().await.unwrap();
    cluster.start_apiserver().await.unwrap();
    for operator in [&repositories, &jobs] {
        operator.process.signal("CONT").await.unwrap();
    }
    scene.healthy("meanwhile").await.unwrap();
    scene.kubectl(&["wait", "--for=delete", "repository/outage", "--timeout=180s"]).await.unwrap();
    assert_eq!(scene.names("dashboards").await.unwrap(), Vec::<String>::new());
    let again = "the version that was watched is no longer kept, listing again";
    for operator in [&repositories, &jobs] {
        let relisted = eventually("it lists again", || async {
            let relisted = !operator.lines(again).is_empty() || !complaints(operator, "(410)").is_empty();
            Ok(relisted.then_some(()))
        });
        relisted.await.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", operator.process.output()));
        operator.ready().await.unwrap();
    }
}

#[tokio::test]
async fn a_role_that_is_missing_is_named_once_and_waited_for() {
    let Some(scene) = Scene::shared(&[]).await.unwrap() else { return };
    scene.kubectl(&["delete", "rolebindings", "--all"]).await.unwrap();
    // The authorizer learns of deletions by a watch of its own.
    let listed = format!("--as=system:serviceaccount:{}:{}", scene.namespace.name(), scene.repositories.name);
    eventually("the rights are gone", || async {
        Ok(scene.kubectl(&["get", "repositories", &listed]).await.is_err().then_some(()))
    })
    .await
    .unwrap();
    let debug = [("GF_OPERATOR_LOG_LEVEL", "info,windlass_runtime=debug")];
    let operator = scene.spawn(Controller::Repositories, &[], &debug).unwrap();
    not_ready(&operator, &["cannot list resource \"repositories\""]).await;
    eventually("it tried again and again", || async {
        Ok((operator.lines("watch failed again").len() >= 3).then_some(()))
    })
    .await
    .unwrap();
    let mut said = complaints(&operator, "cannot list resource \\\"repositories\\\"");
    // What a busy server forbids while it cannot say that it is ready is no refusal yet.
    said.retain(|line| !line.contains("the API server is not ready"));
    assert_eq!(said.len(), 1, "{said:#?}");
    scene.namespace.service_account(&deployed("rbac/repository-controller.yaml")).await.unwrap();
    operator.ready().await.unwrap();
}

#[tokio::test]
async fn a_definition_that_lacks_a_field_is_named_once_until_a_newer_one_is_applied() {
    const NAME: &str = "jobs.provisioning.grafana.app";
    let Some((cluster, scene)) = own(&[]).await else { return };
    let mut older = scene.get(&["crd", NAME]).await.unwrap();
    for version in older["spec"]["versions"].as_array_mut().unwrap() {
        let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"];
        assert!(status["properties"].as_object_mut().unwrap().remove("message").is_some());
    }
    scene.kubectl_with(&["replace", "-f", "-"], &older.to_string()).await.unwrap();
    eventually("the older schema is published", || async {
        let text =
            scene.kubectl(&["get", "--raw", "/openapi/v3/apis/provisioning.grafana.app/v0alpha1"]).await?;
        let document: Value = serde_json::from_str(&text)?;
        let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
        let is_job = |schema: &&Value| schema["x-kubernetes-group-version-kind"][0]["kind"] == "Job";
        let job = schemas.values().find(is_job).cloned().unwrap_or_default();
        let status = &job["properties"]["status"]["properties"];
        Ok((status["state"].is_object() && status["message"].is_null()).then_some(()))
    })
    .await
    .unwrap();

    let operator = scene.spawn(Controller::Jobs, &[], &[]).unwrap();
    not_ready(&operator, &["definitions", NAME, "(status.message)", "deploy/crds"]).await;
    cluster.kubectl(&["apply", "-f", &deployed("crds").display().to_string()], "").await.unwrap();
    operator.ready().await.unwrap();
    assert_eq!(complaints(&operator, "status.message").len(), 1, "{}", operator.process.output());
}

#[tokio::test]
async fn a_right_that_a_pull_lacks_is_named_in_the_job() {
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let _controllers =
        (scene.repository_controller(&[]).await.unwrap(), scene.jobs_controller(&[]).await.unwrap());
    scene.create_repository("poor", &remote.url()).await.unwrap();
    scene.healthy("poor").await.unwrap();
    let mut role = scene.get(&["role", "windlass-jobs-controller"]).await.unwrap();
    let rules = role["rules"].as_array_mut().unwrap();
    let dashboards = rules.iter_mut().find(|rule| rule["resources"][0] == "dashboards").unwrap();
    dashboards["verbs"] = serde_json::json!(["get", "list"]);
    scene.kubectl_with(&["replace", "-f", "-"], &role.to_string()).await.unwrap();
    let account = format!("--as=system:serviceaccount:{}:{}", scene.namespace.name(), scene.jobs.name);
    eventually("the right is gone", || async {
        Ok(scene.kubectl(&["auth", "can-i", "create", "dashboards", &account]).await.is_err().then_some(()))
    })
    .await
    .unwrap();
    let done = pulled(&scene, "poor", false).await;
    assert_ne!(done["status"]["state"], "success", "{done:#}");
    assert!(done["status"].to_string().contains("cannot create resource"), "{done:#}");
}

#[tokio::test]
async fn an_expired_certificate_of_the_api_server_is_named_and_a_renewed_one_taken() {
    let Some((cluster, scene)) = own(&[]).await else { return };
    let operator = scene.repository_controller(&[]).await.unwrap();
    cluster.stop_apiserver().await.unwrap();
    cluster.replace_certificate(ServingCertificate::Expired).unwrap();
    // It is never ready for anybody who looks at its certificate.
    tokio::select! {
        started = cluster.start_apiserver() => panic!("it is ready: {started:?}"),
        () = not_ready(&operator, &["expired"]) => {}
    }
    cluster.stop_apiserver().await.unwrap();
    cluster.replace_certificate(ServingCertificate::Renewed).unwrap();
    cluster.start_apiserver().await.unwrap();
    operator.ready().await.unwrap();
}

#[tokio::test]
async fn a_kubeconfig_without_a_current_context_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let document = serde_json::json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "hush-hush"}}],
        "contexts": [{"name": "there", "context": {"cluster": "c", "user": "u"}}],
    });
    std::fs::write(&file, document.to_string()).unwrap();
    for program in ["jobs-controller", "repository-controller"] {
        let flag = format!("--kubeconfig={}", file.display());
        let log = folder.path().join("log");
        let mut process = Process::start(&Programs::path(program).unwrap(), &[&flag], &[], &log).unwrap();
        assert_eq!(process.end(END).await.unwrap(), 2, "{}", process.output());
        let said = process.output();
        for expected in ["current-context", "there", &file.display().to_string()] {
            assert!(said.contains(expected), "{expected:?} is missing in:\n{said}");
        }
        assert!(!said.contains("hush-hush"), "{said}");
    }
}

#[tokio::test]
async fn a_token_file_that_is_replaced_is_read_again() {
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let (token, config) = (scene.folder.path().join("token"), scene.folder.path().join("by-file"));
    let text = std::fs::read_to_string(&scene.repositories.kubeconfig).unwrap();
    let mut kubeconfig: Value = windlass_api::yaml::parse(&text).unwrap();
    kubeconfig["users"][0]["user"] = serde_json::json!({"tokenFile": token});
    std::fs::write(&config, kubeconfig.to_string()).unwrap();
    std::fs::write(&token, &scene.repositories.token).unwrap();
    let config = config.display().to_string();
    let operator = scene.repository_controller(&[("GF_OPERATOR_KUBECONFIG", &config)]).await.unwrap();
    scene.create_repository("before", &remote.url()).await.unwrap();
    scene.healthy("before").await.unwrap();

    // A new account of the same name: tokens of the old one are good for nothing.
    let name = scene.repositories.name.clone();
    scene.kubectl(&["delete", "serviceaccount", &name]).await.unwrap();
    let anew = deployed("rbac/repository-controller.yaml");
    let identity = scene.namespace.service_account(&anew).await.unwrap();
    not_ready(&operator, &["Unauthorized"]).await;
    std::fs::write(&token, &identity.token).unwrap();
    operator.ready().await.unwrap();
    scene.create_repository("after", &remote.another_url("after").unwrap()).await.unwrap();
    scene.healthy("after").await.unwrap();
    // What the scene knows is the old one.
    assert!(!operator.process.output().contains(&identity.token));
    scene.holds_no_secret(&[]).unwrap_or_else(|error| {
        // The token's own file is where it belongs.
        assert!(error.to_string().ends_with("/token"), "{error:#}");
    });
}

#[tokio::test]
async fn a_client_certificate_that_expired_is_named_and_a_renewed_one_taken() {
    const DAY: SignedDuration = SignedDuration::from_hours(24);
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let [certificate, key, config] =
        ["client.crt", "client.key", "by-certificate"].map(|name| scene.folder.path().join(name));
    let account = format!("system:serviceaccount:{}:{}", scene.namespace.name(), scene.repositories.name);
    let rotate = |remaining| {
        let pair = scene.cluster.client_certificate(&account, remaining).unwrap();
        std::fs::write(&certificate, pair.0).unwrap();
        std::fs::write(&key, pair.1).unwrap();
    };
    let text = std::fs::read_to_string(&scene.repositories.kubeconfig).unwrap();
    let mut kubeconfig: Value = windlass_api::yaml::parse(&text).unwrap();
    kubeconfig["users"][0]["user"] =
        serde_json::json!({"client-certificate": certificate, "client-key": key});
    std::fs::write(&config, kubeconfig.to_string()).unwrap();
    let config = config.display().to_string();
    let by_certificate = [("GF_OPERATOR_KUBECONFIG", config.as_str())];
    let named = format!("the client certificate {}", certificate.display());

    rotate(-DAY);
    let mut refused = scene.spawn(Controller::Repositories, &[], &by_certificate).unwrap();
    assert_ne!(refused.process.end(END).await.unwrap(), 0);
    let said = refused.process.output();
    assert!(said.contains(&format!("{named} expired at")), "{said}");

    rotate(DAY);
    let operator = scene.repository_controller(&by_certificate).await.unwrap();
    scene.create_repository("before", &remote.url()).await.unwrap();
    scene.healthy("before").await.unwrap();
    rotate(-DAY);
    not_ready(&operator, &[&format!("does not accept {named}: it expired at")]).await;
    rotate(DAY);
    operator.ready().await.unwrap();
    scene.create_repository("after", &remote.another_url("after").unwrap()).await.unwrap();
    scene.healthy("after").await.unwrap();
}

#[tokio::test]
async fn an_api_server_that_stands_still_for_a_while_is_slow_and_not_a_reason_to_die() {
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some((cluster, scene)) = own(&[remote.origin()]).await else { return };
    let soon = [
        ("GF_OPERATOR_LEADER_ELECTION_LEASE_DURATION", "6s"),
        ("GF_OPERATOR_LEADER_ELECTION_RENEW_DEADLINE", "4s"),
        ("GF_OPERATOR_LEADER_ELECTION_RETRY_PERIOD", "1s"),
    ];
    let repositories = scene.repository_controller(&soon).await.unwrap();
    let jobs = scene.jobs_controller(&[]).await.unwrap();
    scene.create_repository("slow", &remote.url()).await.unwrap();
    scene.healthy("slow").await.unwrap();
    cluster.pause_apiserver().await.unwrap();
    // Its connections are open and nothing comes: the Lease, which is the first to need an answer, is given up.
    not_ready(&repositories, &["leader election"]).await;
    for operator in [&repositories, &jobs] {
        assert_eq!(operator.ask("/livez").await.unwrap().0, 200, "{}", operator.process.output());
    }
    cluster.resume_apiserver().await.unwrap();
    repositories.ready().await.unwrap();
    jobs.ready().await.unwrap();
    assert_eq!(pulled(&scene, "slow", false).await["status"]["state"], "success");
    scene.kubectl(&["delete", "repository", "slow", "--timeout=180s"]).await.unwrap();
    assert_eq!(titles(&scene).await, expect(&[]));
}
