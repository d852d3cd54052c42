//! A world of things that are there or not, and leaves that follow a script.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use async_trait::async_trait;
use windlass_provisioner::{
    Direction, Node, Outcome, Presence, ProvisionError, Provisioner, Reason, Visited, leaf,
};

/// What one visit to a leaf comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ready,
    Yield,
    Fail,
    User,
    Terminal,
    Panic,
}

/// The scope of scripted leaves.
#[derive(Debug, Default)]
pub(crate) struct World {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<(Direction, String)>,
    ended: Vec<(Direction, String)>,
    there: BTreeSet<String>,
    /// Steps left of each leaf; once there are none, everything works.
    scripts: BTreeMap<(String, bool), Vec<Step>>,
    /// How often a leaf lets others go first.
    delays: BTreeMap<String, usize>,
    wanted: BTreeMap<String, Presence>,
    running: usize,
    most_running: usize,
}

impl World {
    pub(crate) fn script(&self, leaf: &str, direction: Direction, steps: &[Step]) -> &Self {
        let key = (leaf.to_owned(), direction == Direction::Provision);
        self.inner.lock().unwrap().scripts.insert(key, steps.iter().rev().copied().collect());
        self
    }

    pub(crate) fn delay(&self, leaf: &str, turns: usize) {
        self.inner.lock().unwrap().delays.insert(leaf.to_owned(), turns);
    }

    pub(crate) fn want(&self, predicate: &str, presence: Presence) {
        self.inner.lock().unwrap().wanted.insert(predicate.to_owned(), presence);
    }

    pub(crate) fn wanted(&self, predicate: &str) -> Presence {
        self.inner.lock().unwrap().wanted.get(predicate).cloned().unwrap_or(Presence::Present)
    }

    /// Everything works from now on.
    pub(crate) fn mend(&self) {
        self.inner.lock().unwrap().scripts.clear();
    }

    pub(crate) fn there(&self) -> BTreeSet<String> {
        self.inner.lock().unwrap().there.clone()
    }

    pub(crate) fn most_running(&self) -> usize {
        self.inner.lock().unwrap().most_running
    }

    /// The leaves that were visited since the last time, in order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.inner.lock().unwrap().ended.clear();
        std::mem::take(&mut self.inner.lock().unwrap().calls).into_iter().map(|(_, leaf)| leaf).collect()
    }

    async fn visit(&self, leaf: &str, direction: Direction) -> Visited {
        let (step, delay) = {
            let mut inner = self.inner.lock().unwrap();
            inner.calls.push((direction, leaf.to_owned()));
            inner.running += 1;
            inner.most_running = inner.most_running.max(inner.running);
            let step = inner
                .scripts
                .get_mut(&(leaf.to_owned(), direction == Direction::Provision))
                .and_then(Vec::pop);
            // Whatever becomes of it, something of it is there.
            if direction == Direction::Provision {
                inner.there.insert(leaf.to_owned());
            }
            (step.unwrap_or(Step::Ready), inner.delays.get(leaf).copied().unwrap_or(0))
        };
        for _ in 0..delay {
            tokio::task::yield_now().await;
        }
        let mut inner = self.inner.lock().unwrap();
        inner.running -= 1;
        inner.ended.push((direction, leaf.to_owned()));
        match step {
            Step::Ready => {
                if direction == Direction::Deprovision {
                    inner.there.remove(leaf);
                }
                Ok(Outcome::Ready)
            }
            Step::Yield => Ok(Outcome::wait(Reason::NotReady, leaf)),
            Step::Fail => Err(ProvisionError::retry(Reason::Failed, leaf)),
            Step::User => Err(ProvisionError::user_action(Reason::NotOurs, leaf)),
            Step::Terminal => Err(ProvisionError::terminal(Reason::DependencyNotFound, leaf)),
            Step::Panic => {
                drop(inner);
                panic!("{leaf}")
            }
        }
    }
}

pub(crate) struct Scripted(String);

/// A leaf that follows the world's script for it.
pub(crate) fn scripted(name: &str) -> Node<World> {
    leaf(Scripted(name.to_owned()))
}

#[async_trait]
impl Provisioner<World> for Scripted {
    fn name(&self) -> &str {
        &self.0
    }

    async fn provision(&self, world: &World) -> Visited {
        world.visit(&self.0, Direction::Provision).await
    }

    async fn deprovision(&self, world: &World) -> Visited {
        world.visit(&self.0, Direction::Deprovision).await
    }
}
