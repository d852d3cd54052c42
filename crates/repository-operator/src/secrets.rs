//! Secrets that repositories and connections name: what names one that changed is looked at with it, at once.
//!
//! The watch asks for metadata alone, and keeps of it which Secret it is and its version: no value is ever in memory
//! because of it. Where the right to it is missing, a change is noticed when it is looked next.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use windlass_api::{Connection, Repository};
use windlass_runtime::{Event, ObjectKey, ObjectVersion, Store, Watch, WatchConfig, Watched as _};

use crate::{hook, token};

/// What became of a Secret.
pub(crate) struct SecretChange {
    pub(crate) key: Arc<ObjectKey>,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Created,
    Changed,
    Deleted,
}

/// A watch of the Secrets of the namespaces that the process works on.
pub(crate) fn watch(process: &windlass_launch::Context) -> Watch<ObjectVersion> {
    let api: Api<Secret> = process.scope.api(process.clients.core.clone());
    let fallback = Some("a changed Secret is used from the next interval on");
    let config = WatchConfig { metadata_only: true, fallback, ..WatchConfig::new("secrets") };
    Watch::reading(api, config)
}

impl SecretChange {
    /// What an event tells. What a first list holds has not changed.
    pub(crate) fn of(event: &Event<ObjectVersion>, known: &Store<ObjectVersion>) -> Option<Self> {
        let (secret, what) = match event {
            Event::Applied { old: None, new } => (new, What::Created),
            Event::Applied { new, .. } => (new, What::Changed),
            Event::Deleted(gone) => (gone, What::Deleted),
            Event::Synced => return None,
        };
        known.is_synced().then(|| Self { key: secret.key(), what })
    }

    /// Whether the repository is to be looked at with it. What the passes over it write themselves is no news to them,
    /// and one that is healthy was not waiting for a Secret to come.
    pub(crate) fn concerns(&self, repository: &Repository) -> bool {
        let secure = &repository.secure;
        let name = self.key.name.as_str();
        let is_named = [&secure.token, &secure.webhook_secret].iter().any(|value| value.name == name);
        is_named
            && match self.what {
                What::Created => !repository.status.health.healthy,
                What::Changed => name != token::own_name(repository) && name != hook::own_name(repository),
                What::Deleted => true,
            }
    }

    /// Whether the connection is to be checked with it.
    pub(crate) fn is_key_of(&self, connection: &Connection) -> bool {
        connection.secure.private_key.name == self.key.name
            && (self.what != What::Created || !connection.status.health.healthy)
    }
}
