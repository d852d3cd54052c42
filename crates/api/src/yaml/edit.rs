//! Changes of a YAML text in places: what does not change stays as it was written, with its comments.

use std::ops::Range;

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

/// `text` changed so that it says `wanted`; nothing where that cannot be done in places, and the whole has to be written
/// anew.
///
/// Values are replaced, keys and list items added (behind those that stay) and removed, each with its own line. Comments
/// go with the lines that go. What stands in brackets (`{…}`, `[…]`) and gets or loses something is written anew, on one
/// line. What comes of it is read again: it says `wanted`, or nothing is answered.
pub fn edited(text: &str, wanted: &Value) -> Option<String> {
    let before = super::parse(text).ok()?;
    let root = Reader { events: Parser::new_from_str(text), text }.document()?;
    let mut editor = Editor { text, edits: Vec::new() };
    editor.change(&root, &before, wanted, None)?;
    let is_block = !text[root.start..].starts_with(['{', '[']);
    if is_block && editor.edits.iter().any(|(range, _)| *range == (root.start..root.end)) {
        return None;
    }
    let result = editor.result()?;
    super::parse(&result).is_ok_and(|said| is_same(&said, wanted)).then_some(result)
}

/// Whether two documents mean the same, in whatever order of keys and with whatever digits (`1.0` is `1`).
pub fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || ((a.is_f64() || b.is_f64()) && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A value in the text, by byte offsets.
struct Node {
    /// Where its content begins.
    start: usize,
    /// Behind its last content: no comment and no line break.
    end: usize,
    form: Form,
}

enum Form {
    Scalar(ScalarStyle),
    Sequence {
        flow: bool,
        items: Vec<Node>,
    },
    Mapping {
        flow: bool,
        entries: Vec<Entry>,
    },
    /// What an anchor stands for elsewhere.
    Alias,
}

struct Entry {
    key: String,
    /// Where the key is.
    at: Range<usize>,
    value: Node,
}

/// Where a value of block style stands.
#[derive(Clone, Copy)]
struct Slot {
    /// Behind the colon of its key, or behind its dash.
    from: usize,
    /// The column of its key or dash.
    column: usize,
}

struct Reader<'a, I> {
    events: I,
    text: &'a str,
}

impl<'a, I, E> Reader<'a, I>
where
    I: Iterator<Item = Result<(Event<'a>, Span), E>>,
{
    fn document(mut self) -> Option<Node> {
        loop {
            let (event, span) = self.next()?;
            if !matches!(event, Event::StreamStart | Event::DocumentStart(..)) {
                return self.node(&event, span);
            }
        }
    }

    /// The next event that is no comment.
    fn next(&mut self) -> Option<(Event<'a>, Span)> {
        loop {
            let (event, span) = self.events.next()?.ok()?;
            if !matches!(event, Event::Comment(..)) {
                return Some((event, span));
            }
        }
    }

    fn node(&mut self, event: &Event<'a>, span: Span) -> Option<Node> {
        let Range { start, end } = span.byte_range()?;
        let is_flow = |style: StructureStyle| style == StructureStyle::Flow;
        match event {
            Event::Scalar(_, style, ..) => {
                // The parser leaves the header of a block out.
                let before = self.text.get(..start)?;
                let is_headless = is_block(*style) && !self.text[start..].starts_with(['|', '>']);
                let start = if is_headless { before.rfind(['|', '>'])? } else { start };
                let content = self.text.get(start..end)?;
                let length = if is_block(*style) { block_length(content) } else { content.trim_end().len() };
                let end = start + length;
                Some(Node { start, end, form: Form::Scalar(*style) })
            }
            Event::Alias(_) => Some(Node { start, end, form: Form::Alias }),
            Event::SequenceStart(style, ..) => {
                let mut items = Vec::new();
                let closed = loop {
                    match self.next()? {
                        (Event::SequenceEnd, span) => break span.byte_range()?.end,
                        (event, span) => items.push(self.node(&event, span)?),
                    }
                };
                let flow = is_flow(*style);
                let end = if flow { closed } else { items.last().map_or(start, |last| last.end) };
                Some(Node { start, end, form: Form::Sequence { flow, items } })
            }
            Event::MappingStart(style, ..) => {
                let mut entries: Vec<Entry> = Vec::new();
                let closed = loop {
                    let (key, at) = match self.next()? {
                        (Event::MappingEnd, span) => break span.byte_range()?.end,
                        (Event::Scalar(key, ..), span) => (key.into_owned(), span.byte_range()?),
                        _ => return None,
                    };
                    let (event, span) = self.next()?;
                    entries.push(Entry { key, at, value: self.node(&event, span)? });
                };
                let flow = is_flow(*style);
                let last = entries.last().map(|last| last.value.end.max(last.at.end));
                let end = if flow { closed } else { last.unwrap_or(start) };
                Some(Node { start, end, form: Form::Mapping { flow, entries } })
            }
            _ => None,
        }
    }
}

struct Editor<'a> {
    text: &'a str,
    edits: Vec<(Range<usize>, String)>,
}

