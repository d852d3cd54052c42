//! What the stand-in remembers: repositories, tokens, the rate limit, faults to come, and what it was asked.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use crate::apps::Apps;
use crate::faults::{Fault, Planned};
use crate::git::Door;
use crate::repository::Repository;

/// Requests an hour, as GitHub gives to a user.
const LIMIT: u64 = 5_000;

pub(crate) struct State {
    pub(crate) repositories: HashMap<String, Repository>,
    pub(crate) tokens: BTreeSet<String>,
    /// Whether people may push, and administer repositories.
    pub(crate) push: bool,
    pub(crate) administer: bool,
    pub(crate) apps: Apps,
    pub(crate) faults: Vec<Planned>,
    pub(crate) max_age: Duration,
    pub(crate) used: u64,
    pub(crate) reset: Timestamp,
    pub(crate) requests: Vec<String>,
    pub(crate) violations: Vec<String>,
    /// What stands before Git.
    pub(crate) door: Door,
}

/// The rate limit as headers say it.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) most: u64,
    pub(crate) used: u64,
    /// Unix time.
    pub(crate) reset: i64,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            repositories: HashMap::new(),
            tokens: BTreeSet::new(),
            push: true,
            administer: false,
            apps: Apps::default(),
            faults: Vec::new(),
            max_age: Duration::ZERO,
            used: 0,
            reset: Timestamp::now() + Duration::from_hours(1),
            requests: Vec::new(),
            violations: Vec::new(),
            door: Door::default(),
        }
    }

    /// The fault that was planned for this path, if any.
    pub(crate) fn fault(&mut self, path: &str) -> Option<Fault> {
        let at = self.faults.iter().position(|planned| path.contains(&planned.path))?;
        let planned = &mut self.faults[at];
        planned.times = planned.times.saturating_sub(1);
        let fault = planned.fault.clone();
        if planned.times == 0 {
            self.faults.remove(at);
        }
        Some(fault)
    }

    pub(crate) fn limit(&self) -> Limit {
        Limit { most: LIMIT, used: self.used.min(LIMIT), reset: self.reset.as_second() }
    }

    /// Whether the rate limit is used up.
    pub(crate) fn is_used_up(&mut self) -> bool {
        if Timestamp::now() >= self.reset {
            self.used = 0;
            self.reset = Timestamp::now() + Duration::from_hours(1);
        }
        self.used >= LIMIT
    }

    pub(crate) fn use_up(&mut self, reset: Duration) {
        self.used = LIMIT;
        self.reset = Timestamp::now() + reset;
    }
}

impl Limit {
    pub(crate) fn remaining(self) -> u64 {
        self.most - self.used
    }
}
