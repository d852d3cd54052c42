//! Sets of fields, as trees of elements, and their algebra.

use std::cmp::Ordering;

use serde_json::Value;

use super::element::Element;
use super::shape::Shape;

/// A set of fields.
///
/// Owning a field and owning what is below it are independent: `a` and `a.b` are two members. The nodes are sorted,
/// and each is a member or has one below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) element: Element,
    /// Whether the field itself is in the set.
    pub(super) member: bool,
    pub(super) children: Set,
}

impl Set {
    #[cfg(test)]
    pub fn of(paths: &[&[Element]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a node that comes after all others, or somewhere among them. Nothing is added for an empty one.
    pub(super) fn push(&mut self, element: Element, member: bool, children: Self) {
        if !member && children.is_empty() {
            return;
        }
        let after = self.nodes.last().is_none_or(|last| last.element < element);
        if after {
            self.nodes.push(Node { element, member, children });
            return;
        }
        let node = self.node(element);
        node.member |= member;
        node.children = node.children.union(&children);
    }

    /// The node of this element, made when absent.
    fn node(&mut self, element: Element) -> &mut Node {
        let at = match self.nodes.binary_search_by(|node| node.element.cmp(&element)) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(at, Node { element, member: false, children: Self::default() });
                at
            }
        };
        &mut self.nodes[at]
    }

    /// Adds a field. The whole object, which an empty path means, is owned by nobody.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.node(first.clone());
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    pub(super) fn get(&self, element: &Element) -> Option<&Node> {
        let at = self.nodes.binary_search_by(|node| node.element.cmp(element)).ok()?;
        self.nodes.get(at)
    }

    /// Whether the field is in the set.
    pub fn has(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let Some(node) = self.get(first) else { return false };
        if rest.is_empty() { node.member } else { node.children.has(rest) }
    }

    /// What is in either.
    pub fn union(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        merge(&self.nodes, &other.nodes, |pair| match pair {
            (Some(one), None) | (None, Some(one)) => nodes.push(one.clone()),
            (Some(a), Some(b)) => nodes.push(Node {
                element: a.element.clone(),
                member: a.member || b.member,
                children: a.children.union(&b.children),
            }),
            (None, None) => {}
        });
        Self { nodes }
    }

    /// What is in both.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut set = Self::default();
        merge(&self.nodes, &other.nodes, |pair| {
            if let (Some(a), Some(b)) = pair {
                set.push(a.element.clone(), a.member && b.member, a.children.intersection(&b.children));
            }
        });
        set
    }

    /// What is in this one only. A field that is taken out leaves what is below it.
    pub fn difference(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut set = Self::default();
        merge(&self.nodes, &other.nodes, |pair| match pair {
            (Some(a), None) => set.nodes.push(a.clone()),
            (Some(a), Some(b)) => {
                set.push(a.element.clone(), a.member && !b.member, a.children.difference(&b.children));
            }
            (None, _) => {}
        });
        set
    }

    /// What is in this one only. A field that is taken out takes all with it that is below.
    pub fn difference_with_children(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        let mut set = Self::default();
        merge(&self.nodes, &other.nodes, |pair| match pair {
            (Some(a), None) => set.nodes.push(a.clone()),
            (Some(a), Some(b)) if !b.member => {
                set.push(a.element.clone(), a.member, a.children.difference_with_children(&b.children));
            }
            _ => {}
        });
        set
    }

    /// The set with each field of the schema as a member that has one below it. Keys of free maps are not.
    pub(super) fn with_named_fields(&self, shape: &Shape) -> Self {
        let nodes = self.nodes.iter().map(|node| {
            let (named, below) = match &node.element {
                Element::Field(name) => (shape.declares(name), shape.field(name)),
                Element::Key(_) => (false, shape.items()),
                Element::Value(_) | Element::Index(_) => (false, None),
            };
            let children = match below {
                Some(below) => node.children.with_named_fields(below),
                None => node.children.clone(),
            };
            Node {
                element: node.element.clone(),
                member: node.member || (named && !node.children.is_empty()),
                children,
            }
        });
        Self { nodes: nodes.collect() }
    }

    /// The fields, each level before what is below it.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            paths.push(path);
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// Appends the set as `fieldsV1`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        self.write_nodes(true, out);
        out.push(b'}');
    }

    fn write_nodes(&self, mut first: bool, out: &mut Vec<u8>) {
        for node in &self.nodes {
            if !first {
                out.push(b',');
            }
            first = false;
            node.element.write(out);
            out.extend_from_slice(b":{");
            if node.member && !node.children.is_empty() {
                out.extend_from_slice(b"\".\":{}");
                node.children.write_nodes(false, out);
            } else {
                node.children.write_nodes(true, out);
            }
            out.push(b'}');
        }
    }

    /// Reads `fieldsV1`. Elements of an unknown type are left out.
    pub fn parse(value: &Value) -> Result<Self, String> {
        Ok(Self::read(value)?.0)
    }

    /// The set below a field, and whether the field itself is a member.
    fn read(value: &Value) -> Result<(Self, bool), String> {
        let map = match value {
            Value::Null => return Ok((Self::default(), true)),
            Value::Object(map) => map,
            other => return Err(format!("expected an object, found {other}")),
        };
        let mut nodes = Vec::with_capacity(map.len());
        let mut member = false;
        for (text, below) in map {
            if text == "." {
                member = true;
                continue;
            }
            let Some(element) = Element::parse(text)? else { continue };
            let (children, is_member) = Self::read(below)?;
            nodes.push(Node { element, member: is_member, children });
        }
        // The order of texts is not that of elements.
        nodes.sort_by(|a, b| a.element.cmp(&b.element));
        let mut set = Self::default();
        for Node { element, member, children } in nodes {
            set.push(element, member, children);
        }
        let member = member || set.is_empty();
        Ok((set, member))
    }
}

