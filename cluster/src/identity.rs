//! Who a caller is: a token, and the kubeconfig that holds it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::certificates::write_secret;

/// Somebody with exactly the rights that were granted.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of the `ServiceAccount`.
    pub name: String,
    /// The token that the API server gave.
    pub token: String,
    /// A kubeconfig with that token, the cluster's CA, and the account's namespace as the context's.
    pub kubeconfig: PathBuf,
}

/// Writes a kubeconfig for a token.
pub(crate) fn write_kubeconfig(
    file: &Path,
    url: &str,
    ca_file: &Path,
    token: &str,
    namespace: &str,
) -> Result<()> {
    let ca = std::fs::read(ca_file).with_context(|| format!("failed to read {}", ca_file.display()))?;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "windlass",
        "clusters": [{
            "name": "windlass",
            "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(ca)},
        }],
        "users": [{"name": "windlass", "user": {"token": token}}],
        "contexts": [{
            "name": "windlass",
            "context": {"cluster": "windlass", "user": "windlass", "namespace": namespace},
        }],
    });
    write_secret(file, &windlass_api::yaml::to_string(&kubeconfig)?)
}
