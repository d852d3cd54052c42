//! The sample repository: dashboards of a made-up company, committed into a bare repository and served over smart HTTP.
//! It takes pushes from whoever has its token.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use secrecy::{ExposeSecret as _, SecretString};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};

macro_rules! files {
    ($($path:literal),* $(,)?) => { &[$(($path, include_str!(concat!("../../sample/", $path)))),*] };
}

/// Every file, by path.
pub(crate) const FILES: &[(&str, &str)] = files![
    "overview.json",
    "platform/_folder.json",
    "platform/kubernetes/cluster.json",
    "platform/kubernetes/networking/dns.yaml",
    "platform/kubernetes/networking/ingress.yaml",
    "platform/kubernetes/workloads.yaml",
    "platform/storage/object-storage.json",
    "platform/storage/postgresql.json",
    "teams/checkout/checkout-slo.yaml",
    "teams/checkout/payments.json",
    "teams/search/indexing.json",
    "teams/search/search.yaml",
];

/// The user name that goes with the token.
pub(crate) const USER: &str = "demo";

/// The repository while it is served.
pub(crate) struct Sample {
    server: Running,
    bare: PathBuf,
    token: SecretString,
}

impl Sample {
    /// Makes the repository under `folder` and serves it on a free port, until it is dropped. Tells of pushes.
    pub(crate) async fn serve(
        folder: &Path,
        branch: &str,
        on_push: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self> {
        let bare = folder.join("sample.git");
        let (path, branch) = (bare.clone(), branch.to_owned());
        let seeded = tokio::task::spawn_blocking(move || {
            let edits =
                FILES.iter().map(|(path, text)| Edit::Put((*path).to_owned(), text.as_bytes().to_vec()));
            seed::commit(&path, &branch, edits, "Dashboards of the sample company")
        });
        seeded.await?.context("failed to make the sample repository")?;
        let token = SecretString::from(uuid::Uuid::new_v4().simple().to_string());
        let server = HttpBackend::new(folder)
            .basic_auth(USER, token.clone())
            .writable()
            .on_push(on_push)
            .start()
            .await
            .context("failed to serve the sample repository; the demo needs Git (the program `git`)")?;
        Ok(Self { server, bare, token })
    }

    /// What opens it.
    pub(crate) fn token(&self) -> SecretString {
        self.token.clone()
    }

    /// The bare repository, for `git log`.
    pub(crate) fn path(&self) -> &Path {
        &self.bare
    }

    /// Writes what opens it into a file for Git's own `credential-store`, which this user alone can read.
    pub(crate) fn write_credentials(&self, file: &Path) -> Result<()> {
        let url = self.url();
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let host = rest.split('/').next().unwrap_or_default();
        let line = format!("{scheme}://{USER}:{}@{host}\n", self.token.expose_secret());
        let mut private = std::fs::OpenOptions::new();
        let opened = private.write(true).create_new(true).mode(0o600).open(file);
        let written = opened.and_then(|mut opened| opened.write_all(line.as_bytes()));
        written.with_context(|| format!("failed to write {}", file.display()))
    }

    /// The URL to clone from.
    pub(crate) fn url(&self) -> String {
        format!("{}/sample.git", self.server.origin())
    }
}
