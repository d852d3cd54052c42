use serde_json::{Value, json};

use super::*;

fn repository(name: &str, spec: Value) -> Value {
    let mut base = json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "title": "T", "type": "git", "workflows": [],
            "sync": { "enabled": true, "target": "folder", "intervalSeconds": 60 },
            "git": { "url": format!("https://git.example.com/{name}"), "branch": "main" }
        }
    });
    json_patch::merge(&mut base, &spec);
    base
}

fn typed(value: &Value) -> Repository {
    serde_json::from_value(value.clone()).unwrap()
}

fn admitted(value: &Value, old: Option<&Repository>) -> Repository {
    let mut new = typed(value);
    mutate(&mut new, old, &RepositoryRules::default());
    new
}

/// The fields that are refused when the patched base is created beside others.
#[track_caller]
fn check_beside(patch: Value, others: &[Value], fields: &[&str]) {
    let others: Vec<Repository> = others.iter().map(|other| admitted(other, None)).collect();
    let new = admitted(&repository("r", patch), None);
    let errors = validate(&new, None, &others, &RepositoryRules::default());
    let refused: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(refused, fields, "{errors:?}");
}

#[track_caller]
fn check(patch: Value, fields: &[&str]) {
    check_beside(patch, &[], fields);
}

/// The fields that are refused when a created repository is changed.
#[track_caller]
fn check_change(before: Value, change: Value, fields: &[&str]) {
    let old = admitted(&repository("r", before.clone()), None);
    let mut document = repository("r", before);
    json_patch::merge(&mut document, &change);
    let new = admitted(&document, Some(&old));
    let errors = validate(&new, Some(&old), std::slice::from_ref(&old), &RepositoryRules::default());
    let refused: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(refused, fields, "{errors:?}");
}

#[test]
fn ordinary_repositories_are_accepted() {
    check(json!({}), &[]);
    check(json!({ "spec": { "git": { "branch": "", "path": "grafana/prod" } } }), &[]);
    check(json!({ "spec": { "sync": { "enabled": false, "target": null } } }), &[]);
    check(json!({ "spec": { "type": "local", "git": null, "local": { "path": "/srv/dashboards" } } }), &[]);
    check(
        json!({ "secure": { "token": { "create": "x" } }, "spec": {
            "type": "github", "git": null, "workflows": ["write", "branch"],
            "github": { "url": "https://github.com/a/b", "branch": "main" }, "pullRequest": {} } }),
        &[],
    );
    check(json!({ "spec": { "workflows": ["write"], "connection": { "name": "c" } } }), &[]);
}

#[test]
fn what_is_missing_is_named() {
    check(
        json!({ "spec": { "title": " ", "sync": { "target": null } } }),
        &["spec.title", "spec.sync.target"],
    );
    check(json!({ "spec": { "git": null } }), &["spec.git"]);
    check(json!({ "spec": { "git": { "url": null } } }), &["spec.git.url"]);
    check(json!({ "spec": { "type": "local", "git": null, "local": {} } }), &["spec.local.path"]);
    check(json!({ "spec": { "workflows": ["write"] } }), &["secure.token"]);
    check(json!({ "spec": { "connection": {} } }), &["spec.connection.name"]);
}

#[test]
fn settings_and_options_of_another_type_are_refused() {
    check(json!({ "spec": { "github": { "url": "https://github.com/a/b" } } }), &["spec.github"]);
    check(json!({ "spec": { "pullRequest": {} } }), &["spec.pullRequest"]);
    check(
        json!({ "spec": { "type": "local", "git": null, "local": { "path": "/a" }, "workflows": ["branch"],
            "branch": {}, "commit": {}, "pullRequest": {} } }),
        &["spec.workflows", "spec.branch", "spec.commit", "spec.pullRequest"],
    );
}

#[test]
fn names_that_cannot_be_used_are_refused() {
    for name in RESERVED_NAMES {
        let new = admitted(&repository(name, json!({})), None);
        let errors = validate(&new, None, &[], &RepositoryRules::default());
        assert_eq!(errors[0].field, "metadata.name", "{name}");
    }
    check(json!({ "metadata": { "name": "a".repeat(64) } }), &["metadata.name"]);
    check(json!({ "metadata": { "name": "a".repeat(63) } }), &[]);
}

#[test]
fn urls_are_http_with_host_and_path_and_without_secrets() {
    for url in [
        "ftp://example.com/a",
        "file:///etc/passwd",
        "git@github.com:a/b",
        "/srv/repo",
        "https://example.com",
        "https://example.com/",
        "https://",
        "https://example.com/a?b=c",
        "https://example.com/a#b",
        "https://me@example.com/a",
    ] {
        check(json!({ "spec": { "git": { "url": url } } }), &["spec.git.url"]);
    }
    check(json!({ "spec": { "git": { "url": "http://127.0.0.1:8080/a.git" } } }), &[]);
    check(json!({ "spec": { "webhook": { "baseUrl": "example.com" } } }), &["spec.webhook.baseUrl"]);
}

