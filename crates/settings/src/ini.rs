//! Ini files as Grafana reads them, with line numbers.
//!
//! `[section]`, `key = value` or `key: value`, comments with `;` or `#` at the start of a line or after a
//! value. A value that holds one of those two is put into `"""…"""` (which may span lines), back quotes, or
//! plain quotes. A backslash at the end of a line continues it. No other escapes are read.

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) section: String,
    pub(crate) key: String,
    pub(crate) value: String,
    /// Line of the key, counted from 1.
    pub(crate) line: usize,
    /// Whether the value ends at a `;` or `#` that has no space before it.
    pub(crate) cut: bool,
}

/// A line that means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadLine {
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// Reads every entry, and every line that cannot be read.
pub(crate) fn read(text: &str) -> (Vec<Entry>, Vec<BadLine>) {
    let mut entries = Vec::new();
    let mut bad = Vec::new();
    let mut section = String::new();
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate();
    while let Some((index, raw)) = lines.next() {
        let line = index + 1;
        let trimmed = raw.trim();
        if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
            continue;
        }
        if let Some(header) = trimmed.strip_prefix('[') {
            match header.split_once(']') {
                Some((name, rest)) if rest.trim().is_empty() || rest.trim_start().starts_with([';', '#']) => {
                    name.trim().clone_into(&mut section);
                }
                _ => bad.push(BadLine { line, message: "a section has to be written [name]".to_owned() }),
            }
            continue;
        }
        let Some((key, rest)) = trimmed.split_once(['=', ':']) else {
            // The text is not repeated: it may be a secret on a line of its own.
            bad.push(BadLine {
                line,
                message: "expected `key = value`, `[section]` or a comment".to_owned(),
            });
            continue;
        };
        match value(rest.trim(), &mut lines) {
            Ok((value, cut)) => {
                entries.push(Entry {
                    section: section.clone(),
                    key: key.trim().to_owned(),
                    value,
                    line,
                    cut,
                });
            }
            Err(message) => bad.push(BadLine { line, message }),
        }
    }
    (entries, bad)
}

/// A value that begins on a line and may go on on the next ones.
fn value<'a>(
    first: &str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<(String, bool), String> {
    if let Some(rest) = first.strip_prefix("\"\"\"") {
        return until("\"\"\"", rest, lines).map(|value| (value, false));
    }
    if let Some(rest) = first.strip_prefix('`') {
        return until("`", rest, lines).map(|value| (value, false));
    }
    for quote in ['"', '\''] {
        if let Some((inside, _)) = first.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return Ok((inside.to_owned(), false));
        }
    }
    let mut whole = String::new();
    let mut part = first;
    while let Some(before) = part.strip_suffix('\\') {
        whole.push_str(before.trim_end());
        let Some((_, next)) = lines.next() else {
            part = "";
            break;
        };
        part = next.trim();
    }
    whole.push_str(part);
    let Some(end) = whole.find([';', '#']) else { return Ok((whole, false)) };
    let cut = end > 0 && !whole[..end].ends_with(char::is_whitespace);
    whole.truncate(end);
    Ok((whole.trim_end().to_owned(), cut))
}

/// Everything up to a closing quote, on however many lines.
fn until<'a>(
    quote: &str,
    first: &str,
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
) -> Result<String, String> {
    let mut whole = String::new();
    let mut part = first;
    loop {
        if let Some((inside, _)) = part.split_once(quote) {
            whole.push_str(inside);
            return Ok(whole);
        }
        whole.push_str(part);
        whole.push('\n');
        let Some((_, next)) = lines.next() else { return Err(format!("the value has no closing {quote}")) };
        part = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(&str, &str, &str, usize)]) {
        let (entries, bad) = read(text);
        assert_eq!(bad, []);
        let found: Vec<_> =
            entries.iter().map(|e| (e.section.as_str(), e.key.as_str(), e.value.as_str(), e.line)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn sections_keys_and_comments_are_read_with_their_lines() {
        check(
            "\u{feff}top = 1\r\n; comment\n# comment\n\n[a] ; why\n x = 1 ; note\ny: 2\nempty =\n[a.b]\nx=3\n[a]\nz = a = b\n",
            &[
                ("", "top", "1", 1),
                ("a", "x", "1", 6),
                ("a", "y", "2", 7),
                ("a", "empty", "", 8),
                ("a.b", "x", "3", 10),
                ("a", "z", "a = b", 12),
            ],
        );
    }

    #[test]
    fn quotes_keep_what_would_be_a_comment() {
        check(
            "[a]\nt = \"\"\"a#b;c\"\"\" ; note\nb = `x # y`\nq = \"a;b\"\ns = 'a#b'\nm = \"\"\"one\n two\"\"\"\nn = 1\n",
            &[
                ("a", "t", "a#b;c", 2),
                ("a", "b", "x # y", 3),
                ("a", "q", "a;b", 4),
                ("a", "s", "a#b", 5),
                ("a", "m", "one\n two", 6),
                ("a", "n", "1", 8),
            ],
        );
    }

    #[test]
    fn backslashes_are_text_but_at_the_end_of_a_line() {
        check(
            "[a]\np = C:\\temp\\new\nl = one, \\\n  two\nn = 1\n",
            &[("a", "p", "C:\\temp\\new", 2), ("a", "l", "one,two", 3), ("a", "n", "1", 5)],
        );
    }

    #[test]
    fn a_value_ends_at_a_comment_sign_and_says_so_when_it_looks_like_a_mistake() {
        let (entries, _) = read("[a]\nx = abc#def\ny = abc # def\nz = #\n");
        let found: Vec<_> = entries.iter().map(|e| (e.value.as_str(), e.cut)).collect();
        assert_eq!(found, [("abc", true), ("abc", false), ("", false)]);
    }

    #[test]
    fn lines_that_mean_nothing_are_named() {
        let (entries, bad) = read("[a\nhello\n[b]x\nk = \"\"\"open\n");
        assert_eq!(entries, []);
        assert_eq!(bad.iter().map(|line| line.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "([\\[\\]a=;#\"`'\\\\ \n\r\u{e4}]|\"\"\"){0,60}") {
            let _ = read(&text);
        }
    }
}
