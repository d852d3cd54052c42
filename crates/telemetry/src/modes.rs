//! Room for pushing metrics and traces by OTLP.
//!
//! Today a process is scraped: [`Metrics`](crate::Metrics) renders its instruments when `/metrics` is asked for.
//! Pushing is a second reader on the same meter provider and a tracing layer beside the log layer, both chosen by
//! a telemetry mode; instruments and spans stay as they are. It belongs in this module, and nowhere else, since
//! the exporters' HTTP features exclude each other and their shutdown needs a thread and a time-out of its own.
