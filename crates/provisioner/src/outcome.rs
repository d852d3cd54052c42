//! What a visit to a node comes to.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a yield waits unless something wakes it or it says otherwise.
pub const DEFAULT_YIELD: Duration = Duration::from_secs(10);

/// What a visit that did not fail comes to.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Provisioning: it is up. Deprovisioning: it is really gone.
    Ready,
    /// It is under way; the worker is free for others until then.
    Yield {
        /// Why, for programs.
        reason: Reason,
        /// Why, for people: names and counts, no text of somebody else's errors, no secret.
        message: String,
        /// When to come back at the latest.
        after: Duration,
        /// Come back as soon as one of these changes.
        wake_on: Vec<WakeOn>,
    },
}

impl Outcome {
    /// A yield of [`DEFAULT_YIELD`] that nothing wakes.
    pub fn wait(reason: Reason, message: impl Into<String>) -> Self {
        Self::Yield { reason, message: message.into(), after: DEFAULT_YIELD, wake_on: Vec::new() }
    }

    /// The same yield, which comes back after this time at the latest. Nothing to a readiness.
    pub fn after(mut self, delay: Duration) -> Self {
        if let Self::Yield { after, .. } = &mut self {
            *after = delay;
        }
        self
    }

    /// The same yield, which comes back when this object changes. Nothing to a readiness.
    pub fn wake_on(mut self, object: WakeOn) -> Self {
        if let Self::Yield { wake_on, .. } = &mut self {
            wake_on.push(object);
        }
        self
    }

    /// Whether it is up, or gone.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }
}

/// An object whose change ends a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WakeOn {
    /// The cluster's identifier; empty for the local one.
    pub cluster: String,
    /// Its group; empty for the core group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its kind, `PascalCase`.
    pub kind: String,
    /// The name of its collection in URLs.
    pub plural: String,
    /// Its namespace; empty for what has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Why a node is not up, or not gone. A closed vocabulary: it ends up in conditions, Events and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// It was asked for and is not yet as it should be.
    NotReady,
    /// Its removal is under way.
    Deleting,
    /// Something that it needs is not up.
    DependencyNotReady,
    /// Something that it needs has failed.
    DependencyFailed,
    /// Something that it needs is not there.
    DependencyNotFound,
    /// Others of its graph come first.
    Blocked,
    /// Its condition cannot be judged at present, so that it is left as it is.
    Held,
    /// It is not wanted, and gone.
    NotWanted,
    /// It took longer than it may.
    TimedOut,
    /// It failed as often as it may.
    RetriesExhausted,
    /// Its code panicked.
    Panicked,
    /// It failed, and that is all that can be said in public.
    Failed,
    /// It is up, and works badly.
    Degraded,
    /// An API server refused the request.
    Refused,
    /// An API server does not answer, or is busy.
    Unavailable,
    /// The credentials are refused.
    Unauthorized,
    /// The object belongs to somebody else, and adoption was not asked for.
    NotOurs,
    /// Other objects still refer to the owner.
    Referenced,
    /// Dependants of the owner go first.
    ForegroundDeletion,
    /// The cluster cannot be reached.
    RemoteUnreachable,
    /// The kubeconfig cannot be read, or asks for what is not allowed.
    InvalidKubeconfig,
    /// More than one application has the identity.
    AmbiguousIdentity,
    /// The catalogue does not have the application.
    ApplicationNotFound,
    /// The catalogue does not have the version.
    VersionNotFound,
    /// A parameter is given twice.
    DuplicateParameter,
    /// A status or a list of conditions has a shape that is not Kubernetes'.
    ForeignStatus,
    /// The tree cannot be built.
    InvalidTree,
    /// A reason of a provisioner outside this crate, `PascalCase`.
    Other(&'static str),
}

