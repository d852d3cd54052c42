//! Reading a request's path.

use http::Method;
use serde_json::{Map, Value};
use windlass_auth::path_segments;

use crate::failure::{Failure, Result};
use crate::kinds::{Builtin, Registry, ServedKind};
use windlass_apimachinery::metadata;
use windlass_store::{Key, Range};

/// What a path addresses.
#[derive(Debug)]
pub(crate) enum Route {
    /// `/`: the paths that are served.
    Root,
    /// `/healthz`, `/livez`, `/readyz`
    Health,
    /// `/version`
    Version,
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1` and `/apis/{group}/{version}`
    GroupVersion {
        group: String,
        version: String,
    },
    /// `/openapi/v3`
    OpenApiIndex,
    /// `/openapi/v2`
    OpenApiV2,
    /// `/openapi/v3/{path}`
    OpenApi(String),
    Resource(Target),
}

/// A collection, an object, or a sub-resource of one.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) served: ServedKind,
    /// `None` for a cluster-wide request and for cluster-scoped kinds.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) part: Part,
}

/// What of an object a path addresses: all of it, or a sub-resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Status,
    /// How many there are of what the object stands for, as a `Scale`.
    Scale,
    /// The finalizers in the spec of a Namespace.
    Finalize,
}

impl Part {
    /// As managers of fields name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
        }
    }
}

impl Target {
    /// Whether only the status is addressed.
    pub(crate) fn is_status(&self) -> bool {
        self.part == Part::Status
    }

    /// The object that is stored under this key, in this version of its kind.
    pub(crate) fn object(served: &ServedKind, key: &Key) -> Self {
        Self {
            served: served.clone(),
            namespace: served.kind.namespaced.then(|| key.namespace().to_owned()),
            name: Some(key.name().to_owned()),
            part: Part::Whole,
        }
    }

    /// The objects that the path's collection spans.
    pub(crate) fn range(&self) -> Result<Range> {
        let kind = &self.served.kind;
        Ok(Range::new(&kind.group, &kind.plural, self.namespace.as_deref())?)
    }

    /// Refuses an object of another namespace than the path's. Where there are none, it gets none.
    pub(crate) fn check_namespace(&self, object: &mut Map<String, Value>) -> Result<()> {
        if !self.served.kind.namespaced {
            metadata::of(object).remove("namespace");
        }
        let given = metadata::text(object, "namespace");
        if !given.is_empty() && Some(given) != self.namespace.as_deref() {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(())
    }

    /// Where an object of the collection is stored.
    pub(crate) fn key(&self, name: &str) -> Result<Key> {
        let kind = &self.served.kind;
        Ok(Key::new(&kind.group, &kind.plural, self.namespace.as_deref().unwrap_or_default(), name)?)
    }
}

/// The parts of a path to resources, served or not.
pub(crate) struct ApiPath<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) namespace: Option<&'a str>,
    /// The plural, the name and what follows.
    pub(crate) rest: &'a [&'a str],
}

impl<'a> ApiPath<'a> {
    /// Of these segments; `None` of a path to something else.
    pub(crate) fn of(segments: &'a [&'a str]) -> Option<Self> {
        let (group, version, rest) = match segments {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // `/api/v1/namespaces/{name}[/status]` is the Namespace itself.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            _ => (None, rest),
        };
        Some(Self { group, version, namespace, rest })
    }
}

impl Route {
    pub(crate) fn parse(path: &str, registry: &Registry) -> Result<Self> {
        let segments = path_segments(path.trim_end_matches('/'));
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        // No name has one, however it is written; a real server takes it for one level more.
        if segments.iter().any(|segment| segment.contains('/')) {
            return Err(Failure::unknown_path());
        }
        match segments.as_slice() {
            [""] => Ok(Self::Root),
            ["healthz" | "livez" | "readyz"] => Ok(Self::Health),
            ["version"] => Ok(Self::Version),
            ["api"] => Ok(Self::CoreVersions),
            ["apis"] => Ok(Self::Groups),
            ["apis", group] => Ok(Self::Group((*group).to_owned())),
            ["openapi", "v2"] => Ok(Self::OpenApiV2),
            ["openapi", "v3"] => Ok(Self::OpenApiIndex),
            ["openapi", "v3", path @ ..] => Ok(Self::OpenApi(path.join("/"))),
            segments => match ApiPath::of(segments) {
                Some(ApiPath { group, version, rest: [], .. }) => {
                    Ok(Self::GroupVersion { group: group.to_owned(), version: version.to_owned() })
                }
                Some(path) => Self::resource(&path, registry),
                None => Err(Failure::unknown_path()),
            },
        }
    }

    fn resource(path: &ApiPath<'_>, registry: &Registry) -> Result<Self> {
        let &ApiPath { group, version, namespace, rest } = path;
        let (plural, name, sub) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(*name), None),
            [plural, name, sub] => (plural, Some(*name), Some(*sub)),
            // What follows the sub-resource of a custom kind is not looked at.
            [plural, name, sub, ..]
                if registry
                    .find(group, version, plural)
                    .is_some_and(|found| found.kind.builtin.is_none()) =>
            {
                (plural, Some(*name), Some(*sub))
            }
            _ => return Err(Failure::unknown_path()),
        };
        let served = registry.find(group, version, plural).ok_or_else(Failure::unknown_path)?;
        let (is_core, namespaced) = (served.kind.builtin.is_some(), served.kind.namespaced);
        if namespace.is_some() != namespaced && (!namespaced || name.is_some()) {
            return Err(Failure::unknown_path());
        }
        if name == Some("") || namespace == Some("") {
            return Err(Failure::unknown_path());
        }
        let part = match sub {
            None => Part::Whole,
            Some("status") if served.served().status_subresource => Part::Status,
            Some("scale") if served.served().scale.is_some() => Part::Scale,
            Some("finalize") if served.kind.builtin == Some(Builtin::Namespace) => Part::Finalize,
            Some(_) if is_core => return Err(Failure::unknown_path()),
            Some(_) => return Err(Failure::not_found(&served.kind, name.unwrap_or_default())),
        };
        let (namespace, name) = (namespace.map(str::to_owned), name.map(str::to_owned));
        Ok(Self::Resource(Target { served, namespace, name, part }))
    }
}

/// What a method asks for of one object or of a collection, in Kubernetes' words.
pub(crate) fn verb_of(method: &Method, is_one: bool, is_watch: bool) -> &'static str {
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if is_one => "delete",
        "DELETE" => "deletecollection",
        _ if is_one => "get",
        _ if is_watch => "watch",
        _ => "list",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::core_kinds;

    #[test]
    fn paths_address_collections_objects_and_status() {
        let registry = Registry::of(core_kinds().unwrap()).unwrap();
        let target = |path: &str| match Route::parse(path, &registry) {
            Ok(Route::Resource(target)) => {
                Some((target.served.kind.plural.clone(), target.namespace, target.name))
            }
            _ => None,
        };
        let some = |plural: &str, namespace: Option<&str>, name: Option<&str>| {
            Some((plural.to_owned(), namespace.map(str::to_owned), name.map(str::to_owned)))
        };
        for (path, expected) in [
            ("/api/v1/secrets", some("secrets", None, None)),
            ("/api/v1/namespaces/a/secrets", some("secrets", Some("a"), None)),
            ("/api/v1/namespaces/a/secrets/x%2Dy", some("secrets", Some("a"), Some("x-y"))),
            ("/api/v1/namespaces", some("namespaces", None, None)),
            ("/api/v1/namespaces/a", some("namespaces", None, Some("a"))),
            ("/api/v1/namespaces/a/status", some("namespaces", None, Some("a"))),
            ("/apis/coordination.k8s.io/v1/leases/", some("leases", None, None)),
            ("/api/v1/secrets/x", None),
            ("/api/v1/namespaces/a/secrets/x/status", None),
            ("/api/v1/namespaces/a/secrets/x/y/z", None),
            ("/api/v1/namespaces/a/nothing", None),
            ("/api/v2/secrets", None),
            ("/nothing", None),
            ("/api%2Fv1/namespaces/a/secrets", None),
            ("/api/v1/namespaces%2Fa/secrets", None),
            ("/api/v1/namespaces/a%2Fsecrets", None),
        ] {
            assert_eq!(target(path), expected, "{path}");
        }
    }
}
