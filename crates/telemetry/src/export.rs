//! What is exported rather than scraped: OTLP to a collector, and traces and metrics as lines on standard output.
//!
//! A [`connection`] leads to a collector, for one signal. The exporters of `opentelemetry-otlp` use it for logs, traces
//! and the process's metrics, wrapped so that the outcome of each export is seen ([`reported`]), counted and logged
//! ([`report`]). [`cumulative`] uses it for the series that outlive a process, which the library cannot carry.

pub(crate) mod connection;
pub(crate) mod cumulative;
pub(crate) mod error;
mod http;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod reported;
pub(crate) mod settings;
pub(crate) mod stdout;
pub(crate) mod unsupported;