#[test]
fn an_error_never_repeats_a_secret() {
    for url in ["https://me:hunter2@example.com/a", "https://me:hunter2@/a", "https//me:hunter2@x"] {
        let new = admitted(&repository("r", json!({ "spec": { "git": { "url": url } } })), None);
        let errors = validate(&new, None, &[], &RepositoryRules::default());
        let status = crate::status::invalid(crate::GROUP, "Repository", "r", errors.clone());
        let text = format!("{errors:?} {}", serde_json::to_string(&status).unwrap());
        assert!(!errors.is_empty() && !text.contains("hunter2"), "{text}");
    }
    let new = admitted(
        &repository("r", json!({ "secure": { "token": { "create": "hunter2", "name": "x" } } })),
        None,
    );
    let errors = validate(&new, None, &[], &RepositoryRules::default());
    assert_eq!(errors[0].field, "secure.token");
    assert!(!format!("{errors:?} {new:?}").contains("hunter2"));
}

#[test]
fn branches_and_paths_are_checked() {
    check(
        json!({ "spec": { "git": { "branch": "a..b", "path": "../x" } } }),
        &["spec.git.branch", "spec.git.path"],
    );
    check(json!({ "spec": { "git": { "path": "/x" } } }), &["spec.git.path"]);
}

#[test]
fn signing_and_author_exclude_each_other() {
    check(
        json!({ "spec": { "commit": { "signerName": "a", "signerIsAuthor": true } } }),
        &["spec.commit.signerName", "spec.commit.signerIsAuthor"],
    );
    check(
        json!({ "spec": { "commit": { "signingMethod": "smime", "authorEmail": "a@example.com" } } }),
        &["spec.commit.authorEmail", "spec.commit.smimeCertificate"],
    );
    check(json!({ "spec": { "commit": { "authorName": "a" } } }), &[]);
    check(json!({ "spec": { "commit": { "signingMethod": "ssh", "signerName": "a" } } }), &[]);
}

#[test]
fn finalizers_are_known_and_do_not_contradict() {
    check(json!({ "metadata": { "finalizers": ["mine"] } }), &["metadata.finalizers"]);
    check(
        json!({ "metadata": { "finalizers": ["release-orphan-resources", "remove-orphan-resources"] } }),
        &["metadata.finalizers"],
    );
    check(json!({ "metadata": { "finalizers": ["release-orphan-resources", "cleanup"] } }), &[]);
}

#[test]
fn types_targets_previews_and_numbers_follow_the_rules() {
    let rules = RepositoryRules {
        types: vec![RepositoryType::Github],
        targets: vec![SyncTarget::Folder],
        max_repositories: 1,
        ..RepositoryRules::default()
    };
    let refused = |patch: Value, others: &[Repository], rules: &RepositoryRules| {
        let errors = validate(&admitted(&repository("r", patch), None), None, others, rules);
        errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("; ")
    };
    let text = refused(json!({}), &[], &rules);
    assert!(
        text.contains("spec.type: Unsupported value: \"git\"") && text.contains("repository_types"),
        "{text}"
    );
    let text = refused(json!({ "spec": { "sync": { "target": "instance" } } }), &[], &rules);
    assert!(text.contains("spec.sync.target") && text.contains("\"folder\"; allowed_targets"), "{text}");
    check(
        json!({ "spec": { "type": "github", "git": null, "github": {
            "url": "https://github.com/a/b", "generateDashboardPreviews": true } } }),
        &["spec.github.generateDashboardPreviews"],
    );
    let rules = RepositoryRules { max_repositories: 1, ..RepositoryRules::default() };
    let other = admitted(&repository("other", json!({})), None);
    assert_eq!(
        refused(json!({}), std::slice::from_ref(&other), &rules),
        "metadata.name: Forbidden: Maximum number of 1 repositories reached; remove one, or raise max_repositories"
    );
    let mut going = other;
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time("2026-01-01T00:00:00Z".parse().unwrap()));
    assert_eq!(refused(json!({}), &[going], &rules), "");
}

#[test]
fn a_changed_url_needs_a_new_token() {
    let token = json!({ "secure": { "token": { "name": "stored" } } });
    let elsewhere = json!({ "spec": { "git": { "url": "https://evil.example.com/r" } } });
    check_change(token.clone(), elsewhere.clone(), &["secure.token"]);
    check_change(json!({}), elsewhere.clone(), &[]);
    let mut with_new = elsewhere.clone();
    with_new["secure"] = json!({ "token": { "create": "new", "name": null } });
    check_change(token.clone(), with_new, &[]);
    let mut removed = elsewhere;
    removed["secure"] = json!({ "token": { "remove": true, "name": null } });
    check_change(token.clone(), removed, &[]);
    check_change(token, json!({ "spec": { "git": { "url": "https://git.example.com/r/" } } }), &[]);
}

