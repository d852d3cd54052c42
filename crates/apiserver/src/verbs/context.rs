//! A request for a resource, with all but its body read.

use std::borrow::Cow;
use std::sync::Arc;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::Value;
use windlass_auth::Caller;

use super::render::Renderer;
use super::scale;
use crate::attributes::Attributes;
use crate::failure::{self, Failure, Result};
use crate::kinds::{Builtin, Kind, ScalePaths, ServedKind};
use crate::request::{Accept, FIELD_MANAGER_MAX, Part, Query, Target, WriteQuery, is_printable};
use crate::state::Inner;
use crate::writer::{Writer, Written};
use windlass_apimachinery::definition;
use windlass_store::Object;

/// A request.
pub(super) struct Context {
    pub(super) inner: Arc<Inner>,
    pub(super) caller: Arc<Caller>,
    pub(super) target: Target,
    pub(super) query: Query,
    pub(super) parts: Parts,
    /// The form of the answer.
    pub(super) accept: Accept,
}

impl Context {
    /// The name that the path gives.
    pub(super) fn name(&self) -> Result<&str> {
        self.target.name.as_deref().ok_or_else(Failure::unknown_path)
    }

    pub(super) fn kind(&self) -> &Arc<Kind> {
        &self.target.served.kind
    }

    /// Where the object has what its scale says, if that is what is asked for.
    pub(super) fn scale(&self) -> Option<&ScalePaths> {
        self.target.served.served().scale.as_ref().filter(|_| self.target.part == Part::Scale)
    }

    /// The kind that bodies and answers are of.
    pub(super) fn spoken(&self) -> &ServedKind {
        self.scale().map_or(&self.target.served, |paths| &paths.scale)
    }

    /// What writes answers in their form.
    pub(super) fn renderer(&self) -> Result<Renderer<'_>> {
        Renderer::new(&self.inner, self.spoken(), self.accept, &self.query)
    }

    /// The stored object of this name in the path's namespace.
    pub(super) async fn find(&self, name: &str) -> Result<Option<Object>> {
        self.inner.find(&self.target, name).await
    }

    /// What writes for this request. A field manager that is not named is the program of the User-Agent.
    pub(super) fn writer(&self, dry_run: bool, field_manager: &str) -> Writer {
        let named =
            if field_manager.is_empty() { user_agent(&self.parts.headers) } else { field_manager.to_owned() };
        let (caller, target) = (self.caller.clone(), self.target.clone());
        Writer::new(&self.inner, Attributes { caller, target, dry_run, field_manager: named })
    }

    /// As [`Self::writer`], as the request's parameters say.
    pub(super) fn writer_of(&self, query: &WriteQuery) -> Writer {
        self.writer(query.dry_run, &query.field_manager)
    }

    /// The answer to a write.
    pub(super) fn written(
        &self,
        status: StatusCode,
        written: &Written,
        warnings: &[String],
    ) -> Result<Response> {
        let plain = match self.scale() {
            Some(paths) => Cow::Owned(scale::encode(paths, &serde_json::from_slice(&written.plain)?)),
            None => Cow::Borrowed(&*written.plain),
        };
        let mut response = self.renderer()?.response(status, &plain, written.revision);
        failure::warn(&mut response, warnings);
        if self.kind().builtin == Some(Builtin::Definition) && self.parts.method == Method::POST {
            let object: Value = serde_json::from_slice(&written.plain)?;
            failure::warn(&mut response, &definition::warnings(&object));
        }
        Ok(response)
    }
}

/// The program that the User-Agent names, as far as it can be printed.
fn user_agent(headers: &HeaderMap) -> String {
    let value = headers.get(header::USER_AGENT);
    let text = value.map(|value| String::from_utf8_lossy(value.as_bytes())).unwrap_or_default();
    let program = text.split('/').next().unwrap_or_default();
    let mut name: String = program.chars().filter(|c| is_printable(*c)).collect();
    name.truncate(name.floor_char_boundary(FIELD_MANAGER_MAX));
    name
}
