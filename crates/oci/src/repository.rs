//! Where an artifact is: registry, repository, tag or digest.

use std::fmt;

use url::Url;
use windlass_http_client::printable;

use crate::{Digest, OciError};

/// Docker Hub, as credentials and requests name it.
pub(crate) const DOCKER_HUB: &str = "index.docker.io";

/// A repository of a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repository {
    /// Scheme, host and port.
    base: Url,
    name: String,
}

/// A tag of a repository, or what it cannot move away from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// By content.
    Digest(Digest),
    /// By name.
    Tag(String),
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest(digest) => f.write_str(digest.as_str()),
            Self::Tag(tag) => f.write_str(tag),
        }
    }
}

impl Repository {
    /// `oci://host[:port]/name`, with or without the scheme. A first part that is no host means Docker Hub, as for
    /// Docker. `insecure` speaks HTTP without TLS; whether that may be is the client's to say.
    ///
    /// # Errors
    /// [`OciError::Invalid`].
    pub fn parse(text: &str, insecure: bool) -> Result<Self, OciError> {
        let invalid = |detail: &str| OciError::Invalid {
            text: without_user_info(text),
            what: "repository of a registry",
            detail: detail.to_owned(),
        };
        let path = text.trim().strip_prefix("oci://").unwrap_or(text.trim()).trim_end_matches('/');
        if path.contains("://") {
            return Err(invalid("expected oci://host/name"));
        }
        if path.contains(['@', '?', '#', '\\', '%']) {
            return Err(invalid("it has more than a host and a name"));
        }
        let (host, name) = match path.split_once('/') {
            Some((host, name)) if is_host(host) => (host, name.to_owned()),
            Some(_) => (DOCKER_HUB, path.to_owned()),
            None if is_host(path) => return Err(invalid("it has no name after its host")),
            None => (DOCKER_HUB, path.to_owned()),
        };
        let host = if host == "docker.io" { DOCKER_HUB } else { host };
        let name = if host == DOCKER_HUB && !name.contains('/') { format!("library/{name}") } else { name };
        if name.is_empty() || name.len() > 255 || !name.split('/').all(is_part) {
            return Err(invalid(
                "a name is made of parts in lower case, with digits, dots, dashes and underscores between",
            ));
        }
        let scheme = if insecure { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{host}/"))
            .ok()
            .filter(|url| url.path() == "/" && url.host_str().is_some())
            .ok_or_else(|| invalid("its host is none"))?;
        Ok(Self { base, name })
    }

    /// The name within the registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `host[:port]` as credentials are filed under.
    pub fn registry(&self) -> String {
        let host = self.base.host_str().unwrap_or_default();
        self.base.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    pub(crate) fn is_insecure(&self) -> bool {
        self.base.scheme() == "http"
    }

    /// `…/v2/<name>/<rest>`; every part was judged, so that nothing needs escaping.
    pub(crate) fn url(&self, rest: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("/v2/{}/{rest}", self.name));
        url
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry(), self.name)
    }
}

/// Whether a string may be a tag.
pub(crate) fn is_tag(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 128
        && bytes.next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// As Docker tells a host from the first part of a name.
fn is_host(part: &str) -> bool {
    part.contains(['.', ':']) || part == "localhost"
}

fn is_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = part.bytes().next().is_some_and(is_word) && part.bytes().next_back().is_some_and(is_word);
    ends && part.bytes().all(|byte| is_word(byte) || b"._-".contains(&byte))
}

/// As it may be shown: nothing that stands before an `@`.
fn without_user_info(text: &str) -> String {
    printable(text.rsplit('@').next().unwrap_or_default(), 200)
}

#[cfg(test)]
mod tests {
    use super::{Repository, is_tag};

    fn parsed(text: &str) -> String {
        Repository::parse(text, false)
            .map_or_else(|error| format!("error: {error}"), |it| it.url("tags/list").to_string())
    }

    #[test]
    fn names_lead_to_the_registries_that_docker_and_flux_mean() {
        for (text, url) in [
            ("oci://ghcr.io/org/app", "https://ghcr.io/v2/org/app/tags/list"),
            ("ghcr.io/org/app/", "https://ghcr.io/v2/org/app/tags/list"),
            ("oci://registry:5000/a", "https://registry:5000/v2/a/tags/list"),
            ("oci://localhost/a/b-c/d.e_f", "https://localhost/v2/a/b-c/d.e_f/tags/list"),
            ("oci://[::1]:5000/a", "https://[::1]:5000/v2/a/tags/list"),
            ("oci://docker.io/org/app", "https://index.docker.io/v2/org/app/tags/list"),
            ("alpine", "https://index.docker.io/v2/library/alpine/tags/list"),
            ("org/app", "https://index.docker.io/v2/org/app/tags/list"),
        ] {
            assert_eq!(parsed(text), url, "{text}");
        }
        let plain = Repository::parse("oci://127.0.0.1:5000/a", true).unwrap();
        assert_eq!(plain.url("x").as_str(), "http://127.0.0.1:5000/v2/a/x");
        assert_eq!(plain.to_string(), "127.0.0.1:5000/a");
    }

    #[test]
    fn what_is_no_repository_is_refused_and_shows_no_secret() {
        for text in [
            "",
            "oci://",
            "oci://ghcr.io",
            "oci://ghcr.io/",
            "https://ghcr.io/a",
            "oci://ghcr.io/A",
            "oci://ghcr.io/a//b",
            "oci://ghcr.io/../a",
            "oci://ghcr.io/a:tag",
            "oci://ghcr.io/a?x",
            "oci://ghcr.io/-a",
            "oci://user:secret@ghcr.io/a",
            "oci://ghcr.io/a%2fb",
            "oci://gh cr.io/a",
        ] {
            let shown = parsed(text);
            assert!(shown.starts_with("error: "), "{text}: {shown}");
            assert!(!shown.contains("secret"), "{shown}");
        }
    }

    #[test]
    fn tags_are_judged_as_the_specification_says() {
        assert!(is_tag("latest") && is_tag("_x") && is_tag("v1.2.3-rc.1") && is_tag(&"a".repeat(128)));
        for wrong in ["", ".a", "-a", "a/b", "a b", "a%", &"a".repeat(129)] {
            assert!(!is_tag(wrong), "{wrong}");
        }
    }
}