/// Walks two sorted lists side by side.
fn merge<'a>(a: &'a [Node], b: &'a [Node], mut each: impl FnMut((Option<&'a Node>, Option<&'a Node>))) {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    loop {
        let pair = match (a.peek(), b.peek()) {
            (None, None) => return,
            (Some(_), None) => (a.next(), None),
            (None, Some(_)) => (None, b.next()),
            (Some(x), Some(y)) => match x.element.cmp(&y.element) {
                Ordering::Less => (a.next(), None),
                Ordering::Greater => (None, b.next()),
                Ordering::Equal => (a.next(), b.next()),
            },
        };
        each(pair);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn elements() -> impl Strategy<Value = Element> {
        prop_oneof![
            "[a-d]".prop_map(Element::Field),
            "[a-c]".prop_map(|name| Element::Key(vec![("name".to_owned(), json!(name))])),
            (0..12_i64).prop_map(|number| Element::Value(json!(number))),
        ]
    }

    fn sets() -> impl Strategy<Value = Set> {
        proptest::collection::vec(proptest::collection::vec(elements(), 1..4), 0..10).prop_map(|paths| {
            let mut set = Set::default();
            for path in paths {
                set.insert(&path);
            }
            set
        })
    }

    fn members(set: &Set) -> std::collections::BTreeSet<Vec<Element>> {
        set.paths().into_iter().collect()
    }

    fn json_of(set: &Set) -> Value {
        let mut out = Vec::new();
        set.write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    proptest! {
        #[test]
        fn the_algebra_is_that_of_the_members(a in sets(), b in sets()) {
            let (left, right) = (members(&a), members(&b));
            prop_assert_eq!(members(&a.union(&b)), left.union(&right).cloned().collect());
            prop_assert_eq!(members(&a.intersection(&b)), left.intersection(&right).cloned().collect());
            prop_assert_eq!(members(&a.difference(&b)), left.difference(&right).cloned().collect());
            let below = left.iter().filter(|path| !(1..=path.len()).any(|length| right.contains(&path[..length])));
            prop_assert_eq!(members(&a.difference_with_children(&b)), below.cloned().collect());
        }

        #[test]
        fn a_set_is_what_its_members_make(a in sets(), b in sets()) {
            for set in [a.union(&b), a.intersection(&b), a.difference(&b), a.difference_with_children(&b)] {
                let mut again = Set::default();
                for path in set.paths() {
                    prop_assert!(set.has(&path));
                    again.insert(&path);
                }
                prop_assert_eq!(&set, &again);
            }
        }

        #[test]
        fn a_set_survives_its_json(a in sets()) {
            prop_assert_eq!(Set::parse(&json_of(&a)).unwrap(), a);
        }
    }

    #[test]
    fn a_member_with_children_has_a_dot() {
        let path = |names: &[&str]| names.iter().map(|name| Element::field(name)).collect::<Vec<_>>();
        let mut set = Set::of(&[&path(&["a"]), &path(&["a", "b"]), &path(&["c", "d"])]);
        assert_eq!(json_of(&set), json!({ "f:a": { ".": {}, "f:b": {} }, "f:c": { "f:d": {} } }));
        set.insert(&[Element::field("l"), Element::Value(json!(10))]);
        set.insert(&[Element::field("l"), Element::Value(json!(9))]);
        let mut out = Vec::new();
        set.write(&mut out);
        assert!(String::from_utf8(out).unwrap().ends_with(r#""f:l":{"v:9":{},"v:10":{}}}"#));
    }

    #[test]
    fn what_is_no_set_is_an_error() {
        for value in [json!([]), json!({ "f:a": 1 }), json!({ "nocolon": {} })] {
            assert!(Set::parse(&value).is_err(), "{value}");
        }
        assert!(Set::parse(&json!({ "x:future": {} })).unwrap().is_empty());
    }
}
