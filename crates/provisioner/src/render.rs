//! Pictures of trees.

use std::fmt::{self, Write as _};

use serde_json::Value;

use crate::tree::{NodeState, State};

/// A tree as it is at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeView {
    /// Parents before their children.
    pub nodes: Vec<NodeView>,
    /// The order among children of graphs.
    pub edges: Vec<Edge>,
}

/// A node of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The names from the root, joined by slashes.
    pub path: String,
    /// Its name.
    pub name: String,
    /// What it is: `serial`, `resource` …
    pub kind: String,
    /// How many nodes are above it.
    pub depth: usize,
    /// What is known of it.
    pub state: NodeState,
}

/// One child of a graph that comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The position in [`TreeView::nodes`] of the one that comes first.
    pub from: usize,
    /// The position of the other.
    pub to: usize,
    /// Whether on the way down, where that is not the reverse of the way up.
    pub removal: bool,
}

impl TreeView {
    /// The tree as the status of its owner shows it; nothing where that shows none. Of a large tree it is a part, and of
    /// graphs it has no edges.
    pub fn of_status(status: &Value) -> Option<Self> {
        let read = |node: &Value| {
            let path = node["path"].as_str()?.to_owned();
            Some(NodeView {
                name: path.rsplit('/').next().unwrap_or_default().to_owned(),
                kind: node["kind"].as_str().unwrap_or_default().to_owned(),
                depth: path.matches('/').count(),
                state: serde_json::from_value(node.clone()).ok()?,
                path,
            })
        };
        let nodes = status["provisioning"]["nodes"].as_array()?;
        Some(Self { nodes: nodes.iter().filter_map(read).collect(), edges: Vec::new() })
    }

    /// The tree as a Mermaid flowchart.
    pub fn mermaid(&self) -> String {
        let mut text = String::from("flowchart TD\n");
        for (index, node) in self.nodes.iter().enumerate() {
            let label = node.label().replace('"', "'");
            let _ = writeln!(text, "  n{index}[\"{label}\"]:::{}", node.state.state.as_str());
        }
        for (from, to) in self.parents() {
            let _ = writeln!(text, "  n{from} --- n{to}");
        }
        for Edge { from, to, removal } in &self.edges {
            let word = if *removal { "removed before" } else { "then" };
            let _ = writeln!(text, "  n{from} -. {word} .-> n{to}");
        }
        text.push_str(
            "  classDef ready fill:#cfc\n  classDef errored fill:#fcc\n  classDef provisioning fill:#ffc\n",
        );
        text
    }

    /// The tree as a Graphviz digraph.
    pub fn graphviz(&self) -> String {
        let mut text = String::from("digraph tree {\n  node [shape=box];\n");
        for (index, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "  n{index} [label={:?}];", node.label());
        }
        for (from, to) in self.parents() {
            let _ = writeln!(text, "  n{from} -> n{to} [arrowhead=none];");
        }
        for Edge { from, to, removal } in &self.edges {
            let word = if *removal { "removed before" } else { "then" };
            let _ = writeln!(text, "  n{from} -> n{to} [style=dashed, label={word:?}, constraint=false];");
        }
        text.push_str("}\n");
        text
    }

    /// The nodes that hold up the others: the deepest that are not settled.
    pub fn holding_up(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let below = self.nodes[index + 1..].iter().take_while(|other| other.depth > node.depth);
            let leaf = !below.into_iter().any(|other| is_holding_up(&other.state));
            (leaf && is_holding_up(&node.state)).then_some(node)
        })
    }

    /// Of each node but the root, its parent and itself.
    fn parents(&self) -> Vec<(usize, usize)> {
        let mut above: Vec<usize> = Vec::new();
        let mut pairs = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            above.truncate(node.depth);
            if let Some(parent) = above.last() {
                pairs.push((*parent, index));
            }
            above.push(index);
        }
        pairs
    }

    /// Whether a later sibling of this node follows.
    fn has_next(&self, index: usize, depth: usize) -> bool {
        let after = self.nodes[index + 1..].iter().take_while(|node| node.depth >= depth);
        after.into_iter().any(|node| node.depth == depth)
    }
}

fn is_holding_up(state: &NodeState) -> bool {
    matches!(state.state, State::Provisioning | State::Errored | State::Deprovisioning | State::Held)
}

impl NodeView {
    fn label(&self) -> String {
        format!("{} ({}): {}", self.name, self.kind, self.state.state.as_str())
    }
}

impl fmt::Display for TreeView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whether a line goes on at each depth.
        let mut bars: Vec<bool> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            bars.truncate(node.depth);
            let next = self.has_next(index, node.depth);
            for bar in bars.iter().skip(1) {
                f.write_str(if *bar { "│  " } else { "   " })?;
            }
            if node.depth > 0 {
                f.write_str(if next { "├─ " } else { "└─ " })?;
            }
            bars.push(next);
            let NodeState { state, reason, message, attempts, .. } = &node.state;
            write!(f, "{} ({}): {}", node.name, node.kind, state.as_str())?;
            if !reason.is_empty() {
                write!(f, ", {reason}")?;
            }
            if !message.is_empty() {
                write!(f, ": {message}")?;
            }
            if *attempts > 0 {
                write!(f, " [failed {attempts} times]")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
