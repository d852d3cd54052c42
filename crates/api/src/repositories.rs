//! Admission of repositories: what the server fills in, and what it refuses.
//!
//! Both are for writes to the object itself, not for its status. They ask neither the network nor other
//! servers: whether a URL leads somewhere that is allowed is decided when it is connected to.
//! (Grafana: `R/mutator.go`, `R/validator.go`, `R/git/validator.go`.)

mod fill_in;
mod overlap;
mod rules;
mod table;

use crate::{
    conditions,
    consts::labels,
    field_error::FieldError,
    repository::{Repository, RepositoryType},
    repository_options::SyncTarget,
};

pub use fill_in::{mutate, mutate_value};
pub use overlap::{Overlap, overlap};
pub(crate) use table::RULES;

/// Names that mean something else in a repository's place.
pub const RESERVED_NAMES: [&str; 14] = [
    "classic", "sql", "SQL", "plugins", "legacy", "new", "job", "github", "s3", "gcs", "file", "create",
    "update", "delete",
];

/// Longest name: it is the value of a label on the repository's jobs and resources.
pub const MAX_NAME_LENGTH: usize = 63;

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
}

impl Default for RepositoryRules {
    fn default() -> Self {
        Self {
            types: RepositoryType::ALL.to_vec(),
            targets: vec![SyncTarget::Instance, SyncTarget::Folder, SyncTarget::Folderless],
            max_repositories: 0,
            min_interval_seconds: 60,
            image_rendering: false,
        }
    }
}

/// One stage of the checks, which appends what it finds.
type Stage<'a> = &'a dyn Fn(&mut Vec<FieldError>);

/// What is wrong with a repository, by itself and beside the others of its namespace.
///
/// `new` has gone through [`mutate`]; `others` may contain the repository itself, which is left out by name.
/// The checks are in stages, and the errors are those of the first stage that finds any. A repository that is
/// being deleted is not checked, so that nothing keeps its finalizers from coming off.
pub fn validate(
    new: &Repository,
    old: Option<&Repository>,
    others: &[Repository],
    rules: &RepositoryRules,
) -> Vec<FieldError> {
    if new.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let errors = broken_rules(new, old);
    if errors.is_empty() { offered(new, old, others, rules) } else { errors }
}

/// Every rule of the definition that a repository breaks.
pub fn broken_rules(new: &Repository, old: Option<&Repository>) -> Vec<FieldError> {
    crate::rules::broken(RULES, "", new, old)
}

/// What depends on this server's settings, on metadata and on the other repositories of the namespace, in stages.
pub fn offered(
    new: &Repository,
    old: Option<&Repository>,
    others: &[Repository],
    rules: &RepositoryRules,
) -> Vec<FieldError> {
    let stages: [Stage<'_>; 3] = [
        &|errors| rules::pending_delete(new, old, errors),
        &|errors| rules::offered(new, old, rules, errors),
        &|errors| rules::neighbours(new, old, others, rules, errors),
    ];
    let mut errors = Vec::new();
    for stage in stages {
        stage(&mut errors);
        if !errors.is_empty() {
            break;
        }
    }
    errors
}

/// What is wrong with a repository that is stored, by itself: [`validate`] without what only writes are asked.
pub fn review(stored: &Repository, rules: &RepositoryRules) -> Vec<FieldError> {
    let mut errors = crate::rules::standing(RULES, "", stored);
    if errors.is_empty() {
        rules::offered(stored, Some(stored), rules, &mut errors);
    }
    errors
}

/// Why nothing is written to the repository's own branch, where that is known of it as it is specified.
pub fn write_refusal(repository: &Repository) -> Option<&str> {
    let said = conditions::find(&repository.status.conditions, conditions::types::WRITABLE)?;
    let is_of_this = said.observed_generation == repository.metadata.generation;
    (is_of_this && said.status == "False").then_some(said.message.as_str())
}

/// Whether the repository's namespace is soft-deleted, so that the repository is left alone.
pub fn is_pending_delete(repository: &Repository) -> bool {
    repository
        .metadata
        .labels
        .as_ref()
        .and_then(|set| set.get(labels::PENDING_DELETE))
        .is_some_and(|value| value == "true")
}

#[cfg(test)]
mod tests;
