//! What was logged last, so that a state that lasts is told once and not at every attempt.

/// Remembers one text.
#[derive(Debug, Default)]
pub(crate) struct Said(Option<String>);

impl Said {
    /// Whether the text differs from the last one; it is the last one from now on.
    pub(crate) fn is_new(&mut self, text: &str) -> bool {
        if self.0.as_deref() == Some(text) {
            return false;
        }
        self.0 = Some(text.to_owned());
        true
    }

    /// The state is over: whatever comes next is new. Answers whether something had been said.
    pub(crate) fn clear(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_new_until_it_was_said_and_again_after_another_or_an_end() {
        let mut said = Said::default();
        assert!(!said.clear());
        assert!(said.is_new("a") && !said.is_new("a"));
        assert!(said.is_new("b") && said.is_new("a"));
        assert!(said.clear() && said.is_new("a"));
    }
}