#[test]
fn type_and_used_target_cannot_be_changed() {
    check_change(
        json!({}),
        json!({ "spec": { "type": "local", "git": null, "local": { "path": "/a" } } }),
        &["spec.type"],
    );
    let used = json!({ "status": { "stats": [{ "group": "g", "resource": "r", "count": 1 }] } });
    check_change(used, json!({ "spec": { "sync": { "target": "folderless" } } }), &["spec.sync.target"]);
    check_change(json!({}), json!({ "spec": { "sync": { "target": "folderless" } } }), &[]);
}

#[test]
fn two_repositories_may_not_cover_the_same_files() {
    let other = repository(
        "other",
        json!({ "spec": { "git": { "url": "https://git.example.com/x", "path": "a/b" } } }),
    );
    let at = |url: &str, branch: &str, path: &str| json!({ "spec": { "git": { "url": url, "branch": branch, "path": path } } });
    for (url, path) in [
        ("https://git.example.com/x", "a/b"),
        ("https://GIT.example.com/x.git/", "a/b/"),
        ("https://git.example.com/x", "a"),
        ("https://git.example.com/x", "a/b/c"),
        ("https://git.example.com/x", ""),
    ] {
        check_beside(at(url, "main", path), std::slice::from_ref(&other), &["spec.git.path"]);
    }
    for (url, branch, path) in [
        ("https://git.example.com/x", "main", "a/bc"),
        ("https://git.example.com/x", "dev", "a/b"),
        ("https://git.example.com/y", "main", "a/b"),
    ] {
        check_beside(at(url, branch, path), std::slice::from_ref(&other), &[]);
    }
}

#[test]
fn an_instance_repository_stands_alone() {
    let instance = json!({ "spec": { "sync": { "target": "instance" } } });
    check(instance.clone(), &[]);
    check_beside(instance.clone(), &[repository("other", json!({}))], &["spec.sync.target"]);
    check_beside(json!({}), &[repository("other", instance)], &["spec.sync.target"]);
}

#[test]
fn a_namespace_that_is_pending_deletion_takes_no_changes_but_the_label_off() {
    let label = json!({ "metadata": { "labels": { "cloud.grafana.com/pending-delete": "true" } } });
    check(label.clone(), &["metadata.labels"]);
    check_change(label.clone(), json!({}), &[]);
    check_change(label.clone(), json!({ "spec": { "title": "x" } }), &["metadata.labels"]);
    check_change(label, json!({ "metadata": { "labels": null }, "spec": { "title": "x" } }), &[]);
}

#[test]
fn a_repository_that_is_going_is_not_checked() {
    let gone =
        json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": { "title": "" } });
    check_change(json!({}), gone.clone(), &[]);
    assert_eq!(admitted(&repository("r", gone), None).metadata.finalizers, None, "and gets no finalizers");
}

#[test]
fn the_server_fills_in_what_is_left_out() {
    let mut document = repository(
        "r",
        json!({ "spec": { "workflows": null, "future": { "x": 1 }, "sync": { "intervalSeconds": 5 },
            "webhook": { "baseUrl": "https://me.example.com//" }, "git": { "url": "https://git.example.com/a.git/" } } }),
    );
    mutate_value(&mut document, None, &RepositoryRules::default()).unwrap();
    assert_eq!(document["spec"]["workflows"], json!([]));
    assert_eq!(document["spec"]["sync"]["intervalSeconds"], json!(60));
    assert_eq!(document["spec"]["webhook"]["baseUrl"], json!("https://me.example.com"));
    assert_eq!(document["spec"]["git"]["url"], json!("https://git.example.com/a.git"));
    assert_eq!(document["spec"]["future"], json!({ "x": 1 }), "unknown fields survive");
    assert_eq!(
        document["metadata"]["finalizers"],
        json!(["remove-pending-jobs", "cleanup", "remove-orphan-resources"])
    );
    assert!(document.get("status").is_none() && document.get("secure").is_none(), "{document}");
    let once = document.clone();
    mutate_value(&mut document, None, &RepositoryRules::default()).unwrap();
    assert_eq!(document, once, "a second time changes nothing");
}

#[test]
fn an_update_never_brings_cleanup_or_a_removed_secret_back() {
    let stored = json!({ "secure": { "token": { "name": "stored" } } });
    let old = admitted(&repository("r", stored), None);
    let new = admitted(&repository("r", json!({})), Some(&old));
    assert_eq!(new.secure.token.name, "", "what was left out was carried over before this");
    assert_eq!(
        new.metadata.finalizers.unwrap(),
        ["remove-pending-jobs", "remove-orphan-resources"],
        "without cleanup"
    );
}

#[test]
fn hosted_urls_lose_their_git_suffix() {
    let document = repository(
        "r",
        json!({ "spec": { "type": "github", "git": null, "github": { "url": "https://github.com/a/b.git/" } } }),
    );
    let stored: Repository = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(
        stored.spec.url(),
        Some("https://github.com/a/b"),
        "where nobody admits it, it is read the same"
    );
    assert_eq!(admitted(&document, None).spec.github.unwrap().url, "https://github.com/a/b");
}
