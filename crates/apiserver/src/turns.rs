//! Many writers of one object: each is tried again on what the others wrote, one after the other.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

/// How often a write that names no version is tried on a newer state. Who has met others waits for them, so that hardly
/// any needs more than a few; the deadline of its request comes first for whoever does.
const TRIES: usize = 1000;
/// How many objects are waited for apart from each other.
const PLACES: usize = 64;

/// Where writers that have met others wait for their turn, by the name of the object.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Vec<Arc<Mutex<()>>>,
    hasher: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Arc::default()).collect(), hasher: RandomState::new() }
    }
}

impl Turns {
    /// Tries a write to an object; each time it meets another, its next try waits for its turn.
    pub(crate) fn tries(&self, object: impl Hash) -> Tries {
        let place = usize::try_from(self.hasher.hash_one(object) % PLACES as u64).unwrap_or_default();
        Tries { place: self.places[place].clone(), left: TRIES, turn: None }
    }
}

/// One write, tried again and again.
pub(crate) struct Tries {
    place: Arc<Mutex<()>>,
    left: usize,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Tries {
    /// Whether it may be tried. Waits, unless it is the first time.
    pub(crate) async fn next(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        if self.left < TRIES && self.turn.is_none() {
            self.turn = Some(self.place.clone().lock_owned().await);
        }
        self.left = left;
        true
    }
}
