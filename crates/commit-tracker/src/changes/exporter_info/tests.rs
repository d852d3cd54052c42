use std::fmt::Write as _;

use super::ExporterInfo;
use crate::changes::{Commit, Problem};

fn parse(payload: &str) -> ExporterInfo {
    ExporterInfo::parse(payload.as_bytes(), "a test", 10_000).expect("payload is read")
}

fn refused(payload: &str) -> String {
    let error = ExporterInfo::parse(payload.as_bytes(), "a test", 10_000).expect_err("payload is refused");
    assert_eq!(error.problem, Problem::Malformed, "{error}");
    error.message
}

fn commit(id: &str, merged: &str, summary: &str, author: &str) -> Commit {
    Commit {
        id: id.into(),
        merged: merged.parse().unwrap(),
        summary: summary.into(),
        author: author.into(),
        exported: None,
        traceparent: None,
    }
}

#[test]
fn todays_payload_is_read_with_everything_in_it() {
    let info = parse(
        r#"{"commit": "8c1d0f6e2b", "traceparent": "00-aa-bb-01",
            "commits_since_last_export": [
              {"hash": "b2", "summary": "second", "author": "B", "email": "b@example.org", "time": "2026-03-04T10:15:00+01:00"},
              {"hash": "a1", "summary": "first", "author": "A", "time": "2026-03-04T09:00:00.5Z", "sizes": [1, {"x": null}]}],
            "export_build_link": "https://ci.example.org/runs/77", "unknown": {"deep": [1, 2]}}"#,
    );
    assert_eq!(info.commit.as_deref(), Some("8c1d0f6e2b"));
    assert_eq!(info.traceparent.as_deref(), Some("00-aa-bb-01"));
    assert_eq!(info.build_link.as_deref(), Some("https://ci.example.org/runs/77"));
    let oldest_first = [
        commit("a1", "2026-03-04T09:00:00.5Z", "first", "A"),
        commit("b2", "2026-03-04T09:15:00Z", "second", "B"),
    ];
    assert_eq!(info.commits, oldest_first);
    assert!(!info.truncated);
}

#[test]
fn the_first_generations_keys_are_read_too() {
    let info = parse(
        r#"{"Commit": "8c", "commits_since_last_export": [
            {"Hash": "a1", "Message": "subject\n\nbody", "Author": "A", "Email": "e", "Time": "2026-03-04T09:00:00Z"}]}"#,
    );
    assert_eq!(info.commit.as_deref(), Some("8c"));
    assert_eq!(info.commits, [commit("a1", "2026-03-04T09:00:00Z", "subject", "A")]);
}

#[test]
fn an_export_of_nothing_has_no_commits() {
    for payload in [
        r#"{"commit": "8c", "commits_since_last_export": []}"#,
        r#"{"commit": "8c", "commits_since_last_export": null}"#,
        r#"{"commit": "8c"}"#,
    ] {
        assert!(parse(payload).commits.is_empty(), "{payload}");
    }
}

#[test]
fn a_hash_that_is_listed_twice_is_one_commit() {
    let twice = r#"{"hash": "a1", "time": "2026-03-04T09:00:00Z"}"#;
    assert_eq!(parse(&format!(r#"{{"commits_since_last_export": [{twice}, {twice}]}}"#)).commits.len(), 1);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let of = |commit: &str| format!("{{\"commit\": \"8c\",\n\"commits_since_last_export\": [{commit}]}}");
    for (payload, says) in [
        (String::new(), "EOF while parsing"),
        ("not json".into(), "line 1 column 2"),
        ("17".into(), "expected struct"),
        (r#"{"name": "package"}"#.into(), "neither commit nor"),
        (r#"{"commit": 5}"#.into(), "line 1 column 12"),
        (r#"{"commit": "a"} tail"#.into(), "trailing characters"),
        (of(r#"{"time": "2026-03-04T09:00:00Z"}"#), "missing field `hash`"),
        (of(r#"{"hash": "", "time": "2026-03-04T09:00:00Z"}"#), "printable"),
        (of(r#"{"hash": "a\u0007b", "time": "2026-03-04T09:00:00Z"}"#), "printable"),
        (of(r#"{"hash": "a1"}"#), "missing field `time`"),
        (of(r#"{"hash": "a1", "time": "yesterday"}"#), "line 2"),
        (of(r#"{"hash": "a1", "time": "2026-03-04T09:00:00"}"#), "line 2"),
        (of(r#"{"hash": "a1", "time": 17}"#), "invalid type: integer"),
        (format!("{{\"x\": {}", "[".repeat(100_000)), "EOF while parsing a list"),
    ] {
        let message = refused(&payload);
        assert!(message.contains(says), "{says}: {message}");
        assert!(message.starts_with("failed to read the exporter's payload of a test: "), "{message}");
        assert!(message.len() < 1_000 && !message.contains(char::is_control), "{message}");
    }
}

#[test]
fn the_newest_are_kept_of_too_many() {
    let mut list = String::new();
    for number in 0..25_000 {
        let (hour, rest) = (number / 3600, number % 3600);
        write!(
            list,
            r#"{{"hash":"c{number}","time":"2026-03-04T{hour:02}:{:02}:{:02}Z"}},"#,
            rest / 60,
            rest % 60
        )
        .unwrap();
    }
    let payload = format!(r#"{{"commits_since_last_export": [{}]}}"#, list.trim_end_matches(','));
    for (max, kept) in [(10_000, 10_000), (20_000, 20_000), (30_000, 25_000)] {
        let info = ExporterInfo::parse(payload.as_bytes(), "a test", max).unwrap();
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
    ));
    assert_eq!(
        info.build_link.map(|link| link.chars().count()),
        Some(513),
        "what is cut ends with an ellipsis"
    );
    assert_eq!(info.commits[0].summary, " [31mred");
}
