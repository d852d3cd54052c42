//! What is pushed rather than scraped: OTLP to a collector, and traces and metrics as lines on standard output.
//!
//! Only gRPC is spoken: the HTTP exporters of the SDK need a reactor on threads that have none, and die silently.

pub(crate) mod otlp;
pub(crate) mod stdout;
pub(crate) mod watched;
