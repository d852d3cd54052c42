//! The Secrets that sources name, for those who reach their servers.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};
use windlass_http_client::Tls;
use windlass_runtime::{CallError, deadline};

use super::{ChangesError, Problem};

/// How long one request may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// The values of a Secret by their keys; those that are no text are left out.
pub type SecretValues = BTreeMap<String, SecretString>;

/// Where the Secrets of sources come from. Only those are asked for that a [`ChangesQuery`](super::ChangesQuery) names.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// What a Secret holds; none where it is not there.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<SecretValues>, ChangesError>;
}

/// Those of the cluster, read whenever they are wanted: one that was changed is used as it is now. It takes the right to
/// get them.
#[async_trait]
impl Secrets for Client {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<SecretValues>, ChangesError> {
        let api: Api<Secret> = Api::namespaced(self.clone(), namespace);
        let what = format!("get Secret {namespace}/{name}");
        let secret = deadline(DEADLINE, what, api.get_opt(name)).await.map_err(explained)?;
        Ok(secret.map(|secret| {
            let values = secret.data.unwrap_or_default().into_iter();
            values.filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?.into()))).collect()
        }))
    }
}

/// The value of the first of these keys that has one.
pub(super) fn value<'a>(secret: &'a SecretValues, keys: &[&str]) -> Option<&'a SecretString> {
    keys.iter().filter_map(|key| secret.get(*key)).find(|value| !value.expose_secret().is_empty())
}

/// The certificates that a Secret holds, under the keys that Flux reads and those that it read before.
///
/// # Errors
/// What is wrong with them, as it goes on after the Secret's name.
pub(super) fn tls(secret: &SecretValues) -> Result<Tls, String> {
    let mut tls = Tls::default();
    if let Some(authorities) = value(secret, &["ca.crt", "caFile"]) {
        let trusting = tls.trusting(authorities.expose_secret().as_bytes());
        tls = trusting.map_err(|error| format!("has a ca.crt that is of no use: {error}"))?;
    }
    match (value(secret, &["tls.crt", "certFile"]), value(secret, &["tls.key", "keyFile"])) {
        (Some(chain), Some(key)) => tls
            .showing(chain.expose_secret().as_bytes(), key)
            .map_err(|error| format!("has a tls.crt and tls.key that are of no use: {error}")),
        (Some(_), None) => Err("has tls.crt and no tls.key".to_owned()),
        (None, Some(_)) => Err("has tls.key and no tls.crt".to_owned()),
        (None, None) => Ok(tls),
    }
}

fn explained(error: CallError) -> ChangesError {
    let problem = match error.code() {
        Some(401) => Problem::Unauthorized,
        Some(403) => Problem::Forbidden,
        _ => Problem::Unavailable,
    };
    let advice = if problem == Problem::Forbidden {
        "; give this account the right to get it, or unset [commit_tracker] source_secrets"
    } else {
        ""
    };
    ChangesError::new(problem, format!("failed to read the Secret that the source names{advice}"))
        .because(error)
}
