//! Why something is not in the ledger, or could not be read from it.

use std::sync::Arc;

use windlass_runtime::CallError;

use crate::histogram::NoDuration;

/// Why the ledger could not be opened, or does not hold a record. Cheap to clone: every record of a failed write gets it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    /// It could not be read, or begun where there was none.
    #[error("failed to open the ledger in namespace {namespace}")]
    Open {
        /// The tracker's namespace.
        namespace: String,
        /// What failed.
        #[source]
        source: Arc<CallError>,
    },
    /// A later version of the tracker wrote it. Nothing was changed.
    #[error(
        "failed to read the ledger: ConfigMap {config_map} has format {found}, and this version reads {known}; run the \
         version that wrote it, or a later one"
    )]
    LaterFormat {
        /// Namespace and name.
        config_map: String,
        /// What it says.
        found: String,
        /// What this version knows.
        known: u32,
    },
    /// What a `ConfigMap` holds makes no sense. Nothing was changed.
    #[error("failed to read the ledger: ConfigMap {config_map}, key {key:?}: {what}; {remedy}")]
    Damaged {
        /// Namespace and name.
        config_map: String,
        /// The key in `data`.
        key: String,
        /// What is wrong.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The record does not fit what is remembered. Sent again it would be refused again.
    #[error("failed to record Kustomization {namespace}/{name}")]
    Refused {
        /// The Kustomization's namespace.
        namespace: String,
        /// The Kustomization's name.
        name: String,
        /// Why.
        #[source]
        reason: Box<Refusal>,
    },
    /// The API server refused the write: nothing was changed, and the record can be sent again.
    #[error("failed to write the ledger's ConfigMap {config_map}")]
    Write {
        /// Namespace and name.
        config_map: String,
        /// What failed.
        #[source]
        source: Arc<CallError>,
    },
    /// The `ConfigMap` would become larger than an API server takes. Nothing was changed.
    #[error(
        "failed to write the ledger's ConfigMap {config_map}: it would hold {bytes} bytes, and at most {limit} are \
         written; fewer Kustomizations for this tracker, or a second one in another namespace, make room"
    )]
    Full {
        /// Namespace and name.
        config_map: String,
        /// What it would hold.
        bytes: usize,
        /// What it may hold.
        limit: usize,
    },
    /// Somebody else writes the ledger, or it is not known what became of a write. What holds is on the API server: open
    /// the ledger again under a new term. Whether the record is in it, it says then.
    #[error("failed to write the ledger: {0}; it has to be opened again")]
    Lost(Arc<str>),
}

/// Why a record does not fit what is remembered.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It was worked out from a revision that is not the newest accounted one.
    #[error("it was worked out from {from}, and {newest} is accounted for")]
    Outdated {
        /// What it was worked out from.
        from: String,
        /// What is accounted for.
        newest: String,
    },
    /// A duration is none.
    #[error(transparent)]
    Observation(NoDuration),
}

impl LedgerError {
    /// Whether the ledger has to be opened again before anything can be recorded.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}
