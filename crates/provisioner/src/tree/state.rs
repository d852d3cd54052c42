//! What is known of a node.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{Direction, Outcome, Reason, Visited};

/// How far a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// It was not visited yet.
    #[default]
    Pending,
    /// On its way up.
    Provisioning,
    /// Up.
    Ready,
    /// Its last visit failed.
    Errored,
    /// On its way down.
    Deprovisioning,
    /// Gone.
    Gone,
    /// Not wanted, and gone.
    Absent,
    /// Left as it is, since nobody can tell whether it is wanted.
    Held,
    /// Given up, since the cluster that it was on is gone.
    Abandoned,
}

impl State {
    /// The word, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Provisioning => "provisioning",
            Self::Ready => "ready",
            Self::Errored => "errored",
            Self::Deprovisioning => "deprovisioning",
            Self::Gone => "gone",
            Self::Absent => "absent",
            Self::Held => "held",
            Self::Abandoned => "abandoned",
        }
    }

    /// Whether nothing more is to be done about it.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Ready | Self::Gone | Self::Absent | Self::Abandoned)
    }
}

/// What is known of a node, for its owner's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// How far it is.
    pub state: State,
    /// Why it is no further: one of [`Reason`]'s words; empty when it is settled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The same for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when it is so: the time of the last change of state or reason.
    pub since: Timestamp,
    /// How often it has failed since it was last up or gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What the tree keeps of a node.
#[derive(Clone)]
pub(super) struct Record {
    state: State,
    reason: Option<Reason>,
    /// A reason from another process's status.
    known_reason: String,
    message: String,
    since: Timestamp,
    attempts: u32,
    /// Which way it was visited last.
    direction: Option<Direction>,
    /// Since when it has been under way in that direction.
    waiting: Option<Instant>,
}

/// What a visit shows where that is not what it comes to.
pub(super) struct Shown {
    pub(super) state: State,
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl Record {
    pub(super) fn new(since: Timestamp) -> Self {
        Self {
            state: State::Pending,
            reason: None,
            known_reason: String::new(),
            message: String::new(),
            since,
            attempts: 0,
            direction: None,
            waiting: None,
        }
    }

    pub(super) fn resume(&mut self, known: &NodeState, now: Timestamp) {
        self.state = known.state;
        self.known_reason.clone_from(&known.reason);
        self.message.clone_from(&known.message);
        self.since = known.since.min(now);
        self.attempts = known.attempts;
        self.direction = match known.state {
            State::Deprovisioning | State::Gone => Some(Direction::Deprovision),
            State::Provisioning | State::Ready => Some(Direction::Provision),
            _ => None,
        };
    }

    pub(super) fn forget_attempts(&mut self) {
        self.attempts = 0;
        self.waiting = None;
    }

    pub(super) fn state(&self) -> NodeState {
        NodeState {
            state: self.state,
            reason: self
                .reason
                .map_or_else(|| self.known_reason.clone(), |reason| reason.as_str().to_owned()),
            message: self.message.clone(),
            since: self.since,
            attempts: self.attempts,
        }
    }

    pub(super) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// How long it has been under way.
    pub(super) fn waited(&self) -> Duration {
        self.waiting.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// A visit in this direction begins.
    pub(super) fn begin(&mut self, direction: Direction) {
        if self.direction.is_some_and(|before| before != direction) {
            self.forget_attempts();
        }
        self.direction = Some(direction);
        self.waiting.get_or_insert_with(Instant::now);
    }

    /// A visit has ended.
    pub(super) fn end(
        &mut self,
        direction: Direction,
        visited: &Visited,
        shown: Option<Shown>,
        now: Timestamp,
    ) {
        match visited {
            Ok(Outcome::Ready) => self.forget_attempts(),
            Ok(Outcome::Yield { .. }) => {}
            Err(_) => self.attempts = self.attempts.saturating_add(1),
        }
        if let Some(Shown { state, reason, message }) = shown {
            return self.show(state, Some(reason), &message, now);
        }
        match (visited, direction) {
            (Ok(Outcome::Ready), Direction::Provision) => self.show(State::Ready, None, "", now),
            (Ok(Outcome::Ready), Direction::Deprovision) => self.show(State::Gone, None, "", now),
            (Ok(Outcome::Yield { reason, message, .. }), Direction::Provision) => {
                self.show(State::Provisioning, Some(*reason), message, now);
            }
            (Ok(Outcome::Yield { reason, message, .. }), Direction::Deprovision) => {
                self.show(State::Deprovisioning, Some(*reason), message, now);
            }
            (Err(error), _) => self.show(State::Errored, Some(error.reason), &error.message, now),
        }
    }

    /// It was not visited, since others come first.
    pub(super) fn block(&mut self, direction: Direction, message: &str, now: Timestamp) {
        let state = match (direction, self.state) {
            (Direction::Provision, State::Ready | State::Provisioning | State::Errored) => return,
            (Direction::Deprovision, State::Gone | State::Absent) => return,
            (Direction::Provision, _) => State::Pending,
            (Direction::Deprovision, state) => state,
        };
        self.show(state, Some(Reason::Blocked), message, now);
    }

    fn show(&mut self, state: State, reason: Option<Reason>, message: &str, now: Timestamp) {
        let known = match self.reason {
            Some(reason) => reason.as_str(),
            None => self.known_reason.as_str(),
        };
        if self.state != state || known != reason.map_or("", Reason::as_str) {
            self.since = now;
        }
        self.state = state;
        self.reason = reason;
        self.known_reason.clear();
        if self.message != message {
            message.clone_into(&mut self.message);
        }
    }
}
