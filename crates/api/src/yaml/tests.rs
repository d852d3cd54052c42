use std::fmt::Write as _;

use serde_json::{Value, json};

use super::*;

fn value(text: &str) -> Value {
    parse(&format!("v: {text}\n")).unwrap()["v"].clone()
}

/// The table of what bites: how scalars are read that YAML 1.1 and 1.2 see differently.
#[test]
fn scalars_are_read_as_manifests_mean_them() {
    for (text, expected) in [
        ("0644", json!(420)),
        ("0o644", json!(420)),
        ("on", json!(true)),
        ("y", json!(true)),
        ("no", json!(false)),
        ("true", json!(true)),
        ("1_000", json!(1000)),
        ("12:30:45", json!("12:30:45")),
        ("1.5", json!(1.5)),
        ("\"0644\"", json!("0644")),
        ("'on'", json!("on")),
        ("~", json!(null)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("2026-01-02", json!("2026-01-02")),
        ("{a: [1, 2]}", json!({ "a": [1, 2] })),
    ] {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn merge_keys_are_merged() {
    let text = "base: &base {a: 1, b: 2}\nother:\n  <<: *base\n  b: 3\n";
    assert_eq!(parse(text).unwrap()["other"], json!({ "a": 1, "b": 3 }));
}

#[test]
fn duplicate_keys_are_refused_with_their_place() {
    let error = parse("a: 1\nb: 2\na: 3\n").unwrap_err().to_string();
    assert!(error.contains('a') && error.contains("line 3"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn text_that_is_no_yaml_is_refused_in_one_line() {
    for text in
        ["a: [1, 2", "a: b: c", "a:\n\tb: 1", "a: &b *b", "--- a\n--- b\n", "{", "a: .inf", "a: \"\\q\""]
    {
        let error = parse(text).map(|value| panic!("{text:?} gave {value}")).unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{text:?}: {error:?}");
    }
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{inner}]").unwrap();
    }
    parse(&text).unwrap_err();
}

#[test]
fn deep_nesting_is_refused() {
    parse(&"[".repeat(100_000)).unwrap_err();
    let mut block = String::new();
    for depth in 0..1_000 {
        writeln!(block, "{}a:", " ".repeat(depth)).unwrap();
    }
    parse(&block).unwrap_err();
}

#[test]
fn what_is_written_is_read_back_the_same() {
    let value = json!({
        "on": "yes", "y": "1_000", "time": "12:30:45", "octal": "0644", "empty": "", "null": "null",
        "multi": "a\nb\n", "spaces": "  x  ", "long": "word ".repeat(60), "colon": "a: b", "hash": "a #b",
        "list": [[], {}, [1, 2.5, true, null]], "unicode": "żółć \u{1F600}", "tilde": "~", "dash": "- a",
        "percent": "%a", "tab": "a\tb", "quote": "it's \"x\"", "float": "1e3", "hex": "0x1f"
    });
    let text = to_string(&value).unwrap();
    assert_eq!(parse(&text).unwrap(), value, "{text}");
}
