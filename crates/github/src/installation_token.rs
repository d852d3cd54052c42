//! What of an installation may be done with Git and the API.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;

use crate::Permissions;

/// What a token is to be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRequest {
    /// What it may do; all that the installation may if it is empty.
    pub permissions: Permissions,
    /// The repositories, by name without owner; all of the installation's if it is empty.
    pub repositories: Vec<String>,
}

/// A token of an installation.
#[derive(Clone, Debug)]
pub struct InstallationToken {
    /// The token.
    pub token: SecretString,
    /// When it ends, by GitHub's clock.
    pub expires_at: Timestamp,
    /// How long it lived when it came, whatever this machine's clock says.
    pub lifetime: Duration,
    /// What it may do.
    pub permissions: Permissions,
}
