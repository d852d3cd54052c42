//! The operators of this program.

use windlass_launch::{Context, Launch};
use windlass_runtime::Registry;

/// Operators that are left out of a program that is built without the feature.
const FEATURES: &[(&str, &str)] = &[("flux-commit-tracker", "tracker"), ("source-controller", "source")];

/// Every operator there is, by the name that `GF_OPERATOR_NAME` picks it with.
pub(crate) fn registry() -> Registry<Context> {
    let registry = windlass_repository_operator::register(windlass_jobs_operator::register(Registry::new()));
    #[cfg(feature = "tracker")]
    let registry = windlass_commit_tracker::register(registry);
    #[cfg(feature = "source")]
    let registry = windlass_source_operator::register(registry);
    registry.features(FEATURES)
}

/// How `windlass server target` starts one.
pub(crate) fn launch() -> Launch {
    let launch = Launch::new(registry(), env!("WINDLASS_VERSION"));
    #[cfg(feature = "tracker")]
    let launch = windlass_commit_tracker::configure(launch);
    #[cfg(feature = "source")]
    let launch = windlass_source_operator::configure(launch);
    launch
}
