//! What stands before Git.

use secrecy::SecretString;
use tokio::sync::watch;

/// What stands before Git.
pub(crate) struct Door {
    /// Whether only those come in whose token is good.
    pub(crate) guarded: bool,
    /// Whether transfers go on.
    pub(crate) open: watch::Sender<bool>,
    /// The tokens of transfers that wait.
    pub(crate) waiting: Vec<SecretString>,
}

impl Default for Door {
    fn default() -> Self {
        Self { guarded: false, open: watch::Sender::new(true), waiting: Vec::new() }
    }
}
