//! How many requests to each host may be under way at a time, shared by everybody who asks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use url::Url;

use crate::Origin;

/// The hosts of the remotes that there are.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    all: Mutex<HashMap<Option<Origin>, Weak<HostSlots>>>,
}

/// The places for requests to one host.
#[derive(Debug)]
pub(crate) struct HostSlots {
    slots: Arc<Semaphore>,
    max: usize,
    waiting: AtomicUsize,
}

impl Hosts {
    /// The places for requests to the origin of `url`, of which there are `max`.
    pub(crate) fn slots(&self, url: &Url, max: usize) -> Arc<HostSlots> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = Origin::of(url);
        if let Some(slots) = all.get(&origin).and_then(Weak::upgrade) {
            return slots;
        }
        all.retain(|_, slots| slots.strong_count() > 0);
        let max = max.max(1);
        let slots =
            Arc::new(HostSlots { slots: Arc::new(Semaphore::new(max)), max, waiting: AtomicUsize::new(0) });
        all.insert(origin, Arc::downgrade(&slots));
        slots
    }

    /// Each host with its requests that are under way, and those that wait for a place.
    pub(crate) fn requests(&self) -> Vec<(String, usize, usize)> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(origin, slots): (&Option<Origin>, &Weak<HostSlots>)| {
            let (origin, slots) = (origin.as_ref()?, slots.upgrade()?);
            let under_way = slots.max - slots.slots.available_permits().min(slots.max);
            Some((origin.authority(), under_way, slots.waiting.load(Ordering::Relaxed)))
        };
        all.iter().filter_map(of).collect()
    }
}

impl HostSlots {
    /// A place, once there is one.
    pub(crate) async fn acquire(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        /// One who waits; no more when it is dropped, wherever that is.
        struct Waits<'a>(&'a AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        Arc::clone(&self.slots).acquire_owned().await
    }
}
