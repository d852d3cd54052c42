//! Writes the kubeconfig with which `kubectl` reaches an embedded server.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret as _, SecretString};

use crate::server::write_private;

/// Marks a file as ours to overwrite.
const HEADING: &str = "# Written by windlass at each start; copy it elsewhere to keep changes.";

/// Why no kubeconfig was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeconfigError {
    /// The file is somebody else's.
    #[error(
        "failed to write kubeconfig {}: the file exists and was not written by windlass; \
         name another file, or move this one away",
        path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("failed to write kubeconfig {}", path.display())]
    WriteFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// Writes a kubeconfig (0600, whole or not at all) with the context `windlass`, namespace `default` and the client
/// certificate inline. A file that we wrote before is replaced; any other is left alone.
///
/// # Errors
/// [`KubeconfigError`], which names the file.
pub fn write(
    path: &Path,
    server_url: &str,
    ca_certificate: &str,
    client_certificate: &str,
    client_key: &SecretString,
) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::WriteFile { path: path.to_owned(), source };
    match fs::read_to_string(path) {
        Ok(content) if content.is_empty() || content.starts_with(HEADING) => {}
        Ok(_) => return Err(KubeconfigError::NotOurs { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(failed(source)),
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    // A JSON string is a YAML string; base64 needs no quotes.
    let server = serde_json::Value::from(server_url);
    let ca = STANDARD.encode(ca_certificate);
    let certificate = STANDARD.encode(client_certificate);
    let key = STANDARD.encode(client_key.expose_secret());
    let content = format!(
        "{HEADING}\n\
         apiVersion: v1\n\
         kind: Config\n\
         current-context: windlass\n\
         clusters:\n\
         - name: windlass\n\
         \x20 cluster:\n\
         \x20   server: {server}\n\
         \x20   certificate-authority-data: {ca}\n\
         users:\n\
         - name: windlass-admin\n\
         \x20 user:\n\
         \x20   client-certificate-data: {certificate}\n\
         \x20   client-key-data: {key}\n\
         contexts:\n\
         - name: windlass\n\
         \x20 context:\n\
         \x20   cluster: windlass\n\
         \x20   user: windlass-admin\n\
         \x20   namespace: default\n"
    );
    write_private(path, &content).map_err(failed)
}
