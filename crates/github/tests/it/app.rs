//! Apps: claims, tokens, and what happens when they end.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use windlass_github::{Access, App, AppError, Credentials, ErrorKind, Permissions, TokenRequest};
use windlass_github_stand_in::{Fault, StandIn};

use crate::{at, client, history, manifests, stand_in};

const INFO: &str = "exporter-info.json";

fn installed(stand_in: &StandIn) -> Credentials {
    let app = stand_in.install_app("12345", 67);
    Credentials::App(App::new(&app.id, &app.installation.to_string(), &app.private_key).unwrap())
}

/// A private repository with one export.
fn export(stand_in: &StandIn) -> String {
    let repository = stand_in.repository("grafana/kube-manifests").private();
    repository.push("export", at("2026-03-04T09:15:00Z"), &[(INFO, Some(b"{}"))])
}

#[tokio::test]
async fn an_app_reads_a_private_repository_with_one_token() {
    let stand_in = stand_in().await;
    let sha = export(&stand_in);
    let github = client(&stand_in, installed(&stand_in));
    for _ in 0..5 {
        github.file(&manifests(), INFO, &sha).await.unwrap();
        history(&github, &manifests(), &sha).await.unwrap();
    }
    assert_eq!(stand_in.minted(), 1);
    assert_eq!(stand_in.requests()[0], "POST /app/installations/67/access_tokens 201");
}

#[tokio::test]
async fn many_at_once_mint_one_token() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests").private();
    let github = client(&stand_in, installed(&stand_in));
    let commits: Vec<_> =
        (0..50).map(|n| repository.push(&format!("commit {n}"), at("2026-03-04T09:15:00Z"), &[])).collect();
    let name = manifests();
    let all = futures::future::join_all(commits.iter().map(|sha| history(&github, &name, sha))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!((stand_in.minted(), stand_in.requests().len()), (1, 51));
}

#[tokio::test]
async fn a_token_is_replaced_before_it_ends() {
    let stand_in = stand_in().await;
    let sha = export(&stand_in);
    let github = client(&stand_in, installed(&stand_in));
    history(&github, &manifests(), &sha).await.unwrap();
    for (minutes, minted) in [(50, 1), (6, 2), (50, 2), (6, 3)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(minutes)).await;
        tokio::time::resume();
        history(&github, &manifests(), &sha).await.unwrap();
        assert_eq!(stand_in.minted(), minted, "after another {minutes} minutes");
    }
}

#[tokio::test]
async fn a_token_that_was_revoked_is_replaced_once() {
    let stand_in = stand_in().await;
    let sha = export(&stand_in);
    let github = client(&stand_in, installed(&stand_in));
    github.file(&manifests(), INFO, &sha).await.unwrap();
    stand_in.revoke_app_tokens();
    github.file(&manifests(), INFO, &sha).await.unwrap();
    assert_eq!(stand_in.minted(), 2);

    stand_in.fail("contents", 2, Fault::Status(401));
    let error = github.file(&manifests(), INFO, &sha).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unauthorized { .. }), "{error}");
    assert_eq!(stand_in.minted(), 3);
}

#[tokio::test]
async fn an_app_that_is_refused_says_so_and_is_not_tried_over_and_over() {
    let stand_in = stand_in().await;
    let sha = export(&stand_in);
    let app = stand_in.install_app("12345", 67);
    for (id, installation, expected) in [("999", "67", "the App is refused"), ("12345", "68", "not found")] {
        let before = stand_in.requests().len();
        let wrong = Credentials::App(App::new(id, installation, &app.private_key).unwrap());
        let github = client(&stand_in, wrong);
        for _ in 0..5 {
            let error = history(&github, &manifests(), &sha).await.unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(!error.is_transient());
        }
        assert_eq!(stand_in.requests().len() - before, 1);
    }
}

#[tokio::test]
async fn minting_is_tried_again_when_the_server_fails() {
    let stand_in = stand_in().await;
    let sha = export(&stand_in);
    let github = client(&stand_in, installed(&stand_in));
    stand_in.fail("access_tokens", 2, Fault::Status(502));
    history(&github, &manifests(), &sha).await.unwrap();
    assert_eq!((stand_in.minted(), stand_in.requests().len()), (1, 4));
}

#[tokio::test]
async fn a_key_from_a_variable_may_have_its_line_ends_escaped() {
    let stand_in = stand_in().await;
    let sha = export(&stand_in);
    let app = stand_in.install_app("Iv1.8a61f9b3a7aba766", 67);
    let escaped = app.private_key.expose_secret().trim().replace('\n', "\\n");
    let app = App::new(&app.id, " 67\n", &SecretString::from(escaped)).unwrap();
    let github = client(&stand_in, Credentials::App(app));
    history(&github, &manifests(), &sha).await.unwrap();
}

