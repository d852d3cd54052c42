//! The real programs, end to end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")]

mod backup;
mod client_go;
mod clients;
mod curl;
mod demo;
mod documents;
mod faults;
mod github;
mod github_apps;
mod github_pulls;
mod hostile;
mod keys;
mod kubectl;
mod kubectl_work;
mod kubernetes;
mod mixed;
mod operators;
mod provisioner;
mod pull;
mod source;
mod source_ignore;
mod source_replicas;
mod telemetry;
mod tracker;
