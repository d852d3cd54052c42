//! What this replica knows of the queue, and what it may do next. Pure: time is an argument.

mod turns;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::QueueConfig;
use crate::job::QueuedJob;
use crate::peers::Peers;
use crate::ready::Ready;
use crate::spread::{Step, Window};
use crate::store::Key;

#[cfg(test)]
mod tests;

/// Every job that this replica has seen and that is not known to be gone.
#[derive(Debug)]
pub(crate) struct Schedule {
    config: Arc<QueueConfig>,
    jobs: HashMap<Arc<Key>, Entry>,
    /// Those that can be claimed now.
    ready: Ready,
    /// Those that can be claimed later.
    timers: BTreeSet<(Instant, Arc<Key>)>,
    /// Jobs that this replica runs, by uid, with what tells the worker that the lease is lost.
    held: HashMap<Box<str>, Held>,
    /// Candidates that a driver is claiming just now.
    claiming: HashMap<Arc<Key>, Arc<QueuedJob>>,
    /// The jobs that anybody has claimed, live or lapsed, by their exclusion key.
    claimed: HashMap<Key, HashSet<Arc<Key>>>,
    /// By job uid, tokens of claims whose answer never came. They may have been granted, and nobody runs under them.
    unanswered: HashMap<Box<str>, HashSet<String>>,
    window: Window,
    peers: Peers,
    step: Step,
    /// When claims were sent that the watch has not told of yet, by their tokens.
    sent: HashMap<String, Instant>,
}

