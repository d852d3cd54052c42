//! What is watched, and with which limits.

use std::time::Duration;

use super::served::APPLY;
use crate::BackoffPolicy;

/// What to watch, and with which limits.
#[derive(Clone, Debug)]
pub struct WatchConfig {
    /// What is watched, for logs and health: the plural name of the kind.
    pub name: String,
    /// What to do where the kind is not served.
    pub remedy: &'static str,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
    /// Whether the server is asked for the objects' metadata alone (`PartialObjectMetadata`).
    pub metadata_only: bool,
    /// How many objects a page of the list holds. An API server answers a first page from memory, and may read each
    /// further one from etcd, which is ten times the work.
    pub page_size: u32,
    /// How long one request may take to be answered.
    pub call_deadline: Duration,
    /// How long a whole list may take, however well it comes along.
    pub list_deadline: Duration,
    /// After this time the server ends a watch connection, and another one is made. Whole seconds.
    pub connection_limit: Duration,
    /// A connection that outlives its limit by this margin is dead: a half-open one is noticed then, at the latest.
    pub connection_margin: Duration,
    /// Liveness fails when the server gave no sign of life for this time.
    pub stall_limit: Duration,
    /// Delays between failed attempts.
    pub backoff: BackoffPolicy,
    /// Tells every object again in this interval, while connected.
    pub resync: Option<Duration>,
}

impl WatchConfig {
    /// Everything of a kind: pages of 500, calls of 30 s, connections of 60 s, stalled after 5 min.
    ///
    /// The connections are short for the sake of half-open ones: nothing else tells a quiet collection from a
    /// dead connection, and a new connection from the last version costs one request.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            remedy: APPLY,
            labels: None,
            fields: None,
            metadata_only: false,
            page_size: 500,
            call_deadline: Duration::from_secs(30),
            list_deadline: Duration::from_mins(30),
            connection_limit: Duration::from_mins(1),
            connection_margin: Duration::from_secs(10),
            stall_limit: Duration::from_mins(5),
            backoff: BackoffPolicy::CONNECTION,
            resync: None,
        }
    }
}
