//! What a worker reports while it runs a job, and what becomes of it.
//!
//! A worker says what it does ([`Progress::message`], [`Progress::record`], …) as often as it likes, from as many tasks as
//! it likes. The job's status is written at most so often, but the last thing said is always written within its window.
//! The claim has already written that the job is being worked on, so a job that ends within the first window costs no
//! progress write at all.

mod phase;
mod recorder;
mod result;
mod throttle;

#[cfg(test)]
mod tests;

pub use phase::{Phase, Work};
pub use recorder::{Operation, Recorder};
pub use result::{Failure, ResourceAction, ResourceResult, Severity};
pub use throttle::{Progress, Sink, Windows};

/// The longest text of one error or warning in a status, in bytes.
const LONGEST_TEXT: usize = 1024;

/// `text`, cut where it would be too long for a status.
pub(crate) fn cut(text: &str) -> String {
    if text.len() <= LONGEST_TEXT {
        return text.to_owned();
    }
    let mut end = LONGEST_TEXT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}
