//! The embedded API server, held against a real kube-apiserver.
//!
//! A [`Script`] is a list of HTTP requests as a client of Kubernetes would send them. [`compare`] plays it to both
//! servers, in a namespace of the same name on each, makes the answers comparable ([`Normaliser`]: versions, UIDs,
//! times and generated names become placeholders by first appearance), and finds what differs. A difference is
//! either a fault or stands in `intended.md` with its reason ([`Intended`]).
//!
//! # Where to start
//!
//! `scripts/*.http` are the scripts, `README.md` tells their language, `tests/it/main.rs` plays them, and
//! [`generate`] makes random ones.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod compare;
mod diff;
pub mod generate;
mod intended;
mod normalise;
mod path;
mod play;
mod script;
mod servers;
mod template;
mod watch;

pub use compare::{Compared, StepDifferences, compare};
pub use diff::{Difference, differences};
pub use intended::{Intended, IntendedError};
pub use normalise::Normaliser;
pub use play::{Played, play};
pub use script::{Action, Body, Request, Script, ScriptError, Step, parse};
pub use servers::{Embedded, Pair, Server, crds};
