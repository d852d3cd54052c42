//! What a request is about, by its method and path.

use axum::extract::Request;
use http::Method;
use windlass_auth::path_segments;

use crate::request::{ApiPath, verb_of};

/// What a request is about. All but `verb` are empty for what is no resource.
#[derive(Debug, Default)]
pub(super) struct About {
    /// In Kubernetes' words, as the rules of RBAC have them: `get`, `list`, `watch`, …
    pub(super) verb: &'static str,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    is_apply: bool,
    pub(super) is_probe: bool,
    /// `All`, or nothing.
    pub(super) dry_run: &'static str,
}

impl About {
    pub(super) fn of(request: &Request) -> Self {
        let path = request.uri().path();
        let query = request.uri().query().unwrap_or_default();
        let has = |parameter: &str, values: &[&str]| {
            query.split('&').any(|pair| {
                pair.split_once('=').is_some_and(|(name, value)| name == parameter && values.contains(&value))
            })
        };
        let segments = path_segments(path);
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let mut about = Self {
            is_probe: matches!(path, "/readyz" | "/livez" | "/healthz" | "/version"),
            dry_run: if has("dryRun", &["All"]) { "All" } else { "" },
            is_apply: request.method() == Method::PATCH
                && request
                    .headers()
                    .get(http::header::CONTENT_TYPE)
                    .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch")),
            ..Self::default()
        };
        if let Some(ApiPath { group, version, namespace, rest: [resource, rest @ ..] }) =
            ApiPath::of(&segments)
            && !resource.is_empty()
        {
            let part = |index: usize| (*rest.get(index).unwrap_or(&"")).to_owned();
            // A Namespace is in itself, as a real server tells of it.
            let namespace = namespace.map_or_else(
                || if *resource == "namespaces" { part(0) } else { String::new() },
                str::to_owned,
            );
            about = Self {
                group: group.to_owned(),
                version: version.to_owned(),
                namespace,
                resource: (*resource).to_owned(),
                name: part(0),
                subresource: part(1),
                ..about
            };
        }
        let method = request.method();
        let methods = ["get", "head", "post", "put", "patch", "delete"];
        about.verb = match methods.into_iter().find(|known| known.eq_ignore_ascii_case(method.as_str())) {
            Some(_) if !about.resource.is_empty() => {
                verb_of(method, !about.name.is_empty(), has("watch", &["true", "1"]))
            }
            method => method.unwrap_or("other"),
        };
        about
    }

    pub(super) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    pub(super) fn is_mutating(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch" | "head")
    }

    /// The verb as metrics name it.
    pub(super) fn metric_verb(&self) -> &'static str {
        match self.verb {
            "get" => "GET",
            "head" => "HEAD",
            "list" => "LIST",
            "watch" => "WATCH",
            "create" | "post" => "POST",
            "update" | "put" => "PUT",
            "patch" if self.is_apply => "APPLY",
            "patch" => "PATCH",
            "delete" => "DELETE",
            "deletecollection" => "DELETECOLLECTION",
            _ => "OTHER",
        }
    }

    /// What of the API it spans: one object, a namespace, or all of them.
    pub(super) fn scope(&self) -> &'static str {
        if !self.name.is_empty() || self.verb == "create" {
            "resource"
        } else if !self.namespace.is_empty() {
            "namespace"
        } else if !self.resource.is_empty() {
            "cluster"
        } else {
            ""
        }
    }

    /// Forgets what only the request says: a resource that is not served, and the sub-resource of a request that was refused.
    pub(super) fn forget_unknown(&mut self, is_served: bool, is_refused: bool) {
        if !is_served {
            let Self { verb, is_apply, dry_run, .. } = *self;
            *self = Self { verb, is_apply, dry_run, ..Self::default() };
        } else if is_refused {
            self.subresource.clear();
        }
    }
}
