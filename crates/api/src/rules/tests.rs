use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::{Connection, Job, Repository, connection, jobs, repositories};

/// The examples of one kind: see the file.
#[derive(Deserialize)]
struct Examples {
    base: Value,
    rules: BTreeMap<String, Example>,
}

#[derive(Deserialize)]
struct Example {
    #[serde(default)]
    update: bool,
    #[serde(default)]
    given: Value,
    #[serde(default)]
    status: Value,
    good: Value,
    bad: Value,
}

fn examples(kind: &str) -> Examples {
    let all = crate::yaml::parse(include_str!("../../tests/rules.yaml")).unwrap();
    serde_json::from_value(all[kind].clone()).unwrap()
}

fn patched(base: &Value, patches: &[&Value]) -> Value {
    let mut object = base.clone();
    for patch in patches.iter().filter(|patch| !patch.is_null()) {
        json_patch::merge(&mut object, patch);
    }
    object
}

/// Holds every rule of `tables` to its examples: the good one breaks no rule, the bad one breaks that rule and no other.
fn check<T, S>(kind: &str, tables: &[&[Rule<S>]], root: &str, part: fn(T) -> S)
where
    T: DeserializeOwned,
    S: Serialize,
{
    let examples = examples(kind);
    let mut rules: Vec<&Rule<S>> = tables.iter().copied().flatten().collect();
    rules.sort_by_key(|rule| rule.name);
    let names: Vec<&str> = rules.iter().map(|rule| rule.name).collect();
    assert_eq!(names, examples.rules.keys().collect::<Vec<_>>(), "each rule of {kind} has one example");
    for rule in rules {
        let example = &examples.rules[rule.name];
        let status = json!({ "status": example.status });
        let given = patched(&examples.base, &[&example.given, &status]);
        let read = |object: &Value| part(serde_json::from_value(object.clone()).unwrap());
        let old = example.update.then(|| read(&given));
        let refused = |patch: &Value| broken(tables, root, &read(&patched(&given, &[patch])), old.as_ref());
        let kept = refused(&example.good);
        assert!(kept.is_empty(), "{kind} {}: the good example is refused: {kept:?}", rule.name);
        let errors = refused(&example.bad);
        if matches!(rule.check, Check::Elsewhere) {
            assert!(errors.is_empty(), "{kind} {}: {errors:?}", rule.name);
            continue;
        }
        assert!(!errors.is_empty(), "{kind} {}: the bad example is not refused", rule.name);
        let path = rule.path();
        for error in errors {
            assert_eq!(error.message, rule.message, "{kind} {}: another rule is broken as well", rule.name);
            let at_path = error.field == path || error.field.starts_with(path.trim_end_matches("[]"));
            assert!(at_path, "{kind} {}: {error:?}", rule.name);
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}

#[test]
fn every_rule_of_a_repository_lets_one_object_through_and_refuses_another() {
    check::<Repository, _>("repositories", repositories::RULES, "", |repository| repository);
}

#[test]
fn every_rule_of_a_connection_lets_one_object_through_and_refuses_another() {
    check::<Connection, _>("connections", connection::RULES, "", |connection| connection);
}

#[test]
fn every_rule_of_a_job_lets_one_object_through_and_refuses_another() {
    check::<Job, _>("jobs", jobs::RULES, "spec", |job| job.spec);
}

#[test]
fn what_was_broken_before_and_is_left_alone_is_let_through() {
    let repository = |branch: &str, title: &str| -> Repository {
        let spec = json!({ "title": title, "type": "git", "git": {
            "url": "https://git.example.com/a/b", "branch": branch } });
        serde_json::from_value(json!({ "metadata": { "name": "r" }, "spec": spec })).unwrap()
    };
    let errors = |new: &Repository, old: &Repository| broken(repositories::RULES, "", new, Some(old)).len();
    let old = repository("a..b", "T");
    assert_eq!(errors(&repository("a..b", "Other"), &old), 0, "the place of the rule did not change");
    assert_eq!(errors(&repository("c..d", "T"), &old), 1, "it did");
    assert_eq!(standing(repositories::RULES, "", &old).len(), 1, "and it is told of when asked for");
}

#[test]
fn rules_of_secrets_stand_on_the_secret_and_print_no_value() {
    let validation = connection::RULES[0][0].validation();
    assert_eq!(validation["reason"], "FieldValueForbidden");
    assert_eq!(validation["fieldPath"], ".create");
    assert!(validation["message"].as_str().unwrap().contains("secure.privateKey.name"));
}
