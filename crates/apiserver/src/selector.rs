//! Label and field selectors, as they stand in a query string.

use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::names;

/// A parsed `labelSelector`: all requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<LabelRequirement>);

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
    pub(crate) fn parse(text: &str) -> Result<Self> {
        Parser { rest: text }
            .selector()
            .map_err(|problem| Failure::bad_request(format!("unable to parse requirement: {problem}")))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Map<String, Value>) -> bool {
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

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn selector(mut self) -> Result<LabelSelector, String> {
        let mut requirements = Vec::new();
        loop {
            self.skip_blanks();
            if self.rest.is_empty() {
                return Ok(LabelSelector(requirements));
            }
            requirements.push(self.requirement()?);
            self.skip_blanks();
            if !self.take(",") && !self.rest.is_empty() {
                return Err(format!("found '{}', expected: ',' or 'end of string'", self.word_or_char()));
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        if self.take("!") {
            self.skip_blanks();
            let key = self.key()?;
            return Ok(LabelRequirement { key, test: LabelTest::Absent });
        }
        let key = self.key()?;
        self.skip_blanks();
        let test = if self.rest.is_empty() || self.rest.starts_with(',') {
            LabelTest::Exists
        } else if self.take("==") || self.take("=") {
            LabelTest::In(vec![self.value()?])
        } else if self.take("!=") {
            LabelTest::NotIn(vec![self.value()?])
        } else if self.take(">") {
            LabelTest::Greater(self.number()?)
        } else if self.take("<") {
            LabelTest::Less(self.number()?)
        } else {
            match self.word() {
                "in" => LabelTest::In(self.values()?),
                "notin" => LabelTest::NotIn(self.values()?),
                _ => {
                    return Err(format!(
                        "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                        self.word_or_char()
                    ));
                }
            }
        };
        Ok(LabelRequirement { key, test })
    }

    fn key(&mut self) -> Result<String, String> {
        let key = self.word();
        if key.is_empty() {
            return Err(format!("found '{}', expected: identifier", self.word_or_char()));
        }
        match names::qualified_problems(key).first() {
            None => Ok(key.to_owned()),
            Some(problem) => Err(format!("key: Invalid value: {key:?}: {problem}")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        self.skip_blanks();
        let value = self.word();
        match names::label_value_problems(value).first() {
            None => Ok(value.to_owned()),
            Some(problem) => Err(format!("values[0]: Invalid value: {value:?}: {problem}")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        })
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        self.skip_blanks();
        if !self.take("(") {
            return Err(format!("found '{}', expected: '('", self.word_or_char()));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            self.skip_blanks();
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(format!("found '{}', expected: ',' or ')'", self.word_or_char()));
            }
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        let end =
            self.rest.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// What stands here, for an error.
    fn word_or_char(&mut self) -> &'a str {
        let end = self.rest.chars().next().map_or(0, char::len_utf8);
        match self.word() {
            "" => &self.rest[..end],
            word => word,
        }
    }
}

/// A parsed `fieldSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<FieldTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldTerm {
    path: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// `selectable` are the paths that the kind allows beside metadata.name and metadata.namespace.
    pub(crate) fn parse(text: &str, selectable: &[String]) -> Result<Self> {
        let mut terms = Vec::new();
        for term in split_terms(text) {
            if term.is_empty() {
                continue;
            }
            let (path, value, equal) = split_term(&term).ok_or_else(|| {
                Failure::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'"))
            })?;
            if !matches!(path.as_str(), "metadata.name" | "metadata.namespace") && !selectable.contains(&path)
            {
                return Err(Failure::bad_request(format!("field label not supported: {path}")));
            }
            terms.push(FieldTerm { path, value, equal });
        }
        Ok(Self { terms })
    }

    /// The same selector in the names under which fields are stored.
    pub(crate) fn stored(mut self, renames: &[(&str, &str)]) -> Self {
        for term in &mut self.terms {
            let (first, rest) = term.path.split_at(term.path.find('.').unwrap_or(term.path.len()));
            if let Some((stored, _)) = renames.iter().find(|(_, served)| *served == first) {
                term.path = format!("{stored}{rest}");
            }
        }
        self
    }

    /// The objects with this name.
    pub(crate) fn named(name: &str) -> Self {
        let term = FieldTerm { path: "metadata.name".to_owned(), value: name.to_owned(), equal: true };
        Self { terms: vec![term] }
    }

    pub(crate) fn and(mut self, other: Self) -> Self {
        self.terms.extend(other.terms);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The one name that can match, if the selector fixes it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.equal && term.path == "metadata.name")
            .map(|term| term.value.as_str())
    }

    /// Whether fields beside name and namespace are asked for, so that the object must be parsed.
    pub(crate) fn needs_object(&self) -> bool {
        self.terms.iter().any(|term| !term.path.starts_with("metadata."))
    }

    /// `object` may be null unless [`Self::needs_object`].
    pub(crate) fn matches(&self, name: &str, namespace: &str, object: &Value) -> bool {
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
fn split_terms(text: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = terms.len() - 1;
        match c {
            '\\' => {
                terms[last].push(c);
                terms[last].extend(chars.next());
            }
            ',' => terms.push(String::new()),
            _ => terms[last].push(c),
        }
    }
    terms
}

fn split_term(term: &str) -> Option<(String, String, bool)> {
    let at = term.find('=')?;
    let (path, value) = (&term[..at], &term[at + 1..]);
    let (path, equal) = match path.strip_suffix('!') {
        Some(path) => (path, false),
        None => (path, true),
    };
    let value = if equal { value.strip_prefix('=').unwrap_or(value) } else { value };
    let mut unescaped = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => unescaped.push(chars.next()?),
            '=' => return None,
            _ => unescaped.push(c),
        }
    }
    Some((path.to_owned(), unescaped, equal))
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
        let selectable = vec!["spec.type".to_owned()];
        let object = json!({ "spec": { "type": "git" } });
        let matches =
            |text: &str| FieldSelector::parse(text, &selectable).unwrap().matches("a", "default", &object);
        assert!(matches("metadata.name=a,metadata.namespace==default,spec.type=git"));
        assert!(matches("spec.type!=local"));
        assert!(!matches("metadata.name!=a"));
        assert!(FieldSelector::parse("spec.title=x", &selectable).is_err());
        assert!(FieldSelector::parse("metadata.name", &selectable).is_err());
        assert_eq!(FieldSelector::parse(r"metadata.name=a\,b", &[]).unwrap().name(), Some("a,b"));
    }
}
