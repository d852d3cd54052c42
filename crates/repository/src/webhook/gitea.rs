//! Payloads of Gitea and Forgejo, which are GitHub's as far as pushes go.

use super::event::{Event, ParseError};
use super::github;

pub(super) fn event(name: &str, body: &[u8]) -> Result<Event, ParseError> {
    match name {
        "push" => github::event(name, body),
        other => Ok(Event::Other(other.to_owned())),
    }
}
