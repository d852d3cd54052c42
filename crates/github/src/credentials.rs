//! As whom GitHub is called.

use secrecy::SecretString;

use crate::App;

/// As whom GitHub is called.
#[derive(Clone, Debug, Default)]
pub enum Credentials {
    /// As nobody: public repositories only, 60 requests an hour.
    #[default]
    Anonymous,
    /// With a token: a personal one, or an Action's. White space around it is no part of it.
    Token(SecretString),
    /// As an installation of a GitHub App.
    App(App),
}
