//! Logging on change: a state that lasts is logged once and not at every attempt.

/// Remembers the text that was logged last.
#[derive(Debug, Default)]
pub struct LogOnChange(Option<String>);

impl LogOnChange {
    /// Whether the text differs from the last one; it is the last one from now on.
    pub fn is_new(&mut self, text: &str) -> bool {
        if self.0.as_deref() == Some(text) {
            return false;
        }
        self.0 = Some(text.to_owned());
        true
    }

    /// The state is over: whatever comes next is new. Answers whether something had been logged.
    pub fn clear(&mut self) -> bool {
        self.0.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_new_until_it_was_said_and_again_after_another_or_an_end() {
        let mut logged = LogOnChange::default();
        assert!(!logged.clear());
        assert!(logged.is_new("a") && !logged.is_new("a"));
        assert!(logged.is_new("b") && logged.is_new("a"));
        assert!(logged.clear() && logged.is_new("a"));
    }
}