#[derive(Debug)]
struct Entry {
    record: Arc<QueuedJob>,
    /// When this claim, or the absence of one, was first seen. For a claimed job every write starts it anew: whoever
    /// writes to it is alive.
    since: Instant,
    place: Place,
    /// Our copy lost a race. The watch will bring a newer one, or else it is read again before the next claim.
    stale: bool,
    /// Claims that failed in a row, for other reasons than a conflict.
    failures: u32,
    /// Claims in a row that were given back since another job of the exclusion key was claimed.
    yields: u32,
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
    record: Arc<QueuedJob>,
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
    pub(crate) record: Arc<QueuedJob>,
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
            claiming: HashMap::new(),
            claimed: HashMap::new(),
            unanswered: HashMap::new(),
            window,
            peers,
            step: Step::default(),
            sent: HashMap::new(),
        }
    }

    /// Takes in a version of a job, from a watch or from an answer to one of our own requests.
    pub(crate) fn applied(&mut self, record: Arc<QueuedJob>, now: Instant) {
        let key = Arc::clone(&record.key);
        let known = self.jobs.get(&key);
        if known.is_some_and(|known| record.older_than(&known.record)) {
            return;
        }
        if known.is_some_and(|known| known.record.older_than(&record)) {
            self.end_lost_hold(&record);
        }
        self.observe_owner(&record);
        let known = self.jobs.get(&key);
        let same_job = known.filter(|known| known.record.uid == record.uid);
        let changed = same_job.is_none_or(|known| known.record.version != record.version);
        if changed && !self.is_unanswered(&record) {
            // A claim that was still on its way cannot be granted any more.
            self.unanswered.remove(&record.uid);
        }
        let since = match same_job {
            Some(known) if !changed || (!known.record.claimed && !record.claimed) => known.since,
            _ => now,
        };
        let not_before = same_job.and_then(|known| known.not_before);
        let (stale, failures) =
            same_job.filter(|_| !changed).map_or((false, 0), |known| (known.stale, known.failures));
        let yields = same_job.map_or(0, |known| known.yields);
        self.remove(&key);
        if let Some(exclusion) = record.exclusion().filter(|_| record.claimed) {
            self.claimed.entry(exclusion).or_default().insert(Arc::clone(&key));
        }
        let place = Place::Nowhere;
        self.jobs
            .insert(Arc::clone(&key), Entry { record, since, place, stale, failures, yields, not_before });
        self.place(&key, now);
    }

    fn remove(&mut self, key: &Key) {
        self.unplace(key);
        let Some(entry) = self.jobs.remove(key) else { return };
        let Some(exclusion) = entry.record.exclusion() else { return };
        if let Some(claimed) = self.claimed.get_mut(&exclusion) {
            claimed.remove(key);
            if claimed.is_empty() {
                self.claimed.remove(&exclusion);
            }
        }
    }

    /// Learns who claims, from a claim that was seen to be made: what a job says that is seen for the first time may have
    /// been written by whoever made it.
    fn observe_owner(&mut self, record: &QueuedJob) {
        let Some(owner) = record.owner.as_deref().filter(|_| record.claimed) else { return };
        let known = self.jobs.get(&record.key).filter(|known| known.record.uid == record.uid);
        let Some(known) = known else { return };
        match known.record.owner.as_deref().filter(|_| known.record.claimed) {
            Some(before) if before == owner => {}
            Some(before) => {
                self.peers.lapsed(before);
                self.peers.claimed(owner, &record.uid);
            }
            None => self.peers.claimed(owner, &record.uid),
        }
    }

    /// Takes in a version that was read because ours was stale.
    pub(crate) fn refreshed(&mut self, record: Arc<QueuedJob>, now: Instant) {
        let key = Arc::clone(&record.key);
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
        if self.jobs.get(key).is_some_and(|entry| *entry.record.uid == *uid) {
            self.remove(key);
        }
    }

    /// Takes in the whole queue: what is not among `records` is gone.
    pub(crate) fn replace_all(&mut self, records: Vec<Arc<QueuedJob>>, now: Instant) {
        let listed: HashSet<&str> = records.iter().map(|record| &*record.uid).collect();
        let gone: Vec<_> = self
            .jobs
            .values()
            .filter(|entry| !listed.contains(&*entry.record.uid))
            .map(|entry| (Arc::clone(&entry.record.key), entry.record.uid.clone()))
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
        // Repositories whose first job this replica may claim later: the others of the repository come after it.
        let mut later = HashSet::new();
        let mut turn: Option<Instant> = None;
        while let Some(key) = self.next_ready(now, &later) {
            let known =
                self.jobs.get(&key).map(|entry| (entry.record.exclusion(), self.claimable_at(entry, now)));
            // Its turn may be over: no driver was free, or another job of the repository ran.
            if let Some((Some(exclusion), Some(at))) = known
                && at > now
            {
                later.insert(exclusion);
                turn = Some(turn.map_or(at, |turn| turn.min(at)));
                continue;
            }
            self.unplace(&key);
            self.place(&key, now);
            if self.jobs.get(&key).is_none_or(|entry| entry.place != Place::Ready) {
                continue;
            }
            self.unplace(&key);
            if let Some(entry) = self.jobs.get(&key) {
                self.claiming.insert(key, Arc::clone(&entry.record));
                return Pick::Claim(Candidate {
                    record: Arc::clone(&entry.record),
                    stale: entry.stale,
                    unanswered: self.is_unanswered(&entry.record),
                });
            }
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        let lapse = self.next_lapse(now).filter(|_| !self.ready.is_empty());
        timer.into_iter().chain(lapse).chain(turn).min().map_or(Pick::Idle, Pick::Wait)
    }

    fn next_ready(&mut self, now: Instant, later: &HashSet<Key>) -> Option<Arc<Key>> {
        let mut ready = std::mem::take(&mut self.ready);
        let key = ready.next(
            |namespace| self.is_full(namespace),
            |exclusion| later.contains(exclusion) || self.is_excluded(exclusion, now),
        );
        self.ready = ready;
        key
    }

    /// The jobs that this replica runs or is claiming.
    fn running(&self) -> impl Iterator<Item = &QueuedJob> {
        self.held.values().map(|held| &*held.record).chain(self.claiming.values().map(|record| &**record))
    }

    /// Whether a namespace has all the drivers of this replica that it may have.
    fn is_full(&self, namespace: &str) -> bool {
        let most = self.config.max_jobs_per_namespace;
        most > 0 && self.running().filter(|job| job.key.namespace == namespace).count() >= most
    }

    /// Whether a job of that exclusion key runs, as far as is known here, or has yet to be gone on with: it may have done
    /// half of something that others would find.
    fn is_excluded(&self, exclusion: &Key, now: Instant) -> bool {
        let claimed = self.claimed.get(exclusion).into_iter().flatten().filter_map(|key| self.jobs.get(key));
        self.running().any(|job| job.excludes(exclusion))
            || claimed
                .into_iter()
                .any(|entry| self.is_live(entry, now) || self.is_taken_over_later(entry, now))
    }

    /// Whether this replica may take a job over whose worker vanished, though not yet. One that it cannot take holds up
    /// nobody.
    fn is_taken_over_later(&self, entry: &Entry, now: Instant) -> bool {
        entry.place != Place::Ready && self.claimable_at(entry, now).is_some()
    }

    /// Whether somebody may work under the claim of this entry.
    fn is_live(&self, entry: &Entry, now: Instant) -> bool {
        entry.record.claimed && self.lapses_at(entry) > now && !self.is_unanswered(&entry.record)
    }

    /// Whether `record`, read from the store just now, is known to have no worker: its claim was not seen to change for the
    /// expiry, or is one of ours that was never answered.
    pub(crate) fn has_lapsed(&self, record: &QueuedJob, now: Instant) -> bool {
        let known = self.jobs.get(&record.key);
        let known = known.filter(|known| known.record.precondition() == record.precondition());
        self.is_unanswered(record) || known.is_some_and(|known| !self.is_live(known, now))
    }

    /// When the next claim lapses that excludes other jobs.
    fn next_lapse(&self, now: Instant) -> Option<Instant> {
        let claimed = self.claimed.values().flatten().filter_map(|key| self.jobs.get(key));
        claimed.filter(|entry| self.is_live(entry, now)).map(|entry| self.lapses_at(entry)).min()
    }

    /// The driver is done with a candidate: puts it where it now belongs.
    pub(crate) fn settle(&mut self, key: &Key, now: Instant) {
        self.claiming.remove(key);
        self.unplace(key);
        self.place(key, now);
    }

    /// No answer came to a claim: it may stand, with nobody behind it.
    pub(crate) fn unanswered(&mut self, uid: &str, owner: &str) {
        self.unanswered.entry(uid.into()).or_default().insert(owner.to_owned());
    }

    /// The claim was won: the job is ours until [`Schedule::unhold`].
    pub(crate) fn hold(
        &mut self,
        record: Arc<QueuedJob>,
        owner: &str,
        lost: CancellationToken,
        now: Instant,
    ) {
        self.window.won();
        let held = Held { record: Arc::clone(&record), owner: owner.to_owned(), lost };
        self.held.insert(record.uid.clone(), held);
        self.applied(record, now);
    }

    /// The job is no longer ours. `pause` keeps this replica off it for a while.
    pub(crate) fn unhold(&mut self, uid: &str, pause: Option<Duration>, now: Instant) {
        let Some(held) = self.held.remove(uid) else { return };
        let key = Arc::clone(&held.record.key);
        if let Some(entry) = self.jobs.get_mut(&key).filter(|entry| *entry.record.uid == *uid) {
            if let Some(pause) = pause {
                entry.not_before = Some(now + pause);
            }
            self.settle(&key, now);
        }
    }

    /// `record`, claimed by this replica, has to yield to `other` of its exclusion key: how long to leave it alone. Of two
    /// that yield to each other the older one comes back first.
    pub(crate) fn yields(&mut self, record: &QueuedJob, other: &QueuedJob) -> Duration {
        let older = (record.created, &record.uid) < (other.created, &other.uid);
        let first = if older { self.config.conflict_grace / 10 } else { self.config.conflict_grace };
        let Some(entry) = self.jobs.get_mut(&record.key) else { return first };
        entry.yields = entry.yields.saturating_add(1);
        let pause = first.saturating_mul(2_u32.pow(entry.yields.min(10) - 1)).min(self.config.cool_down);
        pause / 2 + self.spread(record, pause / 2)
    }

    /// The uids of the jobs that are queued, as far as is known here.
    pub(crate) fn uids(&self) -> HashSet<String> {
        self.jobs.values().map(|entry| entry.record.uid.clone().into()).collect()
    }

    /// Somebody else was quicker.
    pub(crate) fn conflict(&mut self, record: &QueuedJob, now: Instant) {
        self.window.conflict();
        if let Some(entry) =
            self.jobs.get_mut(&record.key).filter(|entry| entry.record.version == record.version)
        {
            entry.stale = true;
            entry.not_before = Some(now + self.config.conflict_grace);
        }
    }

    /// The claim failed for a reason that is not a conflict.
    pub(crate) fn failed(&mut self, record: &QueuedJob, now: Instant) {
        if let Some(entry) = self.jobs.get_mut(&record.key).filter(|entry| entry.record.uid == record.uid) {
            // Whatever the reason, the copy may not be the newest any more.
            entry.stale = true;
            entry.failures += 1;
            entry.not_before = Some(now + self.config.claim_backoff * 2_u32.pow(entry.failures.min(10) - 1));
        }
    }

    /// Jobs that ran out of attempts and whose last lease has lapsed.
    pub(crate) fn exhausted(&self, now: Instant) -> Vec<Arc<QueuedJob>> {
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
        let claimed = self.jobs.values().filter(|entry| entry.record.claimed).count();
        (self.jobs.len() - claimed, claimed)
    }

    fn is_exhausted(&self, entry: &Entry) -> bool {
        let record = &entry.record;
        record.claimed
            && !record.deleting
            && record.attempts >= self.config.max_attempts
            && !self.held.contains_key(&record.uid)
            && !self.is_unanswered(record)
    }

    fn lapses_at(&self, entry: &Entry) -> Instant {
        entry.since + self.config.lease_expiry
    }

    fn is_unanswered(&self, record: &QueuedJob) -> bool {
        record.claimed
            && record
                .owner
                .as_deref()
                .zip(self.unanswered.get(&record.uid))
                .is_some_and(|(owner, tokens)| tokens.contains(owner))
    }

    /// Tells the worker of a job of ours that the watch shows it to be gone or somebody else's, long before its next
    /// renewal would.
    fn end_lost_hold(&self, newer: &QueuedJob) {
        for (uid, held) in self.held.iter().filter(|(_, held)| held.record.key == newer.key) {
            if *uid != newer.uid || newer.owner.as_deref() != Some(&*held.owner) {
                held.lost.cancel();
            }
        }
    }

    fn place(&mut self, key: &Key, now: Instant) {
        let Some(entry) = self.jobs.get(key) else { return };
        let Some(at) = self.claimable_at(entry, now) else { return };
        let place = if at <= now { Place::Ready } else { Place::Timer(at) };
        match place {
            Place::Ready => self.ready.insert(&entry.record),
            _ => {
                self.timers.insert((at, Arc::clone(&entry.record.key)));
            }
        }
        if let Some(entry) = self.jobs.get_mut(key) {
            entry.place = place;
        }
    }

    fn unplace(&mut self, key: &Key) {
        let Some(entry) = self.jobs.get_mut(key) else { return };
        match std::mem::replace(&mut entry.place, Place::Nowhere) {
            Place::Nowhere => {}
            Place::Ready => self.ready.remove(&entry.record),
            Place::Timer(at) => {
                self.timers.remove(&(at, Arc::clone(&entry.record.key)));
            }
        }
    }
}
