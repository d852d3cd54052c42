//! The table itself: one constant a metric.

use super::{Kind, Metric, Per};

/// Every metric of a Kustomization, in the order of the reference.
pub const METRICS: &[&Metric] = &[
    &END_TO_END,
    &EXPORT,
    &RECONCILE,
    &STAGE_EXPORT,
    &STAGE_SOURCE,
    &STAGE_FETCH,
    &STAGE_APPLY,
    &STAGE_HEALTH,
    &OLDEST_UNAPPLIED,
    &UNAPPLIED_UNKNOWN,
    &LAST_APPLIED,
    &SUSPENDED,
    &COMMITS,
    &REVISIONS,
];

const fn duration(name: &'static str, per: Per, meaning: &'static str, not: &'static str) -> Metric {
    Metric { name, kind: Kind::Histogram, unit: "s", per, meaning, not }
}

const fn gauge(name: &'static str, unit: &'static str, meaning: &'static str, not: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, unit, per: Per::Kustomization, meaning, not }
}

static END_TO_END: Metric = duration(
    "e2e.export-time",
    Per::Commit,
    "From a commit's merge to the end of the first successful run that applied it.",
    "It says nothing of commits that are not applied yet: an outage shows in `oldest-unapplied-commit.age`. With health \
     checks the run ends when they pass; without, when everything was applied.",
);

static EXPORT: Metric = duration(
    "kube-manifests-exporter.export-time",
    Per::Commit,
    "From a commit's merge to the commit that the exporter made of it.",
    "Without an exporter there is none: it is not zero, it is absent.",
);

static RECONCILE: Metric = duration(
    "flux.reconcile-time",
    Per::Revision,
    "From the exporter's commit to the end of the first successful run that applied it.",
    "It is not the duration of a reconcile: waiting for the source and for the queue is part of it.",
);

static STAGE_EXPORT: Metric = duration(
    "stage.export-time",
    Per::Commit,
    "Stage 1: from a commit's merge to its export.",
    "Without an exporter there is no such stage: it is absent, and stage 2 begins at the merge.",
);

static STAGE_SOURCE: Metric = duration(
    "stage.source-time",
    Per::Commit,
    "Stage 2: from a commit's export, or else its merge, to the moment that the source had an artifact with it.",
    "It is not the time of a fetch: most of it is waiting for the source's interval, or for a webhook.",
);

static STAGE_FETCH: Metric = duration(
    "stage.fetch-time",
    Per::Revision,
    "Stage 3: from the source's artifact to the start of the run that applied it.",
    "It is not download time: it is waiting for dependencies and in the controller's queue.",
);

static STAGE_APPLY: Metric = duration(
    "stage.apply-time",
    Per::Revision,
    "Stage 4: from the start of the run to the end of its server-side apply.",
    "It does not say that anything runs yet: that is stage 5, where there are health checks.",
);

static STAGE_HEALTH: Metric = duration(
    "stage.health-time",
    Per::Revision,
    "Stage 5: from the end of the apply until the health checks passed.",
    "A Kustomization without health checks has none: it is absent, and nothing is known of its health.",
);

/// The age of the oldest commit that is in a source and not applied.
pub static OLDEST_UNAPPLIED: Metric = gauge(
    "oldest-unapplied-commit.age",
    "s",
    "How long ago the oldest commit was merged that the source has and that is not applied; 0 when all are, and \
              absent while that is not known.",
    "It does not see commits that the source has not fetched or the exporter not exported. A suspended \
          Kustomization ages too.",
);

/// Whether it is not known how old the oldest unapplied commit is.
pub static UNAPPLIED_UNKNOWN: Metric = gauge(
    "oldest-unapplied-commit.unknown",
    "{kustomization}",
    "1 while it is not known which commits wait: the source has a revision that is not applied, and what is in it \
              could not be looked up yet; 0 otherwise.",
    "It does not say that anything waits for long: for a moment it is 1 at each new revision, and after another \
          replica took over.",
);

/// When the newest commit that is applied was merged.
pub static LAST_APPLIED: Metric = gauge(
    "last-applied-commit.time",
    "s",
    "When the newest commit that is applied was merged, in seconds since 1970.",
    "It is not the time of the apply, and an old value is no fault where nobody merges.",
);

/// Whether nothing is applied until somebody resumes it.
pub static SUSPENDED: Metric = gauge(
    "suspended",
    "{kustomization}",
    "1 while the Kustomization is suspended, and 0 otherwise.",
    "It does not say whether its source is suspended: then nothing new is seen, and nothing waits.",
);

/// Commits by what came of them.
pub static COMMITS: Metric = Metric {
    name: "commits",
    kind: Kind::Counter,
    unit: "{commit}",
    per: Per::Commit,
    meaning: "Commits that were applied, each once: `counted` are in the histograms; `baseline` were there before the \
              tracker was; `skewed` would have a negative duration, since two clocks disagree.",
    not: "Commits of a revision that could not be looked into are not here, nor those beyond `max_commits`: see \
          `revisions`.",
};

/// Revisions by what came of them.
pub static REVISIONS: Metric = Metric {
    name: "revisions",
    kind: Kind::Counter,
    unit: "{revision}",
    per: Per::Revision,
    meaning: "Revisions that were applied, by what came of looking into them: `measured`, `baseline`, `empty` (no new \
              commit), `rewritten` (history was), `truncated` (it brought more than `max_commits`: the oldest are lost), \
              `incomplete` (counted, and nothing tells whether artifacts that Flux skipped had more), or why it failed \
              for good.",
    not: "A failure that is retried is not here until it succeeds; one for good is once, whatever it fails of later, and \
          again under another outcome when it succeeds after all. Runs that apply a revision again never are.",
};
