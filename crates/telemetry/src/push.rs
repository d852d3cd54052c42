//! What is pushed rather than scraped: OTLP to a collector, and traces and metrics as lines on standard output.
//!
//! Only gRPC is spoken. All that goes to a collector goes through a [`client`], which knows what an answer means.

mod chunks;
pub(crate) mod client;
pub(crate) mod cumulative;
pub(crate) mod error;
pub(crate) mod exporters;
pub(crate) mod fate;
pub(crate) mod queue;
pub(crate) mod settings;
pub(crate) mod stdout;
pub(crate) mod unmet;
mod weight;
mod wire;
