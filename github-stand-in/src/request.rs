//! A request, taken apart.

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, header};
use bytes::Bytes;
use serde_json::Value;

/// Bytes of a request's body that are read.
const MAX_REQUEST: usize = 64 << 10;

/// A request, taken apart.
pub(crate) struct Incoming {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) target: String,
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

impl Incoming {
    pub(crate) async fn read(request: Request<Body>) -> Self {
        let (parts, body) = request.into_parts();
        let decode = |text: &str| {
            let mut pairs = pairs(&format!("x={}", text.replace('+', "%2B")));
            pairs.pop().map(|(_, value)| value).unwrap_or_default()
        };
        Self {
            target: parts.uri.to_string(),
            path: parts.uri.path().split('/').skip(1).map(decode).collect(),
            query: pairs(parts.uri.query().unwrap_or_default()),
            method: parts.method,
            headers: parts.headers,
            body: to_bytes(body, MAX_REQUEST).await.unwrap_or_default(),
        }
    }

    /// The token or claim that it shows.
    pub(crate) fn token(&self) -> Option<&str> {
        let shown = self.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        shown.strip_prefix("Bearer ").or_else(|| shown.strip_prefix("token "))
    }

    /// A parameter of its query.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Its body as JSON; nothing if it has none.
    pub(crate) fn json(&self) -> Result<Option<Value>, String> {
        if self.body.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&self.body).map(Some).map_err(|error| format!("a body: {error}"))
    }

    /// The page of `all` that it asks for, and whether there is a next one.
    pub(crate) fn page<'a, T>(&self, all: &'a [T]) -> (&'a [T], Option<usize>) {
        let number =
            |name: &str, default: usize| self.query(name).and_then(|it| it.parse().ok()).unwrap_or(default);
        let (size, page) = (number("per_page", 30).clamp(1, 100), number("page", 1).max(1));
        let from = (size * (page - 1)).min(all.len());
        let to = (from + size).min(all.len());
        (&all[from..to], (to < all.len()).then_some(page + 1))
    }
}

fn pairs(query: &str) -> Vec<(String, String)> {
    axum::extract::Query::try_from_uri(
        &http::Uri::builder().path_and_query(format!("/?{query}")).build().unwrap_or_default(),
    )
    .map(|axum::extract::Query(pairs)| pairs)
    .unwrap_or_default()
}
