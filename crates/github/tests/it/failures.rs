//! Refusals, limits, failures of the server and of the way to it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use windlass_github::{
    Credentials, Deadlines, ErrorKind, Github, GithubError, HookRequest, Options, Retries,
};
use windlass_github_stand_in::{Fault, Repository, StandIn};

use crate::{at, client, history, manifests, options, secret, stand_in, token};

const INFO: &str = "exporter-info.json";

fn export(stand_in: &StandIn) -> (Repository, String) {
    let repository = stand_in.repository("grafana/kube-manifests");
    let sha = repository.push("export", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"{\"a\": 1}"))]);
    (repository, sha)
}

#[tokio::test]
async fn a_failing_server_is_asked_five_times() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    let github = client(&stand_in, Credentials::Anonymous);

    stand_in.fail(INFO, 5, Fault::Status(500));
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { status: 500, .. }), "{error}");
    assert_eq!(stand_in.requests().len(), 5);

    stand_in.fail(INFO, 4, Fault::Status(503));
    assert_eq!(github.file(&manifests(), INFO, &sha).await.unwrap(), "{\"a\": 1}");
    assert_eq!(stand_in.requests().len(), 10);
}

#[tokio::test]
async fn a_wait_that_would_pass_the_deadline_is_not_begun() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    let retries = Retries { times: 4, first: Duration::from_mins(10), longest: Duration::from_mins(10) };
    let patient = Options { retries, ..options(&stand_in, Credentials::Anonymous) };
    let github = Github::new(patient).unwrap();
    stand_in.fail(INFO, 9, Fault::Status(500));
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
    assert_eq!(stand_in.requests().len(), 1);

    stand_in.heal();
    let github = client(&stand_in, Credentials::Anonymous);
    stand_in.fail(INFO, 9, Fault::StatusRetryAfter(503, Duration::from_mins(5)));
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_mins(5)));
    assert_eq!(stand_in.requests().len(), 2);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left_at_the_deadline() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    let deadlines = Deadlines { total: Duration::from_millis(200), ..Deadlines::default() };
    let hasty = Options { deadlines, ..options(&stand_in, Credentials::Anonymous) };
    let github = Github::new(hasty).unwrap();
    stand_in.fail(INFO, 9, Fault::Silent);
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout(_)) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_server_that_is_gone_is_unreachable() {
    let stand_in = stand_in().await;
    let options = options(&stand_in, Credentials::Anonymous);
    drop(stand_in);
    // Taken, so that nobody else gets it, and not listened at.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let api = format!("http://{}", taken.local_addr().unwrap());
    let github = Github::new(Options { api, ..options }).unwrap();
    let error = history(&github, &manifests(), "a").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable(_)) && error.is_transient(), "{error}");
    assert_eq!(github.sent(), 5);
}

#[tokio::test]
async fn a_used_up_limit_is_waited_for_without_asking() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    let github = client(&stand_in, token(&stand_in));

    stand_in.fail(INFO, 1, Fault::LimitUsedUp(Duration::from_mins(20)));
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    let wait = error.retry_after().unwrap_or_default();
    assert!(matches!(error.kind(), ErrorKind::RateLimited { .. }), "{error}");
    assert!(wait > Duration::from_mins(19) && wait < Duration::from_mins(21), "{wait:?}");
    for _ in 0..10 {
        let error = history(&github, &manifests(), &sha).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::RateLimited { .. }), "{error}");
    }
    assert_eq!(stand_in.requests().len(), 1);
}

#[tokio::test]
async fn a_secondary_limit_is_waited_for_and_then_over() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    for (fault, wait) in [
        (Fault::SecondaryLimit(Some(Duration::from_secs(90))), 90),
        (Fault::SecondaryLimit(None), 60),
        (Fault::StatusRetryAfter(429, Duration::from_secs(30)), 30),
        (Fault::Status(429), 60),
    ] {
        let github = client(&stand_in, Credentials::Anonymous);
        stand_in.fail(INFO, 1, fault.clone());
        let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(wait)), "{fault:?}: {error}");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(wait + 1)).await;
        tokio::time::resume();
        github.file(&manifests(), INFO, &sha).await.unwrap();
    }
}

