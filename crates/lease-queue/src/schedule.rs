//! What this replica knows of the queue, and what it may do next. Pure: time is an argument.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::QueueConfig;
use crate::peers::{Peers, Turn};
use crate::ready::Ready;
use crate::spread::{self, Step, Window};
use crate::store::{Key, Record};

#[cfg(test)]
mod tests;

/// Every job that this replica has seen and that is not known to be gone.
#[derive(Debug)]
pub(crate) struct Schedule {
    config: Arc<QueueConfig>,
    jobs: HashMap<Key, Entry>,
    /// Those that can be claimed now.
    ready: Ready,
    /// Those that can be claimed later.
    timers: BTreeSet<(Instant, Key)>,
    /// Jobs that this replica runs, by uid, with what tells the worker that the lease is lost.
    held: HashMap<String, Held>,
    /// Candidates that a driver is claiming just now.
    claiming: HashSet<Key>,
    /// By job uid, tokens of claims whose answer never came. They may have been granted, and nobody runs under them.
    unanswered: HashMap<String, HashSet<String>>,
    window: Window,
    peers: Peers,
    step: Step,
    /// When claims were sent that the watch has not told of yet, by their tokens.
    sent: HashMap<String, Instant>,
}

#[derive(Debug)]
struct Entry {
    record: Arc<Record>,
    /// When this claim, or the absence of one, was first seen. For a claimed job every write starts it anew: whoever
    /// writes to it is alive.
    since: Instant,
    place: Place,
    /// Our copy lost a race. The watch will bring a newer one, or else it is read again before the next claim.
    stale: bool,
    /// Claims that failed in a row, for other reasons than a conflict.
    failures: u32,
    /// Not to be claimed by this replica before then.
    not_before: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Ready,
    Timer(Instant),
}

#[derive(Debug)]
struct Held {
    key: Key,
    owner: String,
    lost: CancellationToken,
}

/// What a driver should do.
#[derive(Debug)]
pub(crate) enum Pick {
    /// Try to claim this.
    Claim(Candidate),
    /// Look again then, or when something changes.
    Wait(Instant),
    /// Look again when something changes.
    Idle,
}

/// A job that looks claimable, taken out of the schedule until [`Schedule::settle`].
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) record: Arc<Record>,
    /// The copy has to be read again first.
    pub(crate) stale: bool,
    /// Its present claim is one of our own that was never answered: it never ran, so the attempt is not counted again.
    pub(crate) unanswered: bool,
}

impl Schedule {
    pub(crate) fn new(config: Arc<QueueConfig>) -> Self {
        let window = Window::new(config.widest_window);
        let peers = Peers::new(&config.replica);
        Self {
            config,
            jobs: HashMap::new(),
            ready: Ready::default(),
            timers: BTreeSet::new(),
            held: HashMap::new(),
            claiming: HashSet::new(),
            unanswered: HashMap::new(),
            window,
            peers,
            step: Step::default(),
            sent: HashMap::new(),
        }
    }

    /// Takes in a version of a job, from a watch or from an answer to one of our own requests.
    pub(crate) fn applied(&mut self, record: Record, now: Instant) {
        let key = record.key.clone();
        let known = self.jobs.get(&key);
        if known.is_some_and(|known| record.older_than(&known.record)) {
            return;
        }
        if known.is_some_and(|known| known.record.older_than(&record)) {
            self.end_lost_hold(&record);
        }
        self.acquaint(&record);
        let known = self.jobs.get(&key);
        let same_job = known.filter(|known| known.record.uid == record.uid);
        let changed = same_job.is_none_or(|known| known.record.version != record.version);
        if changed && !self.is_unanswered(&record) {
            // A claim that was still on its way cannot be granted any more.
            self.unanswered.remove(&record.uid);
        }
        let since = match same_job {
            Some(known) if !changed || (!known.record.claimed() && !record.claimed()) => known.since,
            _ => now,
        };
        let not_before = same_job.and_then(|known| known.not_before);
        let (stale, failures) =
            same_job.filter(|_| !changed).map_or((false, 0), |known| (known.stale, known.failures));
        self.unplace(&key);
        let place = Place::Nowhere;
        let record = Arc::new(record);
        self.jobs.insert(key.clone(), Entry { record, since, place, stale, failures, not_before });
        self.place(&key, now);
    }

    /// Learns who claims.
    fn acquaint(&mut self, record: &Record) {
        let Some(owner) = record.owner().filter(|_| record.claimed()) else { return };
        let known = self.jobs.get(&record.key).filter(|known| known.record.uid == record.uid);
        let Some(known) = known else { return self.peers.seen(owner) };
        match known.record.owner().filter(|_| known.record.claimed()) {
            Some(before) if before == owner => {}
            Some(before) => {
                self.peers.lapsed(before);
                self.peers.seen(owner);
            }
            None => self.peers.claimed(owner, &record.uid),
        }
    }

