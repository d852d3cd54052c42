//! Secrets that sources name: a source is looked at again when one of them changed.
//!
//! The watch asks for metadata alone, and keeps of it which Secret it is and its version: no value is ever in memory
//! because of it. What a source needs of a Secret it reads when it is looked at.

use windlass_api::flux::{GitRepository, GitRepositorySpec};
use windlass_runtime::{Event, KeyedQueue, ObjectKey, ObjectVersion, Store, Watched as _};

/// Queues the sources that name the Secret of an event; those that name any once a list is complete, since one may have
/// changed between the pass that read it and the list.
pub(crate) fn forward(
    event: &Event<ObjectVersion>,
    secrets: &Store<ObjectVersion>,
    objects: &Store<GitRepository>,
    queue: &KeyedQueue<ObjectKey>,
) {
    let (affected, is_named): (_, &dyn Fn(&str) -> bool) = match event {
        Event::Synced => (objects.list(), &|_| true),
        Event::Applied { .. } | Event::Deleted(_) if !secrets.is_synced() => return,
        Event::Applied { new: secret, .. } | Event::Deleted(secret) => {
            (objects.list_in(&secret.key().namespace), &|name| *name == *secret.key().name)
        }
    };
    for object in affected {
        if named(&object.spec).any(is_named) {
            queue.add(ObjectKey::of(&*object));
        }
    }
}

/// The Secrets of a source: with its credentials, its proxy, and the keys that its revisions are signed with.
fn named(spec: &GitRepositorySpec) -> impl Iterator<Item = &str> {
    let verifying = spec.verify.as_ref().map(|verify| &verify.secret_ref);
    let all = [spec.secret_ref.as_ref(), spec.proxy_secret_ref.as_ref(), verifying];
    all.into_iter().flatten().map(|reference| reference.name.as_str())
}
