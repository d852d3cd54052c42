//! Holds requests and answers to GitHub's published description of its API, and makes the least answer that it allows.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, StatusCode};
use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// The cut of GitHub's description; `cargo xtask github-schema` makes it.
const CUT: &str = include_str!("../openapi.json");

/// The description, with the validators that were needed so far.
pub(crate) struct Description {
    cut: Value,
    made: Mutex<HashMap<String, std::sync::Arc<Validator>>>,
}

impl Description {
    pub(crate) fn new() -> Self {
        #[expect(clippy::expect_used, reason = "a file of the repository")]
        let cut = serde_json::from_str(CUT).expect("openapi.json is JSON");
        Self { cut, made: Mutex::default() }
    }

    /// The operation that a request is of, and its parameters.
    pub(crate) fn operation_of<'a>(
        &'a self,
        method: &str,
        path: &[&str],
    ) -> Option<(&'a str, Vec<(&'a str, String)>)> {
        let operations = self.cut["operations"].as_object()?;
        operations.keys().find_map(|operation| {
            let template = operation.strip_prefix(method)?.strip_prefix(" /")?;
            Some((operation.as_str(), parameters(template, path)?))
        })
    }

    /// The least that a successful answer of `operation` has to hold: what is required, and `null` where that is allowed.
    pub(crate) fn least(&self, operation: &str) -> Value {
        self.least_of(self.success(operation), 0)
    }

    /// The same of one element, where the answer is a list.
    pub(crate) fn least_element(&self, operation: &str) -> Value {
        self.least_of(&self.success(operation)["items"], 0)
    }

    /// The least that the schema `name` allows.
    pub(crate) fn least_schema(&self, name: &str) -> Value {
        self.least_of(&self.cut["$defs"][name], 0)
    }

    fn success(&self, operation: &str) -> &Value {
        let responses = self.cut["operations"][operation]["responses"].as_object();
        let success = responses.into_iter().flatten().find(|(status, _)| status.starts_with('2'));
        success.map_or(&Value::Null, |(_, response)| &response["content"]["application/json"])
    }

    fn least_of(&self, schema: &Value, depth: usize) -> Value {
        if let Some(name) = schema["$ref"].as_str().and_then(|target| target.strip_prefix("#/$defs/")) {
            return self.least_of(&self.cut["$defs"][name], depth);
        }
        let any = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        if let Some(any) = any {
            // An answer as a whole is something.
            let is_null = depth > 0 && any.iter().any(|one| one["type"] == "null");
            return if is_null || depth > 30 { Value::Null } else { self.least_of(&any[0], depth + 1) };
        }
        if let Some(all) = schema["allOf"].as_array() {
            let parts = all.iter().filter_map(|part| self.least_of(part, depth + 1).as_object().cloned());
            return Value::Object(parts.flatten().collect());
        }
        if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
            return first.clone();
        }
        match schema["type"].as_str() {
            Some("array") => json!([]),
            Some("boolean") => json!(false),
            Some("integer" | "number") => json!(1),
            Some("string") => json!(match schema["format"].as_str() {
                Some("uri") => "https://example.org/",
                Some("date-time") => "2026-03-04T09:15:00Z",
                Some("email") => "a.writer@example.org",
                _ => "x",
            }),
            _ => {
                let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let made = required
                    .map(|name| (name.to_owned(), self.least_of(&schema["properties"][name], depth + 1)));
                Value::Object(made.collect())
            }
        }
    }

    /// What is wrong with a request: parameters that GitHub does not know or takes otherwise, a wrong body.
    pub(crate) fn request(
        &self,
        operation: &str,
        path: &[(&str, String)],
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<(), String> {
        let described = self.operation(operation)?;
        let query = query.iter().map(|(name, value)| ("query", name.as_str(), value.as_str()));
        let path = path.iter().map(|(name, value)| ("path", *name, value.as_str()));
        for (place, name, value) in path.chain(query) {
            let known = described["parameters"].as_array().into_iter().flatten();
            let parameter = known
                .into_iter()
                .find(|it| it["in"] == place && it["name"] == name)
                .ok_or_else(|| format!("{operation} has no parameter {name} in its {place}"))?;
            let schema = &parameter["schema"];
            let typed = match schema["type"].as_str() {
                Some("integer") => value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number)),
                Some("boolean") => value.parse::<bool>().map_or_else(|_| json!(value), |truth| json!(truth)),
                _ => json!(value),
            };
            self.check(&format!("{operation} {name}"), schema, &typed)?;
        }
        match (body, described.get("body")) {
            (Some(body), Some(schema)) => {
                if let (Some(sent), Some(known)) = (body.as_object(), schema["properties"].as_object())
                    && let Some(name) = sent.keys().find(|name| !known.contains_key(*name))
                {
                    return Err(format!("{operation} takes no {name:?} in its body"));
                }
                self.check(&format!("{operation} body"), schema, body)
            }
            (Some(_), None) => Err(format!("{operation} takes no body")),
            (None, _) => Ok(()),
        }
    }

    /// What is wrong with an answer: its status, its headers or its body.
    pub(crate) fn answer(
        &self,
        operation: &str,
        accept: &str,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<(), String> {
        let described = self.operation(operation)?;
        let status = status.as_str();
        let Some(response) = described["responses"].get(status) else {
            // Refusals and failures that GitHub's documents tell of for all operations alike.
            if status.starts_with(['4', '5']) || status == "304" {
                return self.error(operation, status, body);
            }
            return Err(format!("{operation} answers no {status}"));
        };
        for (name, schema) in response["headers"].as_object().into_iter().flatten() {
            if let Some(value) = headers.get(name.to_ascii_lowercase()).and_then(|value| value.to_str().ok())
            {
                let typed = match schema["type"].as_str() {
                    Some("integer") => value.parse::<i64>().map_or_else(|_| json!(value), |it| json!(it)),
                    _ => json!(value),
                };
                self.check(&format!("{operation} {status} {name}"), schema, &typed)?;
            }
        }
        let content = response["content"].as_object();
        let wanted = accept.replace("+json", "");
        let schema =
            content.and_then(|content| content.get(&wanted).or_else(|| content.get("application/json")));
        match schema {
            Some(schema) => {
                let body: Value = serde_json::from_slice(body)
                    .map_err(|error| format!("{operation} {status}: the body is no JSON: {error}"))?;
                self.check(&format!("{operation} {status} {wanted}"), schema, &body)
            }
            None if body.is_empty() => Ok(()),
            None => Err(format!("{operation} answers {status} without a body")),
        }
    }

    fn error(&self, operation: &str, status: &str, body: &[u8]) -> Result<(), String> {
        if body.is_empty() {
            return Ok(());
        }
        let body = serde_json::from_slice(body).map_err(|error| format!("{operation} {status}: {error}"))?;
        self.check("error", &self.cut["error"], &body)
    }

    fn operation(&self, operation: &str) -> Result<&Value, String> {
        self.cut["operations"].get(operation).ok_or_else(|| format!("{operation} is not described"))
    }

    fn check(&self, name: &str, schema: &Value, value: &Value) -> Result<(), String> {
        let validator = self.validator(name, schema)?;
        match validator.iter_errors(value).next() {
            None => Ok(()),
            Some(error) => Err(format!("{name}: {} at {:?}", error, error.instance_path().to_string())),
        }
    }

    fn validator(&self, name: &str, schema: &Value) -> Result<std::sync::Arc<Validator>, String> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = made.get(name) {
            return Ok(validator.clone());
        }
        let mut whole = schema.as_object().cloned().unwrap_or_else(Map::new);
        whole.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        whole.insert("$defs".to_owned(), self.cut["$defs"].clone());
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&Value::Object(whole))
            .map_err(|error| format!("{name}: the schema is none: {error}"))?;
        let validator = std::sync::Arc::new(validator);
        made.insert(name.to_owned(), validator.clone());
        Ok(validator)
    }
}

