//! Holds requests and answers to GitHub's published description of its API.

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

    /// What is wrong with a request: parameters that GitHub does not know or takes otherwise, a wrong body.
    pub(crate) fn request(
        &self,
        operation: &str,
        path: &[(&str, &str)],
        query: &[(String, String)],
        body: Option<&Value>,
    ) -> Result<(), String> {
        let described = self.operation(operation)?;
        let query = query.iter().map(|(name, value)| ("query", name.as_str(), value.as_str()));
        let path = path.iter().map(|(name, value)| ("path", *name, *value));
        for (place, name, value) in path.chain(query) {
            let known = described["parameters"].as_array().into_iter().flatten();
            let parameter = known
                .into_iter()
                .find(|it| it["in"] == place && it["name"] == name)
                .ok_or_else(|| format!("{operation} has no parameter {name} in its {place}"))?;
            let schema = &parameter["schema"];
            let typed = match schema["type"].as_str() {
                Some("integer") => value.parse::<i64>().map_or_else(|_| json!(value), |number| json!(number)),
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
            Description::new().request(LIST, &[("owner", "a"), ("repo", "b")], &query, None)
        };
        assert_eq!(check("per_page", "10"), Ok(()));
        assert_eq!(check("path", "a/b"), Ok(()));
        assert!(check("per_page", "many").is_err());
        assert!(check("file", "a/b").is_err_and(|it| it.contains("no parameter file")));
    }
}
