//! The wire's documents, written from its field tables: read, written again, and compared.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::*;

/// A document that is written again exactly as it was read.
#[track_caller]
fn exact<T: DeserializeOwned + Serialize>(document: Value) -> T {
    let typed: T = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), document);
    typed
}

#[test]
fn a_full_repository_is_written_as_it_was_read() {
    let repository: Repository = exact(json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
        "metadata": { "name": "test6", "namespace": "default", "uid": "u-1", "resourceVersion": "7", "generation": 3,
            "finalizers": ["remove-pending-jobs", "cleanup", "remove-orphan-resources"] },
        "spec": {
            "title": "Team dashboards", "description": "All of them",
            "commit": { "singleResourceMessageTemplate": "{{action}} {{title}}", "enforceTemplate": true,
                "signerName": "Bot", "signerEmail": "bot@example.com", "signingMethod": "ssh", "signerIsAuthor": true },
            "branch": { "nameTemplate": "{{action}}/{{random}}", "enforceTemplate": true },
            "pullRequest": { "titleTemplate": "{{title}}", "enforceTemplate": true, "generateDashboardPreviews": true },
            "workflows": ["write", "branch"],
            "sync": { "enabled": true, "target": "folder", "intervalSeconds": 60 },
            "type": "github",
            "webhook": { "baseUrl": "https://grafana.example.com", "disabled": true },
            "github": { "url": "https://github.com/example/dashboards", "branch": "main",
                "generateDashboardPreviews": true, "path": "grafana", "repoID": 42 },
            "connection": { "name": "app" }
        },
        "secure": { "token": { "name": "t" }, "webhookSecret": { "create": "s" }, "commitSigningKey": { "remove": true } },
        "status": {
            "observedGeneration": 3,
            "fieldErrors": [{ "type": "FieldValueInvalid", "field": "spec.github.branch", "detail": "not found",
                "origin": "test", "badValue": { "any": [1] } }],
            "conditions": [{ "type": "Ready", "status": "True", "observedGeneration": 3,
                "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "Available", "message": "Resource is available" }],
            "health": { "healthy": false, "error": "health", "checked": 1_767_323_045_000_i64, "message": ["bad"] },
            "sync": { "state": "warning", "job": "test6-sync", "started": 1, "finished": 2, "scheduled": 3,
                "message": ["a"], "lastRef": "abc", "incremental": true },
            "stats": [{ "group": "dashboard.grafana.app", "resource": "dashboards", "count": 12 }],
            "webhook": { "id": 9, "uuid": "x", "url": "https://example.com/hook", "subscribedEvents": ["push"],
                "lastEvent": 4, "lastRotated": 5 },
            "token": { "lastUpdated": 6, "expiration": 7 },
            "deleteError": "old form",
            "deletion": { "state": "Blocked", "finalizer": "cleanup", "message": "m", "errors": [
                { "code": "c", "detail": "d", "finalizer": "cleanup",
                  "target": { "group": "g", "resource": "r", "name": "n" } }] },
            "quota": { "maxRepositories": 10, "maxResourcesPerRepository": 1000, "updatedAt": 8 }
        }
    }));
    assert_eq!(repository.spec.url(), Some("https://github.com/example/dashboards"));
    assert_eq!((repository.spec.branch(), repository.spec.path()), ("main", "grafana"));
    assert_eq!(repository.spec.connection_name(), "app");
}

#[test]
fn the_least_repository_is_written_with_what_is_always_there() {
    let repository: Repository = serde_json::from_value(json!({
        "metadata": { "name": "r" }, "spec": { "type": "local", "title": "R", "workflows": null }
    }))
    .unwrap();
    assert_eq!(
        serde_json::to_value(&repository).unwrap(),
        json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
            "metadata": { "name": "r" },
            "spec": { "title": "R", "workflows": [], "sync": { "enabled": false }, "type": "local" },
            "status": {
                "observedGeneration": 0, "health": { "healthy": false },
                "sync": { "state": "", "message": null }, "webhook": null
            }
        })
    );
}

#[test]
fn every_provider_keeps_its_settings_and_writes_its_branch() {
    for (kind, settings, user) in [
        ("local", json!({ "path": "/srv/x" }), "git"),
        ("github", json!({ "branch": "" }), "git"),
        (
            "githubEnterprise",
            json!({ "serverUrl": "https://ghe", "url": "https://ghe/a/b", "branch": "m", "path": "p" }),
            "git",
        ),
        ("git", json!({ "url": "https://g/a", "branch": "m", "tokenUser": "me", "path": "p" }), "me"),
        (
            "bitbucket",
            json!({ "url": "https://b/a", "branch": "m", "email": "a@b", "path": "p" }),
            "x-token-auth",
        ),
        ("gitlab", json!({ "url": "https://l/a", "branch": "m", "path": "p" }), "oauth2"),
    ] {
        let spec: RepositorySpec = exact(json!({
            "title": "", "workflows": [], "sync": { "enabled": false }, "type": kind, kind: settings
        }));
        assert_eq!(spec.kind.as_str(), kind);
        assert_eq!(RepositoryType::parse(kind), Some(spec.kind));
        assert_eq!(spec.path(), settings["path"].as_str().unwrap_or_default());
        assert_eq!(spec.branch(), settings["branch"].as_str().unwrap_or_default());
        assert_eq!(spec.url(), settings["url"].as_str());
        assert_eq!(spec.token_user(), user);
        assert_eq!(spec.is_git(), kind != "local");
    }
}