impl Reason {
    /// The word, `PascalCase`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotReady => "NotReady",
            Self::Deleting => "Deleting",
            Self::DependencyNotReady => "DependencyNotReady",
            Self::DependencyFailed => "DependencyFailed",
            Self::DependencyNotFound => "DependencyNotFound",
            Self::Blocked => "Blocked",
            Self::Held => "Held",
            Self::NotWanted => "NotWanted",
            Self::TimedOut => "TimedOut",
            Self::RetriesExhausted => "RetriesExhausted",
            Self::Panicked => "Panicked",
            Self::Failed => "Failed",
            Self::Degraded => "Degraded",
            Self::Refused => "Refused",
            Self::Unavailable => "Unavailable",
            Self::Unauthorized => "Unauthorized",
            Self::NotOurs => "NotOurs",
            Self::Referenced => "Referenced",
            Self::ForegroundDeletion => "ForegroundDeletion",
            Self::RemoteUnreachable => "RemoteUnreachable",
            Self::InvalidKubeconfig => "InvalidKubeconfig",
            Self::AmbiguousIdentity => "AmbiguousIdentity",
            Self::ApplicationNotFound => "ApplicationNotFound",
            Self::VersionNotFound => "VersionNotFound",
            Self::DuplicateParameter => "DuplicateParameter",
            Self::ForeignStatus => "ForeignStatus",
            Self::InvalidTree => "InvalidTree",
            Self::Other(word) => word,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What to do about a failure. Ordered by how bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Disposition {
    /// Try again after a back-off.
    Retry,
    /// The user has to change the object; until then it fails the same way.
    UserAction,
    /// Somebody who runs the system has to act.
    Terminal,
}

/// Why a visit failed.
///
/// The message is for the user and goes into the status; the source is for the log alone, since other systems' texts
/// tell of what a user may not see.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProvisionError {
    /// What to do about it.
    pub disposition: Disposition,
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for the user.
    pub message: String,
    /// What it came from, for the log.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ProvisionError {
    /// A failure that is tried again.
    pub fn retry(reason: Reason, message: impl Into<String>) -> Self {
        Self { disposition: Disposition::Retry, reason, message: message.into(), source: None }
    }

    /// A failure that the user has to mend.
    pub fn user_action(reason: Reason, message: impl Into<String>) -> Self {
        Self { disposition: Disposition::UserAction, ..Self::retry(reason, message) }
    }

    /// A failure that is not tried again before something changes.
    pub fn terminal(reason: Reason, message: impl Into<String>) -> Self {
        Self { disposition: Disposition::Terminal, ..Self::retry(reason, message) }
    }

    /// With what it came from.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// What a visit comes to.
pub type Visited = Result<Outcome, ProvisionError>;

/// The worst of what the children came to: terminal, user action, retry, yield, ready. Of equals the first; of yields
/// with the least delay of all, woken by what wakes any.
pub(crate) fn worst(visits: impl IntoIterator<Item = Visited>) -> Visited {
    let mut worst: Visited = Ok(Outcome::Ready);
    for visited in visits {
        worst = match (worst, visited) {
            (Err(one), Err(other)) if other.disposition > one.disposition => Err(other),
            (Err(one), _) => Err(one),
            (Ok(_), Err(other)) => Err(other),
            (Ok(one), Ok(other)) => Ok(joined(one, other)),
        };
    }
    worst
}

fn joined(one: Outcome, other: Outcome) -> Outcome {
    match (one, other) {
        (Outcome::Ready, other) => other,
        (one, Outcome::Ready) => one,
        (
            Outcome::Yield { reason, message, after, mut wake_on },
            Outcome::Yield { after: sooner, wake_on: more, .. },
        ) => {
            wake_on.extend(more);
            Outcome::Yield { reason, message, after: after.min(sooner), wake_on }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_wins_and_of_equals_the_first_whatever_else_there_is() {
        let wait = |message: &str, seconds| {
            Ok(Outcome::wait(Reason::NotReady, message).after(Duration::from_secs(seconds)))
        };
        let retry = |message: &str| Err(ProvisionError::retry(Reason::Failed, message));
        let message = |visits: Vec<Visited>| worst(visits).unwrap_err().message;
        assert_eq!(message(vec![wait("a", 1), retry("b"), retry("c")]), "b", "a yield and an error at once");
        let user = Err(ProvisionError::user_action(Reason::NotOurs, "u"));
        let terminal = Err(ProvisionError::terminal(Reason::TimedOut, "t"));
        assert_eq!(message(vec![retry("b"), user, wait("a", 1), terminal]), "t");
        let Outcome::Yield { message, after, .. } =
            worst([Ok(Outcome::Ready), wait("a", 9), wait("b", 2)]).unwrap()
        else {
            panic!("two of them wait")
        };
        assert_eq!((message.as_str(), after), ("a", Duration::from_secs(2)));
        assert!(worst([]).unwrap().is_ready(), "an empty group is up");
    }
}
