//! Many writers of one object: each is tried again on what the others wrote, one after the other.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Context;

/// How often a write that names no version is tried on a newer state. Who has met others waits for them, so that hardly
/// any needs more than a few; the deadline of its request comes first for whoever does.
const TRIES: usize = 1000;
/// How many objects are waited for apart from each other.
const PLACES: usize = 64;

type Places = Vec<Arc<Mutex<()>>>;

/// Where writers that have met others wait for their turn, by the name of the object.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Places,
    hasher: RandomState,
}

impl Default for Turns {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Arc::default()).collect(), hasher: RandomState::new() }
    }
}

/// One write, tried again and again.
pub(super) struct Tries<'a> {
    context: &'a Context,
    left: usize,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Context {
    /// Tries a write to an object; each time it meets another, its next try waits for its turn.
    pub(super) fn tries(&self) -> Tries<'_> {
        Tries { context: self, left: TRIES, turn: None }
    }
}

impl Tries<'_> {
    /// Whether it may be tried. Waits, unless it is the first time.
    pub(super) async fn next(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        if self.left < TRIES && self.turn.is_none() {
            let (turns, target) = (&self.context.inner.turns, &self.context.target);
            let kind = &target.served.kind;
            let hash = turns.hasher.hash_one((&kind.group, &kind.plural, &target.namespace, &target.name));
            let place = usize::try_from(hash % PLACES as u64).unwrap_or_default();
            self.turn = Some(turns.places[place].clone().lock_owned().await);
        }
        self.left = left;
        true
    }
}
