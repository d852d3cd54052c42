//! `POST …/webhook`: deliveries of providers, good and bad.

use aws_lc_rs::hmac;
use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use windlass_api::{Job, annotations};
use windlass_auth::Caller;

use crate::kit::World;

const SECRET: &str = "webhook-s3cret";
const COMMIT: &str = "0d1a26e67d8f5eaf1f6ba5c57fc3c7d91ac0fd1c";

/// A repository of GitHub whose webhook is set up.
async fn github(world: &World) {
    let document = json!({
        "spec": {"type": "github", "workflows": ["write"], "sync": {"enabled": true, "target": "folder"},
            "github": {"url": "https://github.com/o/r", "branch": "main"}},
        "secure": {"token": {"create": "t"}, "webhookSecret": {"create": SECRET}},
    });
    world.create_repository("dash", document).await;
    world.patch_status("dash", json!({"status": {"health": {"healthy": true, "checked": 1}}})).await;
}

fn push() -> Vec<u8> {
    json!({"ref": "refs/heads/main", "after": COMMIT, "repository": {"id": 7, "full_name": "o/r"}})
        .to_string()
        .into()
}

pub(crate) fn sign(body: &[u8], secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("sha256={}", hex::encode(hmac::sign(&key, body).as_ref()))
}

fn delivery(event: &str, signature: &str, body: impl Into<Body>) -> Request<Body> {
    delivery_to("dash", event, signature, body)
}

