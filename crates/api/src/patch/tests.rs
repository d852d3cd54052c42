use proptest::prelude::*;
use serde_json::json;

use super::*;

fn applied(mut before: Value, patch: Option<Value>) -> Value {
    if let Some(patch) = patch {
        json_patch::merge(&mut before, &patch);
    }
    before
}

#[test]
fn only_what_changed_is_in_the_patch() {
    let before = json!({ "a": 1, "b": { "c": 2, "d": [1, 2] }, "e": "x" });
    let after = json!({ "a": 1, "b": { "c": 3, "d": [1, 2] }, "f": { "g": null, "h": 1 } });
    let patch = merge_diff(&before, &after);
    assert_eq!(patch, Some(json!({ "b": { "c": 3 }, "e": null, "f": { "h": 1 } })));
    assert_eq!(merge_diff(&before, &before), None);
}

#[test]
fn fields_that_a_type_does_not_know_survive_a_change_through_the_type() {
    let stored = json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Job",
        "metadata": { "name": "a", "unknownMeta": 1 },
        "spec": { "action": "pull", "repository": "r", "pull": { "incremental": true, "later": [1] }, "new": {} },
        "status": { "state": "working", "soon": "x" }
    });
    let job: crate::Job = serde_json::from_value(stored.clone()).unwrap();
    let mut changed = job.clone();
    changed.status.state = crate::JobState::Success;
    let patch =
        merge_diff(&serde_json::to_value(&job).unwrap(), &serde_json::to_value(&changed).unwrap()).unwrap();
    assert_eq!(patch, json!({ "status": { "state": "success" } }));
    let mut expected = stored.clone();
    expected["status"]["state"] = json!("success");
    assert_eq!(applied(stored, Some(patch)), expected);
}

#[test]
fn replacing_a_value_by_an_object_keeps_no_nulls() {
    for (before, after) in [
        (json!({ "a": 1 }), json!({ "a": { "b": null, "c": { "d": null } } })),
        (json!({}), json!({ "a": {} })),
        (json!({ "a": { "b": 1 } }), json!({ "a": {} })),
        (json!({ "a": [1] }), json!({ "a": [null] })),
        (json!({ "a": { "b": 1 } }), json!({ "a": 1 })),
    ] {
        let patch = merge_diff(&before, &after);
        assert_eq!(applied(before, patch), without_nulls(&after));
    }
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn applying_the_difference_gives_the_target(before in document(), after in document()) {
        let patch = merge_diff(&before, &after);
        let result = applied(before, patch);
        prop_assert_eq!(without_nulls(&result), without_nulls(&after));
    }

    #[test]
    fn there_is_no_difference_between_a_document_and_itself(document in document()) {
        prop_assert_eq!(merge_diff(&document, &document), None);
    }
}
