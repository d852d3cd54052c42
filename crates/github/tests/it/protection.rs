//! What keeps us from pushing to a branch.

use windlass_github::{Credentials, ErrorKind, Protection as Found};
use windlass_github_stand_in::{Fault, Protection, Rule};

use crate::{at, client, manifests, stand_in, token};

fn refuses(texts: &[&str]) -> Found {
    Found { refuses: texts.iter().map(|text| (*text).to_owned()).collect(), is_hidden: false }
}

#[tokio::test]
async fn rules_that_refuse_a_push_are_told_unless_their_ruleset_lets_us_through() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    repository.push("first", at("2026-03-04T09:15:00Z"), &[("a", Some(b"a"))]);
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let found = async || github.protection(&name, "main", false).await.unwrap();
    assert_eq!(found().await, Found::default());

    repository.cover(&[Rule::new("non_fast_forward", 3), Rule::new("deletion", 3)]);
    let by_rules = found().await;
    assert_eq!(
        (by_rules.refuses, by_rules.is_hidden),
        (vec![], true),
        "protected, by what may be more than rules"
    );

    repository.cover(&[Rule::new("pull_request", 7), Rule::new("non_fast_forward", 7)]);
    assert_eq!(found().await, refuses(&["changes go in by pull request (ruleset 7)"]));
    repository.cover(&[Rule { bypass: None, ..Rule::new("update", 8) }]);
    assert_eq!(found().await, refuses(&["only those push who may bypass the ruleset (ruleset 8)"]));
    repository
        .cover(&[Rule { bypass: Some("pull_requests_only".to_owned()), ..Rule::new("pull_request", 7) }]);
    assert_eq!(found().await.refuses.len(), 1);
    for through in ["always", "exempt"] {
        repository.cover(&[Rule { bypass: Some(through.to_owned()), ..Rule::new("pull_request", 7) }]);
        assert_eq!(found().await.refuses, Vec::<String>::new(), "{through}");
    }
    repository.cover(&[Rule::new("pull_request", 9)]);
    stand_in.fail("/rulesets/9", 1, Fault::Status(403));
    assert_eq!(found().await.refuses.len(), 1, "one that may not be looked at lets nobody through");
}

#[tokio::test]
async fn protection_is_read_by_those_who_administer_and_guessed_at_by_others() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    repository.push("first", at("2026-03-04T09:15:00Z"), &[("a", Some(b"a"))]);
    let github = client(&stand_in, token(&stand_in));
    let name = manifests();
    let found = async |is_admin| github.protection(&name, "main", is_admin).await.unwrap();
    assert_eq!(found(false).await, Found::default());
    repository.protect(Some(Protection { pull_requests: true, ..Protection::default() }));
    assert_eq!(found(false).await, Found { is_hidden: true, ..Found::default() });

    stand_in.let_people(true, true);
    assert!(github.repository(&name).await.unwrap().is_admin);
    assert_eq!(found(true).await, Found::default(), "it leaves out who administers");
    repository.protect(Some(Protection { pull_requests: true, for_admins: true, locked: false }));
    assert_eq!(found(true).await, refuses(&["changes go in by pull request (branch protection)"]));
    repository.protect(Some(Protection { locked: true, ..Protection::default() }));
    assert_eq!(found(true).await, refuses(&["the branch is locked"]));
    repository.protect(None);
    assert_eq!(found(true).await, Found::default());
}

#[tokio::test]
async fn protected_branches_are_listed_for_everybody() {
    let stand_in = stand_in().await;
    let repository = stand_in.repository("grafana/kube-manifests");
    repository.push("first", at("2026-03-04T09:15:00Z"), &[("a", Some(b"a"))]);
    let github = client(&stand_in, Credentials::Anonymous);
    let listed = async || github.protected_branches(&manifests()).await.unwrap().unwrap();
    assert!(listed().await.is_empty());
    repository.protect(Some(Protection::default()));
    assert_eq!(listed().await.into_iter().collect::<Vec<_>>(), ["main"]);
}

#[tokio::test]
async fn what_may_be_over_later_is_no_protection() {
    let stand_in = stand_in().await;
    stand_in.repository("grafana/kube-manifests");
    let github = client(&stand_in, Credentials::Anonymous);
    stand_in.fail("/rules/", 1, Fault::SecondaryLimit(None));
    let error = github.protection(&manifests(), "main", false).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::RateLimited { .. }), "{error}");
}
