//! What is done for each request.

mod apply;
mod backup;
mod conform;
mod context;
mod create;
mod delete;
mod get;
mod list;
mod past;
mod patch;
mod pieces;
mod render;
mod review;
mod scale;
mod update;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use tokio_util::sync::CancellationToken;
use windlass_auth::{Caller, refuse_impersonation};

use crate::compress;
use crate::discovery;
use crate::failure::{self, Failure, Result};
use crate::kinds::Builtin;
use crate::request::{Accept, Part, Query, Route, Target, read_bytes, verb_of};
use crate::state::Inner;
use windlass_apimachinery::bounds::MAX_BYTES;

use self::context::Context;

/// Within which time a request is answered. What a watch or a long list goes on to say is not part of it.
const DEADLINE: Duration = Duration::from_mins(1);
/// How many bytes of a body or an object are too many to be worked on beside other requests.
const LARGE: usize = 128 << 10;
/// How many large requests are worked on at a time.
pub(crate) const LARGE_AT_ONCE: usize = 4;

/// The namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Answers one request, whatever comes of it.
pub(crate) async fn serve(State(inner): State<Arc<Inner>>, request: Request<Body>) -> Response {
    let yaml = Accept::wants_yaml_errors(request.headers());
    let gzip = request.method() == Method::GET && compress::is_accepted(request.headers());
    let answer = answer(&inner, request).await;
    let mut response = answer.unwrap_or_else(|failure| failure.respond(yaml));
    let cache = HeaderValue::from_static("no-cache, private");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(cache);
    if gzip { compress::compress(response) } else { response }
}

/// Refuses to delete what is always there, and to change the status of definitions that are ours.
fn check_immutable(context: &Context, method: &Method) -> Result<()> {
    let (kind, Some(name)) = (context.kind(), context.target.name.as_deref()) else { return Ok(()) };
    match kind.builtin {
        Some(Builtin::Definition) if method == Method::DELETE || context.target.is_status() => {
            context.inner.catalog.check_own(kind, name)
        }
        Some(Builtin::Namespace) if method == Method::DELETE && IMMORTAL.contains(&name) => {
            Err(Failure::forbidden(kind, name, "this namespace may not be deleted"))
        }
        _ => Ok(()),
    }
}

/// Answers one request.
async fn answer(inner: &Arc<Inner>, mut request: Request<Body>) -> Result<Response> {
    let caller =
        request.extensions_mut().remove::<Caller>().map(Arc::new).ok_or_else(Failure::unauthorized)?;
    refuse_impersonation(request.headers()).map_err(|status| Failure::from(*status))?;
    if request.uri().path() == "/readyz"
        && let Some(problem) = inner.store.problem()
    {
        tracing::warn!(problem, "not ready: the object store has a problem");
        // Probes come from anybody: the log, and whoever may do everything, are told what it is.
        let reason = if caller.is_master() { problem.as_str() } else { "reason withheld" };
        let text = format!("[-]store failed: {reason}\nreadyz check failed\n");
        return Ok((StatusCode::INTERNAL_SERVER_ERROR, text).into_response());
    }
    if request.uri().path() == backup::PATH && request.method() == Method::GET {
        return backup::answer(inner, &caller);
    }
    inner.start().await?;
    // A request sees one state of what is served, whatever happens to definitions meanwhile.
    let registry = inner.catalog.current();
    let route = Route::parse(request.uri().path(), &registry)?;
    let Route::Resource(target) = route else {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return Err(Failure::method_not_allowed());
        }
        return discovery::answer(&registry, &route, request.uri(), request.headers());
    };
    let query = Query::parse(request.uri())?;
    authorize(&caller, request.method(), &query, &target)?;
    let (parts, body) = request.into_parts();
    if body.size_hint().lower() > MAX_BYTES as u64 {
        return Err(Failure::too_large(MAX_BYTES));
    }
    let method = parts.method.clone();
    let reads = method == Method::GET || method == Method::HEAD;
    let of_list = target.name.is_none() && (method == Method::DELETE || reads && !query.flag("watch"));
    let accept = Accept::parse(&parts.headers, of_list, target.served.kind.builtin.is_some())?;
    let context = Context { inner: inner.clone(), caller, target, query, parts, accept };
    if method != Method::GET {
        check_immutable(&context, &method)?;
    }
    let deprecation = context.target.served.served().deprecation.clone();
    let answer = tokio::time::timeout(DEADLINE, work(context, method, body)).await;
    answer.unwrap_or_else(|_| Err(Failure::deadline_passed())).map(|mut response| {
        failure::warn(&mut response, deprecation.as_slice());
        response
    })
}

