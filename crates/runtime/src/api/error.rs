//! Calls to an API server that end, and errors that say what they were about.

use std::time::Duration;

use kube::core::Status;

use crate::{BoxError, NotLeading};

/// Characters of a server's message that are kept: it ends up in a status or an event.
const MAX_MESSAGE: usize = 1_000;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Try again after a back-off.
    Retry,
    /// The same attempt fails again until somebody changes the object.
    AwaitChange,
    /// The process cannot go on.
    Fatal,
}

/// Why a call to an API server failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No answer came in time; whether the server acted is not known.
    #[error("failed to {what}: no answer within {after:?}")]
    Deadline {
        /// What was attempted, as in "list jobs".
        what: String,
        /// The limit that passed.
        after: Duration,
    },
    /// The server answered with an error.
    #[error("failed to {what}: {} ({})", text(status), status.code)]
    Refused {
        /// What was attempted.
        what: String,
        /// The server's answer.
        status: Box<Status>,
    },
    /// The request did not get through, or the answer could not be read.
    #[error("failed to {what}")]
    Send {
        /// What was attempted.
        what: String,
        /// Where it failed.
        #[source]
        source: BoxError,
    },
    /// A write was not sent, since whoever asked for it has no right to write any more.
    #[error("failed to {what}: not sent: {reason}")]
    Fenced {
        /// What was attempted.
        what: String,
        /// Which right was lost.
        reason: &'static str,
    },
    /// The server's answer is not what it should be; asked again, it says the same.
    #[error("failed to {what}: the answer cannot be read")]
    Unreadable {
        /// What was attempted.
        what: String,
        /// What is wrong with it.
        #[source]
        source: BoxError,
    },
    /// The object that a write is about lacks its name or resourceVersion: it did not come from a server.
    #[error("failed to {what}: the object has no {missing}")]
    Incomplete {
        /// What was attempted.
        what: String,
        /// The field that is missing.
        missing: &'static str,
    },
}

impl CallError {
    /// Sorts a client's error by whether the server answered.
    pub fn new(what: impl Into<String>, error: kube::Error) -> Self {
        let what = what.into();
        match error {
            kube::Error::Api(mut status) => {
                if let Some((end, _)) = status.message.char_indices().nth(MAX_MESSAGE) {
                    status.message.truncate(end);
                }
                Self::Refused { what, status }
            }
            kube::Error::SerdeError(source) => Self::Unreadable { what, source: source.into() },
            // What kube puts around an error says nothing to a reader.
            kube::Error::Service(source) => Self::Send { what, source },
            source => Self::Send { what, source: source.into() },
        }
    }

    /// The server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// The HTTP code of the server's answer.
    pub fn code(&self) -> Option<u16> {
        self.status().map(|status| status.code)
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// An object of that name is there already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 && status.reason == "AlreadyExists")
    }

    /// The object changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409) && !self.is_already_exists()
    }

    /// The version that was asked for is no longer kept.
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// The right to write was lost before the request was sent: a lease, or the term of a leader.
    pub fn is_fenced(&self) -> bool {
        match self {
            Self::Fenced { .. } => true,
            Self::Send { source, .. } => is_not_leading(&**source),
            _ => false,
        }
    }

    /// Whether the same call may succeed in a moment although nobody changes anything: the server could not be reached,
    /// said nothing, or is busy, starting or without its storage.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Deadline { .. } => true,
            Self::Send { .. } => !self.is_fenced(),
            Self::Refused { status, .. } => match status.code {
                429 | 502..=504 => true,
                500 => self.retry_after().is_some() || status.message.contains("etcdserver"),
                _ => false,
            },
            Self::Fenced { .. } | Self::Unreadable { .. } | Self::Incomplete { .. } => false,
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// A word for conditions, events and metrics.
    pub fn reason(&self) -> &str {
        match self {
            Self::Deadline { .. } => "Timeout",
            Self::Refused { status, .. } if !status.reason.is_empty() => &status.reason,
            Self::Refused { .. } => "Refused",
            Self::Send { .. } => "ServiceUnavailable",
            Self::Fenced { .. } => "Fenced",
            Self::Unreadable { .. } | Self::Incomplete { .. } => "InternalError",
        }
    }

    /// Whether trying the same again can help.
    pub fn disposition(&self) -> Disposition {
        match self.code() {
            // What was sent is at fault; 401 to 404 may mend themselves (tokens, roles, kinds that arrive later).
            Some(400 | 405 | 406 | 413 | 415 | 422) => Disposition::AwaitChange,
            _ => Disposition::Retry,
        }
    }
}

fn text(status: &Status) -> &str {
    if status.message.is_empty() { &status.reason } else { &status.message }
}

/// Whether an error or what it came from is [`NotLeading`].
fn is_not_leading(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(<dyn std::error::Error>::is::<NotLeading>)
}

/// Awaits one try of a call for at most `limit`. `what` completes "failed to …".
pub async fn deadline<T>(
    limit: Duration,
    what: impl Into<String>,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(|error| CallError::new(what, error)),
        Err(_) => Err(CallError::Deadline { what: what.into(), after: limit }),
    }
}

#[cfg(test)]
mod tests {
    use windlass_telemetry::ErrorChain;

    use super::*;

    fn refused(code: u16, reason: &str) -> CallError {
        let status = Status::failure("jobs \"a\" is odd", reason).with_code(code).boxed();
        CallError::new("get job a", kube::Error::Api(status))
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_ends_at_its_deadline() {
        let call = std::future::pending::<kube::Result<()>>();
        let error = deadline(Duration::from_secs(30), "list jobs", call).await.unwrap_err();
        assert_eq!(error.to_string(), "failed to list jobs: no answer within 30s");
        assert_eq!(error.disposition(), Disposition::Retry);
    }

    #[test]
    fn a_refusal_reads_as_the_server_said_it() {
        let error = refused(404, "NotFound");
        assert_eq!(ErrorChain(&error).to_string(), "failed to get job a: jobs \"a\" is odd (404)");
        assert_eq!(error.reason(), "NotFound");
    }

    #[test]
    fn refusals_are_told_apart() {
        assert!(refused(404, "NotFound").is_not_found());
        assert!(refused(410, "Expired").is_gone());
        assert!(refused(409, "Conflict").is_conflict() && !refused(409, "Conflict").is_already_exists());
        assert!(
            refused(409, "AlreadyExists").is_already_exists() && !refused(409, "AlreadyExists").is_conflict()
        );
        for code in [401, 404, 409, 429, 500, 503] {
            assert_eq!(refused(code, "").disposition(), Disposition::Retry, "{code}");
        }
        assert_eq!(refused(422, "Invalid").disposition(), Disposition::AwaitChange);
    }

    #[test]
    fn a_failure_to_connect_is_printed_once() {
        let source = kube::Error::Service("connection refused".into());
        let error = CallError::new("list jobs", source);
        assert_eq!(ErrorChain(&error).to_string(), "failed to list jobs: connection refused");
    }
}
