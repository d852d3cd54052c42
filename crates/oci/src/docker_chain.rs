//! Docker's chain of credentials: its configuration file, and the helper programs that it names.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::Instant;
use windlass_http_client::printable;

use crate::docker_config::{Credentials, DOCKER_HUB_KEY, DockerConfig};
use crate::repository::DOCKER_HUB;
use crate::{OciError, Repository};

/// How long a helper may take.
const HELPER_DEADLINE: Duration = Duration::from_secs(20);
/// How long an answer of a helper is used; helpers keep their own for hours.
const HELPER_FRESH: Duration = Duration::from_mins(1);
/// Bytes of a configuration file.
const MAX_FILE: u64 = 1 << 20;

/// The files that may have credentials, and where helper programs are searched.
///
/// A file is read when a registry asks for credentials, so a rotated one is used from the next time on.
#[derive(Debug, Default)]
pub struct DockerChain {
    files: Vec<PathBuf>,
    search_path: Option<OsString>,
    answers: Mutex<HashMap<(String, String), (Instant, Credentials)>>,
}

impl DockerChain {
    /// As Docker and Podman look for it: `$DOCKER_CONFIG/config.json`, or else `~/.docker/config.json`, or else
    /// `$REGISTRY_AUTH_FILE`, or else `$XDG_RUNTIME_DIR/containers/auth.json`.
    pub fn from_environment() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let docker = folder("DOCKER_CONFIG")
            .or_else(|| Some(folder("HOME")?.join(".docker")))
            .map(|folder| folder.join("config.json"));
        let podman = folder("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json"));
        let files = [docker, folder("REGISTRY_AUTH_FILE"), podman].into_iter().flatten().collect();
        Self { files, search_path: std::env::var_os("PATH"), answers: Mutex::default() }
    }

    /// These files, the first of which counts that is there; helpers are searched in `search_path`, or nowhere.
    pub fn new(files: Vec<PathBuf>, search_path: Option<OsString>) -> Self {
        Self { files, search_path, answers: Mutex::default() }
    }

    /// The credentials for a repository.
    ///
    /// # Errors
    /// [`OciError::ReadCredentials`] for a file that cannot be read, or a helper that fails.
    pub(crate) async fn credentials(&self, repository: &Repository) -> Result<Credentials, OciError> {
        let Some(config) = self.config().await? else { return Ok(Credentials::Anonymous) };
        let registry = repository.registry();
        let helper = config.helpers.get(&registry).or_else(|| {
            let hub = registry == DOCKER_HUB;
            hub.then(|| config.helpers.get(DOCKER_HUB_KEY).or_else(|| config.helpers.get("docker.io")))?
        });
        if let Some(helper) = helper.or(config.store.as_ref()) {
            let server = if registry == DOCKER_HUB { DOCKER_HUB_KEY } else { &registry };
            let found = self.ask(helper, server).await?;
            if !matches!(found, Credentials::Anonymous) {
                return Ok(found);
            }
        }
        Ok(config.credentials(repository).cloned().unwrap_or(Credentials::Anonymous))
    }

    async fn config(&self) -> Result<Option<DockerConfig>, OciError> {
        for file in &self.files {
            let unreadable = |error: &dyn std::fmt::Display| OciError::ReadCredentials {
                place: file.display().to_string(),
                detail: error.to_string(),
            };
            let size = match tokio::fs::metadata(file).await {
                Ok(about) if about.is_file() => about.len(),
                Ok(_) => continue,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(unreadable(&error)),
            };
            if size > MAX_FILE {
                return Err(unreadable(&format_args!("it has {size} bytes, over {MAX_FILE}")));
            }
            let content: SecretString =
                tokio::fs::read_to_string(file).await.map_err(|error| unreadable(&error))?.into();
            return DockerConfig::parse(&content, &file.display().to_string()).map(Some);
        }
        Ok(None)
    }

    /// Asks `docker-credential-<helper>`, which speaks JSON on its pipes.
    async fn ask(&self, helper: &str, server: &str) -> Result<Credentials, OciError> {
        let key = (helper.to_owned(), server.to_owned());
        {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.retain(|_, (asked, _)| asked.elapsed() < HELPER_FRESH);
            if let Some((_, credentials)) = answers.get(&key) {
                return Ok(credentials.clone());
            }
        }
        let asked = Instant::now();
        let failed = |detail: String| OciError::ReadCredentials {
            place: printable(&format!("docker-credential-{helper}"), 80),
            detail,
        };
        let program = self.find(helper).ok_or_else(|| failed("there is no such program".into()))?;
        let answer = tokio::time::timeout(HELPER_DEADLINE, run(&program, server))
            .await
            .map_err(|_| failed(format!("it takes longer than {HELPER_DEADLINE:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        let credentials = match answer {
            HelperOutcome::Found(content) => {
                let found: Found = serde_json::from_slice(&content)
                    .map_err(|_| failed("its answer is not what helpers answer".into()))?;
                found.credentials()
            }
            HelperOutcome::NotFound => Credentials::Anonymous,
            HelperOutcome::Failed(status) => return Err(failed(format!("it ended with {status}"))),
        };
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(key, (asked, credentials.clone()));
        Ok(credentials)
    }

    /// A program of the search path; a name with a path in it is none.
    fn find(&self, helper: &str) -> Option<PathBuf> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if helper.is_empty() || !helper.chars().all(is_name) {
            return None;
        }
        let file = format!("docker-credential-{helper}");
        std::env::split_paths(self.search_path.as_ref()?)
            .map(|folder| folder.join(&file))
            .find(|path| path.is_file())
    }
}

enum HelperOutcome {
    Found(Vec<u8>),
    NotFound,
    Failed(std::process::ExitStatus),
}

async fn run(program: &Path, server: &str) -> std::io::Result<HelperOutcome> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // One that does not read what it is asked is judged by what it answers.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let output = child.wait_with_output().await?;
    if output.status.success() {
        return Ok(HelperOutcome::Found(output.stdout));
    }
    let words = String::from_utf8_lossy(&output.stdout);
    if words.contains("credentials not found") {
        return Ok(HelperOutcome::NotFound);
    }
    Ok(HelperOutcome::Failed(output.status))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: SecretString,
}

impl Found {
    fn credentials(self) -> Credentials {
        if self.username == "<token>" {
            return Credentials::IdentityToken(self.secret);
        }
        if self.username.is_empty() {
            return Credentials::Anonymous;
        }
        Credentials::Basic { user: self.username, password: self.secret }
    }
}