#[tokio::test]
async fn what_still_holds_is_answered_while_the_limit_is_used_up() {
    let stand_in = stand_in().await;
    stand_in.let_answers_live(Duration::from_mins(1));
    let (_, sha) = export(&stand_in);
    let github = client(&stand_in, Credentials::Anonymous);
    github.file(&manifests(), INFO, &sha).await.unwrap();
    stand_in.fail("/commits", 1, Fault::LimitUsedUp(Duration::from_mins(20)));
    history(&github, &manifests(), &sha).await.unwrap_err();
    github.file(&manifests(), INFO, &sha).await.unwrap();
}

#[tokio::test]
async fn refusals_are_told_apart_and_hint_at_what_to_do() {
    let stand_in = stand_in().await;
    let (repository, sha) = export(&stand_in);
    let _private = repository.clone().private();

    let nobody = client(&stand_in, Credentials::Anonymous);
    let error = history(&nobody, &manifests(), &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
    assert!(error.to_string().contains("if the repository is private, give a token"), "{error}");

    let stranger = client(&stand_in, Credentials::Token(secret("ghp_wr0ng")));
    let error = history(&stranger, &manifests(), &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unauthorized { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("ghp_wr0ng"), "{error:?}");

    let known = client(&stand_in, token(&stand_in));
    let error = known.file(&"grafana/secrets".parse().unwrap(), INFO, &sha).await.unwrap_err();
    assert!(error.to_string().contains("could be private: may the token read it?"), "{error}");
    stand_in.fail(INFO, 1, Fault::Status(403));
    let error = known.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Forbidden { .. }) && !error.is_transient(), "{error}");
    let error = history(&known, &"grafana/empty".parse().unwrap(), &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
    let _empty = stand_in.repository("grafana/empty");
    let error = history(&known, &"grafana/empty".parse().unwrap(), &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unprocessable(_)), "{error}");
}

#[tokio::test]
async fn a_body_that_ends_early_is_neither_believed_nor_kept() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    let github = client(&stand_in, Credentials::Anonymous);
    stand_in.fail(INFO, 5, Fault::Truncated);
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable(_)), "{error}");
    assert_eq!(github.file(&manifests(), INFO, &sha).await.unwrap(), "{\"a\": 1}");
}

#[tokio::test]
async fn content_that_is_not_the_files_is_refused() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    for (fault, expected) in [
        (Fault::WrongBase64, "no base64"),
        (Fault::OtherContent, "are not object"),
        (Fault::NoJson, "makes no sense"),
    ] {
        let github = client(&stand_in, Credentials::Anonymous);
        stand_in.fail(INFO, 1, fault);
        let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let stand_in = stand_in().await;
    let (_, sha) = export(&stand_in);
    let github = client(&stand_in, Credentials::Anonymous);
    // To read it all would take longer than the deadline.
    stand_in.fail(INFO, 1, Fault::Huge(1 << 40));
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge(_)), "{error}");
}

#[tokio::test]
async fn redirects_are_followed_within_the_origin_only() {
    let stand_in = stand_in().await;
    let elsewhere = crate::stand_in().await;
    let (_, sha) = export(&stand_in);
    export(&elsewhere);
    let github = client(&stand_in, token(&stand_in));

    let renamed = format!("{}/repos/grafana/kube-manifests/commits?sha={sha}", stand_in.api());
    stand_in.fail("old/name", 1, Fault::Redirect(renamed));
    stand_in.repository("old/name").push("x", at("2026-03-04T09:15:00Z"), &[]);
    history(&github, &"old/name".parse().unwrap(), &sha).await.unwrap();

    let away = format!("{}/repos/grafana/kube-manifests/commits?sha={sha}", elsewhere.api());
    stand_in.fail("/commits", 1, Fault::Redirect(away));
    let error = history(&github, &manifests(), &sha).await.unwrap_err();
    assert!(error.to_string().contains("redirects to another origin"), "{error}");
    assert_eq!(elsewhere.requests(), Vec::<String>::new());
}

