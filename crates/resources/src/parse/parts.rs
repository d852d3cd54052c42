//! Where the documents of a YAML file are.

use std::ops::Range;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A document of a file, by byte offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it begins, with the marker before it.
    pub(crate) marker: usize,
    /// Where its content is.
    pub(crate) content: Range<usize>,
}

/// The documents that are not empty. A marker stands at the start of a line, where no content can look like it: that
/// holds for block scalars and quoted text as well (YAML 1.2, §9.1.2).
pub(crate) fn parts(text: &str) -> Vec<Part> {
    let mut offset = text.len() - text.trim_start_matches(BYTE_ORDER_MARK).len();
    let mut parts = Vec::new();
    let (mut marker, mut start) = (offset, offset);
    for line in text[offset..].split_inclusive('\n') {
        if is_marker(line) {
            parts.push(Part { marker, content: start..offset });
            marker = offset;
            // What follows `---` on its line belongs to the document; `...` takes nothing with it.
            start = if line.starts_with("---") { offset + 3 } else { offset + line.len() };
        }
        offset += line.len();
    }
    parts.push(Part { marker, content: start..text.len() });
    parts.retain(|part| !is_blank(&text[part.content.clone()]));
    parts
}

fn is_marker(line: &str) -> bool {
    let rest = line.strip_prefix("---").or_else(|| line.strip_prefix("..."));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Comments, directives and white space.
fn is_blank(document: &str) -> bool {
    document.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line.starts_with('%')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_where_they_are_and_empty_ones_are_none() {
        let text =
            "\u{feff}# first\na: 1\n--- # second\nb: |\n  ---\n  x\n---\n# nothing\n---\n...\n--- {c: 1}\n";
        let found: Vec<(&str, &str)> = parts(text)
            .into_iter()
            .map(|part| (&text[part.marker..part.content.start], &text[part.content]))
            .collect();
        assert_eq!(
            found,
            [("", "# first\na: 1\n"), ("---", " # second\nb: |\n  ---\n  x\n"), ("---", " {c: 1}\n")]
        );
        assert_eq!(parts("---\n---\n...\n"), []);
        assert_eq!(parts(""), []);
    }
}
