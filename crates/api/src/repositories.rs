//! Admission of repositories: what the server fills in, and what it refuses.

use serde_json::Value;

use crate::{
    field_error::FieldError,
    repository::{Repository, RepositoryType},
    repository_options::SyncTarget,
};

/// What a server lets repositories be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryRules {
    /// Types that a repository may have.
    pub types: Vec<RepositoryType>,
    /// Targets that a new repository may have.
    pub targets: Vec<SyncTarget>,
    /// Most repositories in a namespace; 0 for no limit.
    pub max_repositories: i64,
    /// Shortest time between two looks at the remote, in seconds.
    pub min_interval_seconds: i64,
    /// Whether pictures of dashboards can be made.
    pub image_rendering: bool,
    /// Origins (`scheme://host:port`) that may be plain http, private or loopback.
    pub allowed_origins: Vec<String>,
}

impl Default for RepositoryRules {
    fn default() -> Self {
        Self {
            types: RepositoryType::ALL.to_vec(),
            targets: vec![SyncTarget::Instance, SyncTarget::Folder, SyncTarget::Folderless],
            max_repositories: 0,
            min_interval_seconds: 60,
            image_rendering: false,
            allowed_origins: Vec::new(),
        }
    }
}

/// Fills in what the server decides: finalizers, the interval, trimmed URLs, secrets that an update leaves out.
pub fn mutate(new: &mut Repository, old: Option<&Repository>, rules: &RepositoryRules) {
    let _ = (new, old, rules);
}

/// [`mutate`] on a document, whose unknown fields survive.
pub fn mutate_value(
    new: &mut Value,
    old: Option<&Repository>,
    rules: &RepositoryRules,
) -> Result<(), serde_json::Error> {
    let _ = (new, old, rules);
    Ok(())
}

/// Everything that is wrong with a repository, by itself and beside the others of its namespace.
pub fn validate(
    new: &Repository,
    old: Option<&Repository>,
    others: &[Repository],
    rules: &RepositoryRules,
) -> Vec<FieldError> {
    let _ = (new, old, others, rules);
    Vec::new()
}
