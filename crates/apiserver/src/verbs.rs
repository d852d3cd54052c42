//! What is done for each request.

mod apply;
mod commit;
mod create;
mod definition;
mod delete;
mod get;
mod list;
mod owners;
mod past;
mod patch;
mod pieces;
mod render;
mod review;
mod scale;
mod turns;
mod update;
mod watch;
mod write;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{Method, Request, request::Parts};
use tokio_util::sync::CancellationToken;
use windlass_auth::{Caller, refuse_impersonation};

use crate::discovery;
use crate::failure::{self, Failure, Result};
use crate::kinds::Builtin;
use crate::request::{Accept, Part, Query, Route, Target, read_bytes};
use crate::state::Inner;
use windlass_apimachinery::bounds::MAX_BYTES;

/// A request for a resource, with all but its body read.
pub(crate) struct Context {
    pub(crate) inner: Arc<Inner>,
    pub(crate) caller: Caller,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) parts: Parts,
}

pub(crate) use delete::DeleteOptions;
pub(crate) use turns::Turns;
pub(crate) use watch::Watched;

/// Within which time a request is answered. What a watch or a long list goes on to say is not part of it.
const DEADLINE: Duration = Duration::from_mins(1);
/// How many bytes of a body or an object are too many to be worked on beside other requests.
const LARGE: usize = 128 << 10;
/// How many large requests are worked on at a time.
pub(crate) const LARGE_AT_ONCE: usize = 4;

/// The namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

impl Context {
    /// Refuses to delete the namespaces that are always there.
    fn check_immortal(&self, method: &Method) -> Result<()> {
        let kind = &self.target.served.kind;
        match self.target.name.as_deref() {
            Some(name)
                if method == Method::DELETE
                    && kind.builtin == Some(Builtin::Namespace)
                    && IMMORTAL.contains(&name) =>
            {
                Err(Failure::forbidden(kind, name, "this namespace may not be deleted"))
            }
            _ => Ok(()),
        }
    }

    /// A request of the server's own.
    pub(crate) fn internal(inner: &Arc<Inner>, target: Target) -> Self {
        let (parts, ()) = Request::new(()).into_parts();
        let caller = Caller::system("garbage-collector");
        Self { inner: inner.clone(), caller, target, query: Query::default(), parts }
    }

    /// The form of an answer that is one object.
    fn accept(&self) -> Result<Accept> {
        Accept::parse(&self.parts.headers, false)
    }

    /// The name that the path gives.
    fn name(&self) -> Result<&str> {
        self.target.name.as_deref().ok_or_else(Failure::unknown_path)
    }
}

/// Answers one request.
pub(crate) async fn answer(inner: &Arc<Inner>, request: Request<Body>) -> Result<Response> {
    let caller = request.extensions().get::<Caller>().cloned().ok_or_else(Failure::unauthorized)?;
    refuse_impersonation(request.headers()).map_err(|status| Failure::from(*status))?;
    if request.uri().path() == "/readyz"
        && let Some(problem) = inner.store.problem()
    {
        tracing::warn!(problem, "not ready: the object store has a problem");
        return Ok(Failure::not_ready());
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
    if let Some(length) = parts.headers.get(http::header::CONTENT_LENGTH)
        && length
            .to_str()
            .ok()
            .and_then(|length| length.parse::<u64>().ok())
            .is_some_and(|length| length > MAX_BYTES as u64)
    {
        return Err(Failure::too_large(MAX_BYTES));
    }
    let context = Context { inner: inner.clone(), caller, target, query, parts };
    let method = context.parts.method.clone();
    if let Some(Builtin::Review(review)) = context.target.served.kind.builtin {
        Accept::check_media(&context.parts.headers, false)?;
        return match (method.as_str(), &context.target.name) {
            ("POST", None) => review::answer(context, &registry, review, body).await,
            (_, None) => Err(Failure::method_not_allowed()),
            (_, Some(_)) => Err(Failure::unknown_path()),
        };
    }
    if context.target.served.kind.builtin == Some(Builtin::Definition) && method != Method::GET {
        context.check_own_definition(&method)?;
    }
    context.check_immortal(&method)?;
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
        return dispatch(context, &method, body).await;
    }
    let bytes = read_bytes(body).await?;
    let stored = match &context.target.name {
        Some(name) if bytes.len() < LARGE => context.find(name).await?.map_or(0, |object| object.value.len()),
        _ => 0,
    };
    if bytes.len() < LARGE && stored < LARGE {
        return dispatch(context, &method, bytes.into()).await;
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
                answer = dispatch(context, &method, bytes.into()) => answer,
            }
        })
    });
    answer.await.map_err(|error| Failure::internal(&error))?
}

async fn dispatch(context: Context, method: &Method, body: Body) -> Result<Response> {
    let Target { served, namespace, name, .. } = &context.target;
    let across = served.kind.namespaced && namespace.is_none() && name.is_none();
    if across && matches!(method.as_str(), "POST" | "DELETE") {
        // Only reading goes across namespaces.
        return Err(match served.kind.builtin {
            Some(_) => Failure::method_not_allowed(),
            None => Failure::page_not_found(),
        });
    }
    let core = served.kind.builtin.is_some();
    if core {
        Accept::check_media(&context.parts.headers, method == Method::GET && name.is_none())?;
    }
    // Custom kinds are read by HEAD as well.
    let method = if !core && method == Method::HEAD { &Method::GET } else { method };
    match (method.as_str(), context.target.part) {
        (_, Part::Scale) => return scale::answer(context, method, body).await,
        ("PUT", Part::Finalize) => return update::answer(context, body).await,
        (_, Part::Finalize) => return Err(Failure::method_not_allowed()),
        (_, Part::Whole | Part::Status) => {}
    }
    match (method.as_str(), context.target.name.is_some(), context.target.is_status()) {
        ("GET", false, _) => list::answer(context).await,
        ("GET", true, _) => get::answer(context).await,
        ("POST", false, _) => create::answer(context, body).await,
        ("PUT", true, _) => update::answer(context, body).await,
        ("PATCH", true, _) => patch::answer(context, body).await,
        ("DELETE", true, false) => delete::answer(context, body).await,
        ("DELETE", false, _) => delete::answer_collection(context, body).await,
        _ if core => Err(Failure::method_not_allowed()),
        // The name is that of the body; the one of the path is not looked at.
        ("POST", true, false) => {
            let target = Target { name: None, ..context.target };
            create::answer(Context { target, ..context }, body).await
        }
        ("PUT" | "PATCH", false, _) => Err(Failure::bad_request("name must be provided")),
        _ => {
            let verb = verb_of(method, &context.target);
            Err(Failure::verb_not_supported(&context.target.served.kind, verb))
        }
    }
}

/// What a method asks for, in Kubernetes' words.
pub(super) fn verb_of(method: &Method, target: &Target) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if target.name.is_none() => "deletecollection",
        "DELETE" => "delete",
        "GET" => "get",
        _ => "",
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
    let verb = match verb_of(method, target) {
        "get" | "" if target.name.is_some() => "get",
        "get" | "" if query.flag("watch") => "watch",
        "get" | "" => "list",
        verb => verb,
    };
    caller.may(verb, group, &kind.plural, namespace.unwrap_or_default()).map_err(|denied| {
        Failure::forbidden(kind, target.name.as_deref().unwrap_or_default(), &denied.to_string())
    })
}
