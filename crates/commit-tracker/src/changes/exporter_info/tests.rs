use std::fmt::Write as _;

use super::parse as read;
use crate::changes::{Changes, ChangesError, Commit, Problem};

fn parse(payload: &str) -> Result<Changes, ChangesError> {
    read(payload.as_bytes(), "a test", 10_000)
}

/// The payload with these commits, as JSON.
fn with(commits: &str) -> String {
    format!("{{\"commit\": \"8c\",\n\"commits_since_last_export\": [{commits}]}}")
}

#[test]
fn payloads_of_every_generation_are_read_with_everything_in_them() {
    let today = r#"{"commit": "8c", "traceparent": "00-aa-bb-01",
        "commits_since_last_export": [
          {"hash": "b2", "summary": "second", "author": "B", "email": "b@example.org", "time": "2026-03-04T10:15:00+01:00"},
          {"hash": "a1", "summary": "first", "author": "A", "time": "2026-03-04T09:00:00.5Z", "sizes": [1, {"x": null}]},
          {"hash": "a1", "summary": "again", "author": "A", "time": "2026-03-04T09:00:00.5Z"}],
        "export_build_link": "https://ci.example.org/runs/77", "unknown": {"deep": [1, 2]}}"#;
    let first = r#"{"Commit": "8c", "commits_since_last_export": [
        {"Hash": "a1", "Message": "first\n\nbody", "Author": "A", "Email": "e", "Time": "2026-03-04T09:00:00.5Z"}]}"#;
    let commit = |id: &str, merged: &str, summary: &str, author: &str| {
        let (summary, author) = (summary.to_owned(), author.to_owned());
        Commit { summary, author, ..Commit::new(id, merged.parse().unwrap()) }
    };
    let exported = || Changes { exported_as: Some("8c".to_owned()), ..Changes::default() };
    let a = commit("a1", "2026-03-04T09:00:00.5Z", "first", "A");
    let b = commit("b2", "2026-03-04T09:15:00Z", "second", "B");
    let whole = Changes {
        commits: vec![a.clone(), b],
        build_link: Some("https://ci.example.org/runs/77".to_owned()),
        traceparent: Some("00-aa-bb-01".to_owned()),
        ..exported()
    };
    for (payload, expected) in [
        (today, whole),
        (first, Changes { commits: vec![a], ..exported() }),
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
    let mut list = String::new();
    for number in 0..25_000 {
        let (hour, minute, second) = (number / 3600, number / 60 % 60, number % 60);
        let time = format!("2026-03-04T{hour:02}:{minute:02}:{second:02}Z");
        write!(list, r#"{{"hash":"c{number}","time":"{time}"}},"#).unwrap();
    }
    let payload = with(list.trim_end_matches(','));
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
    let length = info.build_link.map(|link| link.chars().count());
    assert_eq!(length, Some(513), "what is cut ends with an ellipsis");
    assert_eq!(info.commits[0].summary, " [31mred");
}
