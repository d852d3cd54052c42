//! What all remotes of one access share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use crate::GitConfig;
use crate::cache::{Caches, Key};
use crate::history::Histories;
use crate::http::HttpClient;
use crate::remote::RemoteState;

/// What all remotes of one [`Git`](crate::Git) share.
pub(crate) struct Shared {
    pub(crate) config: GitConfig,
    pub(crate) http: HttpClient,
    pub(crate) caches: Caches,
    /// Bounds transfers apart from readings, so that slow servers cannot keep everyone from what is on disk.
    pub(crate) transfers: Arc<Semaphore>,
    pub(crate) readings: Arc<Semaphore>,
    /// Bounds the large files that are in memory whole.
    pub(crate) unfolding: Arc<Semaphore>,
    pub(crate) histories: Histories,
    pub(crate) remotes: Mutex<HashMap<Key, Arc<RemoteState>>>,
}
