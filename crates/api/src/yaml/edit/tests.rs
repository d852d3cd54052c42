use std::fmt::Write as _;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::*;

const FILE: &str = "\
# About the whole.
apiVersion: dashboard.grafana.app/v1beta1
kind: Dashboard
metadata: {name: cpu, labels: {team: a}}   # in brackets
spec:
  title: CPU  # by core
  tags: [one, two]
  # The panels.
  panels:
    - id: 1   # the first
      title: \"Load\"
    # Between them.
    - id: 2
      text: |
        several
        lines
  max: 1.50
# At the end.
";

#[track_caller]
fn check(change: impl FnOnce(&mut Value), expected: &[(&str, &str)]) {
    let mut wanted = super::super::parse(FILE).unwrap();
    change(&mut wanted);
    let text = expected.iter().fold(FILE.to_owned(), |text, (old, new)| {
        assert_eq!(text.matches(old).count(), 1, "{old}");
        text.replace(old, new)
    });
    assert_eq!(edited(FILE, &wanted).unwrap(), text);
}

#[test]
fn a_value_is_changed_where_it_stands() {
    check(|said| said["spec"]["title"] = json!("Disk"), &[("title: CPU", "title: Disk")]);
    check(|said| said["spec"]["title"] = json!("yes # no"), &[("title: CPU", "title: \"yes # no\"")]);
    check(|said| said["spec"]["panels"][0]["title"] = json!("Disk"), &[("\"Load\"", "\"Disk\"")]);
    check(|said| said["metadata"]["labels"]["team"] = json!("b"), &[("team: a", "team: \"b\"")]);
    check(|said| said["spec"]["tags"][1] = json!(2), &[("one, two", "one, 2")]);
    check(
        |said| said["spec"]["panels"][1]["text"] = json!("one"),
        &[("text: |\n        several\n        lines", "text: one")],
    );
    check(|said| said["spec"]["max"] = json!({"a": [1]}), &[("max: 1.50", "max:\n    a:\n    - 1")]);
    check(|_| {}, &[]);
}

#[test]
fn keys_and_items_come_and_go_with_their_lines() {
    check(|said| drop(said["spec"].as_object_mut().unwrap().remove("max")), &[("  max: 1.50\n", "")]);
    check(|said| said["spec"]["min"] = json!(0), &[("max: 1.50\n", "max: 1.50\n  min: 0\n")]);
    check(
        |said| drop(said["spec"]["panels"].as_array_mut().unwrap().pop()),
        &[("    - id: 2\n      text: |\n        several\n        lines\n", "")],
    );
    check(
        |said| said["spec"]["panels"].as_array_mut().unwrap().push(json!({"id": 3, "x": [1]})),
        &[("        lines\n", "        lines\n    - id: 3\n      x:\n      - 1\n")],
    );
    check(
        |said| drop(said["spec"]["panels"][0].as_object_mut().unwrap().remove("id")),
        &[("- id: 1   # the first\n", "- \n")],
    );
    check(|said| said["spec"]["tags"] = json!(["one"]), &[("[one, two]", "[\"one\"]")]);
}

#[test]
fn what_stands_for_something_elsewhere_is_not_edited() {
    let text = "a: &x {b: 1}\nc: *x\n";
    assert_eq!(edited(text, &json!({"a": {"b": 1}, "c": {"b": 2}})), None);
    assert_eq!(edited("- 1\n- 2\n", &json!({"a": 1})), None);
    assert_eq!(edited("a: 1\n", &json!({"b": 1})), None, "nothing would stay");
    assert_eq!(edited("a: [\n", &json!({})), None, "no YAML");
}

/// A random document with comments.
struct Written {
    random: StdRng,
    text: String,
    /// Each comment, with the path of the entry that it stands above or behind.
    comments: Vec<(String, Vec<String>)>,
}

impl Written {
    fn new(seed: u64) -> (Self, Value) {
        let mut written =
            Self { random: StdRng::seed_from_u64(seed), text: String::new(), comments: Vec::new() };
        let mut value = json!({"kept": 1});
        for number in 0..written.random.random_range(1..5) {
            value[format!("k{number}")] = written.any(3);
        }
        written.mapping(&value, &mut Vec::new(), 0, false);
        (written, value)
    }

    fn any(&mut self, depth: u32) -> Value {
        match self.random.random_range(0..if depth == 0 { 6 } else { 9 }) {
            0 => json!(null),
            1 => json!(self.random.random_range(-9..9)),
            2 => json!(self.random.random_bool(0.5)),
            3 => json!("plain text"),
            4 => json!(
                ["yes", "", "a: b", "# c", "- d", "{e", "1", "ä\tb", " x "][self.random.random_range(0..9)]
            ),
            5 => json!("line one\nline two\n"),
            6 => (0..self.random.random_range(0..4)).map(|_| self.any(depth - 1)).collect(),
            _ => {
                (0..self.random.random_range(0..4)).map(|n| (format!("k{n}"), self.any(depth - 1))).collect()
            }
        }
    }

