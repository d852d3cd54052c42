//! How every operator binary starts: flags, settings, logs, health, clients, then the operator that was asked for.
//!
//! The crate makes the one [`Context`] that operators run over, and ends the process in order. It knows no operator:
//! binaries hand it a [`Registry`](windlass_runtime::Registry) with those they hold.
//!
//! Start reading at [`Launch::run`].
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod args;
mod context;
mod election;
mod history;
mod launch;
mod needs;

pub use self::args::{CommonFlags, LegacyFlags, OperatorArgs, SettingsFlags, Start, environment};
pub use self::context::{Context, ContextError, job_rules, open_git, open_repositories, repository_rules};
pub use self::election::observe_leadership;
pub use self::history::{LokiSettingsError, open_loki};
pub use self::launch::{FLUSH, Launch, log_format, process_setup, start_telemetry};
pub use self::needs::{Listener, Listeners, Needs, bind};
