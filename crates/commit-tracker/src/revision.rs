//! Flux's revision strings: `main@sha1:…`, `latest@sha256:…`, `sha256:…`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::intern::intern;
use crate::names::named;

/// A revision as Flux writes it: in most cases `NAME@ALGORITHM:HEX` or `ALGORITHM:HEX`.
///
/// Flux's older forms `NAME/HEX`, `HEAD/HEX` and `HEX` are read as it reads them, by the length of the hexadecimal part.
/// Any other text is a revision too, as an artifact that somebody else makes may carry any; it has no parts, and whoever
/// needs them calls it malformed. Two revisions are equal when they say the same, in whatever form and case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Revision(Arc<str>);

struct Parts<'a> {
    name: Option<&'a str>,
    algorithm: Algorithm,
    hex: &'a str,
}

named! {
    /// What a digest was made with.
    pub enum Algorithm {
        /// SHA-1, Git's first.
        Sha1 = "sha1",
        /// SHA-256.
        Sha256 = "sha256",
        /// SHA-384.
        Sha384 = "sha384",
        /// SHA-512.
        Sha512 = "sha512",
        /// BLAKE3.
        Blake3 = "blake3",
    }
}

impl Algorithm {
    /// How many hexadecimal digits a digest has.
    pub fn digits(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 | Self::Blake3 => 64,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }
}

/// An empty string is no revision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a revision is empty")]
pub struct ParseRevisionError(());

impl Revision {
    /// The revision as Flux wrote it, its digest in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What it was resolved from: a branch, a tag, `refs/…`, a version; none where only a digest stands.
    pub fn name(&self) -> Option<&str> {
        Parts::of(&self.0)?.name
    }

    /// What the digest was made with; none in a malformed revision.
    pub fn algorithm(&self) -> Option<Algorithm> {
        Some(Parts::of(&self.0)?.algorithm)
    }

    /// The commit or digest, hexadecimal in lower case and of its algorithm's full length; none in a malformed revision.
    pub fn digest(&self) -> Option<&str> {
        Some(Parts::of(&self.0)?.hex)
    }

    /// What makes it the same as another.
    fn meaning(&self) -> (Option<&str>, Option<Algorithm>, Option<&str>) {
        match Parts::of(&self.0) {
            Some(Parts { name, algorithm, hex }) => (name, Some(algorithm), Some(hex)),
            None => (Some(&self.0), None, None),
        }
    }
}

impl PartialEq for Revision {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.meaning() == other.meaning()
    }
}

impl Eq for Revision {}

impl Hash for Revision {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.meaning().hash(state);
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(ParseRevisionError(()));
        }
        let hex = Parts::of(text).map_or("", |parts| parts.hex);
        if !hex.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Ok(Self(intern(text)));
        }
        let name = &text[..text.len() - hex.len()];
        Ok(Self(intern(&format!("{name}{}", hex.to_ascii_lowercase()))))
    }
}

impl TryFrom<String> for Revision {
    type Error = ParseRevisionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        (*revision.0).to_owned()
    }
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let Some((before, hex)) = text.rsplit_once(':') else { return Self::of_old(text) };
        // A name is not empty where its sign is there.
        let (name, algorithm) = match before.rsplit_once('@') {
            Some(("", _)) => return None,
            Some((name, algorithm)) => (Some(name), algorithm),
            None => (None, before),
        };
        Self { name, algorithm: Algorithm::of(algorithm)?, hex }.checked()
    }

    /// Flux: `TransformLegacyRevision`.
    fn of_old(text: &'a str) -> Option<Self> {
        let (name, hex) = text.rsplit_once('/').map_or((None, text), |(name, hex)| (Some(name), hex));
        let algorithm = match hex.len() {
            40 => Algorithm::Sha1,
            64 => Algorithm::Sha256,
            _ => return None,
        };
        let is_named = name.is_none_or(|name| !name.is_empty());
        let parts = Self { name: name.filter(|name| *name != "HEAD"), algorithm, hex };
        parts.checked().filter(|_| is_named)
    }

    fn checked(self) -> Option<Self> {
        let is_digest = self.hex.len() == self.algorithm.digits()
            && self.hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA1: &str = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";
    const SHA256: &str = "55609ff9d959589ed917ce32e6bc0f0a36809565f308602c15c3668965979edc";

    #[test]
    fn every_form_that_flux_writes_or_wrote_is_read() {
        let (sha1, sha256) = ((Algorithm::Sha1, SHA1), (Algorithm::Sha256, SHA256));
        let long = format!("{SHA256}{SHA256}");
        for (text, name, digest) in [
            (format!("main@sha1:{SHA1}"), Some("main"), sha1),
            (format!("refs/heads/x@sha1:{SHA1}"), Some("refs/heads/x"), sha1),
            (format!("latest@sha256:{SHA256}"), Some("latest"), sha256),
            (format!("sha256:{SHA256}"), None, sha256),
            (format!("sha1:{SHA1}"), None, sha1),
            (format!("v1.2.3-rc.1@sha1:{SHA1}"), Some("v1.2.3-rc.1"), sha1),
            (format!("sha512:{long}"), None, (Algorithm::Sha512, &long)),
            // A name may hold slashes and at signs, and a digest may be in upper case.
            (format!("feature/a@b@c@sha1:{SHA1}"), Some("feature/a@b@c"), sha1),
            (format!("@@sha1:{SHA1}"), Some("@"), sha1),
            (format!("main@sha1:{}", SHA1.to_uppercase()), Some("main"), sha1),
            // The old forms say the same as the new ones.
            (format!("main/{SHA1}"), Some("main"), sha1),
            (format!("feature/branch/{SHA1}"), Some("feature/branch"), sha1),
            (format!("HEAD/{SHA1}"), None, sha1),
            (format!("tag/{SHA256}"), Some("tag"), sha256),
            (SHA256.to_owned(), None, sha256),
        ] {
            let revision: Revision = text.parse().unwrap();
            assert_eq!(revision.name(), name, "{text}");
            assert_eq!(revision.algorithm().zip(revision.digest()), Some(digest), "{text}");
            let at = name.map(|name| format!("{name}@")).unwrap_or_default();
            assert_eq!(revision, format!("{at}{}:{}", digest.0, digest.1).parse().unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_malformed_is_kept_and_has_no_parts() {
        let digests = [
            format!("@sha1:{SHA1}"),
            format!("main@sha1:{SHA256}"),
            format!("main@md5:{SHA1}"),
            format!("main@SHA1:{SHA1}"),
            format!("main@sha1:{}g", &SHA1[1..]),
            format!("main@sha1:{SHA1} "),
            format!("main:sha1:{SHA1}"),
            format!("/{SHA1}"),
        ];
        let short =
            [":", "@", "v1.2.3", "main", "main@", "main@sha1:", "main@sha1:51be77a", "main@sha256:\u{e4}"];
        for text in short.into_iter().chain(digests.iter().map(String::as_str)) {
            let revision: Revision = text.parse().unwrap();
            assert_eq!(revision.as_str(), text);
            assert!(revision.name().is_none() && revision.digest().is_none(), "{text}");
            assert_ne!(revision, "main@sha1:0".parse().unwrap());
        }
        assert_eq!("".parse::<Revision>(), Err(ParseRevisionError(())));
    }
}
