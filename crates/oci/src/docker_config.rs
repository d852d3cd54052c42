//! Docker's `config.json`, and the Kubernetes Secrets that have the same form.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::repository::DOCKER_HUB;
use crate::{OciError, Repository};

/// Docker Hub as `docker login` files it.
pub(crate) const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";

/// Who asks.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Nobody in particular.
    Anonymous,
    /// User name and password.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: SecretString,
    },
    /// What a token service gives tokens for.
    IdentityToken(SecretString),
    /// What is sent as it is.
    RegistryToken(SecretString),
}

/// What a `config.json` says about credentials.
#[derive(Clone, Default)]
pub struct DockerConfig {
    auths: Vec<(Pattern, Credentials)>,
    pub(crate) helpers: BTreeMap<String, String>,
    pub(crate) store: Option<String>,
    /// Tells configurations apart without keeping what is in them.
    pub(crate) fingerprint: [u8; 32],
}

impl fmt::Debug for DockerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registries: Vec<&str> = self.auths.iter().map(|(pattern, _)| pattern.host.as_str()).collect();
        f.debug_struct("DockerConfig").field("registries", &registries).finish_non_exhaustive()
    }
}

impl DockerConfig {
    /// Reads a `config.json` or a Secret's `.dockerconfigjson`. `place` says where it is from, for messages.
    ///
    /// # Errors
    /// [`OciError::ReadCredentials`]; of an entry it shows the registry and nothing else.
    pub fn parse(content: &SecretString, place: &str) -> Result<Self, OciError> {
        let unreadable = |detail: String| OciError::ReadCredentials { place: place.to_owned(), detail };
        let wire: Wire = serde_json::from_str(content.expose_secret()).map_err(|error| {
            // Its words would quote the value that it stumbled over.
            unreadable(format!(
                "no configuration of Docker at line {} column {}",
                error.line(),
                error.column()
            ))
        })?;
        let mut auths = Vec::new();
        for (key, entry) in wire.auths.unwrap_or_default() {
            let credentials = entry
                .credentials()
                .map_err(|detail| unreadable(format!("the entry of {key:?}: {detail}")))?;
            if let Some(credentials) = credentials {
                auths.push((Pattern::of(&key), credentials));
            }
        }
        let fingerprint = Sha256::digest(content.expose_secret()).into();
        let store = wire.creds_store.filter(|store| !store.is_empty());
        Ok(Self { auths, helpers: wire.cred_helpers.unwrap_or_default(), store, fingerprint })
    }

    /// What is filed for this repository: the entry with the longest path that holds it.
    pub fn credentials(&self, repository: &Repository) -> Option<&Credentials> {
        self.auths
            .iter()
            .filter(|(pattern, _)| pattern.holds(repository))
            .max_by_key(|(pattern, _)| (pattern.path.len(), !pattern.host.contains('*')))
            .map(|(_, credentials)| credentials)
    }
}

/// What an entry is for: `host[:port][/path]`, its labels perhaps `*`, as the kubelet reads them.
#[derive(Clone)]
struct Pattern {
    host: String,
    path: String,
}

impl Pattern {
    fn of(key: &str) -> Self {
        let bare = key.trim().trim_start_matches("https://").trim_start_matches("http://");
        let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
        let path = path.trim_end_matches('/');
        let path = if matches!(path, "v1" | "v2") { "" } else { path };
        let host = if matches!(host, "docker.io" | "registry-1.docker.io") { DOCKER_HUB } else { host };
        Self { host: host.to_ascii_lowercase(), path: path.to_owned() }
    }

