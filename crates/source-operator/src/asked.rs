//! Since when it is known what an object asks for: a list of refs that was begun after that answers it, however long the
//! object then waits for its turn. So objects that come together cost one list, and not one for each worker's round.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use windlass_api::flux::GitRepository;
use windlass_runtime::ObjectKey;

use crate::annotations::requested_at;

/// When what is asked for was seen first, of objects that nobody looked at since.
#[derive(Default)]
pub(crate) struct Asked(Mutex<HashMap<ObjectKey, Question>>);

struct Question {
    uid: Option<String>,
    generation: Option<i64>,
    requested_at: Option<String>,
    seen: Instant,
}

impl Asked {
    /// Something is asked for that was not before. It is seen now.
    pub(crate) fn see(&self, object: &GitRepository) {
        let question = Question {
            uid: object.metadata.uid.clone(),
            generation: object.metadata.generation,
            requested_at: requested_at(object).map(str::to_owned),
            seen: Instant::now(),
        };
        self.lock().insert(ObjectKey::of(object), question);
    }

    /// Since when it is known what this object asks for; nothing if somebody has looked since, or it asks for something
    /// that was not seen yet. It is looked at from now on.
    pub(crate) fn take(&self, object: &GitRepository) -> Option<Instant> {
        let mut all = self.lock();
        let key = ObjectKey::of(object);
        let is_same = |question: &Question| {
            question.uid == object.metadata.uid
                && question.generation == object.metadata.generation
                && question.requested_at.as_deref() == requested_at(object)
        };
        if !all.get(&key).is_some_and(is_same) {
            return None;
        }
        let question = all.remove(&key);
        if all.is_empty() {
            // After a first list there was room for every object there is.
            all.shrink_to_fit();
        }
        question.map(|question| question.seen)
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Question>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_counts_once_and_for_nothing_newer() {
        let (asked, mut object) = (Asked::default(), GitRepository::default());
        object.metadata.generation = Some(1);
        assert_eq!(asked.take(&object), None);
        asked.see(&object);
        let seen = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        object.metadata.generation = Some(2);
        assert_eq!(asked.take(&object), None, "the watch's copy is newer than what was told of it");
        object.metadata.generation = Some(1);
        assert_eq!(asked.take(&object), Some(seen));
        assert_eq!(asked.take(&object), None, "the next look asks anew");
    }
}
