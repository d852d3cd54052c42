//! The one printer of an error and its causes.

use std::error::Error;
use std::fmt;

/// No real chain is this long; an error that names itself as its source must not print for ever.
const MAX_DEPTH: usize = 32;

/// Prints an error and its sources in one line, each text once: `failed to pull: failed to connect: refused`.
///
/// Some libraries print their source in their own text *and* expose it. A source whose text was printed
/// already is skipped, so such a chain reads once.
#[derive(Clone, Copy)]
pub struct ErrorChain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = self.0.to_string();
        let mut cause = self.0.source();
        for _ in 0..MAX_DEPTH {
            let Some(error) = cause else { break };
            let text = error.to_string();
            if !printed.contains(&text) {
                printed.push_str(": ");
                printed.push_str(&text);
            }
            cause = error.source();
        }
        f.write_str(&printed)
    }
}

impl fmt::Debug for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Link(&'static str, Option<Box<Link>>);

    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Link {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|link| link as _)
        }
    }

    fn check(texts: &[&'static str], expected: &str) {
        let chain = texts.iter().rev().fold(None, |source, text| Some(Box::new(Link(text, source))));
        let error = chain.expect("at least one text");
        assert_eq!(ErrorChain(&*error).to_string(), expected);
    }

    #[test]
    fn each_cause_is_printed_once_from_the_outside_in() {
        check(&["failed to pull"], "failed to pull");
        check(
            &["failed to pull", "failed to connect", "refused"],
            "failed to pull: failed to connect: refused",
        );
    }

    #[test]
    fn a_cause_that_its_parent_printed_is_skipped() {
        check(&["api error: not found", "not found"], "api error: not found");
        check(&["outer: middle: inner", "middle: inner", "inner"], "outer: middle: inner");
        check(&["outer: inner", "middle", "inner"], "outer: inner: middle");
    }

    #[test]
    fn an_empty_cause_leaves_no_trace() {
        check(&["outer", "", "inner"], "outer: inner");
    }
}