    fn comment(&mut self, path: &[String]) -> String {
        let comment = format!("# comment {}.", self.comments.len());
        self.comments.push((comment.clone(), path.to_vec()));
        comment
    }

    fn above(&mut self, path: &[String], column: usize) {
        if self.random.random_bool(0.3) {
            let comment = self.comment(path);
            writeln!(self.text, "{}{comment}", " ".repeat(column)).unwrap();
        }
    }

    fn mapping(&mut self, value: &Value, path: &mut Vec<String>, column: usize, mut behind_dash: bool) {
        for (key, value) in value.as_object().unwrap() {
            path.push(key.clone());
            if !behind_dash {
                self.above(path, column);
                self.text.push_str(&" ".repeat(column));
            }
            behind_dash = false;
            self.text.push_str(key);
            self.text.push(':');
            self.value(value, path, column + 2);
            path.pop();
        }
    }

    fn value(&mut self, value: &Value, path: &mut Vec<String>, column: usize) {
        let is_flow = self.random.random_bool(0.2);
        match value {
            Value::Object(entries) if !entries.is_empty() && !is_flow => {
                self.end_of_line(path);
                self.mapping(value, path, column, false);
            }
            Value::Array(items) if !items.is_empty() && !is_flow => {
                self.end_of_line(path);
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.above(path, column);
                    write!(self.text, "{}-", " ".repeat(column)).unwrap();
                    if item.as_object().is_some_and(|item| !item.is_empty()) && self.random.random_bool(0.7) {
                        self.text.push(' ');
                        self.mapping(item, path, column + 2, true);
                    } else {
                        self.value(item, path, column + 2);
                    }
                    path.pop();
                }
            }
            Value::String(text) if text.ends_with('\n') && self.random.random_bool(0.7) => {
                self.text.push_str(" |\n");
                for line in text.lines() {
                    writeln!(self.text, "{}{line}", " ".repeat(column)).unwrap();
                }
            }
            scalar => {
                let quoted = self.random.random_bool(0.3);
                write!(self.text, " {}", inline(scalar, quoted).unwrap()).unwrap();
                self.end_of_line(path);
            }
        }
    }

    fn end_of_line(&mut self, path: &[String]) {
        if self.random.random_bool(0.3) {
            let comment = self.comment(path);
            write!(self.text, "  {comment}").unwrap();
        }
        self.text.push('\n');
    }

    /// Changes a value somewhere, and says what it is the path of that may lose its comments.
    fn mutate(&mut self, value: &mut Value, path: &mut Vec<String>) -> Vec<String> {
        let deeper = self.random.random_bool(0.7);
        match value {
            Value::Object(entries) if !entries.is_empty() => {
                let keys: Vec<String> = entries.keys().cloned().collect();
                let key = keys[self.random.random_range(0..keys.len())].clone();
                path.push(key.clone());
                if deeper && let Some(inner) = entries.get_mut(&key) {
                    return self.mutate(inner, path);
                }
                if self.random.random_bool(0.5) {
                    path.pop();
                    let new = self.any(2);
                    entries.insert(format!("new{}", keys.len()), new);
                    path.push("nothing".to_owned());
                } else if keys.len() > 1 && key != "kept" {
                    entries.remove(&key);
                } else if key != "kept" {
                    path.pop();
                    *value = self.any(1);
                } else {
                    entries.insert(key, json!("changed"));
                }
            }
            Value::Array(items) if !items.is_empty() => {
                if deeper {
                    let index = self.random.random_range(0..items.len());
                    path.push(index.to_string());
                    return self.mutate(&mut items[index], path);
                }
                if self.random.random_bool(0.5) || items.len() == 1 {
                    items.push(self.any(2));
                    path.push("nothing".to_owned());
                } else {
                    path.push((items.len() - 1).to_string());
                    items.pop();
                }
            }
            scalar => *scalar = self.any(2),
        }
        path.clone()
    }
}

#[test]
fn random_edits_leave_every_comment_that_is_not_of_what_they_change() {
    let mut in_places = 0;
    for seed in 0..3_000 {
        let (mut written, before) = Written::new(seed);
        let text = written.text.clone();
        assert_eq!(super::super::parse(&text).unwrap(), before, "seed {seed}: {text}");
        let mut wanted = before.clone();
        let changed: Vec<_> = (0..written.random.random_range(1..4))
            .map(|_| written.mutate(&mut wanted, &mut Vec::new()))
            .collect();
        let Some(result) = edited(&text, &wanted) else {
            panic!("seed {seed}: not in places\n{text}\n{wanted:#}");
        };
        in_places += 1;
        assert!(is_same(&super::super::parse(&result).unwrap(), &wanted), "seed {seed}\n{text}\n{result}");
        for (comment, of) in &written.comments {
            let kept = !changed.iter().any(|path| of.starts_with(path));
            assert!(!kept || result.contains(comment), "seed {seed}: {comment} is gone\n{text}\n{result}");
        }
    }
    assert_eq!(in_places, 3_000);
}