#[test]
fn jobs_of_every_action_are_written_as_they_were_read() {
    for (action, options) in [
        ("pull", json!({ "pull": { "incremental": false } })),
        (
            "push",
            json!({ "push": { "message": "m", "folder": "f", "branch": "b", "path": "p",
            "resources": [{ "name": "n", "kind": "Dashboard", "group": "dashboard.grafana.app" }],
            "generateNewFolderIDs": true } }),
        ),
        (
            "pr",
            json!({ "pr": { "ref": "r", "pr": 3, "hash": "h", "url": "u", "isFork": false, "forkURL": "f" } }),
        ),
        (
            "migrate",
            json!({ "migrate": { "message": "m", "branch": "b", "resources": [{ "name": "n" }],
            "generateNewFolderIDs": true, "skipResourceDeletion": true } }),
        ),
        ("delete", json!({ "delete": { "ref": "r", "paths": ["a"], "resources": [{ "kind": "k" }] } })),
        (
            "move",
            json!({ "move": { "ref": "r", "paths": ["a"], "targetPath": "t", "resources": [{ "group": "g" }] } }),
        ),
        ("fixFolderMetadata", json!({ "fixFolderMetadata": { "ref": "r" } })),
        ("releaseResources", json!({})),
        ("deleteResources", json!({})),
        ("test", json!({ "test": { "duration": "1m30s", "progressUpdates": 5 } })),
        ("later", json!({})),
    ] {
        let mut spec = json!({ "action": action, "repository": "r", "message": "m" });
        json_patch::merge(&mut spec, &options);
        let job: Job = exact(json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Job",
            "metadata": { "name": "r-x" }, "spec": spec, "status": {}
        }));
        assert_eq!(job.spec.action.as_str(), action);
        assert_eq!(matches!(job.spec.action, JobAction::Other(_)), action == "later");
    }
}

#[test]
fn a_finished_job_is_written_as_it_was_read() {
    let job: HistoricJob = exact(json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "HistoricJob",
        "metadata": { "name": "r-sync-u", "labels": { "provisioning.grafana.app/original-uid": "u" } },
        "spec": { "action": "pull", "repository": "r", "pull": { "incremental": true } },
        "status": {
            "state": "error", "started": 1, "finished": 2, "message": "completed with errors",
            "errors": ["e"], "warnings": ["w"], "progress": 12.5, "progressUpdates": 4,
            "summary": [{ "group": "dashboard.grafana.app", "kind": "Dashboard", "total": 9, "create": 1, "update": 2,
                "delete": 3, "write": 3, "error": 1, "warning": 1, "noop": 1, "totalChanges": 6,
                "errors": ["e"], "warnings": ["w"] }],
            "url": { "repositoryURL": "a", "sourceURL": "b", "newPullRequestURL": "c", "compareURL": "d" }
        }
    }));
    let sync = SyncStatus::of_job("r-sync", &job.status);
    assert_eq!(
        serde_json::to_value(sync).unwrap(),
        json!({ "state": "error", "job": "r-sync", "started": 1, "finished": 2, "message": ["e"] })
    );
}

#[test]
fn a_pull_always_says_whether_it_is_incremental() {
    let spec: JobSpec = serde_json::from_value(json!({ "action": "pull", "pull": {} })).unwrap();
    assert_eq!(
        serde_json::to_value(spec).unwrap(),
        json!({ "action": "pull", "pull": { "incremental": false } })
    );
}

#[test]
fn what_a_sync_says_comes_from_errors_then_warnings_then_the_message() {
    let message = |status: JobStatus| SyncStatus::of_job("j", &status).message;
    let failed = JobStatus { state: JobState::Error, message: "boom".into(), ..JobStatus::default() };
    assert_eq!(message(failed.clone()), Some(vec!["boom".to_owned()]));
    let warned = JobStatus { warnings: vec!["w".into()], ..failed };
    assert_eq!(message(warned), Some(vec!["w".to_owned()]));
    let fine = JobStatus { state: JobState::Success, message: "completed".into(), ..JobStatus::default() };
    assert_eq!(message(fine), None);
}

