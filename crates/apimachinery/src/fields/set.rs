//! Sets of fields, as trees of elements, and their algebra.

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::element::Element;
use super::shape::Shape;

/// A set of fields.
///
/// Owning a field and owning what is below it are independent: `a` and `a.b` are two members. The nodes are sorted,
/// and each is a member or has one below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
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

    /// Adds a node that comes after all others, or is the last one again. Nothing is added for an empty one.
    pub(super) fn push(&mut self, element: Element, member: bool, children: Self) {
        match self.nodes.last_mut() {
            Some(last) if last.element == element => last.join(member, children),
            _ if !member && children.is_empty() => {}
            _ => self.nodes.push(Node { element, member, children }),
        }
    }

    /// Adds a field. The whole object, which an empty path means, is owned by nobody.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let mut children = Self::default();
        children.insert(rest);
        let node = Node { element: first.clone(), member: rest.is_empty(), children };
        *self = std::mem::take(self).union(Self { nodes: vec![node] });
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
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        self.settle();
        self
    }

    /// Brings the nodes into their order, each element once. Takes no longer than reading them where they are two sorted lists.
    fn settle(&mut self) {
        self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
        self.nodes.dedup_by(|again, first| {
            let is_again = again.element == first.element;
            if is_again {
                first.join(again.member, std::mem::take(&mut again.children));
            }
            is_again
        });
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(self, other: &Self) -> Self {
        self.narrowed(other, |node, theirs| {
            node.member &= theirs.is_some_and(|theirs| theirs.member);
            let children = std::mem::take(&mut node.children);
            node.children = theirs.map(|theirs| children.intersection(&theirs.children)).unwrap_or_default();
        })
    }

    /// What is in this one only. A field that is taken out leaves what is below it.
    #[must_use]
    pub fn difference(self, other: &Self) -> Self {
        self.narrowed(other, |node, theirs| {
            let Some(theirs) = theirs else { return };
            node.member &= !theirs.member;
            node.children = std::mem::take(&mut node.children).difference(&theirs.children);
        })
    }

    /// What is in this one only. A field that is taken out takes all with it that is below.
    #[must_use]
    pub fn difference_with_children(self, other: &Self) -> Self {
        self.narrowed(other, |node, theirs| {
            let Some(theirs) = theirs else { return };
            let children = std::mem::take(&mut node.children);
            if theirs.member {
                node.member = false;
            } else {
                node.children = children.difference_with_children(&theirs.children);
            }
        })
    }

    /// Changes each node by that of another set, and leaves out those that become empty.
    fn narrowed(mut self, other: &Self, change: fn(&mut Node, Option<&Node>)) -> Self {
        self.nodes.retain_mut(|node| {
            change(node, other.get(&node.element));
            node.member || !node.children.is_empty()
        });
        self
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

    /// Writes the nodes as fields of `fieldsV1`, after a dot when the field that they are below is a member as well.
    fn write<S: Serializer>(&self, has_dot: bool, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        if has_dot {
            fields.serialize_entry(".", &Self::default())?;
        }
        for node in &self.nodes {
            fields.serialize_entry(&node.element, node)?;
        }
        fields.end()
    }

    /// The set below a field, and whether the field itself is a member.
    fn read(value: Value) -> Result<(Self, bool), String> {
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
            let Some(element) = Element::parse(&text)? else { continue };
            let (children, is_member) = Self::read(below)?;
            nodes.push(Node { element, member: is_member, children });
        }
        // The order of texts is not that of elements.
        let mut set = Self { nodes };
        set.settle();
        let member = member || set.is_empty();
        Ok((set, member))
    }
}

/// The form in `fieldsV1`.
impl Serialize for Set {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.write(false, serializer)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.children.write(self.member && !self.children.is_empty(), serializer)
    }
}

/// Reads `fieldsV1`. Elements of an unknown type are left out.
impl TryFrom<Value> for Set {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        Ok(Self::read(value)?.0)
    }
}

impl Node {
    fn join(&mut self, member: bool, children: Set) {
        self.member |= member;
        self.children = std::mem::take(&mut self.children).union(children);
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
            "[a-c]".prop_map(|name| Element::Key(json!({ "name": name }).to_string())),
            (0..12_i64).prop_map(|number| Element::Value(number.to_string())),
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
        serde_json::to_value(set).unwrap()
    }

    proptest! {
        #[test]
        fn the_algebra_is_that_of_the_members(a in sets(), b in sets()) {
            let (left, right) = (members(&a), members(&b));
            prop_assert_eq!(members(&a.clone().union(b.clone())), left.union(&right).cloned().collect());
            prop_assert_eq!(members(&a.clone().intersection(&b)), left.intersection(&right).cloned().collect());
            prop_assert_eq!(members(&a.clone().difference(&b)), left.difference(&right).cloned().collect());
            let below = left.iter().filter(|path| !(1..=path.len()).any(|length| right.contains(&path[..length])));
            prop_assert_eq!(members(&a.clone().difference_with_children(&b)), below.cloned().collect());
        }

        #[test]
        fn a_set_is_what_its_members_make(a in sets(), b in sets()) {
            let sets = [
                a.clone().union(b.clone()),
                a.clone().intersection(&b),
                a.clone().difference(&b),
                a.difference_with_children(&b),
            ];
            for set in sets {
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
            prop_assert_eq!(Set::try_from(json_of(&a)).unwrap(), a);
        }
    }

    #[test]
    fn a_member_with_children_has_a_dot() {
        let path = |names: &[&str]| names.iter().map(|name| Element::field(name)).collect::<Vec<_>>();
        let set = Set::of(&[&path(&["a"]), &path(&["a", "b"]), &path(&["c", "d"])]);
        assert_eq!(json_of(&set), json!({ "f:a": { ".": {}, "f:b": {} }, "f:c": { "f:d": {} } }));
    }

    #[test]
    fn what_is_no_set_is_an_error() {
        for value in [json!([]), json!({ "f:a": 1 }), json!({ "nocolon": {} })] {
            assert!(Set::try_from(value.clone()).is_err(), "{value}");
        }
        assert!(Set::try_from(json!({ "x:future": {} })).unwrap().is_empty());
    }
}
