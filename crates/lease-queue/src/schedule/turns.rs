//! When this replica may claim a job: its turn among its peers.

use std::time::Duration;

use tokio::time::Instant;

use super::{Entry, Schedule};
use crate::job::QueuedJob;
use crate::peers::Turn;
use crate::spread;

impl Schedule {
    /// When this replica may claim a job, if it may at all.
    pub(super) fn claimable_at(&self, entry: &Entry, now: Instant) -> Option<Instant> {
        let record = &entry.record;
        let busy = self.held.contains_key(&record.uid) || self.claiming.contains_key(&record.key);
        if busy || record.deleting || entry.failures >= self.config.claim_tries {
            return None;
        }
        let at = if !record.claimed {
            let from = entry.not_before.unwrap_or(entry.since);
            self.turn(record, entry.since, from.max(now))
        } else if self.is_unanswered(record) {
            entry.since
        } else if record.attempts < self.config.max_attempts {
            // Every replica sees a lease lapse at about the same time.
            let lapses = self.lapses_at(entry);
            self.turn(record, lapses, lapses) + self.spread(record, self.config.lease_expiry / 50)
        } else {
            return None;
        };
        Some(entry.not_before.map_or(at, |not_before| at.max(not_before)))
    }

    /// When this replica may claim a job that became free at `since`: its turn that is not over at `now`.
    fn turn(&self, record: &QueuedJob, since: Instant, now: Instant) -> Instant {
        // However many peers there seem to be, a round is no longer than the widest window.
        let members = self.peers.count().saturating_add(1);
        let step = self.step.length(self.config.widest_window).min(self.config.widest_window / members);
        let (offset, length) = match self.peers.turn(&record.uid) {
            Turn::Open => return since + self.spread(record, self.window.width()),
            // Nobody else claims.
            Turn::After(_) if self.peers.count() == 1 => return since,
            Turn::After(before) => (step.saturating_mul(before), step / 2),
            Turn::Behind(known) => (step.saturating_mul(known) + self.spread(record, step / 2), step / 4),
        };
        // The last turn of each round is for those that are not known.
        let round = step.saturating_mul(members);
        let passed = now.saturating_duration_since(since + offset + length);
        let rounds = u32::try_from(passed.as_micros().div_ceil(round.as_micros().max(1))).unwrap_or(u32::MAX);
        since + offset + round.saturating_mul(rounds)
    }

    pub(super) fn spread(&self, record: &QueuedJob, width: Duration) -> Duration {
        spread::delay(&self.config.replica, &record.uid, width)
    }

    /// A claim is being sent.
    pub(crate) fn sending(&mut self, owner: &str, now: Instant) {
        /// Those whose events never came.
        const MOST: usize = 1000;
        if self.sent.len() >= MOST {
            self.sent.clear();
        }
        self.sent.insert(owner.to_owned(), now);
    }

    /// The watch, unlike an answer of ours, told of a job.
    pub(crate) fn told(&mut self, record: &QueuedJob, now: Instant) {
        if let Some(sent) = record.owner.as_deref().and_then(|owner| self.sent.remove(owner)) {
            self.step.seen_after(now.saturating_duration_since(sent));
        }
    }
}
