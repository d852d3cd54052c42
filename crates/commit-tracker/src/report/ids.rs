//! Ids of traces and spans that are the same whenever the same thing is reported.

use jiff::Timestamp;
use opentelemetry::trace::{Link, SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use sha2::{Digest as _, Sha256};
use windlass_telemetry::parse_traceparent;

use crate::Revision;

/// The ids of one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) trace: TraceId,
}

impl Ids {
    /// Of what the tracker did about a revision from this time on.
    pub(super) fn work(uid: &str, revision: &Revision, began: Timestamp) -> Self {
        Self::new(uid, revision, &format!("work {began}"))
    }

    /// Of how a revision came to be applied.
    pub(super) fn way(uid: &str, revision: &Revision) -> Self {
        Self::new(uid, revision, "way")
    }

    fn new(uid: &str, revision: &Revision, which: &str) -> Self {
        Self { trace: TraceId::from_bytes(first(&[uid, revision.as_str(), which])) }
    }

    /// The id of its span of this name.
    pub(super) fn span(self, name: &str) -> SpanId {
        SpanId::from_bytes(first(&[&self.trace.to_string(), name]))
    }

    /// A link to its span of this name.
    pub(super) fn link(self, name: &str) -> Link {
        let (flags, state) = (TraceFlags::SAMPLED, TraceState::default());
        let context = SpanContext::new(self.trace, self.span(name), flags, false, state);
        Link::new(context, Vec::new(), 0)
    }
}

/// The span that a W3C `traceparent` names.
pub(super) fn linked(traceparent: &str) -> Option<Link> {
    parse_traceparent(traceparent).map(|context| Link::new(context, Vec::new(), 0))
}

/// The first bytes of a digest over these texts. All zeros are no id, and as likely as a collision.
fn first<const N: usize>(texts: &[&str]) -> [u8; N] {
    let mut digest = Sha256::new();
    digest.update("windlass commit tracker");
    for text in texts {
        // Texts hold no such byte, so that no two sequences are the same.
        digest.update([0]);
        digest.update(text);
    }
    let mut id = [0; N];
    id.iter_mut().zip(digest.finalize()).for_each(|(to, from)| *to = from);
    id
}
