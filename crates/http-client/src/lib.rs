//! What the clients of servers that others run have in common: Git's, registries', GitHub's.
//!
//! Nothing of an answer is believed before it was counted: every wait has a deadline, the connection's, the head's and
//! each piece's of the body within the whole call's ([`Deadline`]); a body has a limit, and no more than that is read of
//! it ([`Answer`]). Redirects are not followed, so that each client judges where one may lead and what is sent there.
//! Addresses are judged when they are connected to ([`judging_resolver`]), since a name may resolve elsewhere the
//! second time. Who asks to be left alone is ([`RetryAfterHosts`]), nobody is sent more requests a second than its share
//! ([`HostRates`]), and what failed is tried again with growing pauses ([`Retries`]).
//!
//! What it refuses to know: what is asked for, credentials, and which origins are good. An error here has no words of
//! its own for a user ([`Failure`]): the client knows what was being done.
//!
//! Start reading at [`builder`] and [`send`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod address;
mod deadline;
mod exchange;
mod pinned;
mod printable;
mod rate;
mod redact;
mod retry;
mod retry_after;
mod tls;

pub use address::{AddressPolicy, is_loopback, judging_resolver};
pub use deadline::{Deadline, Deadlines};
pub use exchange::{Answer, Failure, builder, send};
pub use pinned::PinnedVerifier;
pub use printable::printable;
pub use rate::{HostRates, Rate};
pub use redact::redact_secret;
pub use retry::{MAX_RETRY_AFTER, RateLeft, Retries, limit_reset, rate_left, retry_after, server_time};
pub use retry_after::RetryAfterHosts;
pub use tls::{PerTls, SetUpError, Tls};
