//! Judging a tree before it runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::node::{Kind, Node, Order};

/// Why a tree was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Two siblings have one name, or a name is empty.
    #[error("{parent} has two children named {name:?}, or one without a name")]
    DuplicateChild {
        /// The parent's path.
        parent: String,
        /// The name.
        name: String,
    },
    /// Two nodes are about the same thing.
    #[error("{one} and {other} are both about {identity}")]
    DuplicateIdentity {
        /// What they are about.
        identity: String,
        /// The path of the first.
        one: String,
        /// The path of the second.
        other: String,
    },
    /// An edge names a child that is not there.
    #[error("an edge of {graph} names {name:?}, which is no child of it")]
    UnknownChild {
        /// The graph's path.
        graph: String,
        /// The name.
        name: String,
    },
    /// The edges of a graph lead in a circle.
    #[error("the order of {} in {graph} is a circle: {}", if *.removal { "removal" } else { "creation" }, children.join(", "))]
    Cycle {
        /// The graph's path.
        graph: String,
        /// Whether it is the order of removal.
        removal: bool,
        /// The children that cannot be begun.
        children: Vec<String>,
    },
}

pub(super) fn build<S>(mut root: Node<S>) -> Result<(Node<S>, Vec<String>), BuildError> {
    let mut builder = Builder { paths: Vec::new(), identities: BTreeMap::new() };
    let path = root.name.clone();
    builder.node(&mut root, path, "")?;
    Ok((root, builder.paths))
}

struct Builder {
    paths: Vec<String>,
    /// Of each identity in each scope the first node.
    identities: BTreeMap<(String, String), String>,
}

impl Builder {
    fn node<S>(&mut self, node: &mut Node<S>, path: String, scope: &str) -> Result<(), BuildError> {
        node.index = self.paths.len();
        self.paths.push(path.clone());
        if let Kind::Leaf(leaf) = &node.kind
            && let Some(identity) = leaf.identity()
            && let Some(one) = self.identities.insert((scope.to_owned(), identity.clone()), path.clone())
        {
            return Err(BuildError::DuplicateIdentity { identity, one, other: path });
        }
        let mut names = BTreeSet::new();
        for child in &node.children {
            if child.name.is_empty() || !names.insert(child.name.as_str()) {
                return Err(BuildError::DuplicateChild { parent: path, name: child.name.clone() });
            }
        }
        if let Kind::Graph { after, before, order } = &mut node.kind {
            *order = ordered(&path, &node.children, after, before)?;
        }
        let scope = if matches!(node.kind, Kind::Scoped(_)) { path.as_str() } else { scope };
        for child in &mut node.children {
            let child_path = format!("{path}/{}", child.name);
            self.node(child, child_path, scope)?;
        }
        Ok(())
    }
}

fn ordered<S>(
    graph: &str,
    children: &[Node<S>],
    after: &[(String, String)],
    before: &[(String, String)],
) -> Result<Order, BuildError> {
    let position = |name: &str| {
        let found = children.iter().position(|child| child.name == name);
        found.ok_or_else(|| BuildError::UnknownChild { graph: graph.to_owned(), name: name.to_owned() })
    };
    let edges = |list: &[(String, String)]| -> Result<BTreeSet<(usize, usize)>, BuildError> {
        list.iter().map(|(one, other)| Ok((position(one)?, position(other)?))).collect()
    };
    let (after, before) = (edges(after)?, edges(before)?);
    let mut order =
        Order { create: vec![Vec::new(); children.len()], remove: vec![Vec::new(); children.len()] };
    for (child, earlier) in &after {
        order.create[*child].push(*earlier);
        // What was begun later goes first, unless it was said which of the two does.
        if !before.contains(&(*earlier, *child)) && !before.contains(&(*child, *earlier)) {
            order.remove[*earlier].push(*child);
        }
    }
    for (child, later) in &before {
        order.remove[*later].push(*child);
    }
    for (removal, edges) in [(false, &order.create), (true, &order.remove)] {
        let stuck = in_circle(edges);
        if !stuck.is_empty() {
            let children = stuck.into_iter().map(|index| children[index].name.clone()).collect();
            return Err(BuildError::Cycle { graph: graph.to_owned(), removal, children });
        }
    }
    Ok(order)
}

/// The children that can never begin.
fn in_circle(earlier: &[Vec<usize>]) -> Vec<usize> {
    let mut left: BTreeSet<usize> = (0..earlier.len()).collect();
    loop {
        let free: Vec<usize> = left
            .iter()
            .copied()
            .filter(|child| earlier[*child].iter().all(|other| !left.contains(other)))
            .collect();
        if free.is_empty() {
            return left.into_iter().collect();
        }
        for child in free {
            left.remove(&child);
        }
    }
}