#[tokio::test]
async fn what_is_no_app_is_refused_without_showing_the_key() {
    let key = stand_in().await.install_app("12345", 67).private_key;
    let none = SecretString::from("s3cret");
    let refusal = |id: &str, installation: &str, key: &SecretString| {
        App::new(id, installation, key).expect_err("a refusal")
    };
    assert!(matches!(refusal("", "67", &key), AppError::Id { .. }));
    assert!(matches!(refusal("12345/../1", "67", &key), AppError::Id { .. }));
    assert!(matches!(refusal("12345", "sixty-seven", &key), AppError::Installation { .. }));
    let error = refusal("12345", "67", &none);
    assert!(
        matches!(error, AppError::Key { .. }) && !format!("{error} {error:?}").contains("s3cret"),
        "{error:?}"
    );
    let app = App::new("12345", "67", &key).unwrap();
    assert!(!format!("{:?}", Credentials::App(app)).contains("EncodingKey"));
}

#[tokio::test]
async fn an_app_knows_itself_its_installation_and_its_repositories() {
    let stand_in = stand_in().await;
    export(&stand_in);
    stand_in.repository("grafana/other");
    let github = client(&stand_in, installed(&stand_in));
    let apps = github.apps().unwrap();
    let app = apps.app().await.unwrap();
    assert_eq!((app.id, app.slug.as_deref(), app.name.as_str()), (12345, Some("windlass"), "Windlass"));
    assert_eq!(app.permissions.get("contents"), Some(Access::Write));

    let installation = apps.installation().await.unwrap();
    assert_eq!((installation.id, installation.app_id), (67, 12345));
    assert_eq!(installation.account.as_deref(), Some("grafana"));
    assert!(!installation.suspended && !installation.all_repositories);
    let needed = Permissions::new([("contents", Access::Write), ("administration", Access::Read)]);
    let missing = needed.missing_from(&installation.permissions);
    assert_eq!(missing.iter().collect::<Vec<_>>(), [("administration", Access::Read)]);

    let repositories = apps.repositories().await.unwrap();
    let names: Vec<_> = repositories.iter().map(|repository| repository.name.to_string()).collect();
    assert_eq!(names, ["grafana/kube-manifests", "grafana/other"]);
    assert!(client(&stand_in, Credentials::Anonymous).apps().is_none());
}

#[tokio::test]
async fn a_token_to_hand_on_does_what_it_was_asked_for_and_no_more() {
    let stand_in = stand_in().await;
    let sha = export(&stand_in);
    let _other = stand_in.repository("grafana/other").private();
    let github = client(&stand_in, installed(&stand_in));
    let request = TokenRequest {
        permissions: Permissions::new([("contents", Access::Read)]),
        repositories: vec!["kube-manifests".to_owned()],
    };
    let token = github.apps().unwrap().token(&request).await.unwrap();
    assert!(token.lifetime > Duration::from_mins(59) && token.lifetime < Duration::from_mins(61));
    assert_eq!(token.permissions.get("contents"), Some(Access::Read));
    assert!(!format!("{token:?}").contains(token.token.expose_secret()));

    let holder = client(&stand_in, Credentials::Token(token.token));
    history(&holder, &manifests(), &sha).await.unwrap();
    let error = holder.repository(&"grafana/other".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
    let error = holder.hooks(&manifests()).list().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Forbidden { .. }), "{error}");
    assert!(error.to_string().contains("it needs repository_hooks=read"), "{error}");
}

#[tokio::test]
async fn more_than_was_granted_and_a_suspended_installation_get_no_token() {
    let stand_in = stand_in().await;
    let github = client(&stand_in, installed(&stand_in));
    let apps = github.apps().unwrap();
    let request = TokenRequest {
        permissions: Permissions::new([("contents", Access::Write)]),
        ..TokenRequest::default()
    };
    assert!(apps.token(&request).await.is_ok());
    stand_in.grant(67, &[("contents", "read"), ("metadata", "read")]);
    let error = apps.token(&request).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unprocessable(_)), "{error}");
    assert!(error.to_string().contains("not granted to this installation"), "{error}");
    stand_in.suspend(67);
    let error = apps.token(&request).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Forbidden { .. }), "{error}");
    assert!(apps.installation().await.unwrap().suspended);
}