/// What stands in `path` where `template` has names in braces; the last may be many segments.
fn parameters<'a>(template: &'a str, path: &[&str]) -> Option<Vec<(&'a str, String)>> {
    let mut found = Vec::new();
    let mut segments = path.iter();
    let mut parts = template.split('/').peekable();
    while let Some(part) = parts.next() {
        let segment = segments.next()?;
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some("path") if parts.peek().is_none() => {
                let rest: Vec<_> = std::iter::once(*segment).chain(segments.by_ref().copied()).collect();
                found.push(("path", rest.join("/")));
            }
            Some(name) => found.push((name, (*segment).to_owned())),
            None if part == *segment => {}
            None => return None,
        }
    }
    segments.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "GET /repos/{owner}/{repo}/commits";

    fn answer(operation: &str, status: u16, body: &Value) -> Result<(), String> {
        let status = StatusCode::from_u16(status).expect("a status");
        let body = body.to_string();
        Description::new().answer(operation, "application/json", status, &HeaderMap::new(), body.as_bytes())
    }

    #[test]
    fn what_github_does_not_say_is_refused() {
        assert_eq!(answer(LIST, 200, &json!([])), Ok(()));
        assert!(answer(LIST, 200, &json!({})).is_err_and(|it| it.contains("array")));
        assert!(answer(LIST, 200, &json!([{ "sha": "a" }])).is_err_and(|it| it.contains("required")));
        assert_eq!(answer(LIST, 418, &json!({ "message": "I am a teapot" })), Ok(()));
        assert!(answer(LIST, 418, &json!({ "message": 3 })).is_err());
        assert!(answer(LIST, 204, &json!({})).is_err_and(|it| it.contains("204")));
        assert!(answer("GET /nothing", 200, &json!({})).is_err());
    }

    #[test]
    fn a_question_that_github_does_not_know_is_refused() {
        let check = |name: &str, value: &str| {
            let query = [(name.to_owned(), value.to_owned())];
            let path = [("owner", "a".to_owned()), ("repo", "b".to_owned())];
            Description::new().request(LIST, &path, &query, None)
        };
        assert_eq!(check("per_page", "10"), Ok(()));
        assert_eq!(check("path", "a/b"), Ok(()));
        assert!(check("per_page", "many").is_err());
        assert!(check("file", "a/b").is_err_and(|it| it.contains("no parameter file")));
    }

    #[test]
    fn the_least_answer_to_each_operation_is_as_github_describes_it() {
        let description = Description::new();
        for operation in description.cut["operations"].as_object().expect("operations").keys() {
            let schema = description.success(operation);
            if schema.is_null() {
                continue;
            }
            let least = description.least(operation);
            assert_eq!(description.check(operation, schema, &least), Ok(()), "{operation}: {least}");
        }
    }

    #[test]
    fn a_path_is_of_the_operation_that_has_its_shape() {
        let description = Description::new();
        let of = |method: &str, path: &str| {
            let segments: Vec<&str> = path.split('/').collect();
            description
                .operation_of(method, &segments)
                .map(|(operation, found)| (operation.to_owned(), found))
        };
        let (operation, found) = of("GET", "repos/o/r/contents/a/b").expect("an operation");
        assert_eq!(operation, "GET /repos/{owner}/{repo}/contents/{path}");
        assert_eq!(found.last(), Some(&("path", "a/b".to_owned())));
        assert!(of("GET", "repos/o/r").is_some());
        assert!(of("DELETE", "repos/o/r").is_none());
        assert!(of("GET", "repos/o/r/hooks/1/2").is_none());
    }
}
