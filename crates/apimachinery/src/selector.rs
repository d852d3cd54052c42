//! Label and field selectors, as they stand in a query string.

use serde_json::{Map, Value};

mod labels;

/// A parsed `labelSelector`: all requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<LabelRequirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelTest {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, String> {
        labels::parse(text).map(Self)
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Groups of terms of which each object that it selects has one at least: labels that must have one of some values.
    pub fn groups(&self) -> Vec<Vec<String>> {
        let group = |requirement: &LabelRequirement| match &requirement.test {
            LabelTest::In(values) => Some(values.iter().map(|value| term(&requirement.key, value)).collect()),
            _ => None,
        };
        self.0.iter().filter_map(group).collect()
    }

    /// Whether it selects an object with these labels.
    pub fn matches(&self, labels: &Map<String, Value>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key).and_then(Value::as_str);
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match &requirement.test {
                LabelTest::Exists => value.is_some(),
                LabelTest::Absent => value.is_none(),
                LabelTest::In(values) => value.is_some_and(|value| values.iter().any(|one| one == value)),
                LabelTest::NotIn(values) => !value.is_some_and(|value| values.iter().any(|one| one == value)),
                LabelTest::Greater(bound) => number().is_some_and(|number| number > *bound),
                LabelTest::Less(bound) => number().is_some_and(|number| number < *bound),
            }
        })
    }
}

/// The terms of an object with these labels, for an index.
pub fn label_terms(labels: &Map<String, Value>) -> Vec<String> {
    labels.iter().filter_map(|(key, value)| Some(term(key, value.as_str()?))).collect()
}

fn term(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

/// A parsed `fieldSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

/// The fields that objects of a kind can be selected by.
#[derive(Debug, Clone, Copy)]
pub struct Selectable<'a> {
    /// Beside metadata.name and metadata.namespace.
    pub paths: &'a [String],
    /// Whether the objects are in namespaces.
    pub namespaced: bool,
}

impl Selectable<'_> {
    fn allows(&self, path: &str) -> bool {
        match path {
            "metadata.name" => true,
            "metadata.namespace" => self.namespaced,
            path => self.paths.iter().any(|allowed| allowed == path),
        }
    }
}

impl FieldSelector {
    /// Reads one that names only what the kind can be selected by.
    pub fn parse(text: &str, selectable: Selectable<'_>) -> Result<Self, String> {
        let mut terms = Vec::new();
        for term in split_terms(text).filter(|term| !term.is_empty()) {
            let (path, value, equal) = split_term(term)
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let value = unescape(value).map_err(|problem| format!("invalid field selector: {problem}"))?;
            terms.push(FieldTerm { path: path.to_owned(), value, equal });
        }
        if let Some(FieldTerm { path, .. }) = terms.iter().find(|term| !selectable.allows(&term.path)) {
            return Err(format!("field label not supported: {path}"));
        }
        Ok(Self { terms })
    }

    /// The same selector in the names under which fields are stored.
    #[must_use]
    pub fn stored(mut self, renames: &[(&str, &str)]) -> Self {
        for term in &mut self.terms {
            let (first, rest) = term.path.split_at(term.path.find('.').unwrap_or(term.path.len()));
            if let Some((stored, _)) = renames.iter().find(|(_, served)| *served == first) {
                term.path = format!("{stored}{rest}");
            }
        }
        self
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The one name that can match, if the selector fixes it.
    pub fn name(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.path == "metadata.name")
            .map(|term| term.value.as_str())
    }

    /// Whether fields beside name and namespace are asked for, so that the object must be parsed.
    pub fn needs_object(&self) -> bool {
        self.terms.iter().any(|term| !term.path.starts_with("metadata."))
    }

    /// `object` may be null unless [`Self::needs_object`].
    pub fn matches(&self, name: &str, namespace: &str, object: &Value) -> bool {
        self.terms.iter().all(|term| {
            let found = match term.path.as_str() {
                "metadata.name" => name.to_owned(),
                "metadata.namespace" => namespace.to_owned(),
                path => field(object, path),
            };
            (found == term.value) == term.equal
        })
    }
}

/// The field at a dotted path, as text; absent is empty.
fn field(object: &Value, path: &str) -> String {
    // An Event's source is its component, or who reports it.
    if path == "source" {
        let component = object["source"]["component"].as_str().filter(|text| !text.is_empty());
        return component.or(object["reportingComponent"].as_str()).unwrap_or_default().to_owned();
    }
    let mut value = object;
    for step in path.split('.') {
        match value.get(step) {
            Some(inner) => value = inner,
            None => return String::new(),
        }
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Splits at commas that are not escaped; escapes stay.
fn split_terms(text: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    text.split(move |c| {
        let ends = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })
}

/// The path, the value as it stands, and whether it must be equal.
fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    let (path, value) = term.split_once('=')?;
    Some(match path.strip_suffix('!') {
        Some(path) => (path, value, false),
        None => (path, value.strip_prefix('=').unwrap_or(value), true),
    })
}

/// A value without its backslashes: only backslash, comma and equals sign may follow one, and the latter two must.
fn unescape(value: &str) -> Result<String, String> {
    let mut unescaped = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => unescaped.push(escaped),
                other => {
                    let shown: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid escape sequence: {shown}"));
                }
            },
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            _ => unescaped.push(c),
        }
    }
    Ok(unescaped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn every_form_of_a_label_selector_matches_as_kubernetes_does() {
        let set = labels(json!({ "a": "1", "b": "x", "c": "" }));
        for (selector, expected) in [
            ("", true),
            ("a=1", true),
            ("a==1,b=x", true),
            ("a=2", false),
            ("a!=2", true),
            ("z!=2", true),
            ("a in (1, 2)", true),
            ("a notin (1,2)", false),
            ("z notin (1)", true),
            ("a", true),
            ("z", false),
            ("!z", true),
            ("! a", false),
            ("a>0", true),
            ("a < 1", false),
            ("b>0", false),
            ("c=", true),
            ("c in (,x)", true),
            (" a , b ", true),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(&set), expected, "{selector}");
        }
    }

    #[test]
    fn a_bad_label_selector_is_a_bad_request() {
        for selector in ["a=1 b", "a in 1", "a in (1", "=x", "a>x", "a b", "-a=1", "a=b=c", "a,,b,=", "a=&"] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector}");
        }
    }

    #[test]
    fn field_selectors_know_their_fields() {
        let paths = ["spec.type".to_owned()];
        let selectable = Selectable { paths: &paths, namespaced: true };
        let object = json!({ "spec": { "type": "git" } });
        let matches =
            |text: &str| FieldSelector::parse(text, selectable).unwrap().matches("a", "default", &object);
        assert!(matches("metadata.name=a,metadata.namespace==default,spec.type=git"));
        assert!(matches("spec.type!=local"));
        assert!(!matches("metadata.name!=a"));
        assert!(FieldSelector::parse("spec.title=x", selectable).is_err());
        assert!(FieldSelector::parse("metadata.name", selectable).is_err());
        assert_eq!(FieldSelector::parse(r"metadata.name=a\,b", selectable).unwrap().name(), Some("a,b"));
    }
}
