//! A real OCI registry as a process, and a way to put artifacts into it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::process::Child;
use tokio::time::Instant;

use crate::programs::Program;
use crate::supervisor::tied_to_us;

/// Who may read and write where a log-in is asked for.
const USER: &str = "windlass";
/// Its password.
const PASSWORD: &str = "open sesame";
/// The two as `htpasswd -B` files them.
const HTPASSWD: &str = "windlass:$2a$04$KLyH9/SO7l8AJax7oaYMD.qJiWTjONopgLWX.vc1xQgtDJH5gcAeW\n";
/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether a registry asks who is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryLogin {
    /// Everybody may read and write.
    Nobody,
    /// User name and password ([`Registry::user`], [`Registry::password`]).
    Password,
}

/// A registry on a free port of this machine. It ends when it is dropped, or when its process's parent is killed.
pub struct Registry {
    child: Child,
    _folder: TempDir,
    port: u16,
    http: reqwest::Client,
    login: RegistryLogin,
}

impl Registry {
    /// Starts one. `None`: there is no Go to build it with, and that was said; with `CI=true` it is an error.
    ///
    /// # Errors
    /// When it cannot be built or does not start.
    pub async fn start(login: RegistryLogin) -> Result<Option<Self>> {
        let Some(program) = tokio::task::spawn_blocking(|| Program::Registry.find_or_build()).await?? else {
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        let configuration = folder.path().join("registry.json");
        std::fs::write(&configuration, configured(folder.path(), login)?.to_string())?;
        let log = folder.path().join("log");
        let file = std::fs::File::create(&log)?;
        let child = tied_to_us(&program)
            .arg("serve")
            .arg(&configuration)
            .current_dir(folder.path())
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .context("failed to start the registry")?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        let mut registry = Self { child, _folder: folder, port: 0, http, login };
        registry.port = registry.listening(&log).await?;
        Ok(Some(registry))
    }

    /// `127.0.0.1:<port>`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A repository of it, as a source's `spec.url` names it.
    pub fn url(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address())
    }

    /// Who may read and write where passwords are asked for.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// Its password.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// Puts a blob into a repository; answers its digest.
    pub async fn push_blob(&self, name: &str, content: impl Into<reqwest::Body>, digest: &str) -> Result<()> {
        let uploads = format!("/v2/{name}/blobs/uploads/");
        let begun = self.request(Method::POST, &uploads).send().await?;
        let begun = expect(begun, StatusCode::ACCEPTED).await?;
        let location = begun.headers().get("location").context("an upload has a location")?.to_str()?;
        let mut url = begun.url().join(location)?;
        url.query_pairs_mut().append_pair("digest", digest);
        let put = self.logged_in(self.http.put(url)).header("content-type", "application/octet-stream");
        expect(put.body(content).send().await?, StatusCode::CREATED).await?;
        Ok(())
    }

    /// Puts a manifest into a repository under a tag or its digest; answers the digest.
    pub async fn push_manifest(&self, name: &str, reference: &str, manifest: &Value) -> Result<String> {
        let kind = manifest["mediaType"].as_str().context("a manifest has a media type")?;
        let put = self.request(Method::PUT, &format!("/v2/{name}/manifests/{reference}"));
        let put = put.header("content-type", kind.to_owned()).body(manifest.to_string());
        let answer = expect(put.send().await?, StatusCode::CREATED).await?;
        let digest = answer.headers().get("docker-content-digest").context("a manifest has a digest")?;
        Ok(digest.to_str()?.to_owned())
    }

    /// Puts an artifact with these layers (media type and content) and annotations into a repository, under these tags;
    /// answers the manifest's digest.
    pub async fn push_artifact(
        &self,
        name: &str,
        tags: &[&str],
        layers: &[(&str, &[u8])],
        annotations: &BTreeMap<String, String>,
    ) -> Result<String> {
        let mut described = Vec::new();
        for (kind, content) in layers.iter().chain([&("application/vnd.oci.empty.v1+json", &b"{}"[..])]) {
            let digest = digest(content);
            self.push_blob(name, content.to_vec(), &digest).await?;
            described.push(json!({"mediaType": kind, "digest": digest, "size": content.len()}));
        }
        let config = described.pop();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": described, "annotations": annotations,
        });
        let mut pushed = String::new();
        for tag in tags {
            pushed = self.push_manifest(name, tag, &manifest).await?;
        }
        Ok(pushed)
    }

    /// Deletes a manifest.
    pub async fn delete_manifest(&self, name: &str, digest: &str) -> Result<()> {
        let answer = self.request(Method::DELETE, &format!("/v2/{name}/manifests/{digest}")).send().await?;
        expect(answer, StatusCode::ACCEPTED).await?;
        Ok(())
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.logged_in(self.http.request(method, format!("http://{}{path}", self.address())))
    }

    fn logged_in(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match self.login {
            RegistryLogin::Nobody => request,
            RegistryLogin::Password => request.basic_auth(USER, Some(PASSWORD)),
        }
    }

    /// Waits until it says which port it got.
    async fn listening(&mut self, log: &Path) -> Result<u16> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut said = String::new();
            std::fs::File::open(log)?.read_to_string(&mut said)?;
            let port = said
                .split("listening on 127.0.0.1:")
                .nth(1)
                .and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
            // A number that something follows was written whole.
            if let Some(port) = port.filter(|_| said.ends_with('\n')) {
                return Ok(port.parse()?);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the registry ended with {status}: {said}");
            }
            if Instant::now() > until {
                bail!("the registry does not listen after {PATIENCE:?}: {said}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Its configuration: JSON is YAML.
fn configured(folder: &Path, login: RegistryLogin) -> Result<Value> {
    let mut configuration = json!({
        "version": 0.1,
        "log": {"level": "info", "accesslog": {"disabled": true}},
        "storage": {
            "filesystem": {"rootdirectory": folder.join("storage")},
            "delete": {"enabled": true},
            "maintenance": {"uploadpurging": {"enabled": false}},
        },
        "http": {"addr": "127.0.0.1:0", "secret": "of a test"},
    });
    match login {
        RegistryLogin::Nobody => {}
        RegistryLogin::Password => {
            let file = folder.join("htpasswd");
            std::fs::write(&file, HTPASSWD)?;
            configuration["auth"] = json!({"htpasswd": {"realm": "test", "path": file}});
        }
    }
    Ok(configuration)
}

async fn expect(answer: reqwest::Response, status: StatusCode) -> Result<reqwest::Response> {
    if answer.status() == status {
        return Ok(answer);
    }
    let (url, got) = (answer.url().clone(), answer.status());
    bail!("{url} answers {got} instead of {status}: {}", answer.text().await.unwrap_or_default())
}

/// The digest that content is addressed by.
fn digest(content: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(content)))
}
