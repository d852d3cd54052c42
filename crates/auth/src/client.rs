//! Client side: access tokens, trust, and one client for each API group.

mod clients;
mod cluster;
mod connections;
mod exchange;
mod exchange_call;
mod exchange_error;
mod identity;
mod readiness;
mod roots;

mod tls_options;
mod token_layer;
mod transport;

pub use clients::{ApiClients, ConnectError, ConnectOptions};
pub use cluster::ClusterError;
pub use exchange::{TokenExchange, TokenExchangeConfig};
pub use exchange_call::ExchangeTransport;
pub use exchange_error::ExchangeError;
pub use tls_options::{TlsError, TlsOptions};
pub use token_layer::{AccessTokenError, AccessTokenLayer, AccessTokenService};
pub use transport::ApiTransportError;