#[test]
fn connections_folders_and_dashboards_are_written_as_they_were_read() {
    exact::<Connection>(json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Connection", "metadata": { "name": "c" },
        "spec": { "title": "App", "description": "d", "type": "githubEnterpriseOAuth", "url": "u",
            "github": { "appID": "1", "installationID": "2" },
            "githubEnterprise": { "appID": "1", "installationID": "2", "serverUrl": "s" },
            "githubEnterpriseOAuth": { "serverUrl": "s" }, "bitbucket": { "workspace": "w" },
            "oauth": { "clientID": "i" }, "webhook": { "disabled": true } },
        "secure": { "privateKey": { "name": "k" }, "clientSecret": { "name": "s" }, "token": { "name": "t" } },
        "status": { "observedGeneration": 1, "health": { "healthy": true, "checked": 5 }, "token": { "expiration": 5 } }
    }));
    exact::<Folder>(json!({
        "apiVersion": "folder.grafana.app/v1beta1", "kind": "Folder",
        "metadata": { "name": "f", "annotations": { "grafana.app/folder": "parent" } },
        "spec": { "title": "F", "description": "d", "later": 1 }
    }));
    let dashboard: Dashboard = exact(json!({
        "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard", "metadata": { "name": "d" },
        "spec": { "title": "D", "panels": [{ "id": 1, "deep": { "x": [null, 1.5] } }] }, "status": { "conversion": {} }
    }));
    assert_eq!(dashboard.title(), "D");
}

#[test]
fn answers_have_the_keys_of_the_wire() {
    exact::<WebhookResponse>(
        json!({ "code": 202, "added": "queued", "job": { "action": "pull", "pull": { "incremental": true } } }),
    );
    exact::<TestResults>(
        json!({ "code": 400, "success": false, "errors": [{ "type": "FieldValueInvalid", "field": "f" }] }),
    );
    exact::<ResourceList>(
        json!({ "items": [{ "path": "a.json", "group": "g", "resource": "dashboards", "name": "n",
        "hash": "h", "time": 1, "title": "t", "folder": "f" }] }),
    );
    exact::<ResourceStats>(json!({ "instance": [{ "group": "g", "resource": "r", "count": 0 }],
        "managed": [{ "kind": "repo", "id": "r", "stats": [] }] }));
    exact::<FileList>(
        json!({ "items": [{ "path": "a", "size": 1, "hash": "h", "modified": 2, "author": "me" }] }),
    );
    exact::<RefList>(json!({ "items": [{ "name": "main", "hash": "h", "refURL": "u", "protected": true }] }));
    exact::<HistoryList>(json!({ "items": [{ "ref": "r", "message": "m", "createdAt": 1,
        "authors": [{ "name": "n", "username": "u", "avatarURL": "a" }] }] }));
    exact::<RepositoryViewList>(
        json!({ "allowedTargets": ["folder"], "allowImageRendering": true, "maxRepositories": 0,
        "availableRepositoryTypes": ["git"], "availableConnectionTypes": ["github"],
        "availableResources": [{ "group": "g", "kind": "k", "disabled": true }],
        "items": [{ "name": "n", "title": "t", "type": "git", "target": "folder", "branch": "b", "url": "u",
            "path": "p", "workflows": ["write"], "commit": {}, "branchOptions": {}, "pullRequest": {} }] }),
    );
    exact::<ResourceWrapper>(json!({ "path": "a.json", "ref": "main", "hash": "h",
        "repository": { "type": "git", "title": "t", "namespace": "default", "name": "r" },
        "urls": { "sourceURL": "u" }, "timestamp": "2026-01-01T00:00:00Z",
        "resource": { "type": { "group": "g", "version": "v", "kind": "k", "resource": "r", "classic": "dashboard" },
            "file": {}, "existing": {}, "action": "update", "dryRun": {}, "upsert": {} }, "errors": ["e"] }));
}

#[test]
fn a_secret_is_sent_but_never_printed() {
    let value = InlineSecureValue::raw("hunter2");
    assert_eq!(serde_json::to_value(&value).unwrap(), json!({ "create": "hunter2" }));
    assert!(!format!("{value:?}").contains("hunter2"));
    assert!(value.is_set() && !InlineSecureValue::default().is_set());
    assert!(!InlineSecureValue { remove: true, ..InlineSecureValue::reference("x") }.is_set());
}

#[test]
fn kinds_know_their_paths() {
    use kube::Resource as _;
    assert_eq!(
        Repository::url_path(&(), Some("ns")),
        "/apis/provisioning.grafana.app/v0alpha1/namespaces/ns/repositories"
    );
    assert_eq!(HistoricJob::url_path(&(), None), "/apis/provisioning.grafana.app/v0alpha1/historicjobs");
    assert_eq!(Folder::url_path(&(), Some("ns")), "/apis/folder.grafana.app/v1beta1/namespaces/ns/folders");
    assert_eq!(
        Dashboard::url_path(&(), Some("ns")),
        "/apis/dashboard.grafana.app/v1beta1/namespaces/ns/dashboards"
    );
    assert_eq!(audience::for_group(GROUP), GROUP);
    assert_eq!(audience::for_group("coordination.k8s.io"), audience::CORE);
}
