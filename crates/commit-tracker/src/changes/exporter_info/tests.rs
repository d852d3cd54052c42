use std::time::Duration;

use super::parse as read;
use crate::changes::{Changes, ChangesError, Commit, Problem};
use crate::given::at;

fn parse(payload: &str) -> Result<Changes, ChangesError> {
    read(payload.as_bytes(), "a test", 10_000)
}

/// The payload with these commits, as JSON.
fn with(commits: &str) -> String {
    format!("{{\"commit\": \"8c\",\n\"commits_since_last_export\": [{commits}]}}")
}

#[test]
fn payloads_of_every_generation_are_read_with_everything_in_them() {
    let commit = |id: &str, merged: &str, summary: &str, author: &str| {
        let (summary, author) = (summary.to_owned(), author.to_owned());
        Commit { summary, author, ..Commit::new(id, at(merged)) }
    };
    let exported = || Changes { exported_as: Some("8c".to_owned()), ..Changes::default() };
    let a = commit("a1", "09:00:00.5", "first", "A");
    let b = commit("b2", "09:15:00", "second", "B");
    let whole = Changes {
        commits: vec![a.clone(), b],
        build_link: Some("https://ci.example.org/runs/77".to_owned()),
        traceparent: Some("00-aa-bb-01".to_owned()),
        ..exported()
    };
    for (payload, expected) in [
        (include_str!("fixtures/today.json"), whole),
        (include_str!("fixtures/first.json"), Changes { commits: vec![a], ..exported() }),
        // An export of nothing.
        (r#"{"commit": "8c", "commits_since_last_export": []}"#, exported()),
        (r#"{"commit": "8c", "commits_since_last_export": null}"#, exported()),
        (r#"{"commit": "8c"}"#, exported()),
    ] {
        assert_eq!(parse(payload).unwrap(), expected, "{payload}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (payload, says) in [
        (String::new(), "EOF while parsing"),
        ("not json".into(), "line 1 column 2"),
        ("17".into(), "expected struct"),
        (r#"{"name": "package"}"#.into(), "neither commit nor"),
        (r#"{"commit": 5}"#.into(), "line 1 column 12"),
        (r#"{"commit": "a"} tail"#.into(), "trailing characters"),
        (with(r#"{"time": "2026-03-04T09:00:00Z"}"#), "missing field `hash`"),
        (with(r#"{"hash": "", "time": "2026-03-04T09:00:00Z"}"#), "printable"),
        (with(r#"{"hash": "a\u0007b", "time": "2026-03-04T09:00:00Z"}"#), "printable"),
        (with(r#"{"hash": "a1"}"#), "missing field `time`"),
        (with(r#"{"hash": "a1", "time": "yesterday"}"#), "line 2"),
        (with(r#"{"hash": "a1", "time": "2026-03-04T09:00:00"}"#), "line 2"),
        (with(r#"{"hash": "a1", "time": 17}"#), "invalid type: integer"),
        (format!("{{\"x\": {}", "[".repeat(100_000)), "EOF while parsing a list"),
    ] {
        let error = parse(&payload).unwrap_err();
        let message = &error.message;
        assert!(error.problem == Problem::Malformed && message.contains(says), "{says}: {message}");
        assert!(message.starts_with("failed to read the exporter's payload of a test: "), "{message}");
        assert!(message.len() < 1_000 && !message.contains(char::is_control), "{message}");
    }
}

#[test]
fn the_newest_are_kept_of_too_many() {
    let commit = |number: u32| {
        let time = at("00:00:00") + Duration::from_secs(number.into());
        format!(r#"{{"hash":"c{number}","time":"{time}"}}"#)
    };
    let payload = with(&(0..25_000).map(commit).collect::<Vec<_>>().join(","));
    for (max, kept) in [(10_000, 10_000), (20_000, 20_000), (30_000, 25_000)] {
        let info = read(payload.as_bytes(), "a test", max).unwrap();
        assert_eq!((info.commits.len(), info.truncated), (kept, max < 25_000));
        assert_eq!(info.commits[0].id, format!("c{}", 25_000 - kept));
        assert_eq!(info.commits[kept - 1].id, "c24999");
    }
}

#[test]
fn strangers_texts_are_one_short_line() {
    let long = "x".repeat(5_000);
    let info = parse(&format!(
        r#"{{"export_build_link": "{long}", "commits_since_last_export": [
            {{"hash": "a1", "summary": "  \u001b[31mred\n{long}", "time": "2026-03-04T09:00:00Z"}}]}}"#
    ))
    .unwrap();
    // What is cut ends with an ellipsis.
    assert_eq!(info.build_link.map(|link| link.chars().count()), Some(513));
    assert_eq!(info.commits[0].summary, " [31mred");
}
