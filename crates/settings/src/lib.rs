//! Settings: `operator.ini`, `GF_*` variables and flags, as typed values.
//!
//! Each section is a struct whose fields are its keys: the declaration of a field says its type, how its text is read and
//! its default, and its documentation is the text of the configuration reference. Which value counts is decided by
//! the `config` package, over one source for each of defaults, file, variables and flags, whose values carry where they
//! come from.
//!
//! The crate reads files and nothing else: the environment is handed in ([`Sources`]), and what a value is
//! good for is no business of this crate.
//!
//! Start with [`Settings::load`]; to add a key, add a field to a section in `sections`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod error;
mod expand;
mod forms;
mod ini;
mod key;
mod keys;
mod layers;
mod print;
mod relations;
mod section;
mod sections;
mod settings;
mod values;

pub use crate::{
    error::SettingError,
    forms::{TELEMETRY_MODES, listen_address},
    keys::COMMIT_TRACKER,
    print::reference_markdown,
    sections::{
        AuthSettings, CommitTrackerSettings, DigestAlgorithm, ExporterInfoSource, GithubCredentials,
        HistogramForm, LogFormat, MetricNames, ObserveOnly, OperatorSettings, ProvisioningSettings, Scrape,
        Selection, SourceSettings,
    },
    settings::{Settings, Sources},
};
