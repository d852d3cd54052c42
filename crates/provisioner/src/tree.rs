//! A tree of nodes, what is known of each, and a pass over it.

mod build;
mod run;
mod state;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

pub use self::build::BuildError;
use self::state::Record;
pub use self::state::{NodeState, State};
use crate::node::{Kind, Node};
use crate::render::{Edge, NodeView, TreeView};
use crate::{Direction, Visited};

/// Told of every visit to a node.
pub trait Observer: Send + Sync {
    /// The node at `path` was visited, and it took so long.
    fn visited(&self, path: &str, direction: Direction, visited: &Visited, took: Duration);
}

/// A tree that can go up and down, and knows what became of each of its nodes.
pub struct Tree<S> {
    root: Node<S>,
    /// By index.
    paths: Vec<String>,
    records: Mutex<Vec<Record>>,
    now: Box<dyn Fn() -> Timestamp + Send + Sync>,
    observer: Option<Arc<dyn Observer>>,
}

impl<S: Send + Sync> Tree<S> {
    /// A tree of these nodes: names are unique among siblings, identities within a scope, and graphs have no cycles.
    pub fn new(root: Node<S>) -> Result<Self, BuildError> {
        let (root, paths) = build::build(root)?;
        let now = Timestamp::now();
        let records = paths.iter().map(|_| Record::new(now)).collect();
        Ok(Self { root, paths, records: Mutex::new(records), now: Box::new(Timestamp::now), observer: None })
    }

    /// Tells the time from here.
    #[must_use]
    pub fn with_now(mut self, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let start = now();
        self.now = Box::new(now);
        for record in self.lock().iter_mut() {
            *record = Record::new(start);
        }
        self
    }

    /// Tells `observer` of every visit.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Goes on from what an earlier tree knew, by path. A time that has not come yet (a clock was set back) becomes now.
    pub fn resume(&self, known: &BTreeMap<String, NodeState>) {
        let now = (self.now)();
        for (path, record) in self.paths.iter().zip(self.lock().iter_mut()) {
            if let Some(state) = known.get(path) {
                record.resume(state, now);
            }
        }
    }

    /// Goes on as an earlier tree of the same object that ran in this process: also how long its nodes have waited.
    pub fn resume_from(&self, earlier: &Self) {
        let known: BTreeMap<&str, Record> =
            earlier.paths.iter().map(String::as_str).zip(earlier.lock().iter().cloned()).collect();
        for (path, record) in self.paths.iter().zip(self.lock().iter_mut()) {
            if let Some(earlier) = known.get(path.as_str()) {
                *record = earlier.clone();
            }
        }
    }

    /// Forgets how often nodes have failed: the object was changed, and each gets its chances again.
    pub fn forget_attempts(&self) {
        self.lock().iter_mut().for_each(Record::forget_attempts);
    }

    /// One pass upward.
    pub async fn provision(&self, scope: &S) -> Visited {
        self.visit(&self.root, scope, Direction::Provision).await
    }

    /// One pass downward.
    pub async fn deprovision(&self, scope: &S) -> Visited {
        self.visit(&self.root, scope, Direction::Deprovision).await
    }

    /// What is known of each node, by path.
    pub fn states(&self) -> BTreeMap<String, NodeState> {
        self.paths.iter().cloned().zip(self.lock().iter().map(Record::state)).collect()
    }

    /// The tree as a picture's data.
    pub fn view(&self) -> TreeView {
        let mut view = TreeView { nodes: Vec::with_capacity(self.paths.len()), edges: Vec::new() };
        self.add_to(&mut view, &self.root, 0, &self.lock());
        view
    }

    /// The tree as text: a line a node.
    pub fn render(&self) -> String {
        self.view().to_string()
    }

    fn add_to(&self, view: &mut TreeView, node: &Node<S>, depth: usize, records: &[Record]) {
        view.nodes.push(NodeView {
            path: self.paths[node.index].clone(),
            name: node.name.clone(),
            kind: node.kind_name().to_owned(),
            depth,
            state: records[node.index].state(),
        });
        if let Kind::Graph { order, .. } = &node.kind {
            for (child, earlier) in order.create.iter().enumerate() {
                for earlier in earlier {
                    let (from, to) = (node.children[*earlier].index, node.children[child].index);
                    view.edges.push(Edge { from, to, removal: false });
                }
            }
            for (child, earlier) in order.remove.iter().enumerate() {
                for earlier in earlier.iter().filter(|earlier| !order.create[**earlier].contains(&child)) {
                    let (from, to) = (node.children[*earlier].index, node.children[child].index);
                    view.edges.push(Edge { from, to, removal: true });
                }
            }
        }
        for child in &node.children {
            self.add_to(view, child, depth + 1, records);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Tree<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("paths", &self.paths).finish_non_exhaustive()
    }
}
