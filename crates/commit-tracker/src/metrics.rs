//! What is measured: the one table that code, documents, dashboards and alerts are checked against.

/// One thing that is measured for a Kustomization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Instrument {
    /// From a commit's merge to its apply, for each commit.
    EndToEnd,
    /// From a commit's merge to the commit that the exporter made of it, for each commit.
    Export,
    /// From the exporter's commit to its apply, once a revision.
    Reconcile,
    /// Stage: merged to exported, for each commit.
    StageExport,
    /// Stage: exported (or else merged) to seen by the source, for each commit.
    StageSource,
    /// Stage: seen by the source to fetched by the applier, once a revision.
    StageFetch,
    /// Stage: fetched to applied, once a revision.
    StageApply,
    /// Stage: applied to healthy, once a revision.
    StageHealth,
}