pub(crate) fn delivery_to(name: &str, event: &str, signature: &str, body: impl Into<Body>) -> Request<Body> {
    let path =
        format!("/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/{name}/webhook");
    Request::post(path)
        .header("content-type", "application/json")
        .header("x-github-event", event)
        .header("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
        .header("x-hub-signature-256", signature)
        .body(body.into())
        .unwrap()
}

/// Sends it as anybody on the network would.
pub(crate) async fn send(world: &World, request: Request<Body>) -> (u16, Value) {
    let response = tower::ServiceExt::oneshot(world.router.clone(), request).await.unwrap();
    let code = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

async fn send_signed(world: &World, event: &str, body: Vec<u8>) -> (u16, Value) {
    send(world, delivery(event, &sign(&body, SECRET), body)).await
}

#[tokio::test]
async fn a_signed_push_queues_one_pull_and_says_when_it_came() {
    let world = World::new();
    github(&world).await;
    let (code, job) = send_signed(&world, "push", push()).await;
    assert_eq!((code, &job["kind"], &job["spec"]["action"]), (202, &json!("Job"), &json!("pull")), "{job}");
    assert_eq!(job["spec"]["pull"]["incremental"], true);
    assert_eq!(job["metadata"]["annotations"][annotations::DELIVERY], "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    let noted = world.repository("dash").await.status.webhook.unwrap().last_event;
    assert!(noted > 0);

    let before = world.requests.writes().len();
    for _ in 0..5 {
        let (code, again) = send_signed(&world, "push", push()).await;
        assert_eq!(
            (code, &again["metadata"]["uid"]),
            (202, &job["metadata"]["uid"]),
            "a replay finds the same job"
        );
    }
    assert_eq!(world.jobs().await.len(), 1);
    // Each asked for the job once more; that something came is noted once a minute.
    assert_eq!(world.requests.writes().len() - before, 5);
    assert_eq!(world.repository("dash").await.status.webhook.unwrap().last_event, noted);
}

#[tokio::test]
async fn a_push_during_a_pull_is_written_down_for_after_it() {
    let world = World::new();
    github(&world).await;
    send_signed(&world, "push", push()).await;
    let claimed = json!({"metadata": {"labels": {"provisioning.grafana.app/claim": "1"}}});
    let params = kube::api::PatchParams::default();
    world.api::<Job>().patch("dash-sync", &params, &kube::api::Patch::Merge(&claimed)).await.unwrap();
    let (code, job) = send_signed(&world, "push", push()).await;
    assert_eq!((code, &job["metadata"]["name"]), (202, &json!("dash-sync")));
    let marks = world.repository("dash").await.metadata.annotations.unwrap();
    assert!(marks[annotations::PUSHED].starts_with(COMMIT), "{marks:?}");
}

#[tokio::test]
async fn nothing_is_asked_of_the_api_for_what_is_not_signed_and_nothing_written_for_what_is_wrongly() {
    let world = World::new();
    github(&world).await;
    let body = push();
    let before = (world.requests.all().len(), world.requests.writes().len());
    let unsigned = Request::post(delivery("push", "", "").uri().clone())
        .header("x-github-event", "push")
        .header("x-hub-signature", "sha1=e9b8a9f5a5e1a3b1f3f0bd9cbb1e1f2d3c4b5a69")
        .body(Body::from(body.clone()))
        .unwrap();
    for request in
        [unsigned, delivery("push", "", body.clone()), delivery("push", "sha256=xyz", body.clone())]
    {
        let (code, answer) = send(&world, request).await;
        assert_eq!((code, &answer["message"]), (401, &json!("invalid signature")));
    }
    assert_eq!(world.requests.all().len(), before.0, "nothing was asked");

    let mut reencoded = body.clone();
    reencoded.insert(1, b' ');
    for (signature, body) in [
        (sign(&body, "another tenant's"), body.clone()),
        (sign(&body, SECRET), reencoded),
        (sign(b"", SECRET), body.clone()),
    ] {
        let (code, answer) = send(&world, delivery("push", &signature, body)).await;
        assert_eq!((code, &answer["message"]), (401, &json!("invalid signature")));
    }
    assert_eq!(world.requests.writes().len(), before.1);
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn a_callers_token_opens_no_door_that_a_signature_does_not() {
    let world = World::new();
    github(&world).await;
    let mut request = delivery("push", &sign(b"{}", "wrong"), "{}");
    request.extensions_mut().insert(Caller::system("admin"));
    assert_eq!(send(&world, request).await.0, 401);
}

#[tokio::test]
async fn repositories_that_listen_to_nobody_say_so() {
    let world = World::new();
    github(&world).await;
    world.create_local("local").await;
    let spec = json!({"git": {"url": "https://git.example.com/o/r", "branch": "main"}});
    world.create_repository("plain", json!({"spec": spec})).await;
    world.patch_repository("dash", json!({"spec": {"webhook": {"disabled": true}}})).await;
    let body = push();
    for (name, code, text) in [
        ("local", 400, "the repository does not support webhooks"),
        ("dash", 400, "webhook integration is disabled for this repository"),
        ("plain", 500, "unexpected webhook request"),
    ] {
        let (found, answer) =
            send(&world, delivery_to(name, "push", &sign(&body, SECRET), body.clone())).await;
        assert_eq!(found, code, "{name}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{name}: {answer}");
    }
    assert_eq!(send(&world, delivery_to("nope", "push", &sign(&body, SECRET), body)).await.0, 404);
}

#[tokio::test]
async fn every_event_gets_its_code_and_its_text_under_the_odd_key() {
    let world = World::new();
    github(&world).await;
    let other = json!({"ref": "refs/heads/topic", "after": COMMIT, "repository": {"full_name": "o/r"}});
    let elsewhere = json!({"ref": "refs/heads/main", "after": COMMIT, "repository": {"full_name": "o/x"}});
    for (event, body, code, added) in [
        ("ping", json!({"zen": "…"}), 200, json!("ping received")),
        ("push", other, 200, Value::Null),
        ("push", elsewhere, 400, json!("repository mismatch")),
        ("fork", json!({}), 501, json!("unsupported messageType: fork")),
    ] {
        let (found, answer) = send_signed(&world, event, body.to_string().into()).await;
        assert_eq!((found, &answer["added"]), (code, &added), "{event}: {answer}");
    }
    for body in ["", "not json", "[]", r#"{"ref": 5}"#] {
        let (code, answer) = send_signed(&world, "push", body.into()).await;
        assert_eq!((code, &answer["message"]), (400, &json!("invalid payload")), "{body:?}");
    }
    assert!(world.jobs().await.is_empty());
}

#[tokio::test]
async fn a_body_of_twenty_five_mebibytes_is_read_and_one_byte_more_is_not() {
    let world = World::new();
    github(&world).await;
    let mut body = push();
    body.resize(25 << 20, b' ');
    assert_eq!(send_signed(&world, "push", body.clone()).await.0, 202);
    body.push(b' ');
    let before = world.requests.all().len();
    assert_eq!(send_signed(&world, "push", body).await.0, 413);
    assert_eq!(world.requests.all().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_end_is_given_up_after_half_a_minute() {
    let world = World::new();
    github(&world).await;
    let drops = futures::stream::unfold((), |()| async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        Some((Ok::<_, std::io::Error>("x"), ()))
    });
    let began = tokio::time::Instant::now();
    let (code, _) = send(&world, delivery("push", &sign(b"", SECRET), Body::from_stream(drops))).await;
    assert_eq!((code, began.elapsed().as_secs()), (504, 30));
}

#[tokio::test]
async fn two_hundred_senders_without_a_secret_hold_up_no_delivery() {
    let world = World::new();
    github(&world).await;
    let bad: Vec<_> = (0..200)
        .map(|_| {
            let router = world.router.clone();
            let pending = futures::stream::pending::<Result<&'static str, std::io::Error>>();
            let request = delivery("push", &sign(b"", "x"), Body::from_stream(pending));
            tokio::spawn(tower::ServiceExt::oneshot(router, request))
        })
        .collect();
    let good = send_signed(&world, "push", push());
    let (code, _) = tokio::time::timeout(std::time::Duration::from_secs(20), good).await.unwrap();
    assert_eq!(code, 202);
    for task in bad {
        task.abort();
    }
}

#[tokio::test]
async fn a_delivery_that_cannot_be_queued_is_not_said_to_be() {
    let world = World::new();
    github(&world).await;
    world.fault.answer(|method, path| {
        (method == "POST" && path.ends_with("/jobs")).then_some(StatusCode::INTERNAL_SERVER_ERROR)
    });
    assert!(send_signed(&world, "push", push()).await.0 >= 500);
    world.fault.heal();
    assert_eq!(send_signed(&world, "push", push()).await.0, 202);
}

#[tokio::test]
async fn a_gitlab_server_tells_a_plain_repository_by_its_token() {
    let world = World::new();
    let document = json!({
        "spec": {"sync": {"enabled": true, "target": "folder"},
            "git": {"url": "https://git.example.com/group/sub/name.git", "branch": "main"}},
        "secure": {"webhookSecret": {"create": SECRET}},
    });
    world.create_repository("plain", document).await;
    let body = json!({"ref": "refs/heads/main", "after": COMMIT, "project": {"path_with_namespace": "group/sub/name"}});
    let request = |token: &str| {
        let path = delivery_to("plain", "", "", "").uri().clone();
        let builder =
            Request::post(path).header("x-gitlab-event", "Push Hook").header("x-gitlab-token", token);
        builder.body(Body::from(body.to_string())).unwrap()
    };
    assert_eq!(send(&world, request("wrong")).await.0, 401);
    let (code, job) = send(&world, request(SECRET)).await;
    assert_eq!((code, &job["metadata"]["name"]), (202, &json!("plain-sync")), "{job}");
    // A token is no signature of a body: whoever reads one could say anything to a repository of GitHub.
    github(&world).await;
    let path = delivery("", "", "").uri().clone();
    let builder = Request::post(path).header("x-gitlab-event", "Push Hook").header("x-gitlab-token", SECRET);
    assert_eq!(send(&world, builder.body(Body::from(body.to_string())).unwrap()).await.0, 400);
}

#[tokio::test]
async fn a_pull_request_is_looked_at_once_however_often_it_is_told_of() {
    let world = World::new();
    github(&world).await;
    let pull = json!({"html_url": "https://github.com/o/r/pull/7", "base": {"ref": "main"},
        "head": {"ref": "topic", "sha": COMMIT}});
    let body =
        json!({"action": "opened", "number": 7, "pull_request": pull, "repository": {"full_name": "o/r"}});
    for _ in 0..2 {
        let (code, answer) = send_signed(&world, "pull_request", body.to_string().into()).await;
        assert_eq!(code, 202, "{answer}");
    }
    let [job] = &world.jobs().await[..] else { panic!("one job") };
    let options = job.spec.pr.clone().unwrap();
    assert_eq!((options.pr, options.reference.as_str(), options.hash.as_str()), (7, "topic", COMMIT));
}

/// The receiver of another process, which asks the API with this client.
fn replica(world: &World, client: kube::Client) -> axum::Router {
    let git = windlass_git::GitConfig::new(world.folder.path().join("replica"));
    windlass_repository_api::router(windlass_repository_api::RepositoryApi {
        provisioning: client.clone(),
        core: client.clone(),
        resources: windlass_resources::Clients::same(client),
        opener: windlass_repository::Opener::new(windlass_git::Git::new(git).unwrap(), None, Vec::new()),
        loki: None,
        repository_rules: windlass_api::repositories::RepositoryRules::default(),
        job_rules: windlass_api::jobs::JobRules::default(),
        access: std::sync::Arc::new(windlass_auth::CallerAccess),
        accept_sha1: false,
        webhook_metrics: None,
        spans: windlass_telemetry::Spans::disabled(),
        namespace: None,
    })
}

#[tokio::test]
async fn a_delivery_that_panics_is_answered_with_500_and_the_next_on_its_connection_is_taken() {
    use std::fmt::Write as _;

    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

    let world = World::new();
    github(&world).await;
    let api = world.router.clone();
    let api = axum::Router::new().fallback(move |request: axum::extract::Request| {
        let api = api.clone();
        async move {
            assert!(!request.uri().path().contains("/repositories/odd"), "a mistake of ours");
            tower::ServiceExt::oneshot(api, request).await
        }
    });
    let router = replica(&world, windlass_apiserver::client_of(api, Caller::system("receiver")));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut stream = BufReader::new(stream);
    tokio::spawn(windlass_auth::plain::serve(listener, router, tokio_util::sync::CancellationToken::new()));
    let (body, mut answered) = (push(), Vec::new());
    for name in ["odd", "dash"] {
        let request = delivery_to(name, "push", &sign(&body, SECRET), Body::empty());
        let mut head =
            format!("POST {} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", request.uri(), body.len());
        for (name, value) in request.headers() {
            write!(head, "{name}: {}\r\n", value.to_str().unwrap()).unwrap();
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        let mut lines = vec![String::new()];
        while stream.read_line(lines.last_mut().unwrap()).await.unwrap() > 2 {
            lines.push(String::new());
        }
        let length = lines
            .iter()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.trim().parse().ok());
        stream.read_exact(&mut vec![0; length.unwrap()]).await.unwrap();
        answered.push(lines[0][..12].to_owned());
    }
    assert_eq!(answered, ["HTTP/1.1 500", "HTTP/1.1 202"]);
}

#[tokio::test]
async fn a_delivery_that_is_sent_to_two_replicas_queues_one_job() {
    let world = World::new();
    github(&world).await;
    let other = replica(&world, world.client.clone());
    let body = push();
    let mut uids = Vec::new();
    for router in [world.router.clone(), other.clone(), world.router.clone(), other] {
        let request = delivery("push", &sign(&body, SECRET), body.clone());
        let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
        assert_eq!(response.status(), 202);
        let answer = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let job: Value = serde_json::from_slice(&answer).unwrap();
        uids.push(job["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    uids.dedup();
    assert_eq!((uids.len(), world.jobs().await.len()), (1, 1));
}

#[tokio::test]
async fn no_server_that_a_payload_names_is_connected_to() {
    use futures::FutureExt as _;

    let world = World::new();
    github(&world).await;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let named = format!("http://{}/o/r", listener.local_addr().unwrap());
    let repository = json!({"id": 7, "full_name": "o/r", "url": named, "clone_url": named, "html_url": named,
        "git_url": named, "hooks_url": named, "archive_url": named, "compare_url": named});
    let end = json!({"ref": "main", "sha": COMMIT, "repo": repository});
    let push = json!({"ref": "refs/heads/main", "after": COMMIT, "compare": named, "repository": repository,
        "pusher": {"url": named}, "head_commit": {"url": named}});
    let pull = json!({"action": "opened", "number": 7, "repository": repository, "pull_request": {
        "html_url": named, "url": named, "diff_url": named, "comments_url": named, "base": end, "head": end}});
    for (event, body) in [("push", push), ("pull_request", pull)] {
        let (code, answer) = send_signed(&world, event, body.to_string().into()).await;
        assert_eq!(code, 202, "{answer}");
    }
    assert!(listener.accept().now_or_never().is_none(), "somebody connected to {named}");
}
