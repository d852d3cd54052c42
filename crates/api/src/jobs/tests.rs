use serde_json::json;

use super::*;

fn spec(value: serde_json::Value) -> JobSpec {
    serde_json::from_value(value).unwrap()
}

/// The fields that are refused.
#[track_caller]
fn check(value: serde_json::Value, fields: &[&str]) {
    let errors = validate(&spec(value), None, &JobRules::default());
    let refused: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(refused, fields, "{errors:?}");
}

#[test]
fn jobs_that_test_the_queue_are_taken_where_they_are_switched_on() {
    let test = spec(json!({ "action": "test", "repository": "r", "test": { "duration": "1s" } }));
    assert_eq!(validate(&test, None, &JobRules::default()), []);
    let off = JobRules { test_jobs: false, ..JobRules::default() };
    let errors = validate(&test, None, &off);
    assert_eq!((errors.len(), errors[0].field.as_str()), (1, "spec.action"), "{errors:?}");
    assert!(errors[0].message.contains("enable_test_jobs"), "{errors:?}");
}

#[test]
fn complete_jobs_are_accepted() {
    for value in [
        json!({ "action": "pull", "repository": "r", "pull": {} }),
        json!({ "action": "push", "repository": "r", "push": { "branch": "a/b", "path": "x/y" } }),
        json!({ "action": "pr", "repository": "r", "pr": { "pr": 3 } }),
        json!({ "action": "migrate", "repository": "r", "migrate": {
            "resources": [{ "name": "a", "kind": "Dashboard", "group": "dashboard.grafana.app" }] } }),
        json!({ "action": "delete", "repository": "r", "delete": { "paths": ["a.json"] } }),
        json!({ "action": "move", "repository": "r", "move": { "paths": ["a"], "targetPath": "b/" } }),
        json!({ "action": "fixFolderMetadata", "repository": "r" }),
        json!({ "action": "releaseResources", "repository": "r" }),
        json!({ "action": "deleteResources", "repository": "r" }),
        json!({ "action": "test", "repository": "r", "test": { "duration": "15m" } }),
    ] {
        check(value, &[]);
    }
}

#[test]
fn an_unknown_action_is_refused_by_name_and_the_known_ones_are_listed() {
    let errors = validate(&spec(json!({ "action": "fly", "repository": "r" })), None, &JobRules::default());
    let text = errors[0].to_string();
    assert!(text.starts_with("spec.action: Unsupported value: \"fly\""), "{text}");
    assert!(text.contains("\"pull\"") && text.contains("\"test\""), "{text}");
    check(json!({ "repository": "r" }), &["spec.action"]);
}

#[test]
fn an_action_without_its_options_or_repository_is_refused() {
    check(json!({ "action": "pull" }), &["spec.repository", "spec.pull"]);
    for action in ["push", "pr", "migrate", "delete", "move", "test"] {
        check(json!({ "action": action, "repository": "r" }), &[&format!("spec.{action}")]);
    }
}

#[test]
fn options_of_another_action_are_refused_by_name() {
    check(json!({ "action": "pull", "repository": "r", "pull": {}, "push": {} }), &["spec.push"]);
    check(
        json!({ "action": "releaseResources", "repository": "r", "test": { "duration": "1s" } }),
        &["spec.test"],
    );
    check(json!({ "action": "test", "repository": "r", "pull": {} }), &["spec.test", "spec.pull"]);
}

#[test]
fn unsafe_paths_and_branches_are_refused() {
    check(
        json!({ "action": "push", "repository": "r", "push": { "branch": "a..b", "path": "../x" } }),
        &["spec.push.branch", "spec.push.path"],
    );
    check(
        json!({ "action": "delete", "repository": "r", "delete": { "ref": "-x", "paths": ["ok", ".git", ""] } }),
        &["spec.delete.ref", "spec.delete.paths[2]", "spec.delete.paths[1]"],
    );
    check(
        json!({ "action": "move", "repository": "r", "move": { "targetPath": "/../" } }),
        &["spec.move.paths", "spec.move.targetPath"],
    );
    check(
        json!({ "action": "move", "repository": "r", "move": { "resources": [{}] } }),
        &["spec.move.targetPath", "spec.move.resources[0].name", "spec.move.resources[0].kind"],
    );
}

