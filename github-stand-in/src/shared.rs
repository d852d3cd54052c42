//! What all requests share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Router;

use crate::description::Description;
use crate::state::State;

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) description: Description,
    pub(crate) api: String,
    pub(crate) git: Option<Router>,
}

impl Shared {
    /// Without repositories, tokens or Apps.
    pub(crate) fn new(api: String, git: Option<Router>) -> Self {
        Self { state: Mutex::new(State::new()), description: Description::new(), api, git }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
