//! What SSH servers are offered.

/// Which algorithms are offered to SSH servers, by their names; the library's choice where a list is empty.
#[derive(Clone, Debug, Default)]
pub struct SshAlgorithms {
    /// For the exchange of keys, the most wanted first.
    pub key_exchange: Vec<String>,
    /// Of the servers' keys, the most wanted first. `ssh-rsa` is the one with SHA-1.
    pub host_keys: Vec<String>,
}
