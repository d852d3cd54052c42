//! What all who use one cache share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::sync::OnceCell;
use url::Url;

use super::refused::Refusals;
use crate::Proxy;
use crate::cache::{Cache, Key};
use crate::call::Clients;
use crate::hosts::HostSlots;
use crate::protocol::Endpoint;

/// What all who use one cache share.
pub(crate) struct RemoteState {
    pub(crate) url: Url,
    pub(crate) key: Key,
    pub(crate) endpoint: Endpoint,
    pub(super) clients: Arc<Clients>,
    pub(super) proxy: Option<Proxy>,
    pub(crate) host_slots: Arc<HostSlots>,
    pub(super) cache: OnceCell<Arc<Cache>>,
    /// Fingerprints of the credentials that the server has answered, the last last.
    pub(super) proven: Mutex<VecDeque<[u8; 32]>>,
    pub(super) refused: Refusals,
}

impl RemoteState {
    pub(crate) fn new(
        url: Url,
        key: Key,
        clients: Arc<Clients>,
        proxy: Option<Proxy>,
        host_slots: Arc<HostSlots>,
    ) -> Self {
        let endpoint = Endpoint::new(url.clone());
        let (cache, proven, refused) = (OnceCell::new(), Mutex::default(), Refusals::default());
        Self { url, key, endpoint, clients, proxy, host_slots, cache, proven, refused }
    }
}
