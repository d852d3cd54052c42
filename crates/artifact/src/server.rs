//! Artifacts over HTTP: entity tags, ranges, HEAD, and no listings.
//!
//! A path that is none, a directory and a file that is not there are all the same to who asks: not found. The entity tag
//! is the digest that the name holds.
//!
//! `answer.rs` says what a request is answered with, `connection.rs` brings that over a connection.

mod answer;
mod connection;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use async_trait::async_trait;
use http::{Request, Response, StatusCode};
use tokio::sync::Semaphore;

use self::answer::{File, respond};
use crate::{ArtifactPath, Store};

/// `O_NOFOLLOW`: a link under a name that is served is nobody's artifact.
const NO_FOLLOW: i32 = 0o400_000;

/// Files that are opened at a time: each blocks a thread, and many readers come at once.
const OPENING: usize = 8;

/// Brings artifacts here that another replica has published.
#[async_trait]
pub trait Missing: Send + Sync + 'static {
    /// Tries to bring the file of this path here, and answers whether it is.
    async fn bring(&self, path: &ArtifactPath) -> bool;
}

/// Serves the artifacts of a store. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    store: Arc<Store>,
    missing: Option<Arc<dyn Missing>>,
    opening: Arc<Semaphore>,
}

impl Server {
    /// A server of what is in `store`; `missing` is asked for what is not there.
    pub fn new(store: Arc<Store>, missing: Option<Arc<dyn Missing>>) -> Self {
        Self { store, missing, opening: Arc::new(Semaphore::new(OPENING)) }
    }

    /// What a request is answered with.
    async fn answer(&self, request: &Request<()>) -> Response<Option<File>> {
        let not_found = || answer::empty(StatusCode::NOT_FOUND);
        let path = request.uri().path().strip_prefix('/').and_then(ArtifactPath::parse);
        let Some(path) = path else { return not_found() };
        let mut opened = self.open(&path).await;
        if opened.is_none()
            && let Some(missing) = &self.missing
            && missing.bring(&path).await
        {
            opened = self.open(&path).await;
        }
        let Some(opened) = opened else { return not_found() };
        let tag = path.hex().map(|hex| format!("\"{hex}\""));
        respond(request, opened, tag)
    }

    /// A plain file, whole.
    async fn open(&self, path: &ArtifactPath) -> Option<answer::Opened> {
        let path = self.store.path(path);
        let turn = Arc::clone(&self.opening).acquire_owned().await.ok()?;
        let opening = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let file = OpenOptions::new().read(true).custom_flags(NO_FOLLOW).open(path).ok()?;
            let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some(answer::Opened { file, size: meta.len(), modified: meta.modified().ok()? })
        });
        opening.await.ok().flatten()
    }
}
