//! What a request path reaches: the group and namespace that its caller needs.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The part of the API that a path addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestScope {
    /// Health and version: open to anybody.
    Anonymous,
    /// Deliveries of webhooks, which bring signatures in place of a caller's token: open to anybody, and judged by whoever
    /// takes them in.
    Signed,
    /// Discovery, `OpenAPI`, metrics, questions of a caller about itself and whatever is no API object: open to any
    /// authenticated caller.
    Discovery,
    /// Objects of one API group.
    Resource {
        /// The API group, `""` for core.
        group: String,
        /// The namespace, `""` for a cluster-wide request.
        namespace: String,
    },
}

impl RequestScope {
    /// Reads the scope off a URL path, by its [`path_segments`].
    pub fn of(path: &str) -> Self {
        if matches!(path, "/readyz" | "/livez" | "/healthz" | "/version") {
            return Self::Anonymous;
        }
        // Not decoded: nothing but this very path is let through.
        if let ["", "apis", "provisioning.grafana.app", _, "namespaces", _, "repositories", _, "webhook"] =
            path.split('/').collect::<Vec<_>>()[..]
        {
            return Self::Signed;
        }
        let segments = path_segments(path);
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        let (group, rest) = match segments.as_slice() {
            ["apis", "authentication.k8s.io", _version, "selfsubjectreviews"]
            | [
                "apis",
                "authorization.k8s.io",
                _version,
                "selfsubjectaccessreviews" | "selfsubjectrulesreviews",
            ] => return Self::Discovery,
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => return Self::Discovery,
        };
        let namespace = match rest {
            [] | [""] => return Self::Discovery,
            ["namespaces", namespace, ..] => namespace,
            _ => "",
        };
        Self::Resource { group: group.to_owned(), namespace: namespace.to_owned() }
    }
}

/// The segments of a URL path, each percent-decoded once: who judges a path and who answers it read it by this alone, so
/// that both see the same namespace. An encoded slash is part of its segment, and no name has one.
pub fn path_segments(path: &str) -> Vec<Cow<'_, str>> {
    path.trim_start_matches('/').split('/').map(decode).collect()
}

/// Percent-decodes one path segment; what is not a valid escape or not UTF-8 stays as it came, and then matches
/// no namespace.
fn decode(segment: &str) -> Cow<'_, str> {
    percent_decode_str(segment).decode_utf8().unwrap_or(Cow::Borrowed(segment))
}

#[cfg(test)]
mod tests {
    use super::RequestScope::{self, Anonymous, Discovery, Signed};

    fn resource(group: &str, namespace: &str) -> RequestScope {
        RequestScope::Resource { group: group.into(), namespace: namespace.into() }
    }

    #[test]
    fn paths_are_read_as_the_router_reads_them() {
        let p = "provisioning.grafana.app";
        for (path, expected) in [
            ("/readyz", Anonymous),
            ("/version", Anonymous),
            ("/readyz/", Discovery),
            ("/", Discovery),
            ("/api", Discovery),
            ("/api/v1", Discovery),
            ("/apis", Discovery),
            ("/apis/provisioning.grafana.app", Discovery),
            ("/apis/provisioning.grafana.app/v0alpha1", Discovery),
            ("/openapi/v3/apis/provisioning.grafana.app/v0alpha1", Discovery),
            ("/apis/authentication.k8s.io/v1/selfsubjectreviews", Discovery),
            ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Discovery),
            ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", Discovery),
            ("/apis/authorization.k8s.io/v1/subjectaccessreviews", resource("authorization.k8s.io", "")),
            ("/apis/provisioning.grafana.app/v0alpha1/jobs", resource(p, "")),
            ("/apis/provisioning.grafana.app/v0alpha1/namespaces/default/jobs", resource(p, "default")),
            ("/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/r/webhook", Signed),
            (
                "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/r/webhook/",
                resource(p, "default"),
            ),
            (
                "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/r/%77ebhook",
                resource(p, "default"),
            ),
            (
                "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/jobs/r/webhook",
                resource(p, "default"),
            ),
            (
                "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/r/jobs",
                resource(p, "default"),
            ),
            ("/apis/provisioning%2Egrafana.app/v0alpha1/namespaces/a%2Db/jobs", resource(p, "a-b")),
            ("/apis/provisioning.grafana.app/v0alpha1/%6eamespaces/other/jobs", resource(p, "other")),
            ("/apis/provisioning.grafana.app/v0alpha1/namespaces/%zz/jobs", resource(p, "%zz")),
            ("/apis%2Fprovisioning.grafana.app/v0alpha1/namespaces/other/jobs", Discovery),
            ("/apis/provisioning.grafana.app/v0alpha1/namespaces%2Fother/jobs", resource(p, "")),
            (
                "/apis/provisioning.grafana.app/v0alpha1/namespaces/default%2F..%2Fother/jobs",
                resource(p, "default/../other"),
            ),
            ("/api/v1/namespaces", resource("", "")),
            ("/api/v1/namespaces/default", resource("", "default")),
            ("/api/v1/namespaces/default/secrets/s", resource("", "default")),
        ] {
            assert_eq!(RequestScope::of(path), expected, "{path}");
        }
    }
}
