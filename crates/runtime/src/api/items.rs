//! A page of a list as it arrives: taken apart into its items, so that no more than one of them is in memory as text.

use serde::Deserialize;

/// What stands around the items of a page.
#[derive(Debug, Deserialize)]
pub(super) struct Frame {
    #[serde(default)]
    pub(super) metadata: FrameMeta,
    /// The items were taken out; anything else in their place is no list.
    #[serde(default)]
    #[expect(dead_code, reason = "reading it is the check")]
    items: Option<[(); 0]>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct FrameMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// A text became longer than anything that a server has a reason to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Takes a page apart.
///
/// It follows strings and nesting and checks nothing else: whether an item or the frame is JSON, whoever reads it finds
/// out.
#[derive(Debug)]
pub(super) struct Items {
    /// What stands around the items.
    frame: Vec<u8>,
    /// What came of the current item.
    item: Vec<u8>,
    /// The longest that either may become, in bytes.
    limit: usize,
    depth: usize,
    text: Text,
    /// Where the last string of the outermost object begins in the frame: before a colon, it is a key.
    key: usize,
    inside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// The next byte means itself.
    Escaped,
}

/// How deep the items' list is, once it is entered.
const LIST: usize = 2;

impl Items {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            frame: Vec::new(),
            item: Vec::new(),
            limit,
            depth: 0,
            text: Text::Outside,
            key: 0,
            inside: false,
        }
    }

    /// Takes the next piece of the page, of any length, and gives the items that end in it.
    ///
    /// # Errors
    /// An item, or what stands around them, is too long.
    pub(super) fn take(&mut self, mut piece: &[u8], mut give: impl FnMut(&[u8])) -> Result<(), TooLong> {
        while let Some(first) = piece.first() {
            let length = match self.text {
                Text::Inside => until(piece, |byte| matches!(byte, b'"' | b'\\')),
                Text::Escaped => 0,
                Text::Outside => until(piece, |byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']' | b',')),
            };
            if length > 0 {
                let (run, rest) = piece.split_at(length);
                self.target().extend_from_slice(run);
                piece = rest;
            } else {
                self.step(*first, &mut give);
                piece = &piece[1..];
            }
            if self.item.len() > self.limit || self.frame.len() > self.limit {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    /// What stands around the items, once the page is at its end.
    ///
    /// # Errors
    /// It is not JSON, ends too early, or is no list.
    pub(super) fn frame(&self) -> Result<Frame, serde_json::Error> {
        serde_json::from_slice(&self.frame)
    }

    /// A byte that has a meaning.
    fn step(&mut self, byte: u8, give: &mut impl FnMut(&[u8])) {
        match self.text {
            Text::Escaped => self.text = Text::Inside,
            Text::Inside => self.text = if byte == b'"' { Text::Outside } else { Text::Escaped },
            Text::Outside => return self.structure(byte, give),
        }
        self.target().push(byte);
    }

    fn structure(&mut self, byte: u8, give: &mut impl FnMut(&[u8])) {
        if self.inside && self.depth == LIST && matches!(byte, b',' | b']') {
            if !self.item.trim_ascii().is_empty() {
                give(&self.item);
            }
            self.item.clear();
            if byte == b',' {
                return;
            }
            self.inside = false;
        }
        match byte {
            b'"' => {
                self.text = Text::Inside;
                if self.depth == 1 {
                    self.key = self.frame.len();
                }
            }
            b'{' => self.depth += 1,
            b'[' => {
                self.depth += 1;
                // The bracket itself still stands outside.
                if self.depth == LIST && self.is_at_items() {
                    self.frame.push(byte);
                    self.inside = true;
                    return;
                }
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.target().push(byte);
    }

    /// Whether what comes is the value of `items` in the outermost object.
    fn is_at_items(&self) -> bool {
        let before = self.frame.get(self.key..).unwrap_or_default();
        before.strip_prefix(b"\"items\"").is_some_and(|after| after.trim_ascii() == b":")
    }

    fn target(&mut self) -> &mut Vec<u8> {
        if self.inside { &mut self.item } else { &mut self.frame }
    }
}

/// How many bytes stand before the first that `ends`.
fn until(text: &[u8], ends: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|byte| ends(*byte)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Takes `text` in pieces of `length` bytes.
    fn taken(text: &str, length: usize) -> (Vec<String>, Items) {
        let (mut items, mut found) = (Items::new(1 << 20), Vec::new());
        for piece in text.as_bytes().chunks(length) {
            items.take(piece, |item| found.push(String::from_utf8(item.to_vec()).unwrap())).unwrap();
        }
        (found, items)
    }

    #[track_caller]
    fn check(text: &str, expected: &[Value], version: &str, next: Option<&str>) {
        for length in [1, 2, 3, 7, text.len()] {
            let (found, items) = taken(text, length);
            let found: Vec<Value> = found.iter().map(|item| serde_json::from_str(item).unwrap()).collect();
            assert_eq!(found, expected, "in pieces of {length}");
            let frame = items.frame().unwrap();
            assert_eq!((&*frame.metadata.resource_version, frame.metadata.next.as_deref()), (version, next));
        }
    }

    #[test]
    fn items_are_given_one_by_one_wherever_the_pieces_end() {
        let odd = json!({"metadata": {"name": "a\"]},{[\\", "items": ["x", {}]}, "items": [1, [2], "], \u{e4}\u{1f600}"]});
        let items = [odd, json!({}), json!({"a": [[], {}]})];
        let meta = json!({"resourceVersion": "10", "continue": "more", "items": [1], "x\\": "\"items\": ["});
        check(&json!({"items": items, "metadata": meta}).to_string(), &items, "10", Some("more"));
        // Typed kinds have their metadata first.
        let text = format!("{{\"kind\":\"items\",\"metadata\":{meta},\"items\":{}}}\n", json!(items));
        check(&text, &items, "10", Some("more"));
        let spaced = serde_json::to_string_pretty(&json!({"items": items, "metadata": meta})).unwrap();
        check(&spaced, &items, "10", Some("more"));
    }

    #[test]
    fn a_list_may_have_no_items() {
        for text in [
            r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#,
            r#"{"metadata":{"resourceVersion":"7"},"items": [ ] }"#,
            r#"{"metadata":{"resourceVersion":"7"},"items":null}"#,
            r#"{"metadata":{"resourceVersion":"7"}}"#,
        ] {
            check(text, &[], "7", None);
        }
    }

    #[test]
    fn what_is_no_object_is_an_item_too() {
        let items = [json!(null), json!(5), json!("x,]"), json!([1, 2])];
        check(&json!({"items": items}).to_string(), &items, "", None);
    }

    #[test]
    fn a_page_that_is_cut_off_or_is_no_list_has_no_frame() {
        let whole = json!({"items": [{"a": "b"}, {}], "metadata": {"resourceVersion": "10"}}).to_string();
        for length in 0..whole.len() {
            assert!(taken(&whole[..length], 5).1.frame().is_err(), "{}", &whole[..length]);
        }
        for text in ["[1]", "[\"items\",[]]", r#"{"items":{}}"#, r#"{"items":5}"#, "}}", "<html>"] {
            assert!(taken(text, 3).1.frame().is_err(), "{text}");
        }
    }

    #[test]
    fn an_item_has_a_greatest_length() {
        let text = json!({"items": ["x".repeat(100), "y".repeat(101)]}).to_string();
        let (mut items, mut found) = (Items::new(102), 0);
        assert_eq!(items.take(text.as_bytes(), |_| found += 1), Err(TooLong));
        assert_eq!(found, 1);
        assert_eq!(Items::new(10).take(b"{\"metadata\":{}}", |_| {}), Err(TooLong));
    }
}
