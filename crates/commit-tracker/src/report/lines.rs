//! The log lines, with the original's keys. Durations are numbers of seconds.

use windlass_runtime::ObjectKey;
use windlass_telemetry::ErrorChain;

use super::Work;
use crate::changes::{Changes, ChangesError};
use crate::measure::{CommitOutcome, Measured, MeasuredCommit};

/// The logger, as the original names it.
pub(super) const LOGGER: &str = "flux-commit-tracker-controller";

/// A line about a Kustomization.
macro_rules! line {
    ($level:ident, $key:expr, $($rest:tt)+) => {
        tracing::$level!(logger = LOGGER, name = $key.name, namespace = $key.namespace, $($rest)+)
    };
}

/// A line a commit, and one for the revision.
pub(super) fn measured(Work { standing, step, .. }: &Work<'_>, changes: &Changes, measured: &Measured) {
    let key = &standing.key;
    for commit in &measured.commits {
        match commit.outcome {
            CommitOutcome::Counted => counted(key, commit),
            CommitOutcome::Skewed => skewed(key, commit),
            // Nobody counts it, and there may be a whole history of them.
            CommitOutcome::Baseline => {}
        }
    }
    if changes.commits.is_empty() && changes.exported_as.is_some() {
        line!(
            warn,
            key,
            kustomization.revision = %step.revision,
            "exporter-info contains no deployment-tools commits"
        );
    }
    if measured.truncated {
        line!(
            warn,
            key,
            kustomization.revision = %step.revision,
            "the revision brought more commits than are taken: the oldest are not counted; see [commit_tracker] max_commits"
        );
    }
    line!(
        info,
        key,
        kustomization.revision = %step.revision,
        commits.counted = measured.counted,
        commits.baseline = measured.baseline,
        commits.skewed = measured.skewed,
        stages.skewed = measured.skewed_stages,
        ready = %measured.ready.unwrap_or(step.ready),
        estimated = measured.estimated,
        rewritten = changes.rewritten,
        truncated = measured.truncated,
        incomplete = changes.incomplete,
        "successfully processed kustomization event"
    );
}

/// The only place where a commit's hash meets its number.
fn counted(key: &ObjectKey, of: &MeasuredCommit) {
    let to_apply = of.export.map(|export| of.end_to_end - export);
    line!(
        info,
        key,
        repo.deployment_tools.hash = of.commit.id,
        repo.deployment_tools.time = %of.commit.merged,
        duration.e2e_deployment_tools_commit_to_flux_apply_seconds = of.end_to_end,
        duration.deployment_tools_commit_to_kube_manifests_commit_seconds = of.export,
        duration.kube_manifests_commit_to_flux_apply_seconds = to_apply,
        "calculated deployment times"
    );
}

fn skewed(key: &ObjectKey, of: &MeasuredCommit) {
    line!(
        warn,
        key,
        repo.deployment_tools.hash = of.commit.id,
        repo.deployment_tools.time = %of.commit.merged,
        duration.e2e_deployment_tools_commit_to_flux_apply_seconds = of.end_to_end,
        "by its date the commit was merged after it was applied, or before there was Git: it is not counted"
    );
}

/// One line, with what has to change.
pub(super) fn failed(Work { standing, step, .. }: &Work<'_>, error: &ChangesError) {
    line!(
        error,
        standing.key,
        kustomization.revision = %step.revision,
        problem = error.problem.name(),
        error = %ErrorChain(error),
        "the revision's commits cannot be found; it is tried again from time to time, and when its source changes"
    );
}
