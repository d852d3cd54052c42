//! Which Secret may be used for which repository.
//!
//! A repository names a Secret and says where its value is sent. Without a rule, whoever may create a repository in a
//! namespace could have any token of that namespace sent to a server of their own. So a Secret says itself whom it
//! serves: one that the API server sealed serves the object that it was sealed for, and one that people made carries
//! the label [`labels::SECRET_REPOSITORY`], the annotation [`annotations::SECRET_URLS`], or both.
//!
//! The API server asks this when a repository is written, and whoever reads a value asks again: on a Kubernetes API
//! server, that is the one that counts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use url::Url;

use crate::{Connection, GROUP, Repository, annotations, labels};

/// The type of Secrets that the API server makes of raw values.
pub const SEALED_SECRET: &str = "windlass.dev/secure-value";

/// Why a Secret may not be used for a repository. Its text ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretRefusal {
    /// It was sealed for something else.
    #[error(
        "it was made for another object and serves that one alone; give this repository a token of its own"
    )]
    SealedForAnother,
    /// People made it and did not say whom it serves.
    #[error(
        "it does not say that this repository may use it; annotate it with {}={url}, or label it {}={repository}",
        annotations::SECRET_URLS,
        labels::SECRET_REPOSITORY
    )]
    Unmarked {
        /// The repository.
        repository: String,
        /// An origin that would do.
        url: String,
    },
    /// People made it and did not say that the connection may use it.
    #[error(
        "it does not say that this connection may use it; label it {}={connection}",
        labels::SECRET_CONNECTION
    )]
    OtherConnection {
        /// The connection that asks.
        connection: String,
    },
    /// Its label names another repository.
    #[error(
        "its label {} names another repository than {repository}; use another Secret, or correct the label",
        labels::SECRET_REPOSITORY
    )]
    OtherRepository {
        /// The repository that asks.
        repository: String,
    },
    /// Its annotation does not name the repository's URL.
    #[error(
        "its annotation {} does not allow {url}; add that to it, or use another Secret",
        annotations::SECRET_URLS
    )]
    OtherUrl {
        /// The origin that it would be sent to.
        url: String,
    },
}

/// Whether a Secret with this metadata and type, of the repository's own namespace, may be used for the repository.
///
/// # Errors
///
/// It may not; the error says why.
pub fn check(secret: &ObjectMeta, kind: Option<&str>, repository: &Repository) -> Result<(), SecretRefusal> {
    if kind == Some(SEALED_SECRET) {
        let serves = is_owner(secret, "Repository", &repository.metadata);
        return serves.then_some(()).ok_or(SecretRefusal::SealedForAnother);
    }
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let label = secret.labels.as_ref().and_then(|set| set.get(labels::SECRET_REPOSITORY));
    let urls = secret.annotations.as_ref().and_then(|set| set.get(annotations::SECRET_URLS));
    let url = repository.spec.url().and_then(|url| Url::parse(url).ok());
    let origin = || url.as_ref().map_or_else(String::new, |url| url.origin().ascii_serialization());
    if label.is_none() && urls.is_none() {
        return Err(SecretRefusal::Unmarked { repository: name.to_owned(), url: origin() });
    }
    if label.is_some_and(|label| label != name) {
        return Err(SecretRefusal::OtherRepository { repository: name.to_owned() });
    }
    if let Some(allowed) = urls {
        let mut allowed = allowed.split([',', ' ', '\n', '\t']).filter_map(|text| Url::parse(text).ok());
        if !url.as_ref().is_some_and(|url| allowed.any(|allowed| covers(&allowed, url))) {
            return Err(SecretRefusal::OtherUrl { url: origin() });
        }
    }
    Ok(())
}

/// Whether a Secret with this metadata and type, of the connection's own namespace, may be used for the connection.
///
/// # Errors
///
/// It may not; the error says why.
pub fn check_connection(
    secret: &ObjectMeta,
    kind: Option<&str>,
    connection: &Connection,
) -> Result<(), SecretRefusal> {
    if kind == Some(SEALED_SECRET) {
        let serves = is_owner(secret, "Connection", &connection.metadata);
        return serves.then_some(()).ok_or(SecretRefusal::SealedForAnother);
    }
    let name = connection.metadata.name.as_deref().unwrap_or_default();
    let label = secret.labels.as_ref().and_then(|set| set.get(labels::SECRET_CONNECTION));
    let serves = label.is_some_and(|label| label == name);
    serves.then_some(()).ok_or_else(|| SecretRefusal::OtherConnection { connection: name.to_owned() })
}

/// Whether the Secret was sealed for this very object, and not for an earlier one of its name.
fn is_owner(secret: &ObjectMeta, kind: &str, object: &ObjectMeta) -> bool {
    let uid = object.uid.as_deref().filter(|uid| !uid.is_empty());
    let name = object.name.as_deref();
    secret.owner_references.iter().flatten().any(|owner| {
        owner.kind == kind
            && owner.api_version.split('/').next() == Some(GROUP)
            && Some(owner.name.as_str()) == name
            && Some(owner.uid.as_str()) == uid
    })
}

