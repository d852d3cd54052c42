//! `…/files`: the files of a repository, read and written one at a time.
//!
//! A write is parsed and tried against the API before anything is written, becomes one commit on one base, and its object
//! follows at once where the repository's own branch was written to. Whatever the last step misses, the next pull makes
//! up for. Grafana: `files.go`, `dualwriter.go`.
//!
//! Start reading at [`create`]; then `change.rs` (what is asked for), `attempt.rs` (one commit on one base), `trial.rs`
//! (what it would do) and `apply.rs` (what it did).

mod apply;
mod attempt;
mod change;
mod message;
mod options;
mod path;
mod place;
mod read;
mod trial;
mod wrapper;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Extension, Path, Query, State};
use axum::response::Response;
use http::HeaderMap;
use windlass_api::{ResourceAction, status};
use windlass_auth::Caller;

use self::options::Options;
pub(crate) use self::path::FilePath;
pub(crate) use self::place::Place;
pub(crate) use self::read::item;
use self::write::Write;
use crate::answer::Refusal;
use crate::request::Target;
use crate::state::RepositoryApi;
use crate::turns::Turns;

type Api = State<Arc<RepositoryApi>>;
/// Where a file is.
pub(crate) type TargetPath = Result<Path<Target>, PathRejection>;
/// What a query says.
pub(crate) type RawQuery = Result<Query<BTreeMap<String, String>>, QueryRejection>;
type OptionalCaller = Option<Extension<Caller>>;

/// Every file, or every one below a folder.
pub(crate) async fn list(
    State(state): Api,
    target: TargetPath,
    query: RawQuery,
    caller: OptionalCaller,
) -> Result<Response, Refusal> {
    let (target, options) = (target_of(target)?, options_of(query)?);
    target.admit(&state, caller.as_ref(), ("get", "files")).await?;
    read::list(&state, &target, &options, None).await
}

/// One file, or every one below a folder.
pub(crate) async fn read(
    State(state): Api,
    target: TargetPath,
    query: RawQuery,
    caller: OptionalCaller,
) -> Result<Response, Refusal> {
    let (target, options) = (target_of(target)?, options_of(query)?);
    let caller = target.admit(&state, caller.as_ref(), ("get", "files")).await?;
    read::read(&state, &target, &options, caller).await
}

/// A new file or folder; with `originalPath` one that moves here.
pub(crate) async fn create(
    State(state): Api,
    Extension(turns): Extension<Turns>,
    target: TargetPath,
    query: RawQuery,
    caller: OptionalCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let (target, options) = (target_of(target)?, options_of(query)?);
    let caller = target.admit(&state, caller.as_ref(), ("create", "files")).await?.clone();
    let action = if options.original_path.is_some() { ResourceAction::Move } else { ResourceAction::Create };
    Write::new(target, caller, options, headers, action)?.run(state, turns, body).await
}

/// A file's new content.
pub(crate) async fn update(
    State(state): Api,
    Extension(turns): Extension<Turns>,
    target: TargetPath,
    query: RawQuery,
    caller: OptionalCaller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let (target, options) = (target_of(target)?, options_of(query)?);
    let caller = target.admit(&state, caller.as_ref(), ("update", "files")).await?.clone();
    Write::new(target, caller, options, headers, ResourceAction::Update)?.run(state, turns, body).await
}

/// A file or folder that goes.
pub(crate) async fn delete(
    State(state): Api,
    Extension(turns): Extension<Turns>,
    target: TargetPath,
    query: RawQuery,
    caller: OptionalCaller,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let (target, options) = (target_of(target)?, options_of(query)?);
    let caller = target.admit(&state, caller.as_ref(), ("delete", "files")).await?.clone();
    let write = Write::new(target, caller, options, headers, ResourceAction::Delete)?;
    write.run(state, turns, Body::empty()).await
}

pub(crate) fn target_of(target: TargetPath) -> Result<Target, Refusal> {
    let Path(target) = target
        .map_err(|error| status::bad_request(format!("the path cannot be decoded: {}", error.body_text())))?;
    Ok(target)
}

pub(crate) fn options_of(query: RawQuery) -> Result<Options, Refusal> {
    let Query(query) = query.map_err(|error| status::bad_request(error.body_text()))?;
    Options::parse(&query)
}
