//! A stand-in for Loki: its push and query API over lines in memory. It is not Loki.
//!
//! Every request is held to the documented API (<https://grafana.com/docs/loki/latest/reference/loki-http-api/>): JSON with
//! string labels, times as strings of nanoseconds, lines in the order of time and within the default limits; a query with
//! a selector and at most one filter, a range within the default `max_query_length`, a limit, a direction. What is not as
//! it says is answered with 400 and remembered.
#![allow(dead_code, reason = "each crate's tests use the part that they need")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

/// `max_line_size`, `max_entries_limit_per_query`, `max_query_length`, `max_label_names_per_series` as they are unless set.
const MAX_LINE: usize = 256 * 1024;
const MAX_ENTRIES: usize = 5000;
const MAX_RANGE: i64 = 721 * 3600 * 1_000_000_000;
const MAX_LABELS: usize = 15;
/// Earlier times are milliseconds, or seconds.
const NANOSECONDS: i64 = 1_500_000_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    Work,
    /// Answers everything with this status.
    Answer(u16),
    /// Never answers.
    Hang,
    /// Refuses a push in which one line has this in it.
    RefuseLinesWith(&'static str),
}

type Labels = BTreeMap<String, String>;
type Line = (Labels, i64, String);

#[derive(Clone)]
pub(crate) struct LokiStandIn {
    inner: Arc<Mutex<Inner>>,
    port: u16,
}

struct Inner {
    lines: Vec<Line>,
    violations: Vec<String>,
    requests: usize,
    behaviour: Behaviour,
    tenant: Option<&'static str>,
    authorization: Option<&'static str>,
}

