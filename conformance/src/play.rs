//! A script played to one server.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::path;
use crate::script::{Action, Body, Request, Script, Step, Until};
use crate::servers::Server;
use crate::template::{self, Values};
use crate::watch::Watch;

/// How long a request, and a WAIT as a whole, may take: a garbage collector looks for new kinds every half minute, and the
/// machine may be busy.
const DEADLINE: Duration = Duration::from_mins(3);

/// The pause between two requests of a WAIT.
const PAUSE: Duration = Duration::from_millis(50);

/// The headers of an answer that clients act on.
const HEADERS: &[&str] =
    &["content-type", "warning", "retry-after", "cache-control", "allow", "location", "www-authenticate"];

/// What came of one step: the answer as `{status, headers, body}` or `{events}`, or why there is none.
pub type Played = Result<Value, String>;

/// Plays a script in a namespace that exists. A failed step ends it.
pub async fn play(server: &Server, script: &Script, namespace: &str) -> Vec<Played> {
    let mut values: Values = script.values.iter().cloned().collect();
    values.insert("ns".to_owned(), namespace.to_owned());
    let mut watches = HashMap::new();
    let mut outcomes = Vec::new();
    for step in &script.steps {
        let outcome = play_step(server, step, &mut values, &mut watches).await;
        let failed = outcome.is_err();
        outcomes.push(outcome);
        if failed {
            break;
        }
    }
    outcomes
}

async fn play_step(
    server: &Server,
    step: &Step,
    values: &mut Values,
    watches: &mut HashMap<String, Watch>,
) -> Played {
    let answer = match &step.action {
        Action::Send(request) => read(send(server, request, values).await?).await?,
        Action::Wait { request, until } => wait(server, request, until, values).await?,
        Action::Watch { name, request } => {
            let response = send(server, request, values).await?;
            if response.status() == 200 {
                let answer = json!({ "status": 200, "headers": headers(response.headers()) });
                watches.insert(name.clone(), Watch::new(response));
                answer
            } else {
                read(response).await?
            }
        }
        Action::Read { name, amount } => {
            let watch = watches.get_mut(name).ok_or_else(|| format!("no watch {name} is open"))?;
            json!({ "events": watch.read(amount).await? })
        }
    };
    for (name, path) in &step.captures {
        let body = answer.get("body").unwrap_or(&answer);
        // A question mark: nothing there is an empty text.
        let optional = path.starts_with('?');
        let value = match path::at(body, path.trim_start_matches('?')) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None if optional => String::new(),
            None => return Err(format!("nothing at {path} to take: {answer}")),
        };
        values.insert(name.clone(), value);
    }
    Ok(answer)
}

async fn send(server: &Server, request: &Request, values: &Values) -> Result<reqwest::Response, String> {
    let path = template::expand_text(&request.path, values)?;
    let method = request.method.parse::<reqwest::Method>().map_err(|error| error.to_string())?;
    let mut sent = HeaderMap::new();
    for (name, value) in &request.headers {
        let value = template::expand(value, values)?;
        let name: HeaderName = name.parse().map_err(|error| format!("header {name}: {error}"))?;
        sent.append(name, HeaderValue::from_bytes(&value).map_err(|error| error.to_string())?);
    }
    let body = match &request.body {
        Body::Empty => None,
        Body::Raw(text) => Some(template::expand(text, values)?),
        Body::Json(text) => {
            let text = template::expand_text(text, values)?;
            let value = windlass_api::yaml::parse(&text).map_err(|error| format!("body: {error}"))?;
            Some(value.to_string().into_bytes())
        }
    };
    let mut builder = server.request(method, &path).headers(sent);
    if let Some(body) = body {
        builder = builder.body(body);
    }
    tokio::time::timeout(DEADLINE, builder.send())
        .await
        .map_err(|_| "no answer in time".to_owned())?
        .map_err(|error| format!("no answer: {error:?}"))
}

async fn read(response: reqwest::Response) -> Played {
    let status = response.status().as_u16();
    let headers = headers(response.headers());
    let bytes = tokio::time::timeout(DEADLINE, response.bytes())
        .await
        .map_err(|_| "an answer that does not end".to_owned())?
        .map_err(|error| format!("a broken answer: {error:?}"))?;
    let kind = headers.get("content-type").and_then(Value::as_str).unwrap_or_default();
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    let body = if kind.starts_with("application/json") {
        serde_json::from_slice(&bytes).unwrap_or_else(|_| text())
    } else if kind.starts_with("application/yaml") {
        std::str::from_utf8(&bytes)
            .ok()
            .and_then(|text| windlass_api::yaml::parse(text).ok())
            .unwrap_or_else(text)
    } else {
        text()
    };
    Ok(json!({ "status": status, "headers": headers, "body": body }))
}

fn headers(all: &HeaderMap) -> Map<String, Value> {
    let mut shown = Map::new();
    for name in HEADERS {
        let values: Vec<&str> = all.get_all(*name).iter().filter_map(|value| value.to_str().ok()).collect();
        if !values.is_empty() {
            shown.insert((*name).to_owned(), json!(values.join("\n")));
        }
    }
    if all.contains_key("etag") {
        shown.insert("etag".to_owned(), json!("<etag>"));
    }
    shown
}

async fn wait(server: &Server, request: &Request, until: &Until, values: &Values) -> Played {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let answer = read(send(server, request, values).await?).await?;
        let holds = match until {
            Until::Status(code) => answer["status"] == json!(code),
            Until::Equal(path, wanted) => match path::at(&answer["body"], path) {
                Some(Value::String(text)) => text == wanted,
                Some(other) => other.to_string().as_str() == wanted.as_str(),
                None => wanted == "<absent>",
            },
        };
        if holds {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            return Err(format!("waited in vain; the last answer was {answer}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