    /// Takes in a version that was read because ours was stale.
    pub(crate) fn refreshed(&mut self, record: Record, now: Instant) {
        let key = record.key.clone();
        self.applied(record, now);
        if let Some(entry) = self.jobs.get_mut(&key) {
            entry.stale = false;
        }
    }

    /// A job is gone. `uid` keeps one that was made anew under the same name.
    pub(crate) fn deleted(&mut self, key: &Key, uid: &str) {
        if let Some(held) = self.held.get(uid) {
            held.lost.cancel();
        }
        self.unanswered.remove(uid);
        if self.jobs.get(key).is_some_and(|entry| entry.record.uid == uid) {
            self.unplace(key);
            self.jobs.remove(key);
        }
    }

    /// Takes in the whole queue: what is not among `records` is gone.
    pub(crate) fn replace_all(&mut self, records: Vec<Record>, now: Instant) {
        let listed: HashSet<&str> = records.iter().map(|record| record.uid.as_str()).collect();
        let gone: Vec<_> = self
            .jobs
            .values()
            .filter(|entry| !listed.contains(entry.record.uid.as_str()))
            .map(|entry| (entry.record.key.clone(), entry.record.uid.clone()))
            .collect();
        for (key, uid) in gone {
            self.deleted(&key, &uid);
        }
        for record in records {
            self.applied(record, now);
        }
    }

    /// Looks at every job again, those included that were given up.
    pub(crate) fn tick(&mut self, now: Instant) {
        let keys: Vec<_> = self.jobs.keys().cloned().collect();
        for key in keys {
            if let Some(entry) = self.jobs.get_mut(&key) {
                if entry.failures >= self.config.claim_tries {
                    entry.failures = 0;
                }
                if entry.place != Place::Ready {
                    self.unplace(&key);
                    self.place(&key, now);
                }
            }
        }
    }

    /// The next thing to do. A candidate is out of the schedule until it is settled.
    pub(crate) fn pick(&mut self, now: Instant) -> Pick {
        while let Some((at, key)) = self.timers.first().cloned() {
            if at > now {
                break;
            }
            self.unplace(&key);
            self.place(&key, now);
        }
        while let Some(key) = self.ready.next() {
            // Its turn may be over: no driver was free.
            self.unplace(&key);
            self.place(&key, now);
            if self.jobs.get(&key).is_none_or(|entry| entry.place != Place::Ready) {
                continue;
            }
            self.unplace(&key);
            if let Some(entry) = self.jobs.get(&key) {
                self.claiming.insert(key);
                return Pick::Claim(Candidate {
                    record: Arc::clone(&entry.record),
                    stale: entry.stale,
                    unanswered: self.is_unanswered(&entry.record),
                });
            }
        }
        self.timers.first().map_or(Pick::Idle, |(at, _)| Pick::Wait(*at))
    }

    /// The driver is done with a candidate: puts it where it now belongs.
    pub(crate) fn settle(&mut self, key: &Key, now: Instant) {
        self.claiming.remove(key);
        self.unplace(key);
        self.place(key, now);
    }

    /// No answer came to a claim: it may stand, with nobody behind it.
    pub(crate) fn unanswered(&mut self, uid: &str, owner: &str) {
        self.unanswered.entry(uid.to_owned()).or_default().insert(owner.to_owned());
    }

    /// The claim was won: the job is ours until [`Schedule::unhold`].
    pub(crate) fn hold(&mut self, record: Record, owner: &str, lost: CancellationToken, now: Instant) {
        self.window.won();
        let held = Held { key: record.key.clone(), owner: owner.to_owned(), lost };
        self.held.insert(record.uid.clone(), held);
        self.applied(record, now);
    }

    /// The job is no longer ours; `cool_down` keeps this replica off it for a while.
    pub(crate) fn unhold(&mut self, uid: &str, cool_down: bool, now: Instant) {
        let Some(held) = self.held.remove(uid) else { return };
        if let Some(entry) = self.jobs.get_mut(&held.key).filter(|entry| entry.record.uid == uid) {
            if cool_down {
                entry.not_before = Some(now + self.config.cool_down);
            }
            self.settle(&held.key, now);
        }
    }

    /// Somebody else was quicker.
    pub(crate) fn conflict(&mut self, record: &Record, now: Instant) {
        self.window.conflict();
        if let Some(entry) =
            self.jobs.get_mut(&record.key).filter(|entry| entry.record.version == record.version)
        {
            entry.stale = true;
            entry.not_before = Some(now + self.config.conflict_grace);
        }
    }

    /// The claim failed for a reason that is not a conflict.
    pub(crate) fn failed(&mut self, record: &Record, now: Instant) {
        if let Some(entry) = self.jobs.get_mut(&record.key).filter(|entry| entry.record.uid == record.uid) {
            // Whatever the reason, the copy may not be the newest any more.
            entry.stale = true;
            entry.failures += 1;
            entry.not_before = Some(now + self.config.claim_backoff * 2_u32.pow(entry.failures.min(10) - 1));
        }
    }