impl Editor<'_> {
    /// Has `node`, which says `before`, say `wanted`. Without a slot it is inside brackets, or the whole document.
    fn change(&mut self, node: &Node, before: &Value, wanted: &Value, slot: Option<Slot>) -> Option<()> {
        if is_same(before, wanted) {
            return Some(());
        }
        match (&node.form, before, wanted) {
            (Form::Alias, ..) => None,
            (Form::Mapping { flow, entries }, Value::Object(said), Value::Object(wanted_entries))
                if entries.len() == said.len()
                    && entries.iter().any(|entry| wanted_entries.contains_key(&entry.key)) =>
            {
                if *flow && !has_same_keys(said, wanted_entries) {
                    return self.replace(node, wanted, None);
                }
                self.mapping(entries, said, wanted_entries, *flow)
            }
            (Form::Sequence { flow, items }, Value::Array(said), Value::Array(wanted_items))
                if items.len() == said.len() && !said.is_empty() && !wanted_items.is_empty() =>
            {
                if *flow && said.len() != wanted_items.len() {
                    return self.replace(node, wanted, None);
                }
                self.sequence(items, said, wanted_items, *flow)
            }
            (Form::Scalar(style), ..) if is_inline(wanted) && node.end > node.start && !is_block(*style) => {
                let quoted = *style == ScalarStyle::DoubleQuoted;
                let is_nested_flow = slot.is_none();
                self.edits.push((node.start..node.end, inline(wanted, quoted || is_nested_flow)?));
                Some(())
            }
            _ => self.replace(node, wanted, slot),
        }
    }

    fn mapping(
        &mut self,
        entries: &[Entry],
        said: &Map<String, Value>,
        wanted: &Map<String, Value>,
        flow: bool,
    ) -> Option<()> {
        let mut last_kept = None;
        let first = entries.first()?.at.start;
        let column = first - self.line_start(first);
        for (index, entry) in entries.iter().enumerate() {
            let from = self.behind_colon(entry)?;
            let end = entry.value.end.max(from);
            match wanted.get(&entry.key) {
                Some(wanted) => {
                    last_kept = Some(end);
                    let slot = (!flow).then_some(Slot { from, column });
                    self.change(&entry.value, said.get(&entry.key)?, wanted, slot)?;
                }
                None if self.is_blank_before(entry.at.start) => self.remove_lines(entry.at.start, end),
                // Behind the dash of its list item, where the next key cannot follow without its comments.
                None if index == 0 => self.edits.push((entry.at.start..self.line_end(end), String::new())),
                None => return None,
            }
        }
        let mut added = Map::new();
        added.extend(
            wanted.iter().filter(|(key, _)| !said.contains_key(*key)).map(|(k, v)| (k.clone(), v.clone())),
        );
        if !added.is_empty() {
            let at = self.line_end(last_kept?);
            let lines = block(&Value::Object(added), column)?;
            self.edits.push((at..at, format!("\n{lines}")));
        }
        Some(())
    }

    fn sequence(&mut self, items: &[Node], said: &[Value], wanted: &[Value], flow: bool) -> Option<()> {
        let prefix = said.iter().zip(wanted).take_while(|(a, b)| is_same(a, b)).count();
        let most = said.len().min(wanted.len()) - prefix;
        let suffix =
            said.iter().rev().zip(wanted.iter().rev()).take_while(|(a, b)| is_same(a, b)).count().min(most);
        let (old, new) = (prefix..said.len() - suffix, prefix..wanted.len() - suffix);
        for (item, (before, wanted)) in
            items[old.clone()].iter().zip(said[old.clone()].iter().zip(&wanted[new.clone()]))
        {
            let slot = if flow { None } else { Some(self.dash(item)?) };
            self.change(item, before, wanted, slot)?;
        }
        let both = old.len().min(new.len());
        for item in &items[old.start + both..old.end] {
            let dash = self.dash(item)?.from - 1;
            if !self.is_blank_before(dash) {
                return None;
            }
            self.remove_lines(dash, item.end);
        }
        let added = &wanted[new.start + both..new.end];
        if added.is_empty() {
            return Some(());
        }
        let after = old.start + both;
        let neighbour = items.get(after.saturating_sub(1))?;
        let column = self.dash(neighbour)?.column;
        let lines = block(&Value::from(added), column)?;
        if after > 0 {
            let at = self.line_end(neighbour.end);
            self.edits.push((at..at, format!("\n{lines}")));
        } else {
            let dash = self.dash(neighbour)?.from - 1;
            if !self.is_blank_before(dash) {
                return None;
            }
            let at = self.line_start(dash);
            self.edits.push((at..at, format!("{lines}\n")));
        }
        Some(())
    }

    /// Writes a value anew: on one line inside brackets or where it is short, else on lines of its own.
    fn replace(&mut self, node: &Node, wanted: &Value, slot: Option<Slot>) -> Option<()> {
        let edit = match slot {
            None => (node.start..node.end, inline(wanted, true)?),
            Some(slot) => {
                let range = slot.from..node.end.max(slot.from);
                let new = if is_inline(wanted) {
                    format!(" {}", inline(wanted, false)?)
                } else {
                    format!("\n{}", block(wanted, slot.column + 2)?)
                };
                (range, new)
            }
        };
        self.edits.push(edit);
        Some(())
    }

    fn remove_lines(&mut self, start: usize, end: usize) {
        let end = (self.line_end(end) + 1).min(self.text.len());
        self.edits.push((self.line_start(start)..end, String::new()));
    }

    fn behind_colon(&self, entry: &Entry) -> Option<usize> {
        let rest = self.text.get(entry.at.end..)?;
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        rest[blanks..].starts_with(':').then_some(entry.at.end + blanks + 1)
    }

    fn dash(&self, item: &Node) -> Option<Slot> {
        let mut before = self.text.get(..item.start)?.trim_end();
        // Only comments are between the two.
        while !before.ends_with('-') {
            let line = before.rfind('\n').map_or(0, |line_break| line_break + 1);
            let comment = before[line..].find('#')?;
            before = before[..line + comment].trim_end();
        }
        let dash = before.len() - 1;
        Some(Slot { from: dash + 1, column: dash - self.line_start(dash) })
    }

    fn is_blank_before(&self, at: usize) -> bool {
        self.text[self.line_start(at)..at].bytes().all(|byte| byte == b' ')
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |line_break| line_break + 1)
    }

    fn line_end(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |length| at + length)
    }

    /// The text with all edits made; nothing where they overlap.
    fn result(mut self) -> Option<String> {
        self.edits.sort_by_key(|(range, _)| range.start);
        let (mut out, mut at) = (String::with_capacity(self.text.len()), 0);
        for (range, new) in &self.edits {
            out.push_str(self.text.get(at..range.start)?);
            out.push_str(new);
            at = range.end;
        }
        out.push_str(self.text.get(at..)?);
        Some(out)
    }
}

