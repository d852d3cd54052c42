//! The Secrets that sources name, for those who reach their servers.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::SecretString;
use windlass_runtime::{CallError, deadline};

use super::{ChangesError, Problem};

/// How long one request may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Where the Secrets of sources come from.
#[async_trait]
pub trait Secrets: Send + Sync + 'static {
    /// The values of a Secret by their keys; none where it is not there, or where Secrets are not read at all. Values
    /// that are no text are left out.
    async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, SecretString>>, ChangesError>;
}

/// Nobody's: no Secret is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSecrets;

#[async_trait]
impl Secrets for NoSecrets {
    async fn secret(&self, _: &str, _: &str) -> Result<Option<BTreeMap<String, SecretString>>, ChangesError> {
        Ok(None)
    }
}

/// Those of the cluster, read whenever they are wanted: one that was changed is used as it is now.
#[derive(Clone)]
pub struct ClusterSecrets {
    client: Client,
}

impl ClusterSecrets {
    /// Reads with this client, which needs the right to get them.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl Secrets for ClusterSecrets {
    async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<BTreeMap<String, SecretString>>, ChangesError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let what = format!("get Secret {namespace}/{name}");
        let secret = deadline(DEADLINE, what, api.get_opt(name)).await.map_err(explained)?;
        Ok(secret.map(|secret| {
            let values = secret.data.unwrap_or_default().into_iter();
            values.filter_map(|(key, value)| Some((key, String::from_utf8(value.0).ok()?.into()))).collect()
        }))
    }
}

fn explained(error: CallError) -> ChangesError {
    let problem = match error.code() {
        Some(401) => Problem::Unauthorized,
        Some(403) => Problem::Forbidden,
        _ => Problem::Unavailable,
    };
    let advice = match problem {
        Problem::Forbidden => {
            "; give this account the right to get it, or unset [commit_tracker] source_secrets"
        }
        _ => "",
    };
    ChangesError::new(problem, format!("failed to read the Secret that the source names{advice}"))
        .because(error)
}
