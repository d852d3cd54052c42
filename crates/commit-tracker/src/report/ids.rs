//! Ids of traces and spans that are the same whenever the same thing is reported.

use jiff::Timestamp;
use opentelemetry::trace::{Link, SpanContext, SpanId, TraceFlags, TraceId, TraceState};
use sha2::{Digest as _, Sha256};

use crate::Revision;

/// Which trace of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trace {
    /// Of what the tracker did about it from this time on.
    Work(Timestamp),
    /// Of how the revision came to be applied.
    Stages,
}

/// The ids of one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ids {
    pub(super) trace: TraceId,
}

impl Ids {
    pub(super) fn new(uid: &str, revision: &Revision, trace: Trace) -> Self {
        let which = match trace {
            Trace::Work(began) => format!("work {began}"),
            Trace::Stages => "way".to_owned(),
        };
        Self { trace: TraceId::from_bytes(first(&[uid, revision.as_str(), &which])) }
    }

    /// The id of its span of this name.
    pub(super) fn span(self, name: &str) -> SpanId {
        SpanId::from_bytes(first(&[&self.trace.to_string(), name]))
    }

    /// A link to its span of this name.
    pub(super) fn link(self, name: &str) -> Link {
        Link::new(context(self.trace, self.span(name), TraceFlags::SAMPLED, false), Vec::new(), 0)
    }
}

/// The span that a W3C `traceparent` names.
pub(super) fn linked(traceparent: &str) -> Option<Link> {
    let mut parts = traceparent.trim().split('-');
    let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_well =
        is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    // The first version has no more than these.
    if !is_well || (version == "00" && parts.next().is_some()) {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let context = context(TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?, flags, true);
    context.is_valid().then(|| Link::new(context, Vec::new(), 0))
}

fn context(trace: TraceId, span: SpanId, flags: TraceFlags, is_remote: bool) -> SpanContext {
    SpanContext::new(trace, span, flags, is_remote, TraceState::default())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_a_malformed_one_is_not() {
        let whole = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let link = linked(whole).unwrap();
        assert_eq!(link.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(link.span_context.span_id().to_string(), "b7ad6b7169203331");
        assert!(linked(&format!("cc{}-more", &whole[2..])).is_some());
        for malformed in [
            "",
            "00",
            &whole[..54],
            &format!("{whole}-more"),
            &format!("ff{}", &whole[2..]),
            &whole.to_uppercase(),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert!(linked(malformed).is_none(), "{malformed}");
        }
    }
}
