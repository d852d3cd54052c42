//! `owner/name` of a repository.

use std::fmt;
use std::str::FromStr;

/// A repository on GitHub.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepositoryName {
    owner: String,
    name: String,
}

/// A text is not `owner/name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no repository: write owner/name")]
pub struct ParseNameError {
    text: String,
}

impl RepositoryName {
    /// The user or organisation.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The repository's name there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The repository that `url` names on a server whose pages are at `host`: `https://host/owner/name.git`,
    /// `ssh://git@host/owner/name`, `git@host:owner/name.git`. Ports are not compared.
    pub(crate) fn of_url(url: &str, host: &str) -> Option<Self> {
        let (authority, path) = match url.trim().split_once("://") {
            Some((_, rest)) => rest.split_once('/')?,
            None => url.trim().split_once(':')?,
        };
        let named = authority.rsplit('@').next()?;
        let named = named.split(':').next()?.trim_end_matches('.');
        // `ssh.github.com` is where SSH goes when port 22 is shut.
        let named = named.strip_prefix("ssh.").unwrap_or(named);
        if !named.eq_ignore_ascii_case(host) {
            return None;
        }
        let path = path.trim_matches('/');
        path.strip_suffix(".git").unwrap_or(path).parse().ok()
    }
}

impl fmt::Display for RepositoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for RepositoryName {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let good = |part: &str| {
            !part.is_empty()
                && part.len() <= 100
                && !matches!(part, "." | "..")
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        match text.split_once('/') {
            Some((owner, name)) if good(owner) && good(name) => {
                Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
            }
            _ => Err(ParseNameError { text: windlass_http_client::printable(text, 100) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_a_url_names_the_repository() {
        for url in [
            "https://github.com/grafana/kube-manifests",
            "https://github.com/grafana/kube-manifests.git",
            "https://github.com/grafana/kube-manifests/",
            "https://user:token@GitHub.com/grafana/kube-manifests.git",
            "https://github.com:443/grafana/kube-manifests",
            "ssh://git@github.com/grafana/kube-manifests.git",
            "ssh://git@ssh.github.com:443/grafana/kube-manifests.git",
            "git@github.com:grafana/kube-manifests.git",
        ] {
            let name = RepositoryName::of_url(url, "github.com").map(|name| name.to_string());
            assert_eq!(name.as_deref(), Some("grafana/kube-manifests"), "for {url}");
        }
    }

    #[test]
    fn other_hosts_and_other_paths_are_nobodys_repository() {
        for url in [
            "https://gitlab.com/grafana/kube-manifests",
            "https://github.com.example.org/grafana/kube-manifests",
            "https://github.com@example.org/grafana/kube-manifests",
            "https://github.com/grafana",
            "https://github.com/grafana/kube-manifests/tree/main",
            "https://github.com/../kube-manifests",
            "https://github.com/grafana/kube%2Fmanifests",
            "https://github.com",
            "git@github.com",
            "",
        ] {
            assert_eq!(RepositoryName::of_url(url, "github.com"), None, "for {url}");
        }
    }
}