/// Whether a URL is at an allowed origin, and under its path where the allowed one has a path.
fn covers(allowed: &Url, url: &Url) -> bool {
    let base = allowed.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(base);
    allowed.origin().is_tuple()
        && allowed.origin() == url.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn repository() -> Repository {
        let document = json!({
            "metadata": {"name": "dash", "namespace": "team", "uid": "u-1"},
            "spec": {"title": "D", "type": "git", "workflows": [], "sync": {"enabled": false},
                "git": {"url": "https://git.example.com/team/dash", "branch": "main"}},
        });
        serde_json::from_value(document).unwrap()
    }

    fn asked(kind: &str, metadata: Value) -> Result<(), SecretRefusal> {
        check(&serde_json::from_value(metadata).unwrap(), Some(kind), &repository())
    }

    fn owned(kind: &str, name: &str, uid: &str) -> Result<(), SecretRefusal> {
        let owner = json!({"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": kind, "name": name, "uid": uid});
        // Labels and annotations make a sealed one no wider.
        let marks = json!({"ownerReferences": [owner], "labels": {labels::SECRET_REPOSITORY: "dash"}});
        asked(SEALED_SECRET, marks)
    }

    #[test]
    fn a_sealed_secret_serves_the_object_that_it_was_sealed_for_alone() {
        assert_eq!(owned("Repository", "dash", "u-1"), Ok(()));
        for (kind, name, uid) in
            [("Repository", "other", "u-2"), ("Repository", "dash", "u-0"), ("Connection", "dash", "u-1")]
        {
            assert_eq!(owned(kind, name, uid), Err(SecretRefusal::SealedForAnother), "{kind} {name} {uid}");
        }
        assert_eq!(asked(SEALED_SECRET, json!({})), Err(SecretRefusal::SealedForAnother));
        let mut unstored = repository();
        unstored.metadata.uid = None;
        let owner = json!({"ownerReferences": [{"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "name": "dash", "uid": ""}]});
        let metadata = serde_json::from_value(owner).unwrap();
        assert!(check(&metadata, Some(SEALED_SECRET), &unstored).is_err(), "no UID is nobody's");
    }

    #[test]
    fn a_connection_uses_what_was_sealed_or_labelled_for_it_alone() {
        let connection: Connection = serde_json::from_value(
            json!({"metadata": {"name": "app", "uid": "u-1"}, "spec": {"title": "A", "type": "github"}}),
        )
        .unwrap();
        let asked = |kind, metadata: Value| {
            check_connection(&serde_json::from_value(metadata).unwrap(), Some(kind), &connection)
        };
        let owned = |kind: &str, uid: &str| json!({"ownerReferences": [{"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": kind, "name": "app", "uid": uid}]});
        assert_eq!(asked(SEALED_SECRET, owned("Connection", "u-1")), Ok(()));
        for other in [owned("Connection", "u-2"), owned("Repository", "u-1"), json!({})] {
            assert_eq!(asked(SEALED_SECRET, other), Err(SecretRefusal::SealedForAnother));
        }
        assert_eq!(asked("Opaque", json!({"labels": {labels::SECRET_CONNECTION: "app"}})), Ok(()));
        for other in [
            json!({}),
            json!({"labels": {labels::SECRET_CONNECTION: "other"}}),
            json!({"labels": {labels::SECRET_REPOSITORY: "app"}}),
        ] {
            assert!(asked("Opaque", other).unwrap_err().to_string().contains("windlass.dev/connection=app"));
        }
    }

    #[test]
    fn a_secret_that_people_made_serves_whom_it_names() {
        let refusal = asked("Opaque", json!({})).unwrap_err();
        let text = refusal.to_string();
        assert!(text.contains("windlass.dev/urls=https://git.example.com"), "{text}");
        assert!(text.contains("windlass.dev/repository=dash"), "{text}");
        assert_eq!(asked("Opaque", json!({"labels": {labels::SECRET_REPOSITORY: "dash"}})), Ok(()));
        let other = asked("Opaque", json!({"labels": {labels::SECRET_REPOSITORY: "other"}}));
        assert!(matches!(other, Err(SecretRefusal::OtherRepository { .. })), "{other:?}");
        for (urls, allowed) in [
            ("https://git.example.com", true),
            ("https://git.example.com:443/", true),
            ("https://a.example,https://git.example.com", true),
            ("https://git.example.com/team", true),
            ("https://git.example.com/team/dash", true),
            ("https://git.example.com/tea", false),
            ("https://git.example.com/other", false),
            ("http://git.example.com", false),
            ("https://git.example.com:8443", false),
            ("https://example.com", false),
            ("git.example.com", false),
            ("*", false),
            ("", false),
        ] {
            let asked = asked("Opaque", json!({"annotations": {annotations::SECRET_URLS: urls}}));
            assert_eq!(asked.is_ok(), allowed, "{urls:?}: {asked:?}");
        }
        let both = json!({"labels": {labels::SECRET_REPOSITORY: "dash"},
            "annotations": {annotations::SECRET_URLS: "https://elsewhere.example"}});
        assert!(asked("Opaque", both).is_err(), "what is said twice holds twice");
    }
}
