//! The operators of this program.

use windlass_launch::{Context, Launch};
use windlass_runtime::Registry;

/// Every operator there is, by the name that `GF_OPERATOR_NAME` picks it with.
pub(crate) fn registry() -> Registry<Context> {
    windlass_repository_operator::register(windlass_jobs_operator::register(Registry::new()))
}

/// How `windlass server target` starts one.
pub(crate) fn launch() -> Launch {
    Launch::new(registry())
}
