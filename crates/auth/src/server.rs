//! Server side: keys, tokens, and who may do what.

mod access;
mod access_review;
mod authenticate;
mod caller;
mod certificates;
mod exchange;
mod issuer;
mod keys;
mod rights;
mod scope;
mod signing;
mod token_review;
mod ttl_cache;
mod verify;

pub use access::{Access, AccessError, Authorizer, CallerAccess};
pub use access_review::AccessReviews;
pub use authenticate::{Authenticator, refuse_impersonation};
pub use caller::{Audiences, Caller, Denied, Namespaces};
pub(crate) use certificates::identity;
pub use exchange::exchange_router;
pub use issuer::{GrantError, Issuer, IssuerError, IssuerOptions, SystemToken, TokenRequest};
pub(crate) use keys::write_private;
pub use keys::{CertificatePair, Keys, KeysError};
pub use rights::Rights;
pub use scope::{RequestScope, path_segments};
pub use signing::SigningKeys;
pub use token_review::{ReviewError, TokenReviews};
pub use verify::{TokenError, Verifier};
