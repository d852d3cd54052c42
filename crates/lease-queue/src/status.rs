//! Typed job statuses onto untyped records, without touching what we do not know.

use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass_api::{JobState, JobStatus, patch as json};

/// The fields that [`JobStatus`] knows, and therefore removes when they are empty.
const KNOWN: [&str; 12] = [
    "state",
    "started",
    "finished",
    "message",
    "errors",
    "warnings",
    "progress",
    "progressUpdates",
    "summary",
    "files",
    "filesOmitted",
    "url",
];

/// The merge patch that makes `before` say `after`, or `None` when it does.
pub(crate) fn patch(before: &Value, after: &JobStatus) -> Option<Value> {
    json::merge_diff(&split(before).0.into(), &value(after))
}

/// The merge patch of a claim: nothing of an earlier attempt stays but the count of writes.
pub(crate) fn claimed(at: Timestamp) -> Value {
    let gone = KNOWN.into_iter().filter(|field| *field != "progressUpdates");
    let mut patch: Map<_, _> = gone.map(|field| (field.to_owned(), Value::Null)).collect();
    patch.insert("state".to_owned(), JobState::Working.as_str().into());
    patch.insert("started".to_owned(), at.as_millisecond().into());
    patch.into()
}

/// `before` with everything that we know replaced by `after`.
pub(crate) fn merged(before: &Value, after: &JobStatus) -> Value {
    let mut whole = split(before).1;
    if let Value::Object(after) = value(after) {
        whole.extend(after);
    }
    Value::Object(whole)
}

/// What we know of a status. A field that cannot be read makes all of them empty: better than to keep the job from ending.
pub(crate) fn typed(status: &Value) -> JobStatus {
    serde_json::from_value(status.clone()).unwrap_or_default()
}

/// How often the status was written so far.
pub(crate) fn progress_updates(status: &Value) -> i64 {
    status["progressUpdates"].as_i64().unwrap_or_default()
}

fn value(status: &JobStatus) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

/// The fields that we know, and the others.
fn split(status: &Value) -> (Map<String, Value>, Map<String, Value>) {
    let whole = status.as_object().cloned().unwrap_or_default();
    whole.into_iter().partition(|(field, _)| KNOWN.contains(&field.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_api::{FileOutcome, JobResourceSummary, RepositoryUrls};

    use super::*;

    #[test]
    fn every_field_of_the_type_is_known() {
        let full = JobStatus {
            state: JobState::Error,
            started: 1,
            finished: 2,
            message: "m".into(),
            errors: vec!["e".into()],
            warnings: vec!["w".into()],
            progress: 1.0,
            progress_updates: 3,
            summary: vec![JobResourceSummary::default()],
            files: vec![FileOutcome::default()],
            files_omitted: 4,
            urls: Some(RepositoryUrls::default()),
        };
        let fields: Vec<_> = value(&full).as_object().unwrap().keys().cloned().collect();
        let mut known = KNOWN.map(String::from).to_vec();
        known.sort();
        assert_eq!(fields, known);
    }

    #[test]
    fn a_claim_leaves_nothing_of_an_earlier_attempt() {
        let mut patch = claimed(Timestamp::from_second(7).unwrap());
        let said = json!({"state": patch["state"].take(), "started": patch["started"].take()});
        assert_eq!(said, json!({"state": "working", "started": 7000}));
        let fields = patch.as_object().unwrap();
        assert!(fields.values().all(Value::is_null));
        assert_eq!(fields.len(), KNOWN.len() - 1);
        assert!(!fields.contains_key("progressUpdates"));
    }

    #[test]
    fn a_patch_removes_what_is_no_longer_so_and_leaves_what_we_do_not_know() {
        let before = json!({"state": "error", "message": "old", "errors": ["x"], "theirs": {"a": 1}});
        let after = JobStatus { state: JobState::Working, started: 5, ..JobStatus::default() };
        assert_eq!(
            patch(&before, &after),
            Some(json!({"state": "working", "started": 5, "message": null, "errors": null}))
        );
        assert_eq!(merged(&before, &after), json!({"state": "working", "started": 5, "theirs": {"a": 1}}));
        assert_eq!(patch(&merged(&before, &after), &after), None);
    }
}
