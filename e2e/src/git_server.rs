//! A bare repository behind Git's own `http-backend`.

use std::path::PathBuf;

use anyhow::Result;
use windlass_git_server::{HttpBackend, Running};

/// A repository that is served over smart HTTP until it is dropped.
pub struct GitServer {
    folder: tempfile::TempDir,
    name: &'static str,
    server: Running,
}

impl GitServer {
    /// Serves the repository `name` of `folder`, as `set_up` says.
    pub(crate) async fn new(
        folder: tempfile::TempDir,
        name: &'static str,
        set_up: impl FnOnce(HttpBackend) -> HttpBackend,
    ) -> Result<Self> {
        let server = set_up(HttpBackend::new(folder.path())).start().await?;
        Ok(Self { folder, name, server })
    }

    /// The URL to clone from.
    pub fn url(&self) -> String {
        format!("{}/{}", self.origin(), self.name)
    }

    /// Another URL of the same repository, for a second one of the API: two of one URL are in each other's way.
    pub fn another_url(&self, name: &str) -> Result<String> {
        let name = format!("{name}.git");
        std::os::unix::fs::symlink(self.path(), self.folder.path().join(&name))?;
        Ok(format!("{}/{name}", self.origin()))
    }

    /// Scheme, host and port of the URL.
    pub fn origin(&self) -> String {
        self.server.origin()
    }

    /// Requests that the server has seen.
    pub fn requests(&self) -> u64 {
        self.server.log().count()
    }

    /// The requests, as `POST /a.git/git-upload-pack`; the first thousand.
    pub fn request_lines(&self) -> Vec<String> {
        self.server.log().lines()
    }

    /// Where it is on the disk.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }
}
