//! The differences that are meant, read from `intended.md`.
//!
//! The file is prose for readers; its fenced blocks marked `match` are what this reads. Each line of a block is
//! `key: pattern` where `*` stands for anything; keys are `script`, `step`, `path`, `real` and `embedded`, and one that
//! is left out matches everything. A block that matches nothing any more has to go.

use std::sync::atomic::{AtomicUsize, Ordering};

use regex::Regex;

use crate::diff::{Difference, shown};

/// All intended differences.
#[derive(Debug, Default)]
pub struct Intended {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The heading it stands under.
    title: String,
    line: usize,
    /// In the order of [`KEYS`].
    patterns: [Option<Regex>; 5],
    /// Random scripts meet it or do not.
    is_random: bool,
    hits: AtomicUsize,
}

const KEYS: [&str; 5] = ["script", "step", "path", "real", "embedded"];

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct IntendedError {
    /// Where.
    pub line: usize,
    /// Why.
    pub problem: String,
}

impl Intended {
    /// Reads the file's text.
    pub fn parse(text: &str) -> Result<Self, IntendedError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut title = String::new();
        let mut open: Option<Entry> = None;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let problem = |problem: String| IntendedError { line: number, problem };
            if let Some(heading) = line.strip_prefix("## ") {
                heading.trim().clone_into(&mut title);
            } else if line == "```match" {
                open = Some(Entry {
                    title: title.clone(),
                    line: number,
                    patterns: [const { None }; 5],
                    is_random: false,
                    hits: AtomicUsize::new(0),
                });
            } else if line == "```" {
                entries.extend(open.take());
            } else if let Some(entry) = &mut open {
                let (key, pattern) =
                    line.split_once(':').ok_or_else(|| problem(format!("no `:` in {line:?}")))?;
                let place = KEYS
                    .iter()
                    .position(|known| *known == key)
                    .ok_or_else(|| problem(format!("{key:?} is none of {KEYS:?}")))?;
                entry.is_random |= key == "script" && pattern.trim().starts_with("generated/");
                entry.patterns[place] =
                    Some(glob(pattern.trim()).map_err(|error| problem(error.to_string()))?);
            }
        }
        Ok(Self { entries })
    }

    /// Whether a difference is meant.
    pub fn covers(&self, script: &str, step: &str, difference: &Difference) -> bool {
        let (real, embedded) = (shown(difference.real.as_ref()), shown(difference.embedded.as_ref()));
        let texts = [script, step, &difference.path, &real, &embedded];
        let mut covered = false;
        for entry in &self.entries {
            let matches = entry
                .patterns
                .iter()
                .zip(texts)
                .all(|(pattern, text)| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text)));
            if matches {
                entry.hits.fetch_add(1, Ordering::Relaxed);
                covered = true;
            }
        }
        covered
    }

    /// The entries that matched nothing so far: heading and line.
    pub fn unused(&self) -> Vec<String> {
        self.entries
            .iter()
            .filter(|entry| !entry.is_random && entry.hits.load(Ordering::Relaxed) == 0)
            .map(|entry| format!("line {} under {:?}", entry.line, entry.title))
            .collect()
    }
}

/// `*` is anything, the rest is itself.
fn glob(pattern: &str) -> Result<Regex, regex::Error> {
    let parts: Vec<String> = pattern.split('*').map(regex::escape).collect();
    Regex::new(&format!("(?s)^{}$", parts.join(".*")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "\
## Namespaces are implicit

Because.

```match
script: namespaces/*
path: .status
real: 404
```

```match
script: generated/*
```
";

    fn difference(path: &str, real: u16) -> Difference {
        Difference { path: path.to_owned(), real: Some(json!(real)), embedded: None }
    }

    #[test]
    fn an_entry_covers_exactly_what_it_names_and_is_unused_until_then() {
        let intended = Intended::parse(TEXT).unwrap();
        assert_eq!(intended.unused(), ["line 5 under \"Namespaces are implicit\""]);
        assert!(!intended.covers("namespaces/a", "GET x", &difference(".status", 200)));
        assert!(!intended.covers("other/a", "GET x", &difference(".status", 404)));
        assert!(!intended.covers("namespaces/a", "GET x", &difference(".statuses", 404)));
        assert_eq!(intended.unused().len(), 1);
        assert!(intended.covers("namespaces/a", "GET x", &difference(".status", 404)));
        assert_eq!(intended.unused(), Vec::<String>::new());
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_line() {
        assert_eq!(Intended::parse("```match\nwhere: x\n```").unwrap_err().line, 2);
    }
}
