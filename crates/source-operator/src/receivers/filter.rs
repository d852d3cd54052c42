//! Which of the named objects a delivery is about: CEL over the object's metadata and the delivery. Flux:
//! `receiver_resource_filter.go`.

use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use windlass_api::flux::ReceiverSpec;
use windlass_apimachinery::cel::{Condition, Session};

use super::oidc;

/// How long the filters of the objects of one resource may take together.
const WITHIN: Duration = Duration::from_secs(1);

/// What a delivery says.
pub(super) struct Delivery {
    /// Its body, if it is JSON.
    pub(super) body: Value,
    /// What the sender's token says, where one was shown.
    pub(super) claims: Option<Value>,
}

/// The filters of a receiver, compiled.
pub(super) struct Filters {
    /// For all objects.
    all: Option<Condition>,
    /// For those of each resource.
    each: Vec<Option<Condition>>,
}

impl Filters {
    /// # Errors
    /// Which one is none, and why.
    pub(super) fn compile(spec: &ReceiverSpec) -> Result<Self, String> {
        let names: &[&str] =
            if spec.kind == oidc::TYPE { &["res", "req", "claims"] } else { &["res", "req"] };
        let compile = |text: Option<&String>| {
            text.filter(|text| !text.is_empty()).map(|text| Condition::compile(text, names)).transpose()
        };
        let all = compile(spec.resource_filter.as_ref())
            .map_err(|why| format!("invalid resourceFilter expression: {why}"))?;
        let each = spec.resources.iter().enumerate().map(|(index, it)| {
            compile(it.filter.as_ref()).map_err(|why| {
                format!(
                    "invalid filter expression for resources[{index}] (kind={:?}, name={:?}): {why}",
                    it.kind, it.name
                )
            })
        });
        Ok(Self { all, each: each.collect::<Result<_, _>>()? })
    }

    /// Whether there is any.
    pub(super) fn is_any(&self) -> bool {
        self.all.is_some() || self.each.iter().any(Option::is_some)
    }

    /// Whether objects of this resource are filtered.
    pub(super) fn is_any_of(&self, resource: usize) -> bool {
        self.all.is_some() || self.each.get(resource).is_some_and(Option::is_some)
    }

    /// Which of the objects of a resource a delivery is about; it blocks.
    ///
    /// # Errors
    /// Why that cannot be said of one of them, without what it says.
    pub(super) fn choose(
        &self,
        resource: usize,
        objects: &[Value],
        delivery: &Delivery,
    ) -> Result<Vec<bool>, String> {
        let filters: Vec<&Condition> =
            self.all.iter().chain(self.each.get(resource).and_then(Option::as_ref)).collect();
        let chosen = Session::run(WITHIN, |session| {
            session.set("req", &delivery.body);
            if let Some(claims) = &delivery.claims {
                session.set("claims", claims);
            }
            let chosen = objects.iter().map(|object| {
                session.set("res", object);
                for filter in &filters {
                    if !session.holds(filter)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            });
            chosen.collect::<Result<Vec<_>, String>>()
        });
        chosen.unwrap_or_else(|| Err("it cannot be evaluated".to_owned()))
    }
}

/// The body of a delivery as filters see it: an object without anything in it unless it says that it is JSON. Nothing if it
/// says so and is no JSON object.
pub(super) fn body(headers: &HeaderMap, body: &[u8]) -> Option<Value> {
    let types = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = |one: &str| one.split(';').next().unwrap_or_default().trim() == "application/json";
    if !types.split(',').any(is_json) {
        return Some(Value::Object(Map::new()));
    }
    serde_json::from_slice::<Map<String, Value>>(body).ok().map(Value::Object)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_is_json_where_it_says_so() {
        let of = |kind: &'static str, text: &str| {
            body(&[(CONTENT_TYPE, HeaderValue::from_static(kind))].into_iter().collect(), text.as_bytes())
        };
        assert_eq!(of("application/json; charset=utf-8", r#"{"a": 1}"#), Some(json!({"a": 1})));
        assert_eq!(of("text/plain", r#"{"a": 1}"#), Some(json!({})));
        assert_eq!(of("application/json", "[1]"), None);
        assert_eq!(of("application/json", "{"), None);
    }
}
