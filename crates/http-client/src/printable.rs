//! Other people's text, for messages and log lines.

/// Other people's text for a message: control characters replaced, at most `max` characters.
pub fn printable(text: &str, max: usize) -> String {
    let text = text.trim();
    let mut clean: String = text.chars().take(max).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(max).is_some() {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn what_could_steer_a_terminal_is_taken_out_and_what_is_long_is_cut() {
        assert_eq!(printable(" a\u{1b}[31m\nb ", 80), "a [31m b");
        assert_eq!(printable("äöü", 3), "äöü");
        assert_eq!(printable("äöüß", 3), "äöü…");
    }
}
