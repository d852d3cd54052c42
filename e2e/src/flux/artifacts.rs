//! Artifacts over HTTP, as source-controller serves them to kustomize-controller.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

type Files = Arc<Mutex<HashMap<String, Bytes>>>;

/// A server of files, until it is dropped.
pub struct Artifacts {
    origin: String,
    files: Files,
    task: JoinHandle<()>,
}

/// A file that is served.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its path on the server.
    pub path: String,
    /// Where it is.
    pub url: String,
    /// `sha256:…` of its bytes.
    pub digest: String,
    /// Its bytes.
    pub size: usize,
}

impl Artifacts {
    /// A server on a free port.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let files = Files::default();
        let router = Router::new().route("/{*path}", axum::routing::get(get)).with_state(files.clone());
        let task = tokio::spawn(async move {
            // It ends with the task.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { origin, files, task })
    }

    /// Serves these bytes from now on.
    pub fn put(&self, path: &str, bytes: Vec<u8>) -> Artifact {
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&bytes)));
        let size = bytes.len();
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(path.to_owned(), bytes.into());
        Artifact { path: path.to_owned(), url: format!("{}/{path}", self.origin), digest, size }
    }
}

impl Drop for Artifacts {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn get(State(files): State<Files>, Path(path): Path<String>) -> Result<Bytes, StatusCode> {
    let files = files.lock().unwrap_or_else(PoisonError::into_inner);
    files.get(&path).cloned().ok_or(StatusCode::NOT_FOUND)
}
