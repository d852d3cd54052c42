//! What writes cost, what is repeated, and what the client refuses to be made of.

use std::time::Duration;

use windlass_github::{Credentials, ErrorKind, Github, HookRequest, Options, OptionsError};
use windlass_github_stand_in::Fault;

use crate::{client, manifests, options, secret, stand_in, token};

fn request(url: &str) -> HookRequest {
    HookRequest { url: url.to_owned(), secret: secret("s3cret"), events: vec!["push".to_owned()] }
}

#[tokio::test]
async fn a_write_is_seen_by_the_next_read_although_answers_live() {
    let stand_in = stand_in().await;
    stand_in.let_answers_live(Duration::from_mins(1));
    stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let hooks = github.hooks(&name);
    for number in 0..3 {
        assert_eq!(hooks.list().await.unwrap().len(), number);
        assert_eq!(hooks.list().await.unwrap().len(), number);
        hooks.create(&request(&format!("https://example.org/{number}"))).await.unwrap();
    }
    // Each list was asked for once, and each hook was made.
    assert_eq!(stand_in.requests().len(), 6);
}

#[tokio::test]
async fn no_write_is_sent_again_when_nobody_knows_what_became_of_it() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    let number = repository.open_pull("One", "one", &[]);
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    // The stand-in does what it is asked to, and then fails: nobody can know what became of it.
    stand_in.fail("/comments", 1, Fault::StatusAfterwards(502));
    let error = github.pulls(&name).comment(number, "once").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { status: 502, .. }), "{error}");
    let comments = github.pulls(&name).comments(number).await.unwrap();
    assert_eq!(comments.len(), 1);

    let before = stand_in.requests().len();
    stand_in.fail("/comments/", 1, Fault::StatusAfterwards(502));
    github.pulls(&name).edit_comment(comments[0].id, "twice").await.unwrap_err();
    assert_eq!(repository.comments(number)[0].body, "twice");
    assert_eq!(stand_in.requests().len(), before + 1);
}

#[tokio::test]
async fn a_write_follows_a_redirect_only_where_it_may_be_repeated_as_it_is() {
    let stand_in = stand_in().await;
    let renamed = stand_in.repository("grafana/kube-manifests");
    stand_in.repository("old/name");
    let github = client(&stand_in, token(&stand_in));
    let old = "old/name".parse().unwrap();
    let target = format!("{}/repos/grafana/kube-manifests/hooks", stand_in.api());
    stand_in.fail("old/name", 1, Fault::Redirect(target.clone()));
    let error = github.hooks(&old).create(&request("https://example.org/hook")).await.unwrap_err();
    assert!(error.to_string().contains("answers 301 to a write"), "{error}");
    assert_eq!(renamed.hooks(), []);
    stand_in.fail("old/name", 1, Fault::RedirectVerbatim(target));
    github.hooks(&old).create(&request("https://example.org/other")).await.unwrap();
    assert_eq!(renamed.hooks().len(), 1);
    assert_eq!(renamed.hooks()[0].secret.as_deref(), Some("s3cret"));
}

#[tokio::test]
async fn no_error_repeats_a_secret() {
    let stand_in = stand_in().await;
    stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    stand_in.fail("/hooks", 1, Fault::NoJson);
    let error = github.hooks(&name).create(&request("https://example.org/hook")).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Malformed(_)), "{error}");
    let shown = format!("{error} {error:?} {github:?}");
    assert!(!shown.contains("s3cret") && !shown.contains("ghp_a_t0ken"), "{shown}");
}

#[tokio::test]
async fn a_token_that_no_header_can_have_is_refused_without_showing_it() {
    let refused =
        Github::new(Options::new(Credentials::Token(secret("ghp_s3\ncret")))).expect_err("a refusal");
    assert!(matches!(refused, OptionsError::Token), "{refused}");
    assert!(!format!("{refused:?}").contains("s3"), "{refused:?}");
    assert!(Github::new(Options::new(Credentials::Token(secret(" ghp_trailing\n")))).is_ok());
}

#[test]
fn a_client_without_a_runtime_is_refused_and_does_not_panic() {
    let refused = Github::new(Options::new(Credentials::Anonymous)).expect_err("a refusal");
    assert!(matches!(refused, OptionsError::Runtime), "{refused}");
}

#[tokio::test]
async fn an_address_that_the_policy_refuses_is_not_connected_to() {
    let stand_in = stand_in().await;
    stand_in.repository("grafana/kube-manifests");
    let policy = |address: std::net::IpAddr| address.is_loopback().then_some("it is this machine");
    let judged = Options { addresses: Some(policy), ..options(&stand_in, Credentials::Anonymous) };
    let refused = Github::new(judged.clone()).expect_err("a refusal");
    assert!(refused.to_string().contains("127.0.0.1 is not connected to: it is this machine"), "{refused}");

    // A name is judged by what it resolves to when it is connected to.
    let api = stand_in.api().replace("127.0.0.1", "localhost");
    let github = Github::new(Options { api, ..judged }).unwrap();
    let error = github.repository(&manifests()).await.unwrap_err();
    assert!(error.to_string().contains("it is this machine"), "{error}");
    assert_eq!(stand_in.requests(), Vec::<String>::new());
}