#[test]
fn an_api_that_would_show_the_token_is_refused() {
    for api in [
        "http://github.example.org/api/v3",
        "https://user:s3cret@github.example.org",
        "https://github.example.org/?token=s3cret",
        "ftp://github.example.org",
        "github.example.org",
        "",
    ] {
        let error = Github::new(Options { api: api.to_owned(), ..Options::new(Credentials::Anonymous) })
            .expect_err("a refusal")
            .to_string();
        assert!(error.contains("write https://") && !error.contains("s3cret"), "{api}: {error}");
    }
}

/// A client, with this token, of a server that answers everything with this head and body.
async fn client_of_answer(token: &str, head: String, body: String) -> Github {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = format!("http://{}", listener.local_addr().unwrap());
    let answer =
        format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.windows(4).any(|end| end == b"\r\n\r\n")
                && stream.read_buf(&mut asked).await.unwrap() > 0
            {}
            stream.write_all(answer.as_bytes()).await.unwrap();
            // What is closed with something unread takes its answer back.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    Github::new(Options { api, ..Options::new(Credentials::Token(secret(token))) }).unwrap()
}

#[track_caller]
fn check_hidden(error: &GithubError, secrets: &[&str]) {
    let shown = format!("{error} {error:?}");
    for secret in secrets {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("[redacted]"), "{shown}");
}

#[tokio::test]
async fn an_answer_that_echoes_what_was_sent_brings_no_secret_into_messages() {
    const TOKEN: &str = "ghp_s3cr3t/T0ken";
    let (packed, encoded, upper) =
        (STANDARD.encode(TOKEN), TOKEN.replace('/', "%2F"), TOKEN.to_ascii_uppercase());
    let spellings = [TOKEN, &packed, &encoded, &upper, "ghp_s3"];

    // Of another type than it should be.
    let body = format!("{{\"id\": \"{packed}\"}}");
    let github = client_of_answer(TOKEN, "200 OK".to_owned(), body).await;
    let error = github.repository(&manifests()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Malformed(_)), "{error}");
    check_hidden(&error, &spellings);
    let body = format!("{{\"type\": \"{packed}\", \"sha\": \"\"}}");
    let github = client_of_answer(TOKEN, "200 OK".to_owned(), body).await;
    let error = github.file(&manifests(), INFO, "main").await.unwrap_err();
    check_hidden(&error, &spellings);

    // The message would be cut in the middle of it.
    let body = format!("{{\"message\": \"{packed} {upper} {}{TOKEN}\"}}", "x".repeat(155));
    let head = format!("403 Forbidden\r\nX-Accepted-GitHub-Permissions: contents={encoded}");
    let github = client_of_answer(TOKEN, head, body).await;
    let error = github.repository(&manifests()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Forbidden { needs: Some(_), .. }), "{error}");
    check_hidden(&error, &spellings);
    assert!(error.to_string().contains("contents=[redacted]"), "{error}");

    let body =
        "{\"message\": \"bad config\", \"errors\": [{\"message\": \"secret h00k-s3cret\"}]}".to_owned();
    let github = client_of_answer(TOKEN, "422 Unprocessable Entity".to_owned(), body).await;
    let request = HookRequest {
        url: "https://example.org/hook".to_owned(),
        secret: secret("h00k-s3cret"),
        events: vec!["push".to_owned()],
    };
    let name = manifests();
    let hooks = github.hooks(&name);
    for error in [hooks.create(&request).await.unwrap_err(), hooks.edit(7, &request).await.unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::Unprocessable(_)), "{error}");
        check_hidden(&error, &["h00k-s3cret"]);
    }
}
