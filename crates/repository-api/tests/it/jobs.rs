//! `…/jobs`.

use kube::api::PostParams;
use serde_json::{Value, json};
use windlass_api::{HistoricJob, Job, labels};
use windlass_auth::{Audiences, Caller, Namespaces};

use crate::kit::World;

const PULL: &str = r#"{ "action": "pull", "pull": { "incremental": false } }"#;

/// A world with the healthy repository `test6`.
async fn healthy() -> World {
    let world = World::new();
    world.create_local("test6").await;
    world.patch_status("test6", json!({"status": {"health": {"healthy": true, "checked": 1}}})).await;
    world
}

/// The status's reason and message, after it was seen to be one of this code.
fn refused(answer: &(u16, Value), code: u16) -> (String, String) {
    let (status, body) = answer;
    assert_eq!((*status, &body["kind"], &body["code"]), (code, &json!("Status"), &json!(code)), "{body}");
    (body["reason"].as_str().unwrap().to_owned(), body["message"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_job_is_queued_and_answered() {
    let world = healthy().await;
    let (code, body) = world.send("POST", "test6/jobs", PULL).await;
    assert_eq!(code, 202, "{body}");
    assert_eq!(
        (&body["kind"], &body["apiVersion"]),
        (&json!("Job"), &json!("provisioning.grafana.app/v0alpha1"))
    );
    assert_eq!(body["metadata"]["name"], "test6-sync");
    assert_eq!(body["spec"]["repository"], "test6");
    assert_eq!(body["status"]["state"], "pending");
    let job = world.api::<Job>().get("test6-sync").await.unwrap();
    assert_eq!(job.metadata.labels.unwrap()[labels::REPOSITORY], "test6");
    assert_eq!(world.requests.writes(), ["POST jobs"], "the repository's status is the worker's to write");
}

#[tokio::test]
async fn fields_that_a_job_does_not_have_are_named() {
    let world = healthy().await;
    let body = r#"{"action": "pull", "pull": {"incremental": true, "ful": 1}, "massage": "m"}"#;
    let (reason, message) = refused(&world.send("POST", "test6/jobs", body).await, 400);
    assert_eq!(reason, "BadRequest");
    assert!(message.contains(r#"unknown field "massage", unknown field "pull.ful""#), "{message}");
    assert!(world.requests.writes().is_empty());
}

#[tokio::test]
async fn the_repository_of_the_path_wins_over_the_one_in_the_body() {
    let world = healthy().await;
    let (code, body) = world.send("POST", "test6/jobs", r#"{"pull": {}, "repository": "other"}"#).await;
    assert_eq!((code, &body["spec"]["repository"]), (202, &json!("test6")), "and the action is inferred");
    assert_eq!(body["spec"]["action"], "pull");
}

#[tokio::test]
async fn a_second_pull_is_refused_while_one_is_queued() {
    let world = healthy().await;
    world.send("POST", "test6/jobs", PULL).await;
    let (reason, message) = refused(&world.send("POST", "test6/jobs", PULL).await, 409);
    assert_eq!(reason, "AlreadyExists");
    assert!(message.contains("test6-sync"), "{message}");
}

#[tokio::test]
async fn a_repository_that_is_missing_going_or_unhealthy_takes_no_jobs() {
    let world = healthy().await;
    let (reason, message) = refused(&world.send("POST", "nope/jobs", PULL).await, 404);
    assert_eq!(reason, "NotFound");
    assert!(message.contains("nope"), "{message}");

    world.create_local("fresh").await;
    let (_, message) = refused(&world.send("POST", "fresh/jobs", PULL).await, 424);
    assert!(message.contains("it has not been checked yet"), "{message}");
    let sick = json!({"status": {"health": {"healthy": false, "checked": 1, "message": ["no such branch"]}}});
    world.patch_status("fresh", sick).await;
    let (_, message) = refused(&world.send("POST", "fresh/jobs", PULL).await, 424);
    assert!(message.contains("not healthy: no such branch"), "{message}");

    world.delete_repository("test6").await;
    let (reason, message) = refused(&world.send("POST", "test6/jobs", PULL).await, 409);
    assert_eq!(reason, "Conflict");
    assert!(message.contains("is being deleted"), "{message}");
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn a_job_that_makes_no_sense_is_refused_by_field() {
    let world = healthy().await;
    for (body, field) in [
        (r#"{"action": "explode"}"#, "spec.action"),
        (r#"{"action": "pull", "push": {"message": "m"}}"#, "spec.push"),
        (r#"{"action": "test", "test": {"duration": "1000h"}}"#, "spec.test.duration"),
    ] {
        let answer = world.send("POST", "test6/jobs", body).await;
        let (reason, message) = refused(&answer, 422);
        assert_eq!(reason, "Invalid");
        let causes = answer.1["details"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["field"] == field), "{body}: {message}");
        assert!(message.contains(field), "{message}");
    }
    for body in [
        "",
        "{",
        "[]",
        r#"{"action": 5}"#,
        r#"{"pull": {}, "push": {}}"#,
        r#"{"action": "pr", "pr": {"pr": 5}}"#,
    ] {
        let (reason, message) = refused(&world.send("POST", "test6/jobs", body).await, 400);
        assert_eq!(reason, "BadRequest", "{body}: {message}");
    }
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused() {
    let world = healthy().await;
    let long = format!(
        r#"{{"action": "pull", "pull": {{}}, "x": "{}"}}"#,
        "x".repeat(windlass_repository_api::BODY_LIMIT)
    );
    let (reason, _) = refused(&world.send("POST", "test6/jobs", long.clone()).await, 413);
    assert_eq!(reason, "RequestEntityTooLarge");
    refused(&world.send("POST", "test6/test", long).await, 413);
}

#[tokio::test]
async fn a_caller_needs_an_identity_the_audience_and_the_namespace() {
    let world = healthy().await;
    for (method, path) in [
        ("POST", "test6/jobs"),
        ("GET", "test6/jobs"),
        ("GET", "test6/jobs/u"),
        ("POST", "test6/test"),
        ("GET", "test6/resources"),
    ] {
        refused(&world.send_as(None, method, path, PULL).await, 401);
        let elsewhere =
            Caller { namespaces: Namespaces::One("other".to_owned()), ..Caller::system("elsewhere") };
        let (reason, message) = refused(&world.send_as(Some(elsewhere), method, path, PULL).await, 403);
        assert_eq!(reason, "Forbidden");
        assert!(message.contains("namespace"), "{message}");
        let folders = Audiences::Some(["folder.grafana.app".to_owned()].into_iter().collect());
        let other = Caller { audiences: folders, ..Caller::system("other") };
        let (_, message) = refused(&world.send_as(Some(other), method, path, PULL).await, 403);
        assert!(message.contains("provisioning.grafana.app"), "{message}");
    }
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn ended_jobs_are_listed_the_newest_first_and_found_by_uid() {
    let world = healthy().await;
    for (name, repository, uid, finished) in
        [("a", "test6", "uid-a", 5), ("b", "test6", "uid-b", 9), ("c", "other", "uid-c", 7)]
    {
        let record: HistoricJob = serde_json::from_value(json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "HistoricJob",
            "metadata": {"name": name, "labels": {labels::REPOSITORY: repository, labels::ORIGINAL_UID: uid}},
            "spec": {"action": "pull", "repository": repository, "pull": {"incremental": true}},
            "status": {"state": "success", "started": 1, "finished": finished, "message": "done"},
        }))
        .unwrap();
        world.api::<HistoricJob>().create(&PostParams::default(), &record).await.unwrap();
    }
    let (code, list) = world.send("GET", "test6/jobs", "").await;
    assert_eq!((code, &list["kind"]), (200, &json!("JobList")));
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["b", "a"]);
    let (code, job) = world.send("GET", "test6/jobs/uid-a", "").await;
    assert_eq!((code, &job["kind"], &job["status"]["message"]), (200, &json!("Job"), &json!("done")));
    refused(&world.send("GET", "test6/jobs/uid-c", "").await, 404);
    refused(&world.send("GET", "test6/jobs/nope", "").await, 404);
    refused(&world.send("GET", "test6/jobs/a,b", "").await, 400);
    let (_, message) = refused(&world.send("POST", "test6/jobs/uid-a", "{}").await, 400);
    assert_eq!(message, "can not post to a job UID");
}

#[tokio::test]
async fn another_version_is_not_found() {
    let world = healthy().await;
    let request =
        http::Request::get("/apis/provisioning.grafana.app/v9/namespaces/default/repositories/test6/jobs");
    let mut request = request.body(axum::body::Body::empty()).unwrap();
    request.extensions_mut().insert(Caller::system("somebody"));
    let response = tower::ServiceExt::oneshot(world.router.clone(), request).await.unwrap();
    assert_eq!(response.status().as_u16(), 404);
}

#[tokio::test]
async fn ended_jobs_are_listed_a_page_at_a_time() {
    let world = healthy().await;
    for number in 0..7 {
        let record: HistoricJob = serde_json::from_value(json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "HistoricJob",
            "metadata": {"name": format!("job-{number}"), "labels": {labels::REPOSITORY: "test6"}},
            "spec": {"action": "pull", "repository": "test6", "pull": {}},
            // Two at a time end in the same millisecond.
            "status": {"state": "success", "started": 1, "finished": 10 + number / 2},
        }))
        .unwrap();
        world.api::<HistoricJob>().create(&PostParams::default(), &record).await.unwrap();
    }
    let (mut names, mut sizes, mut next) = (Vec::new(), Vec::new(), String::new());
    loop {
        let (code, list) = world.send("GET", &format!("test6/jobs?limit=3&continue={next}"), "").await;
        assert_eq!(code, 200, "{list}");
        let items = list["items"].as_array().unwrap();
        sizes.push(items.len());
        names.extend(items.iter().map(|job| job["metadata"]["name"].as_str().unwrap().to_owned()));
        match list["metadata"]["continue"].as_str() {
            Some(more) => next = more.to_owned(),
            None => break,
        }
    }
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!(names, ["job-6", "job-4", "job-5", "job-2", "job-3", "job-0", "job-1"]);
    for query in ["limit=-1", "limit=many", "continue=x"] {
        refused(&world.send("GET", &format!("test6/jobs?{query}"), "").await, 400);
    }
}

#[tokio::test]
async fn a_job_that_the_repository_may_not_be_written_by_is_refused_and_never_queued() {
    let world = healthy().await;
    for (field, body) in [
        ("spec.push", r#"{"action": "push", "push": {}}"#),
        ("spec.migrate", r#"{"action": "migrate", "migrate": {}}"#),
        ("spec.delete", r#"{"action": "delete", "delete": {"paths": ["a.json"]}}"#),
    ] {
        let (reason, message) = refused(&world.send("POST", "test6/jobs", body).await, 422);
        assert_eq!(reason, "Invalid");
        assert!(message.contains(field) && message.contains("workflows"), "{message}");
    }
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn a_sub_resource_that_there_is_not_is_named() {
    let world = healthy().await;
    for (method, path, name) in [
        ("GET", "test6/file", "file"),
        ("GET", "test6/file/a/b.json", "file"),
        ("DELETE", "test6/History", "History"),
    ] {
        let (reason, message) = refused(&world.send(method, path, "").await, 404);
        assert_eq!(reason, "NotFound");
        assert!(message.contains(&format!("{name:?}")) && message.contains("jobs, refs"), "{message}");
        refused(&world.send_as(None, method, path, "").await, 401);
    }
    let (code, repository) = world.send("GET", "test6/status", "").await;
    assert_eq!(
        (code, &repository["kind"]),
        (200, &json!("Repository")),
        "the API server's own: {repository}"
    );
}
