//! What goes wrong on demand.

use std::time::Duration;

use crate::reply::Reply;

/// A failure of GitHub, or of the way to it.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This status, with GitHub's error body; nothing is done.
    Status(u16),
    /// The operation is done, and this status is answered all the same: nobody can know what became of it.
    StatusAfterwards(u16),
    /// This status and `Retry-After`.
    StatusRetryAfter(u16, Duration),
    /// The rate limit is used up; it is counted anew after this time.
    LimitUsedUp(Duration),
    /// A secondary rate limit: 403, with `Retry-After` if there is a time.
    SecondaryLimit(Option<Duration>),
    /// The body ends early.
    Truncated,
    /// The file's content is no base64.
    WrongBase64,
    /// The file's content is another file's.
    OtherContent,
    /// A body of this many bytes, in pieces without a length.
    Huge(usize),
    /// A body that is no JSON.
    NoJson,
    /// Nothing is answered.
    Silent,
    /// The operation is done at once, and answered after this time.
    Late(Duration),
    /// A redirect to this URL (301).
    Redirect(String),
    /// A redirect to this URL that is to be followed with the same method and body (307).
    RedirectVerbatim(String),
}

impl Fault {
    /// The refusal that stands in the operation's place; nothing where what it answers is spoilt.
    pub(crate) fn refusal(&self) -> Option<Reply> {
        match self {
            Self::Status(status) => Some(Reply::refuse(*status, "on demand")),
            Self::StatusRetryAfter(status, wait) => {
                Some(Reply { retry_after: Some(*wait), ..Reply::refuse(*status, "on demand") })
            }
            Self::SecondaryLimit(wait) => {
                let message = "You have exceeded a secondary rate limit. Please wait a few minutes.";
                Some(Reply { retry_after: *wait, ..Reply::refuse(403, message) })
            }
            _ => None,
        }
    }
}

/// A fault that waits for its requests.
pub(crate) struct Planned {
    pub(crate) path: String,
    pub(crate) times: usize,
    pub(crate) fault: Fault,
}
