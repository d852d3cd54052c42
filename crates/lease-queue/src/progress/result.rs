//! What a worker did to one resource.

use windlass_api::FileOutcome;

use super::cut;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceAction {
    /// It was made.
    Created,
    /// It was changed.
    Updated,
    /// It was removed.
    Deleted,
    /// Its file was moved.
    Renamed,
    /// Nothing had to be done, or nothing was done.
    Ignored,
}

impl ResourceAction {
    /// The word for what was done.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::Ignored => "ignored",
        }
    }

    /// The word for what was tried and did not succeed.
    pub fn attempted(self) -> &'static str {
        match self {
            Self::Created => "create",
            Self::Updated => "update",
            Self::Deleted => "delete",
            Self::Renamed => "rename",
            Self::Ignored => "ignored",
        }
    }
}

/// How bad a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The job ends as an error.
    Error,
    /// The job ends as a warning: the user can mend it, and nothing is lost by going on.
    Warning,
}

/// Why something could not be done to a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How bad it is.
    pub severity: Severity,
    /// A word in `PascalCase` for conditions and metrics, such as `ResourceInvalid`.
    pub reason: Option<String>,
    /// What happened, for the user; without path and name, which are added.
    pub message: String,
    /// Whether something else than a change of the file may resolve it.
    pub retry: bool,
}

impl Failure {
    /// An error.
    pub fn error(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, reason: None, message: message.into(), retry: false }
    }

    /// A warning, with its reason.
    pub fn warning(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, reason: Some(reason.into()), ..Self::error(message) }
    }
}

/// What a worker did to one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceResult {
    /// The file, relative to the repository's path.
    pub path: String,
    /// Where the file was before, when it was moved.
    pub previous_path: Option<String>,
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// The resource's name; empty when it is not known.
    pub name: String,
    /// What was done, or tried.
    pub action: ResourceAction,
    /// Hash of the file's content; empty where that means nothing.
    pub hash: String,
    /// Whether the resource had been changed or deleted by hand, and was set back.
    pub repaired: bool,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

impl ResourceResult {
    /// Something done to the resource of a file.
    pub fn new(
        path: impl Into<String>,
        group: impl Into<String>,
        kind: impl Into<String>,
        action: ResourceAction,
    ) -> Self {
        Self {
            path: path.into(),
            previous_path: None,
            group: group.into(),
            kind: kind.into(),
            name: String::new(),
            action,
            hash: String::new(),
            repaired: false,
            failure: None,
        }
    }

    /// With the resource's name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With the path before a move.
    #[must_use]
    pub fn moved_from(mut self, path: impl Into<String>) -> Self {
        self.previous_path = Some(path.into());
        self
    }

    /// With a failure.
    #[must_use]
    pub fn failed(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }
}

impl ResourceResult {
    /// What is to be kept of it in the job's record: nothing of what simply worked.
    pub fn outcome(&self) -> Option<FileOutcome> {
        let (reason, message, retry) = match &self.failure {
            Some(failure) => (
                failure.reason.clone().unwrap_or_else(|| "Error".to_owned()),
                cut(&failure.message),
                failure.retry,
            ),
            None if self.repaired => {
                let message = format!("changed or deleted by hand, and {} again", self.action.as_str());
                (FileOutcome::REPAIRED.to_owned(), message, false)
            }
            None => return None,
        };
        Some(FileOutcome {
            path: self.path.clone(),
            hash: self.hash.clone(),
            group: self.group.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            reason,
            message,
            retry,
        })
    }
}
