//! The server: entity tags, faults, the rate limit, and the check of all it says.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State as Extract;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::json;

use crate::answers;
use crate::faults::Fault;
use crate::objects;
use crate::operations::{self, LIMITS, TOKENS};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::shared::Shared;
use crate::state::State;

/// Answers a request.
pub(crate) async fn serve(
    Extract(shared): Extract<Arc<Shared>>,
    mut request: Request<Body>,
) -> Response<Body> {
    let is_git = |path: &str| {
        ["/info/refs", "/git-upload-pack", "/git-receive-pack"].iter().any(|it| path.ends_with(it))
    };
    if let Some(git) = shared.git.clone().filter(|_| is_git(request.uri().path())) {
        return crate::git::serve(&shared, git, request).await;
    }
    let below = request.uri().path_and_query().and_then(|it| it.as_str().strip_prefix("/api/v3"));
    if let Some(Ok(below)) = below.map(str::parse) {
        *request.uri_mut() = below;
    }
    let incoming = Incoming::read(request).await;
    let fault = shared.state().fault(&incoming.target);
    if let Some(Fault::Silent) = fault {
        shared.state().requests.push(format!("{} {} -", incoming.method, incoming.target));
        std::future::pending::<()>().await;
    }
    let late = if let Some(Fault::Late(after)) = fault { after } else { Duration::ZERO };
    let (status, response) = shared.answer(&incoming, fault);
    tokio::time::sleep(late).await;
    shared.state().requests.push(format!("{} {} {status}", incoming.method, incoming.target));
    response
}

impl Shared {
    fn answer(&self, incoming: &Incoming, fault: Option<Fault>) -> (u16, Response<Body>) {
        let mut state = self.state();
        if let Some(Fault::LimitUsedUp(reset)) = fault {
            state.use_up(reset);
        }
        let refused = fault.as_ref().and_then(Fault::refusal);
        let answered = match refused {
            // What fails was not done.
            Some(reply) => {
                operations::identify(&self.description, incoming).map(|operation| (operation, reply))
            }
            None => operations::respond(&mut state, &self.description, &self.api, incoming),
        };
        let (operation, mut reply) = match answered {
            Ok(found) => found,
            Err(violation) => return violated(&mut state, violation),
        };
        match &fault {
            Some(Fault::StatusAfterwards(status)) => reply = Reply::refuse(*status, "on demand"),
            Some(Fault::WrongBase64) => set_content(&mut reply, "bm8g*YmFzZTY0\n"),
            Some(Fault::OtherContent) => set_content(&mut reply, &answers::encoded(b"something else")),
            Some(Fault::Redirect(target)) => return redirect(StatusCode::MOVED_PERMANENTLY, target),
            Some(Fault::RedirectVerbatim(target)) => return redirect(StatusCode::TEMPORARY_REDIRECT, target),
            Some(Fault::NoJson) => return raw(StatusCode::OK, "<html>no JSON</html>".to_owned()),
            Some(Fault::Huge(bytes)) => return huge(*bytes),
            _ => {}
        }
        self.finish(&mut state, operation, incoming, reply, matches!(fault, Some(Fault::Truncated)))
    }

    /// Headers, the entity tag, the count, and the check against the description.
    fn finish(
        &self,
        state: &mut State,
        operation: &str,
        incoming: &Incoming,
        reply: Reply,
        truncated: bool,
    ) -> (u16, Response<Body>) {
        let mut body = reply.body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut headers = HeaderMap::new();
        let mut status = reply.status;
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        if !body.is_empty() {
            put("content-type", "application/json; charset=utf-8".to_owned());
        }
        if status == StatusCode::OK && incoming.method == "GET" {
            let tag = format!("W/\"{}\"", objects::blob(&body));
            let sent = incoming.headers.get(header::IF_NONE_MATCH);
            let same = sent.is_some_and(|sent| sent.as_bytes() == tag.as_bytes());
            put("etag", tag);
            put("cache-control", format!("private, max-age={0}, s-maxage={0}", state.max_age.as_secs()));
            put("vary", "Accept, Authorization, Cookie, X-GitHub-OTP".to_owned());
            if same {
                status = StatusCode::NOT_MODIFIED;
                body.clear();
            }
        }
        if let Some(page) = reply.next_page {
            put("link", format!("<{}/next?page={page}>; rel=\"next\"", self.api));
        }
        if let Some(wait) = reply.retry_after {
            put("retry-after", wait.as_secs().to_string());
        }
        if let Some(needs) = reply.needs {
            put("x-accepted-github-permissions", needs);
        }
        if status != StatusCode::NOT_MODIFIED && !matches!(operation, LIMITS | TOKENS) {
            state.used += 1;
        }
        let limit = state.limit();
        put("x-ratelimit-limit", limit.most.to_string());
        put("x-ratelimit-used", limit.used.to_string());
        put("x-ratelimit-remaining", limit.remaining().to_string());
        put("x-ratelimit-reset", limit.reset.to_string());
        put("x-ratelimit-resource", "core".to_owned());
        let accept = incoming.headers.get(header::ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if let Err(violation) = self.description.answer(operation, accept, status, &headers, &body) {
            return violated(state, violation);
        }
        let body = if truncated {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            body.truncate(body.len() / 2);
            let pieces = [Ok(Bytes::from(body)), Err(io::Error::other("cut off on demand"))];
            Body::from_stream(futures::stream::iter(pieces))
        } else {
            Body::from(body)
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        (status.as_u16(), response)
    }
}

fn violated(state: &mut State, violation: String) -> (u16, Response<Body>) {
    let body = answers::error(500, &violation).to_string();
    state.violations.push(violation);
    raw(StatusCode::INTERNAL_SERVER_ERROR, body)
}

fn set_content(reply: &mut Reply, content: &str) {
    if let Some(body) = &mut reply.body {
        body["content"] = json!(content);
    }
}

fn redirect(status: StatusCode, target: &str) -> (u16, Response<Body>) {
    let mut response = raw(status, String::new());
    if let Ok(target) = HeaderValue::from_str(target) {
        response.1.headers_mut().insert(header::LOCATION, target);
    }
    response
}

fn raw(status: StatusCode, body: String) -> (u16, Response<Body>) {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    (status.as_u16(), response)
}

/// A JSON string that never seems to end.
fn huge(bytes: usize) -> (u16, Response<Body>) {
    const PIECE: usize = 64 << 10;
    let pieces = (0..bytes.div_ceil(PIECE)).map(|at| {
        let mut piece = vec![b'x'; PIECE];
        if at == 0 {
            piece[0] = b'"';
        }
        Ok::<_, io::Error>(Bytes::from(piece))
    });
    (200, Response::new(Body::from_stream(futures::stream::iter(pieces).boxed())))
}
