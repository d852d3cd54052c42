//! A pass over a tree.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use futures::{FutureExt as _, stream};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::Tree;
use super::state::{Shown, State};
use crate::node::{Kind, Node, Order};
use crate::outcome::worst;
use crate::provisioner::{Direction, Enter, Entered, Predicate, Presence};
use crate::{Disposition, Outcome, ProvisionError, Reason, Visited};

/// What a visit comes to, and what the node shows where that is something else.
type Ran = (Visited, Option<Shown>);

impl<S: Send + Sync> Tree<S> {
    /// Visits a node and records what it comes to. A panic is an error of this node.
    pub(super) fn visit<'a>(
        &'a self,
        node: &'a Node<S>,
        scope: &'a S,
        direction: Direction,
    ) -> BoxFuture<'a, Visited> {
        async move {
            let begun = Instant::now();
            self.lock()[node.index].begin(direction);
            let span = tracing::debug_span!("node", path = self.paths[node.index]);
            let ran = self.run(node, scope, direction).instrument(span);
            let ran = AssertUnwindSafe(ran).catch_unwind().await;
            let (visited, shown) = ran.unwrap_or_else(|panic| (Err(panicked(&*panic)), None));
            let path = self.paths[node.index].as_str();
            if let (Err(error), Kind::Leaf(_)) = (&visited, &node.kind) {
                let source = error.source.as_deref().map(|source| source as &dyn std::error::Error);
                tracing::warn!(path, ?direction, reason = %error.reason, error = error.message, cause = source, "a node failed");
            }
            let now = (self.now)();
            self.lock()[node.index].end(direction, &visited, shown, now);
            if let Some(observer) = &self.observer {
                observer.visited(path, direction, &visited, begun.elapsed());
            }
            visited
        }
        .boxed()
    }

    async fn run(&self, node: &Node<S>, scope: &S, direction: Direction) -> Ran {
        let visited = match (&node.kind, node.children.as_slice()) {
            (Kind::Leaf(leaf), _) => match direction {
                Direction::Provision => leaf.provision(scope).await,
                Direction::Deprovision => leaf.deprovision(scope).await,
            },
            (Kind::Serial, children) => self.serial(children, scope, direction).await,
            (Kind::Concurrent { bound }, children) => {
                let bound = bound.map_or(children.len(), std::num::NonZeroUsize::get).max(1);
                let mut visits = Vec::with_capacity(children.len());
                for child in children {
                    visits.push(self.visit(child, scope, direction));
                }
                worst(stream::iter(visits).buffered(bound).collect::<Vec<_>>().await)
            }
            (Kind::Graph { order, .. }, children) => self.graph(children, order, scope, direction).await,
            (Kind::Conditional(predicate), [child]) => {
                return self.conditional(&**predicate, child, scope, direction).await;
            }
            (Kind::RetryLimited(limit), [child]) => self.retry(*limit, child, scope, direction).await,
            (Kind::Timeout(limit), [child]) => self.timeout(*limit, child, scope, direction).await,
            (Kind::Scoped(enter), [child]) => return self.scoped(&**enter, child, scope, direction).await,
            (_, _) => Err(ProvisionError::terminal(Reason::InvalidTree, "the node has no child")),
        };
        (visited, None)
    }

    async fn serial(&self, children: &[Node<S>], scope: &S, direction: Direction) -> Visited {
        let mut forward = children.iter();
        let mut next = || match direction {
            Direction::Provision => forward.next(),
            Direction::Deprovision => forward.next_back(),
        };
        while let Some(child) = next() {
            let visited = self.visit(child, scope, direction).await;
            if !matches!(visited, Ok(Outcome::Ready)) {
                return visited;
            }
        }
        Ok(Outcome::Ready)
    }

    /// Begins each child once those before it are ready in this pass: which ones are visited depends on what they come
    /// to, and not on who is first.
    async fn graph(&self, children: &[Node<S>], order: &Order, scope: &S, direction: Direction) -> Visited {
        let earlier = match direction {
            Direction::Provision => &order.create,
            Direction::Deprovision => &order.remove,
        };
        let mut visits: Vec<Option<Visited>> = children.iter().map(|_| None).collect();
        let mut begun = vec![false; children.len()];
        let mut running = FuturesUnordered::new();
        loop {
            for (index, child) in children.iter().enumerate() {
                let free =
                    earlier[index].iter().all(|other| matches!(visits[*other], Some(Ok(Outcome::Ready))));
                if free && !std::mem::replace(&mut begun[index], true) {
                    running.push(self.visit(child, scope, direction).map(move |visited| (index, visited)));
                }
            }
            let Some((index, visited)) = running.next().await else { break };
            visits[index] = Some(visited);
        }
        let now = (self.now)();
        for (index, child) in children.iter().enumerate().filter(|(index, _)| visits[*index].is_none()) {
            let waits =
                earlier[index].iter().filter(|other| !matches!(visits[**other], Some(Ok(Outcome::Ready))));
            let names: Vec<&str> = waits.map(|other| children[*other].name.as_str()).collect();
            self.lock()[child.index].block(direction, &format!("waits for {}", names.join(", ")), now);
        }
        worst(visits.into_iter().flatten())
    }

    async fn conditional(
        &self,
        predicate: &dyn Predicate<S>,
        child: &Node<S>,
        scope: &S,
        direction: Direction,
    ) -> Ran {
        if direction == Direction::Deprovision {
            return (self.visit(child, scope, direction).await, None);
        }
        match predicate.presence(scope).await {
            Ok(Presence::Present) => (self.visit(child, scope, direction).await, None),
            Ok(Presence::Absent) => {
                let visited = self.visit(child, scope, Direction::Deprovision).await;
                let (state, message) = match &visited {
                    Ok(Outcome::Ready) => (State::Absent, String::new()),
                    Ok(Outcome::Yield { message, .. }) => (State::Deprovisioning, message.clone()),
                    Err(_) => return (visited, None),
                };
                (visited, Some(Shown { state, reason: Reason::NotWanted, message }))
            }
            Ok(Presence::Hold(message)) => {
                let shown = Shown { state: State::Held, reason: Reason::Held, message };
                (Ok(Outcome::Ready), Some(shown))
            }
            Err(error) => (Err(error), None),
        }
    }

    async fn retry(&self, limit: u32, child: &Node<S>, scope: &S, direction: Direction) -> Visited {
        if direction == Direction::Deprovision {
            return self.visit(child, scope, direction).await;
        }
        let failed = self.lock()[child.index].attempts();
        if failed >= limit {
            return Err(exhausted(limit, &child.name));
        }
        let visited = self.visit(child, scope, direction).await;
        match visited {
            Err(error) if error.disposition == Disposition::Retry && failed + 1 >= limit => {
                Err(exhausted(limit, &child.name).caused_by(error))
            }
            visited => visited,
        }
    }

    async fn timeout(&self, limit: Duration, child: &Node<S>, scope: &S, direction: Direction) -> Visited {
        let late = |why: &str| {
            let message = format!("{} took longer than {limit:?}{why}", child.name);
            Err(ProvisionError::retry(Reason::TimedOut, message))
        };
        let Ok(visited) = tokio::time::timeout(limit, self.visit(child, scope, direction)).await else {
            return late(" over one visit");
        };
        match visited {
            Ok(Outcome::Yield { message, .. }) if self.lock()[child.index].waited() >= limit => {
                late(&format!(": {message}"))
            }
            visited => visited,
        }
    }

    async fn scoped(&self, enter: &dyn Enter<S>, child: &Node<S>, scope: &S, direction: Direction) -> Ran {
        match enter.enter(scope, direction).await {
            Ok(Entered::Scope(inner)) => {
                let visited = self.visit(child, &inner, direction).await;
                enter.left(&inner, &visited);
                (visited, None)
            }
            Ok(Entered::Wait(outcome)) => (Ok(outcome), None),
            Ok(Entered::Abandoned(message)) if direction == Direction::Deprovision => {
                let shown = Shown { state: State::Abandoned, reason: Reason::RemoteUnreachable, message };
                (Ok(Outcome::Ready), Some(shown))
            }
            Ok(Entered::Abandoned(message)) => {
                (Err(ProvisionError::retry(Reason::RemoteUnreachable, message)), None)
            }
            Err(error) => (Err(error), None),
        }
    }
}

fn exhausted(limit: u32, child: &str) -> ProvisionError {
    let message = format!("{child} failed {limit} times; it is tried again when the object changes");
    ProvisionError::terminal(Reason::RetriesExhausted, message)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> ProvisionError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    ProvisionError::retry(Reason::Panicked, "its code panicked; the log says where").caused_by(text)
}
