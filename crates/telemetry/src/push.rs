//! What is pushed rather than scraped: OTLP to a collector, and traces and metrics as lines on standard output.
//!
//! Only gRPC is spoken: the HTTP exporters of the SDK need a reactor on threads that have none, and die silently.

mod chunks;
pub(crate) mod cumulative;
pub(crate) mod otlp;
pub(crate) mod settings;
pub(crate) mod stdout;
pub(crate) mod watched;
mod wire;