impl LokiStandIn {
    pub(crate) async fn start() -> Self {
        let inner = Inner {
            lines: Vec::new(),
            violations: Vec::new(),
            requests: 0,
            behaviour: Behaviour::Work,
            tenant: None,
            authorization: None,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let this = Self { inner: Arc::new(Mutex::new(inner)), port };
        let router = Router::new()
            .route("/behind/loki/api/v1/push", post(push))
            .route("/behind/loki/api/v1/query_range", get(query_range))
            .with_state(this.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        this
    }

    /// What its API is below, as behind a gateway.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/behind/", self.port)
    }

    pub(crate) fn behave(&self, behaviour: Behaviour) {
        self.inner.lock().unwrap().behaviour = behaviour;
    }

    /// From now on answers nobody else.
    pub(crate) fn expect(&self, tenant: Option<&'static str>, authorization: Option<&'static str>) {
        let mut inner = self.inner.lock().unwrap();
        (inner.tenant, inner.authorization) = (tenant, authorization);
    }

    pub(crate) fn requests(&self) -> usize {
        self.inner.lock().unwrap().requests
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.inner.lock().unwrap().lines.iter().map(|(_, _, line)| line.clone()).collect()
    }

    pub(crate) fn assert_well_spoken(&self) {
        let inner = self.inner.lock().unwrap();
        assert!(inner.violations.is_empty(), "{:#?}", inner.violations);
    }

    fn refuse(&self, why: String) -> Response {
        self.inner.lock().unwrap().violations.push(why.clone());
        (StatusCode::BAD_REQUEST, why).into_response()
    }

    /// An answer that has nothing to do with what was asked.
    async fn before(&self, headers: &HeaderMap) -> Option<Response> {
        let behaviour = {
            let mut inner = self.inner.lock().unwrap();
            inner.requests += 1;
            let is = |name: &str, expected: Option<&str>| {
                expected.is_none_or(|expected| headers.get(name).is_some_and(|value| value == expected))
            };
            if !is("x-scope-orgid", inner.tenant) || !is("authorization", inner.authorization) {
                return Some((StatusCode::UNAUTHORIZED, "no org id").into_response());
            }
            inner.behaviour
        };
        match behaviour {
            Behaviour::Answer(code) => Some((StatusCode::from_u16(code).unwrap(), "not now").into_response()),
            Behaviour::Hang => std::future::pending().await,
            Behaviour::Work | Behaviour::RefuseLinesWith(_) => None,
        }
    }
}

async fn push(State(loki): State<LokiStandIn>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(answer) = loki.before(&headers).await {
        return answer;
    }
    if headers.get("content-type").is_none_or(|kind| kind != "application/json") {
        return loki.refuse("a push is application/json".to_owned());
    }
    let pushed = match pushed(&body) {
        Ok(pushed) => pushed,
        Err(why) => return loki.refuse(why),
    };
    let mut inner = loki.inner.lock().unwrap();
    if let Behaviour::RefuseLinesWith(word) = inner.behaviour
        && pushed.iter().any(|(_, _, line)| line.contains(word))
    {
        return (StatusCode::BAD_REQUEST, "Max entry size exceeded").into_response();
    }
    for line in pushed {
        // The same line at the same time of the same stream is kept once.
        if !inner.lines.contains(&line) {
            inner.lines.push(line);
        }
    }
    StatusCode::NO_CONTENT.into_response()
}

fn pushed(body: &[u8]) -> Result<Vec<Line>, String> {
    let body: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let body = body.as_object().ok_or("a push is an object")?;
    if body.len() != 1 || !body.contains_key("streams") {
        return Err(format!("a push has streams and nothing else: {:?}", body.keys()));
    }
    let mut lines = Vec::new();
    for stream in body["streams"].as_array().ok_or("streams is a list")? {
        let labels = labels(&stream["stream"])?;
        let values = stream["values"].as_array().filter(|values| !values.is_empty());
        let mut last = NANOSECONDS;
        for value in values.ok_or("values is a list of some")? {
            let Some([Value::String(time), Value::String(line)]) = value.as_array().map(Vec::as_slice) else {
                return Err(format!("a value is a time and a line, both strings: {value}"));
            };
            let time: i64 = time.parse().map_err(|_| format!("{time:?} is no number of nanoseconds"))?;
            if time < last {
                return Err(format!("{time} is no time in nanoseconds, or out of order"));
            }
            if line.len() > MAX_LINE {
                return Err(format!("Max entry size '{MAX_LINE}' bytes exceeded"));
            }
            last = time;
            lines.push((labels.clone(), time, line.clone()));
        }
    }
    Ok(lines)
}

fn labels(stream: &Value) -> Result<Labels, String> {
    let mut labels = Labels::new();
    for (name, value) in stream.as_object().ok_or("stream is an object")? {
        let value = value.as_str().ok_or("a label's value is a string")?;
        let letter = |character: char| character.is_ascii_alphabetic() || character == '_';
        if !name.starts_with(letter) || !name.chars().all(|c| letter(c) || c.is_ascii_digit()) {
            return Err(format!("{name:?} is no label"));
        }
        labels.insert(name.clone(), value.to_owned());
    }
    if labels.is_empty() || labels.len() > MAX_LABELS {
        return Err(format!("{} labels", labels.len()));
    }
    Ok(labels)
}

async fn query_range(
    State(loki): State<LokiStandIn>,
    Query(asked): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    if let Some(answer) = loki.before(&headers).await {
        return answer;
    }
    let answered = answer(&loki.inner.lock().unwrap().lines, &asked);
    match answered {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(why) => loki.refuse(why),
    }
}

fn answer(lines: &[Line], asked: &BTreeMap<String, String>) -> Result<Value, String> {
    const KNOWN: [&str; 5] = ["query", "start", "end", "limit", "direction"];
    if let Some(unknown) = asked.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(format!("no such parameter as {unknown}"));
    }
    let text = |name: &str| asked.get(name).map(String::as_str).ok_or(format!("no {name}"));
    let number = |name: &str| text(name)?.parse::<i64>().map_err(|_| format!("{name} is no number"));
    let (start, end) = (number("start")?, number("end")?);
    if start >= end || start < NANOSECONDS {
        return Err(format!("{start} to {end} is no range of nanoseconds"));
    }
    if end - start > MAX_RANGE {
        return Err("the query time range exceeds the limit".to_owned());
    }
    let limit = usize::try_from(number("limit")?).unwrap_or(0);
    if limit == 0 || limit > MAX_ENTRIES {
        return Err(format!("max entries limit per query exceeded ({limit})"));
    }
    let (selector, filter) = parse_query(text("query")?)?;
    let matches = |labels: &Labels| selector.iter().all(|(name, value)| labels.get(name) == Some(value));
    let filtered = |line: &str| filter.as_ref().is_none_or(|word| line.contains(word));
    let mut found: Vec<&Line> = lines
        .iter()
        .filter(|(labels, time, line)| matches(labels) && (start..end).contains(time) && filtered(line))
        .collect();
    found.sort_by_key(|(_, time, _)| *time);
    match text("direction")? {
        "backward" => found.reverse(),
        "forward" => {}
        other => return Err(format!("no such direction as {other}")),
    }
    found.truncate(limit);
    let mut streams: BTreeMap<&Labels, Vec<Value>> = BTreeMap::new();
    for (labels, time, line) in found {
        streams.entry(labels).or_default().push(json!([time.to_string(), line]));
    }
    let result: Vec<Value> =
        streams.into_iter().map(|(labels, values)| json!({"stream": labels, "values": values})).collect();
    Ok(json!({"status": "success", "data": {"resultType": "streams", "result": result, "stats": {}}}))
}

/// `{name="value",…}` and perhaps ` |= "word"`.
fn parse_query(query: &str) -> Result<(Labels, Option<String>), String> {
    let mut rest = query.strip_prefix('{').ok_or("a query begins with a selector")?;
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once('=').ok_or("a matcher has =")?;
        let (value, after) = string(after)?;
        labels.insert(name.to_owned(), value);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None => {
                rest = after.strip_prefix('}').ok_or("a selector ends with }")?;
                break;
            }
        }
    }
    if rest.is_empty() {
        return Ok((labels, None));
    }
    let (word, end) = string(rest.strip_prefix(" |= ").ok_or("a filter is |=")?)?;
    if end.is_empty() { Ok((labels, Some(word))) } else { Err(format!("{end:?} after the filter")) }
}

/// A string in quotes, and what follows.
fn string(text: &str) -> Result<(String, &str), String> {
    let mut parsed = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = parsed.next().ok_or("no string")?.map_err(|error| error.to_string())?;
    Ok((value, &text[parsed.byte_offset()..]))
}
