//! How one process tells another which span its work is a part of.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The W3C `traceparent` of a span that is recorded.
pub fn traceparent(trace: TraceId, span: SpanId) -> String {
    format!("00-{trace}-{span}-01")
}

/// The span that a W3C `traceparent` names; nothing for a malformed one.
pub fn parse_traceparent(text: &str) -> Option<SpanContext> {
    let mut parts = text.trim().split('-');
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
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_and_a_malformed_one_is_not() {
        let whole = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = parse_traceparent(whole).unwrap();
        assert_eq!(context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span_id().to_string(), "b7ad6b7169203331");
        assert_eq!(traceparent(context.trace_id(), context.span_id()), whole);
        assert!(parse_traceparent(&format!("cc{}-more", &whole[2..])).is_some());
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
            assert!(parse_traceparent(malformed).is_none(), "{malformed}");
        }
    }
}