/// Answers on this thread or, what is large, on another: parsing and comparing millions of bytes takes a while, in which
/// others want to be answered.
async fn work(context: Context, method: Method, body: Body) -> Result<Response> {
    if method == Method::GET || method == Method::HEAD {
        return dispatch(context, &method, Bytes::new()).await;
    }
    let bytes = read_bytes(body).await?;
    let stored = match &context.target.name {
        Some(name) if bytes.len() < LARGE => context.find(name).await?.map_or(0, |object| object.value.len()),
        _ => 0,
    };
    if bytes.len() < LARGE && stored < LARGE {
        return dispatch(context, &method, bytes).await;
    }
    let turn = context.inner.large.clone().acquire_owned().await;
    let runtime = tokio::runtime::Handle::current();
    // It ends at its next step when nobody waits for it any more.
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let _on_drop = stop.drop_guard();
    let answer = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = stopped.cancelled() => Err(Failure::deadline_passed()),
                answer = dispatch(context, &method, bytes) => answer,
            }
        })
    });
    answer.await.map_err(|error| Failure::internal(&error))?
}

async fn dispatch(context: Context, method: &Method, body: Bytes) -> Result<Response> {
    let Target { served, namespace, name, part } = &context.target;
    let across = served.kind.namespaced && namespace.is_none() && name.is_none();
    if across && matches!(method.as_str(), "POST" | "DELETE") {
        // Only reading goes across namespaces.
        return Err(match served.kind.builtin {
            Some(_) => Failure::method_not_allowed(),
            None => Failure::unknown_path(),
        });
    }
    let core = served.kind.builtin.is_some();
    // Custom kinds are read by HEAD as well.
    let method = if !core && method == Method::HEAD { &Method::GET } else { method };
    match (method.as_str(), name.is_some(), *part == Part::Whole) {
        ("POST", false, _) if served.kind.is_review() => review::answer(&context, &body),
        (_, true, _) if served.kind.is_review() => Err(Failure::unknown_path()),
        _ if served.kind.is_review() => Err(Failure::method_not_allowed()),
        ("PUT", true, _) => update::answer(context, &body).await,
        _ if *part == Part::Finalize => Err(Failure::method_not_allowed()),
        ("GET", false, _) => list::answer(context).await,
        ("GET", true, _) => get::answer(context).await,
        ("POST", false, _) => create::answer(context, &body).await,
        ("PATCH", true, _) => patch::answer(context, &body).await,
        ("DELETE", true, true) => delete::answer(context, &body).await,
        ("DELETE", false, _) => delete::answer_collection(context, &body).await,
        _ if core => Err(Failure::method_not_allowed()),
        // The name is that of the body; the one of the path is not looked at.
        ("POST", true, true) => {
            let target = Target { name: None, ..context.target };
            create::answer(Context { target, ..context }, &body).await
        }
        ("PUT" | "PATCH", false, _) => Err(Failure::bad_request("name must be provided")),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// Whether the caller's token is for this group and namespace, and for doing this.
fn authorize(caller: &Caller, method: &Method, query: &Query, target: &Target) -> Result<()> {
    let kind = &target.served.kind;
    // Everybody may ask about itself.
    if kind.is_review() {
        return Ok(());
    }
    let group = &target.served.served().group;
    let namespace = match kind.builtin {
        // A Namespace belongs to itself.
        Some(Builtin::Namespace) => target.name.as_deref(),
        _ => target.namespace.as_deref(),
    };
    let verb = verb_of(method, target.name.is_some(), query.flag("watch"));
    caller.may(verb, group, &kind.plural, namespace.unwrap_or_default()).map_err(|denied| {
        Failure::forbidden(kind, target.name.as_deref().unwrap_or_default(), &denied.to_string())
    })
}
