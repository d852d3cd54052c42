//! Settings: `operator.ini`, `GF_*` variables and flags, as typed values.
//!
//! One table, [`KEYS`], says which keys there are; parsing, the override by environment variables,
//! `--print-config` and the configuration reference all come from it. A value is taken from the first of
//! flag, variable `GF_<SECTION>_<KEY>`, file, and default.
//!
//! The crate reads files and nothing else: the environment is handed in ([`Sources`]), and what a value is
//! good for is no business of this crate.
//!
//! Start with [`Settings::load`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod cross;
mod error;
mod expand;
mod ini;
mod keys;
mod load;
mod print;
mod typed;
mod value;

pub use crate::{
    error::SettingError,
    keys::{COMMIT_TRACKER, KEYS, Key, Kind, OWNED_SECTIONS, TELEMETRY_MODES},
    load::{Origin, Settings, Sources},
    print::reference_markdown,
    typed::{
        AuthSettings, CommitTrackerSettings, ExporterInfoSource, GithubCredentials, HistogramForm, LogFormat,
        MetricNames, OperatorSettings, ProvisioningSettings, Selection, SkippedArtifacts,
    },
};