    /// Jobs that ran out of attempts and whose last lease has lapsed.
    pub(crate) fn exhausted(&self, now: Instant) -> Vec<Arc<Record>> {
        self.jobs
            .values()
            .filter(|entry| self.is_exhausted(entry) && self.lapses_at(entry) <= now)
            .map(|entry| Arc::clone(&entry.record))
            .collect()
    }

    /// When [`Schedule::exhausted`] next has something to say.
    pub(crate) fn next_exhausted(&self) -> Option<Instant> {
        self.jobs.values().filter(|entry| self.is_exhausted(entry)).map(|entry| self.lapses_at(entry)).min()
    }

    /// How many jobs wait for a claim, and how many are claimed by anybody.
    pub(crate) fn depth(&self) -> (usize, usize) {
        let claimed = self.jobs.values().filter(|entry| entry.record.claimed()).count();
        (self.jobs.len() - claimed, claimed)
    }

    fn is_exhausted(&self, entry: &Entry) -> bool {
        let record = &entry.record;
        record.claimed()
            && !record.deleting
            && record.attempts() >= self.config.max_attempts
            && !self.held.contains_key(&record.uid)
            && !self.is_unanswered(record)
    }

    fn lapses_at(&self, entry: &Entry) -> Instant {
        entry.since + self.config.lease_expiry
    }

    fn is_unanswered(&self, record: &Record) -> bool {
        record.claimed()
            && record
                .owner()
                .zip(self.unanswered.get(&record.uid))
                .is_some_and(|(owner, tokens)| tokens.contains(owner))
    }

    /// Tells the worker of a job of ours that the watch shows it to be gone or somebody else's, long before its next
    /// renewal would.
    fn end_lost_hold(&self, newer: &Record) {
        for (uid, held) in self.held.iter().filter(|(_, held)| held.key == newer.key) {
            if *uid != newer.uid || newer.owner() != Some(held.owner.as_str()) {
                held.lost.cancel();
            }
        }
    }

    fn place(&mut self, key: &Key, now: Instant) {
        let Some(entry) = self.jobs.get(key) else { return };
        let record = &entry.record;
        let busy = self.held.contains_key(&record.uid) || self.claiming.contains(key);
        if busy || record.deleting || entry.failures >= self.config.claim_tries {
            return;
        }
        let at = if !record.claimed() {
            let from = entry.not_before.unwrap_or(entry.since);
            self.turn(record, entry.since, from.max(now))
        } else if self.is_unanswered(record) {
            entry.since
        } else if record.attempts() < self.config.max_attempts {
            // Every replica sees a lease lapse at about the same time.
            let lapses = self.lapses_at(entry);
            self.turn(record, lapses, lapses) + self.spread(record, self.config.lease_expiry / 50)
        } else {
            return;
        };
        let at = entry.not_before.map_or(at, |not_before| at.max(not_before));
        let place = if at <= now { Place::Ready } else { Place::Timer(at) };
        match place {
            Place::Ready => self.ready.insert(record),
            _ => {
                self.timers.insert((at, key.clone()));
            }
        }
        if let Some(entry) = self.jobs.get_mut(key) {
            entry.place = place;
        }
    }

    /// When this replica may claim a job that became free at `since`: its turn that is not over at `now`.
    fn turn(&self, record: &Record, since: Instant, now: Instant) -> Instant {
        let step = self.step.length(self.config.widest_window);
        let (offset, length) = match self.peers.turn(&record.uid) {
            Turn::Open => return since + self.spread(record, self.window.width()),
            // Nobody else claims.
            Turn::After(_) if self.peers.count() == 1 => return since,
            Turn::After(before) => (step.saturating_mul(before), step / 2),
            Turn::Behind(known) => (step.saturating_mul(known) + self.spread(record, step / 2), step / 4),
        };
        // The last turn of each round is for those that are not known.
        let round = step.saturating_mul(self.peers.count().saturating_add(1));
        let passed = now.saturating_duration_since(since + offset + length);
        let rounds = u32::try_from(passed.as_micros().div_ceil(round.as_micros().max(1))).unwrap_or(u32::MAX);
        since + offset + round.saturating_mul(rounds)
    }

    fn spread(&self, record: &Record, width: Duration) -> Duration {
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
    pub(crate) fn told(&mut self, record: &Record, now: Instant) {
        if let Some(sent) = record.owner().and_then(|owner| self.sent.remove(owner)) {
            self.step.seen_after(now.saturating_duration_since(sent));
        }
    }

    fn unplace(&mut self, key: &Key) {
        let Some(entry) = self.jobs.get_mut(key) else { return };
        match std::mem::replace(&mut entry.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Ready => self.ready.remove(&entry.record),
            Place::Timer(at) => {
                self.timers.remove(&(at, key.clone()));
            }
        }
    }
}