#[test]
fn a_move_goes_into_a_folder_and_messages_are_plain_text() {
    check(
        json!({ "action": "move", "repository": "r", "move": { "paths": ["a"], "targetPath": "b" } }),
        &["spec.move.targetPath"],
    );
    check(
        json!({ "action": "delete", "repository": "r", "message": "a\u{7}b", "delete": { "paths": ["a"] } }),
        &["spec.message"],
    );
    check(
        json!({ "action": "push", "repository": "r", "push": { "message": "a\rb" } }),
        &["spec.push.message"],
    );
    check(json!({ "action": "push", "repository": "r", "message": "a\n\n\tb", "push": {} }), &[]);
}

#[test]
fn resources_are_few_named_and_of_a_known_kind() {
    check(
        json!({ "action": "push", "repository": "r", "push": { "resources": [
            { "name": "a", "kind": "Playlist" },
            { "name": "b", "kind": "Dashboard", "group": "folder.grafana.app" },
            { "kind": "Dashboard" } ] } }),
        &["spec.push.resources[0].kind", "spec.push.resources[1].group", "spec.push.resources[2].name"],
    );
    let many = vec![json!({ "name": "a", "kind": "Dashboard" }); MAX_RESOURCES + 1];
    check(
        json!({ "action": "migrate", "repository": "r", "migrate": { "resources": many } }),
        &["spec.migrate.resources"],
    );
}

#[test]
fn a_test_job_is_short_and_reports_in_reasonable_steps() {
    for (test, field) in [
        (json!({ "duration": "0s" }), "spec.test.duration"),
        (json!({ "duration": "-1s" }), "spec.test.duration"),
        (json!({ "duration": "15m1s" }), "spec.test.duration"),
        (json!({ "duration": "10s", "progressUpdates": 21 }), "spec.test.progressUpdates"),
        (json!({ "duration": "15m", "progressUpdates": 1001 }), "spec.test.progressUpdates"),
        (json!({ "duration": "15m", "progressUpdates": -1 }), "spec.test.progressUpdates"),
    ] {
        check(json!({ "action": "test", "repository": "r", "test": test }), &[field]);
    }
    check(
        json!({ "action": "test", "repository": "r", "test": { "duration": "10s", "progressUpdates": 20 } }),
        &[],
    );
}

#[test]
fn a_missing_action_follows_from_the_options() {
    for action in ["pull", "push", "migrate", "pr"] {
        let mut job = spec(json!({ action: {} }));
        normalise(&mut job).unwrap();
        assert_eq!(job.action.as_str(), action);
    }
    let error = normalise(&mut spec(json!({ "pull": {}, "push": {} }))).unwrap_err();
    assert!(error.message.contains("pull") && error.message.contains("push"), "{error}");
    let mut named = spec(json!({ "action": "test", "pull": {} }));
    normalise(&mut named).unwrap();
    assert_eq!(named.action, JobAction::Test, "a named action stays");
    let mut delete = spec(json!({ "delete": {} }));
    normalise(&mut delete).unwrap();
    assert!(delete.action.is_empty(), "only four actions are inferred");
}

#[test]
fn names_exclude_what_must_not_run_together_and_suit_every_api_server() {
    for (value, name) in [
        (json!({ "action": "pull" }), "r-sync"),
        (json!({ "action": "migrate" }), "r-sync"),
        (json!({ "action": "pr", "pr": { "pr": 7 } }), "r-pr-7"),
        (json!({ "action": "pr" }), "r-pr-0"),
        (json!({ "action": "push" }), "r-push"),
        (json!({ "action": "delete" }), "r-delete"),
        (json!({ "action": "move" }), "r-move"),
        (json!({ "action": "fixFolderMetadata" }), "r-fixfoldermetadata"),
        (json!({ "action": "releaseResources" }), "r-releaseresources"),
        (json!({ "action": "deleteResources" }), "r-deleteresources"),
        (json!({ "action": "test" }), "r-test-"),
    ] {
        let spec = spec(value);
        assert_eq!(job_name("r", &spec), name);
        assert_eq!(name.ends_with('-'), has_unique_name(&spec.action));
    }
}
