//! What the stand-in remembers: repositories, tokens, the rate limit, faults to come, and what it was asked.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use crate::apps::Apps;
use crate::door::Door;
use crate::faults::{Fault, Planned};
use crate::limit::Limit;
use crate::repository::Repository;

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
        Limit { most: Limit::AN_HOUR, used: self.used.min(Limit::AN_HOUR), reset: self.reset.as_second() }
    }

    /// Whether the rate limit is used up.
    pub(crate) fn is_used_up(&mut self) -> bool {
        if Timestamp::now() >= self.reset {
            self.used = 0;
            self.reset = Timestamp::now() + Duration::from_hours(1);
        }
        self.used >= Limit::AN_HOUR
    }

    pub(crate) fn use_up(&mut self, reset: Duration) {
        self.used = Limit::AN_HOUR;
        self.reset = Timestamp::now() + reset;
    }

    /// Whether this token is good now.
    pub(crate) fn lets_in(&self, token: &str) -> bool {
        self.tokens.contains(token) || self.apps.token(token).is_some()
    }
}
