use serde_json::{Value, json};

use super::*;
use crate::Secret;

fn logged(format: LogFormat, filter: &str, log: impl FnOnce()) -> String {
    let captured = CapturedLog::start(format, filter).unwrap();
    log();
    captured.text()
}

/// The lines as JSON, without their times.
fn json_lines(filter: &str, log: impl FnOnce()) -> Vec<Value> {
    let text = logged(LogFormat::Json, filter, log);
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        let time = line.as_object_mut().unwrap().remove("time").expect("a time");
        time.as_str().unwrap().parse::<jiff::Timestamp>().expect("an RFC 3339 time");
    }
    lines
}

#[test]
fn a_json_line_starts_with_time_level_message_and_logger() {
    let text = logged(LogFormat::Json, "info", || {
        tracing::info!(logger = "provisioning-job-controller", "job create notification received");
    });
    let (time, rest) = text.split_at(r#"{"time":"2026-01-01T00:00:00.000000Z""#.len());
    assert!(time.starts_with(r#"{"time":""#), "{text}");
    assert_eq!(
        rest,
        ",\"level\":\"info\",\"msg\":\"job create notification received\",\"logger\":\"provisioning-job-controller\"}\n"
    );
}

#[test]
fn the_logger_is_the_events_then_the_nearest_spans_then_the_target() {
    let lines = json_lines("info", || {
        tracing::info!(target: "windlass_x", "plain");
        let outer = tracing::info_span!("outer", logger = "outer-logger").entered();
        let inner = tracing::info_span!("inner").entered();
        tracing::info!("in spans");
        tracing::info!(logger = "own", "own");
        drop((inner, outer));
    });
    let loggers: Vec<_> = lines.iter().map(|line| line["logger"].as_str().unwrap()).collect();
    assert_eq!(loggers, ["windlass_x", "outer-logger", "own"]);
}

#[test]
fn fields_of_spans_are_flat_and_the_innermost_wins() {
    let lines = json_lines("info", || {
        let outer =
            tracing::info_span!("job", job.name = "test-sync", attempt = 1, late = tracing::field::Empty);
        outer.record("late", 7);
        let _outer = outer.entered();
        let _inner = tracing::info_span!("stage", attempt = 2, stage = "apply").entered();
        tracing::warn!(stage = "delete", ok = true, ratio = 0.5, list = ?[1, 2], nan = f64::NAN, "over");
    });
    assert_eq!(
        lines,
        [json!({
            "level": "warn", "msg": "over", "logger": "windlass_telemetry::log::tests",
            "job.name": "test-sync", "attempt": 2, "late": 7, "stage": "delete",
            "ok": true, "ratio": 0.5, "list": "[1, 2]", "nan": "NaN",
        })]
    );
}

#[test]
fn a_field_named_like_a_key_does_not_replace_it() {
    let lines =
        json_lines("info", || tracing::info!(logger = "l", level = "fake", msg = "fake", time = 1, "real"));
    assert_eq!(
        lines,
        [
            json!({"level": "info", "msg": "real", "logger": "l", "field_level": "fake", "field_msg": "fake", "field_time": 1})
        ]
    );
}

#[test]
fn a_line_stays_one_line_and_valid_json_whatever_it_says() {
    let text = logged(LogFormat::Json, "info", || {
        tracing::info!(value = "a\"b\nc\u{1b}[31m", "new\nline \\ \"quoted\"");
    });
    assert_eq!(text.lines().count(), 1);
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["msg"], "new\nline \\ \"quoted\"");
    assert_eq!(line["value"], "a\"b\nc\u{1b}[31m");
}

#[test]
fn an_error_field_is_printed_with_its_causes() {
    let error = InitLogsError::ParseFilter {
        filter: "x".into(),
        source: EnvFilter::builder().parse("a=b=c").unwrap_err(),
    };
    let lines =
        json_lines("info", || tracing::info!(error = &error as &(dyn std::error::Error + 'static), "failed"));
    let text = lines[0]["error"].as_str().unwrap();
    assert!(text.contains("windlass_git=debug: error parsing"), "{text}");
}

#[test]
fn the_filter_takes_a_level_and_directives_by_target() {
    let log = || {
        tracing::debug!(target: "windlass_git::wire", "git");
        tracing::debug!(target: "windlass_auth", "auth debug");
        tracing::warn!(target: "windlass_auth", "auth warn");
    };
    let messages = |filter| {
        let lines = json_lines(filter, log);
        lines.iter().map(|line| line["msg"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(messages("debug"), ["git", "auth debug", "auth warn"]);
    assert_eq!(messages("error"), [""; 0]);
    assert_eq!(messages("error,windlass_git=debug"), ["git"]);
    assert_eq!(messages(""), ["auth warn"]);
}

#[test]
fn a_bad_filter_is_an_error_that_says_what_was_expected() {
    let error = CapturedLog::start(LogFormat::Json, "loud=very=much").expect_err("an error");
    assert!(error.to_string().contains("info,windlass_git=debug"), "{error}");
}

#[test]
fn pretty_lines_show_level_target_message_and_fields() {
    let text = logged(LogFormat::Pretty { ansi: false }, "info", || {
        let _span = tracing::info_span!("job", name = "a").entered();
        tracing::info!(target: "windlass_x", count = 3, "claimed");
    });
    assert!(text.contains("INFO job{name=\"a\"}: windlass_x: claimed count=3"), "{text}");
    assert!(!text.contains('\u{1b}'), "no colours were asked for: {text}");
}

#[test]
fn a_secret_prints_as_redacted_in_every_format() {
    for format in [LogFormat::Json, LogFormat::Pretty { ansi: true }] {
        let secret = Secret::from("hunter2".to_owned());
        let text = logged(format, "trace", || {
            let _span = tracing::info_span!("call", token = ?secret).entered();
            tracing::info!(token = ?secret, nested = ?Some(&secret), "called with {secret:?}");
        });
        assert!(text.contains("REDACTED") && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn log_formats_have_names() {
    assert_eq!("json".parse::<LogFormat>().unwrap(), LogFormat::Json);
    assert_eq!("pretty".parse::<LogFormat>().unwrap(), LogFormat::Pretty { ansi: false });
    assert!("text".parse::<LogFormat>().is_err());
}