fn has_same_keys(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.len() == b.len() && a.keys().all(|key| b.contains_key(key))
}

fn is_block(style: ScalarStyle) -> bool {
    matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
}

/// How long a block scalar is without what follows it: comments that are less indented than its first line.
fn block_length(text: &str) -> usize {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let (mut length, mut at, mut column) = (0, 0, None);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim().is_empty() {
            continue;
        }
        // The first line is the header.
        if length > 0 && indent(line) < *column.get_or_insert_with(|| indent(line)) {
            break;
        }
        length = at - (line.len() - line.trim_end().len());
    }
    length
}

/// Whether a value stands on the line of its key.
fn is_inline(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => true,
    }
}

/// A value on one line; as JSON, which is YAML too, if it is to be quoted or would take several.
fn inline(value: &Value, quoted: bool) -> Option<String> {
    let json = || serde_json::to_string(value).ok();
    if quoted || !is_inline(value) {
        return json();
    }
    let text = super::to_string(value).ok()?;
    let text = text.trim_end_matches('\n');
    if text.contains('\n') { json() } else { Some(text.to_owned()) }
}

/// A value on lines of its own, in this column, without the last line break.
fn block(value: &Value, column: usize) -> Option<String> {
    let text = super::to_string(value).ok()?;
    let indent = " ".repeat(column);
    let lines: Vec<String> =
        text.trim_end_matches('\n').lines().map(|line| format!("{indent}{line}")).collect();
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests;
