//! Serving a router over sockets: connections, limits, and an end that is clean.

mod activity;
mod connection;
pub mod plain;
mod reload;
pub mod tls;
mod unread_body;

use std::time::Duration;

/// Who is on the other end of a connection, by a client certificate that our CA signed; a request extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The certificate's common name.
    pub name: String,
    /// The certificate's organisations.
    pub groups: Vec<String>,
}

/// Limits of a listener.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// A connection that has not sent a request's headers within this time is closed, an idle one too.
    pub header_read_timeout: Duration,
    /// A TLS handshake must be over within this time.
    pub handshake_timeout: Duration,
    /// Further connections wait until one ends.
    pub max_connections: usize,
    /// Further connections of one address are closed.
    pub max_connections_per_peer: usize,
    /// A connection on which no request is under way for so long is closed.
    pub idle_timeout: Duration,
    /// A request is broken off when nothing of its body arrives for so long.
    pub body_timeout: Duration,
    /// How long requests may go on after the shutdown began.
    pub grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(75),
            handshake_timeout: Duration::from_secs(10),
            max_connections: 4096,
            // Whoever it is, there is room for others.
            max_connections_per_peer: 2048,
            idle_timeout: Duration::from_mins(3),
            body_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }
}
