//! Who is calling, and with what: both ends of authentication.
//!
//! **Client side.** [`TokenExchange`] trades a system token for short-lived access tokens and keeps them fresh;
//! [`AccessTokenLayer`] puts them on requests; [`TlsOptions`] says which servers are trusted; [`ApiClients`] holds
//! one `kube::Client` for each API group, and is the only place that knows what stands behind them.
//!
//! **Server side.** [`Keys`] are made at the first start and re-used; [`Issuer`] and [`exchange_router`] answer
//! `POST /sign/access-token`; [`Authenticator`] turns a request into a [`Caller`] or a 401; [`Caller::may_use`]
//! decides between an answer and a 403. Beside a
//! Kubernetes API server, [`TokenReviews`] and [`AccessReviews`] ask it instead; [`Authorizer`] is what both are. [`tls::serve`] and [`plain::serve`] carry it all over sockets.
//!
//! This crate knows no resource kinds and no storage. Start reading at [`Caller`] (what is decided) and
//! [`TokenExchange::token`] (what is sent).
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

mod client;
pub mod kubeconfig;
mod listen;
mod provider;
mod reloaded;
mod server;

pub use client::{
    AccessTokenError, AccessTokenLayer, AccessTokenService, ApiClients, ApiTransportError, ClusterError,
    ConnectError, ConnectOptions, ExchangeError, ExchangeTransport, TlsError, TlsOptions, TokenExchange,
    TokenExchangeConfig,
};
pub use listen::{PeerIdentity, ServeOptions, plain, tls};
pub use provider::{ProviderError, install_crypto_provider};
pub use server::{
    Access, AccessError, AccessReviews, Audiences, Authenticator, Authorizer, Caller, CallerAccess,
    CertificatePair, Denied, GrantError, Issuer, IssuerError, IssuerOptions, Keys, KeysError, Namespaces,
    RequestScope, ReviewError, Rights, SigningKeys, SystemToken, TokenError, TokenRequest, TokenReviews,
    Verifier, exchange_router, path_segments, refuse_impersonation,
};

/// Reads the wall clock. The default is [`jiff::Timestamp::now`]; tests pass their own.
pub type Now = std::sync::Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>;
