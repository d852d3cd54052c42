//! The nodes that a tree is built from.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::provisioner::{Enter, Predicate, Provisioner};

/// A part of a tree: a provisioner, or others put together.
pub struct Node<S> {
    pub(crate) name: String,
    pub(crate) kind: Kind<S>,
    pub(crate) children: Vec<Node<S>>,
    /// Its place in the tree, first the parent; set when the tree is built.
    pub(crate) index: usize,
}

pub(crate) enum Kind<S> {
    Leaf(Box<dyn Provisioner<S>>),
    Serial,
    Concurrent { bound: Option<NonZeroUsize> },
    Conditional(Box<dyn Predicate<S>>),
    Graph { after: Vec<(String, String)>, before: Vec<(String, String)>, order: Order },
    RetryLimited(u32),
    Timeout(Duration),
    Scoped(Box<dyn Enter<S>>),
}

/// Of each child of a graph, which come before it.
#[derive(Default)]
pub(crate) struct Order {
    pub(crate) create: Vec<Vec<usize>>,
    pub(crate) remove: Vec<Vec<usize>>,
}

impl<S> Node<S> {
    fn new(name: impl Into<String>, kind: Kind<S>, children: Vec<Self>) -> Self {
        Self { name: name.into(), kind, children, index: 0 }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::Leaf(leaf) => leaf.kind(),
            Kind::Serial => "serial",
            Kind::Concurrent { .. } => "concurrent",
            Kind::Conditional(_) => "conditional",
            Kind::Graph { .. } => "graph",
            Kind::RetryLimited(_) => "retry-limited",
            Kind::Timeout(_) => "timeout",
            Kind::Scoped(_) => "scoped",
        }
    }
}

/// A provisioner as a node.
pub fn leaf<S>(provisioner: impl Provisioner<S> + 'static) -> Node<S> {
    Node::new(provisioner.name().to_owned(), Kind::Leaf(Box::new(provisioner)), Vec::new())
}

/// One child after the other, each once the one before it is up; taken down in the reverse order.
pub fn serial<S>(name: impl Into<String>, children: impl IntoIterator<Item = Node<S>>) -> Node<S> {
    Node::new(name, Kind::Serial, children.into_iter().collect())
}

/// All children at once, none cancelled for what another comes to. The worst outcome wins, of equals the first child's.
pub fn concurrent<S>(name: impl Into<String>, children: impl IntoIterator<Item = Node<S>>) -> Node<S> {
    Node::new(name, Kind::Concurrent { bound: None }, children.into_iter().collect())
}

/// As [`concurrent`], so many at a time at most.
pub fn concurrent_bounded<S>(
    name: impl Into<String>,
    bound: NonZeroUsize,
    children: impl IntoIterator<Item = Node<S>>,
) -> Node<S> {
    Node::new(name, Kind::Concurrent { bound: Some(bound) }, children.into_iter().collect())
}

/// A child that is there while `predicate` says so. Deprovisioning always removes it, whatever the predicate says: it may
/// have flipped while nobody looked.
pub fn conditional<S>(
    name: impl Into<String>,
    predicate: impl Predicate<S> + 'static,
    child: Node<S>,
) -> Node<S> {
    Node::new(name, Kind::Conditional(Box::new(predicate)), vec![child])
}

/// A child that may fail so often on the way up before it is left alone until the object changes (`RetriesExhausted`).
/// Yields are no failures. Removal is never given up.
pub fn retry_limited<S>(name: impl Into<String>, failures: u32, child: Node<S>) -> Node<S> {
    Node::new(name, Kind::RetryLimited(failures), vec![child])
}

/// A child whose visit may take this long, and which may wait this long over all its visits before waiting is an error
/// (`TimedOut`). It goes on being visited. Time is the process's own: no clock can be set so that it jumps, and a restart
/// begins anew.
pub fn timeout<S>(name: impl Into<String>, limit: Duration, child: Node<S>) -> Node<S> {
    Node::new(name, Kind::Timeout(limit), vec![child])
}

/// A child that runs in another scope.
pub fn scoped<S>(name: impl Into<String>, enter: impl Enter<S> + 'static, child: Node<S>) -> Node<S> {
    Node::new(name, Kind::Scoped(Box::new(enter)), vec![child])
}

/// Children with an order of their own for each direction.
///
/// ```
/// # use windlass_provisioner::{Graph, Node};
/// # fn example<S>(infrastructure: Node<S>, network: Node<S>, balancers: Node<S>) -> Node<S> {
/// // The network goes in while the infrastructure boots, yet goes before it on the way down.
/// Graph::new("cluster")
///     .child(infrastructure)
///     .child(network)
///     .child(balancers)
///     .after("balancers", "network")
///     .before("network", "infrastructure")
///     .node()
/// # }
/// ```
#[must_use]
pub struct Graph<S> {
    name: String,
    children: Vec<Node<S>>,
    after: Vec<(String, String)>,
    before: Vec<(String, String)>,
}

impl<S> Graph<S> {
    /// A graph without children.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), children: Vec::new(), after: Vec::new(), before: Vec::new() }
    }

    /// With this child.
    pub fn child(mut self, child: Node<S>) -> Self {
        self.children.push(child);
        self
    }

    /// `child` is begun once `other` is up and, unless [`Graph::before`] says otherwise of the two, goes before it.
    pub fn after(mut self, child: impl Into<String>, other: impl Into<String>) -> Self {
        self.after.push((child.into(), other.into()));
        self
    }

    /// On the way down, `child` is gone before `other` is begun with.
    pub fn before(mut self, child: impl Into<String>, other: impl Into<String>) -> Self {
        self.before.push((child.into(), other.into()));
        self
    }

    /// The node. Its edges are judged when the tree is built.
    pub fn node(self) -> Node<S> {
        let kind = Kind::Graph { after: self.after, before: self.before, order: Order::default() };
        Node::new(self.name, kind, self.children)
    }
}
