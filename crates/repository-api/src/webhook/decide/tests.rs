use serde_json::{Value, json};
use windlass_repository::webhook::Branch;

use super::*;

fn repository(change: impl FnOnce(&mut Value)) -> Repository {
    let mut document = json!({
        "metadata": {"name": "dash", "namespace": "team"},
        "spec": {"title": "D", "type": "github", "workflows": ["write"], "sync": {"enabled": true, "target": "folder"},
            "github": {"url": "https://github.com/o/r", "branch": "main", "repoID": 7}},
        "status": {"health": {"healthy": true}},
    });
    change(&mut document);
    serde_json::from_value(document).unwrap()
}

fn told(path: &str, id: i64) -> RepositoryId {
    RepositoryId { path: path.to_owned(), id: Some(id), default_branch: Some("trunk".to_owned()) }
}

fn push(branch: &str) -> Event {
    let branches = vec![Branch { name: branch.to_owned(), commit: "a".repeat(40) }];
    Event::Push(Push { repository: told("o/r", 7), branches, at: None })
}

fn pull(action: &str, base: &str) -> Event {
    Event::PullRequest(PullRequestEvent {
        repository: told("o/r", 7),
        action: action.to_owned(),
        number: 3,
        url: "https://github.com/o/r/pull/3".to_owned(),
        base: base.to_owned(),
        head: "topic".to_owned(),
        commit: "b".repeat(40),
    })
}

fn code(decision: &Decision) -> (u16, &str) {
    match decision {
        Decision::Answer { code, message } => (*code, message),
        Decision::Queue { .. } => (202, ""),
    }
}

#[track_caller]
fn check(repository: &Repository, event: &Event, expected: (u16, &str)) {
    assert_eq!(code(&decide(repository, Provider::Github, event)), expected, "{event:?}");
}

#[test]
fn a_push_to_the_configured_branch_is_pulled_and_no_other() {
    let plain = repository(|_| {});
    let Decision::Queue { job } = decide(&plain, Provider::Github, &push("main")) else { panic!("no job") };
    assert_eq!(*job, JobSpec::pull("dash", true));
    check(&plain, &push("topic"), (200, ""));
    let off = repository(|document| document["spec"]["sync"]["enabled"] = json!(false));
    check(&off, &push("main"), (200, ""));
    let default = repository(|document| document["spec"]["github"]["branch"] = json!(""));
    check(&default, &push("trunk"), (202, ""));
    check(&default, &push("main"), (200, ""));
}

#[test]
fn a_push_to_another_repository_is_refused_and_to_a_renamed_one_is_not() {
    let plain = repository(|_| {});
    let moved =
        |path: &str, id| Event::Push(Push { repository: told(path, id), branches: Vec::new(), at: None });
    check(&plain, &moved("o/r", 8), (400, "repository mismatch"));
    check(&plain, &moved("new/name", 7), (200, ""));
    let without = repository(|document| document["spec"]["github"]["repoID"] = json!(0));
    check(&without, &moved("other/r", 7), (400, "repository mismatch"));
    check(&without, &moved("O/R", 9), (200, ""));
}

#[test]
fn pull_requests_are_looked_at_when_they_come_up_or_move_on() {
    let plain = repository(|_| {});
    for action in ["opened", "reopened", "synchronize"] {
        let decision = decide(&plain, Provider::Github, &pull(action, "main"));
        let Decision::Queue { job } = decision else { panic!("no job") };
        let options = job.pr.clone().unwrap();
        assert_eq!((job.action.as_str(), options.pr, &*options.reference), ("pr", 3, "topic"));
    }
    check(&plain, &pull("closed", "main"), (200, "ignore pull request event: closed"));
    let other = "ignoring pull request event as next is not the configured branch";
    check(&plain, &pull("opened", "next"), (200, other));
}

#[test]
fn what_is_not_known_is_said_so() {
    let plain = repository(|_| {});
    check(&plain, &Event::Ping, (200, "ping received"));
    check(&plain, &Event::Other("fork".to_owned()), (501, "unsupported messageType: fork"));
    let gitlab = decide(&plain, Provider::Gitlab, &Event::Other("Tag Push Hook".to_owned()));
    assert_eq!(code(&gitlab).0, 200);
    let decision = decide(&plain, Provider::Github, &Event::Other("a\r\nb".repeat(100)));
    assert!(code(&decision).1.len() < 200 && !code(&decision).1.contains('\n'));
}

#[test]
fn a_repository_that_was_not_reached_is_pulled_and_one_that_is_held_back_is_not() {
    let failing = |reason: &str| {
        let condition = json!({"type": "Ready", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        repository(|document| {
            document["status"] = json!({"health": {"healthy": false}, "conditions": [condition]});
        })
    };
    check(&failing("ServiceUnavailable"), &push("main"), (202, ""));
    check(&failing("AuthenticationFailed"), &push("main"), (202, ""));
    for reason in ["InvalidSpec", "PathConflict", "QuotaExceeded"] {
        let decision = decide(&failing(reason), Provider::Github, &push("main"));
        assert!(code(&decision).0 == 200 && code(&decision).1.contains(reason), "{decision:?}");
    }
    let going =
        repository(|document| document["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    check(&going, &push("main"), (200, "the repository is being deleted"));
}
