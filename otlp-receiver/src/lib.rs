//! A collector for tests: it takes OTLP over gRPC and over HTTP on this machine, and keeps what it was sent as decoded
//! from the wire.
//!
//! [`Receiver`] is the server; it answers, dawdles, hangs or refuses as it is told ([`Behaviour`]), with TLS where that
//! is asked for, and frees its port when it is dropped. [`Received`] is what came: [`Span`]s, [`Log`]s, and of metrics
//! the last [`Sample`] of each distinct [`Series`].
//!
//! It knows the protocol and nothing of ours.

mod decode;
mod received;
mod series;
mod server;
mod services;
mod signal;
mod tls;

pub use decode::{Attributes, Link, Log, Span, SpanEvent};
pub use received::{Headers, MetricRequest, Received};
pub use series::{Sample, Series, Temporality, Value};
pub use server::{Behaviour, Receiver};
pub use signal::{Signal, StartError};
/// The status codes that a collector can refuse with.
pub use tonic::Code;