    fn holds(&self, repository: &Repository) -> bool {
        let registry = repository.registry();
        let (wanted, actual) = (self.host.split('.'), registry.split('.'));
        let same_host = self.host == registry
            || (self.host.contains('*')
                && wanted.clone().count() == actual.clone().count()
                && wanted.zip(actual).all(|(wanted, actual)| wanted == "*" || wanted == actual));
        let same_path = self.path.is_empty()
            || repository
                .name()
                .strip_prefix(&self.path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        same_host && same_path
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    auths: Option<BTreeMap<String, Entry>>,
    #[serde(default)]
    cred_helpers: Option<BTreeMap<String, String>>,
    #[serde(default)]
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    auth: Option<SecretString>,
    #[serde(default)]
    username: Option<String>,
    #[serde(default)]
    password: Option<SecretString>,
    #[serde(default)]
    identitytoken: Option<SecretString>,
    #[serde(default)]
    registrytoken: Option<SecretString>,
}

impl Entry {
    /// Nothing for an entry that only says "there is a helper".
    fn credentials(self) -> Result<Option<Credentials>, &'static str> {
        let filled = |token: Option<SecretString>| token.filter(|token| !token.expose_secret().is_empty());
        if let Some(token) = filled(self.registrytoken) {
            return Ok(Some(Credentials::RegistryToken(token)));
        }
        if let Some(token) = filled(self.identitytoken) {
            return Ok(Some(Credentials::IdentityToken(token)));
        }
        if let (Some(user), Some(password)) =
            (self.username.filter(|user| !user.is_empty()), filled(self.password))
        {
            return Ok(Some(Credentials::Basic { user, password }));
        }
        let Some(auth) = filled(self.auth) else { return Ok(None) };
        // Written with padding, without it, or with line ends by a shell.
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let pair = GeneralPurpose::new(&base64::alphabet::STANDARD, lenient)
            .decode(auth.expose_secret().trim())
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or("its auth is not Base64 of user:password")?;
        let (user, password) = pair.split_once(':').ok_or("its auth is not user:password")?;
        let password = password.trim_end_matches(['\0', '\n']);
        Ok(Some(Credentials::Basic { user: user.to_owned(), password: password.into() }))
    }
}

/// `Basic …` as a header's value.
pub(crate) fn basic(user: &str, password: &SecretString) -> SecretString {
    let pair = format!("{user}:{}", password.expose_secret());
    format!("Basic {}", STANDARD.encode(pair)).into()
}

#[cfg(test)]
mod tests {
    use super::{Credentials, DockerConfig};
    use crate::Repository;
    use secrecy::ExposeSecret as _;

    fn parse(text: &str) -> Result<DockerConfig, crate::OciError> {
        DockerConfig::parse(&text.into(), "a test")
    }

    /// `user:password`, or what else there is for a repository.
    fn found(config: &DockerConfig, repository: &str) -> String {
        match config.credentials(&Repository::parse(repository, false).unwrap()) {
            None => "none".into(),
            Some(Credentials::Anonymous) => "anonymous".into(),
            Some(Credentials::Basic { user, password }) => format!("{user}:{}", password.expose_secret()),
            Some(Credentials::IdentityToken(token)) => format!("identity {}", token.expose_secret()),
            Some(Credentials::RegistryToken(token)) => format!("registry {}", token.expose_secret()),
        }
    }

    #[test]
    fn the_entry_that_fits_a_repository_best_is_taken() {
        let config = parse(
            r#"{"auths": {
                "https://index.docker.io/v1/": {"auth": "aHViOnNlY3JldA=="},
                "ghcr.io": {"username": "all", "password": "p"},
                "ghcr.io/org": {"username": "org", "password": "p"},
                "ghcr.io/org/app": {"username": "app", "password": "p"},
                "*.example.org": {"username": "star", "password": "p"},
                "one.example.org": {"identitytoken": "t"},
                "token.example.com": {"registrytoken": "r"},
                "http://127.0.0.1:5000": {"auth": "dTpwOnc"},
                "empty.example.com": {}
            }, "HttpHeaders": {"User-Agent": "Docker-Client"}}"#,
        )
        .unwrap();
        for (repository, credentials) in [
            ("docker.io/a/b", "hub:secret"),
            ("alpine", "hub:secret"),
            ("ghcr.io/other/app", "all:p"),
            ("ghcr.io/org/x", "org:p"),
            ("ghcr.io/org/app", "app:p"),
            ("ghcr.io/org/app/part", "app:p"),
            ("ghcr.io/org/apple", "org:p"),
            ("two.example.org/a", "star:p"),
            ("one.example.org/a", "identity t"),
            ("a.b.example.org/a", "none"),
            ("token.example.com/a", "registry r"),
            ("127.0.0.1:5000/a", "u:p:w"),
            ("127.0.0.1:5001/a", "none"),
            ("empty.example.com/a", "none"),
            ("evilghcr.io/org/app", "none"),
        ] {
            assert_eq!(found(&config, repository), credentials, "{repository}");
        }
    }

    #[test]
    fn a_bad_configuration_is_named_without_what_is_in_it() {
        for text in [
            "",
            "hunter2",
            r#"{"auths": "hunter2"}"#,
            r#"{"auths": {"a": {"auth": 5, "password": "hunter2"}}}"#,
            r#"{"auths": {"a.example.org": {"auth": "hunter2!"}}}"#,
            r#"{"auths": {"a.example.org": {"auth": "aHVudGVyMg=="}}}"#,
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("failed to read credentials from a test"), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("aHVud"), "{error}");
        }
        let shown =
            format!("{:?}", parse(r#"{"auths": {"a": {"username": "u", "password": "hunter2"}}}"#).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
