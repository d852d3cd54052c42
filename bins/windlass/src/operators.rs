//! The operators of this program.

use windlass_launch::{Context, Launch};
use windlass_runtime::Registry;

/// Every operator there is, by the name that `GF_OPERATOR_NAME` picks it with.
pub(crate) fn registry() -> Registry<Context> {
    let registry = windlass_repository_operator::register(windlass_jobs_operator::register(Registry::new()));
    windlass_source_operator::register(windlass_commit_tracker::register(registry))
}

/// How `windlass server target` starts one.
pub(crate) fn launch() -> Launch {
    let launch = windlass_commit_tracker::configure(Launch::new(registry(), env!("WINDLASS_VERSION")));
    windlass_source_operator::configure(launch)
}
