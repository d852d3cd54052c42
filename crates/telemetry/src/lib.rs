//! The telemetry of a Windlass process: logs, traces, metrics, health.
//!
//! - [`Telemetry`] sets a process's logs, traces and metrics up as a [`TelemetryMode`] says, and ends them in order;
//!   [`init`] sets up logs alone.
//! - [`Metrics`] makes OpenTelemetry meters whose instruments are read as Prometheus text.
//! - [`MetricRow`] is a metric of a table, from which instruments and references are made.
//! - [`CumulativeSource`] has series that outlive this process; [`Metrics::add_source`] has them exported.
//! - [`traced`] does work within a span that records how it ended.
//! - [`Spans`] records spans of what happened elsewhere, with times and ids of their own.
//! - [`Health`] collects readiness by component and liveness by progress; [`router`] serves all of it.
//! - [`ErrorChain`] is the one printer of an error with its causes.
//! - [`Secret`] is the one type for values that nothing may print, [`redact_url`] the one way to print a URL.
//!
//! This crate knows no API object, no setting and no Kubernetes client.
//! Instruments and their names belong to the crates that record them.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod cumulative;
mod error_chain;
mod export;
mod health;
mod http;
mod log;
mod metrics;
mod mode;
mod redact;
mod reference;
mod resource;
mod sources;
mod spans;
mod stages;
mod table;
mod telemetry;
mod text;
mod traced;
mod traceparent;
mod variables;

pub use cumulative::{
    Buckets, ClassicHistogram, CumulativePoint, CumulativeSource, CumulativeValue, CumulativeView, Exemplar,
    ExponentialHistogram, Family, FamilyKind,
};
pub use error_chain::ErrorChain;
pub use export::cumulative::FlushError;
pub use export::error::{CollectorError, ExportError};
pub use export::settings::Collector;
pub use health::{ComponentHandle, Failing, Health, ProgressHandle};
pub use http::{probes, router, scrape};
pub use log::{CapturedLog, InitLogsError, LogFormat, LogOutput, ParseLogFormatError, init};
pub use metrics::{Metrics, MetricsError};
pub use mode::{ParseTelemetryModeError, TelemetryMode};
pub use redact::redact_url;
pub use reference::reference_markdown;
pub use secrecy::ExposeSecret;
/// A string that is never printed: its `Debug` is redacted, and it has no `Display`.
///
/// Read it with [`ExposeSecret::expose_secret`], as late as possible.
pub use secrecy::SecretString as Secret;
pub use spans::{FinishedSpan, Spans, carried};
pub use stages::{STAGE_BOUNDS, STAGES, Stage, Stages};
pub use table::{
    MetricKind, MetricRow, metrics_buckets, metrics_differences, metrics_table, resources_bucket,
};
pub use telemetry::{Telemetry, TelemetryError, TelemetryOptions};
pub use traced::traced;
pub use traceparent::{parse_traceparent, traceparent};
