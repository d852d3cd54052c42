//! What a request is about, by its method and path.

use axum::extract::Request;
use http::Method;
use windlass_auth::path_segments;

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
    is_dry_run: bool,
    is_probe: bool,
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
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let mut about = Self {
            is_probe: matches!(path, "/readyz" | "/livez" | "/healthz" | "/version"),
            is_dry_run: has("dryRun", &["All"]),
            is_apply: request.method() == Method::PATCH
                && request
                    .headers()
                    .get(http::header::CONTENT_TYPE)
                    .is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply-patch")),
            ..Self::default()
        };
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => ("", "", [].as_slice()),
        };
        let (namespace, rest) = match rest {
            // A Namespace is in itself, as a real server tells of it.
            ["namespaces", namespace] | ["namespaces", namespace, "status" | "finalize"] => {
                (*namespace, rest)
            }
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", rest),
        };
        if let [resource, rest @ ..] = rest
            && !resource.is_empty()
        {
            let part = |index: usize| (*rest.get(index).unwrap_or(&"")).to_owned();
            about = Self {
                group: group.to_owned(),
                version: version.to_owned(),
                namespace: namespace.to_owned(),
                resource: (*resource).to_owned(),
                name: part(0),
                subresource: part(1),
                ..about
            };
        }
        let is_one = !about.name.is_empty();
        about.verb = match request.method().as_str() {
            _ if about.resource.is_empty() => "",
            "GET" | "HEAD" if !is_one && has("watch", &["true", "1"]) => "watch",
            "GET" | "HEAD" if !is_one => "list",
            "GET" | "HEAD" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if !is_one => "deletecollection",
            "DELETE" => "delete",
            _ => "",
        };
        if about.verb.is_empty() {
            about.verb = match request.method().as_str() {
                "GET" => "get",
                "HEAD" => "head",
                "POST" => "post",
                "PUT" => "put",
                "PATCH" => "patch",
                "DELETE" => "delete",
                _ => "other",
            };
        }
        about
    }

    pub(super) fn is_probe(&self) -> bool {
        self.is_probe
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

    pub(super) fn dry_run(&self) -> &'static str {
        if self.is_dry_run { "All" } else { "" }
    }

    /// Forgets what only the request says: a resource that is not served, and the sub-resource of a request that was refused.
    pub(super) fn forget_unknown(&mut self, is_served: bool, is_refused: bool) {
        if !is_served {
            self.group.clear();
            self.version.clear();
            self.resource.clear();
            self.name.clear();
            self.namespace.clear();
        }
        if !is_served || is_refused {
            self.subresource.clear();
        }
    }
}
