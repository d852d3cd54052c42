//! What this process remembers of each repository between passes.
//!
//! How long ago something happened is measured on this process's monotonic clock, from the moment at which the status
//! was *seen* to change. The times in a status come from the clocks of whoever wrote them, and are compared with this
//! machine's clock once at most: when a status is seen for the first time, after a start.
//!
//! Losing the memory costs a request, or a pull that finds nothing to do.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_api::{JobState, Repository, SyncStatus, annotations, conditions};
use windlass_runtime::{Backoff, BackoffPolicy, ObjectKey};

use crate::hook;
use crate::neighbours::Standings;
use crate::timing::{HEALTHY_FOR, INSPECTED_FOR, Timing, health_lasts};

/// How far two clocks may be apart without anybody's fault.
const SKEW: Duration = Duration::from_mins(1);
/// An age beyond this, at first sight, says more about a clock than about the repository.
const ABSURD: Duration = Duration::from_hours(24);
/// Delays before something that is in the way is looked at again: a job that ends, an object that goes.
const OBSTACLE: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(1), max: Duration::from_secs(30), factor: 2.0, jitter: 0.2 };

/// How long ago things happened to a repository; none for never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ages {
    /// Its health was checked.
    pub(crate) checked: Option<Duration>,
    /// A pull was wanted, began or ended, or its source was found unchanged.
    pub(crate) synced: Option<Duration>,
    /// A pull that compared everything ended.
    pub(crate) full: Option<Duration>,
    /// A delivery of its webhook came.
    pub(crate) told: Option<Duration>,
    /// How long until its hook is looked at; nothing left where that was not done yet.
    pub(crate) hook_left: Duration,
    /// How long until its server is asked whether it can be written to.
    pub(crate) inspect_left: Duration,
    /// How long its server wants to be left alone.
    pub(crate) limited: Duration,
    /// How long until it gets a new token; nothing where this process has not seen to that.
    pub(crate) token_left: Option<Duration>,
    /// The change of a Secret that it names, where no check was made with that yet.
    pub(crate) secret_changed: Option<u64>,
    /// Whether it was pushed to while a pull was under way, which may not have seen that.
    pub(crate) pushed: bool,
}

/// What is remembered, by repository.
#[derive(Default)]
pub(crate) struct Memory {
    entries: Mutex<HashMap<ObjectKey, Entry>>,
    /// Where they stand among their neighbours.
    pub(crate) standings: Standings,
}

#[derive(Default)]
struct Entry {
    /// Of which object: one that was deleted and made again is another.
    uid: Option<String>,
    checked: Option<Seen<i64>>,
    synced: Option<Seen<SyncStatus>>,
    full: Option<Seen<i64>>,
    told: Option<Seen<i64>>,
    queued: Option<Queued>,
    /// How often the folder of a local repository has changed, and up to which of these times it was looked at.
    folder: (u64, u64),
    /// How often a Secret that it names has changed, and up to which of these times it was checked with that.
    secrets: (u64, u64),
    obstacle: Option<Backoff>,
    hook: Option<Look>,
    /// The delivery of the hook that did not reach us.
    missed: Option<String>,
    inspected: Option<Look>,
    /// A check that its server refused because it wants to be left alone.
    limited: Option<Look>,
    token: Option<TokenTry>,
    /// The annotation that a push during a pull leaves.
    pushed: Option<Seen<String>>,
    /// Whether a pull is under way.
    working: bool,
    /// How many pulls were seen to begin and looks found nothing, and when the status says that of a look.
    looked: Option<Seen<(i64, i64)>>,
}

/// A look at something of the repository as it is specified, and how long until the next.
struct Look {
    at: Instant,
    generation: Option<i64>,
    again: Duration,
}

impl Look {
    fn new(generation: Option<i64>, again: Duration) -> Self {
        Self { at: Instant::now(), generation, again }
    }

    /// How long until the next, if there was one since the specification changed.
    fn left(look: Option<&Self>, repository: &Repository) -> Option<Duration> {
        let look = look.filter(|look| look.generation == repository.metadata.generation)?;
        Some(look.again.saturating_sub(look.at.elapsed()))
    }
}

/// A try to get a token.
struct TokenTry {
    at: Instant,
    /// What it was asked for: connection, repository, and whether that is only read.
    wanted: (String, String, bool),
    again: Duration,
    failed: bool,
}

impl TokenTry {
    fn wanted(repository: &Repository) -> (String, String, bool) {
        let spec = &repository.spec;
        let url = spec.url().unwrap_or_default().to_owned();
        (spec.connection_name().to_owned(), url, spec.workflows.is_empty())
    }
}

/// A value of the status, and when it came to be by this process's monotonic clock.
struct Seen<V> {
    value: V,
    at: Instant,
    /// What had passed already at `at`.
    before: Duration,
}

impl<V: PartialEq> Seen<V> {
    /// Takes the current value in: one that changed under our eyes came to be now, one seen for the first time as long
    /// ago as `first` says.
    fn observe(seen: &mut Option<Self>, value: V, first: impl FnOnce() -> Duration) -> Duration {
        let before = match seen {
            Some(known) if known.value == value => return known.at.elapsed() + known.before,
            Some(_) => Duration::ZERO,
            None => first(),
        };
        *seen = Some(Self { value, at: Instant::now(), before });
        before
    }

    /// It came to be anew, now.
    fn renew(&mut self) {
        (self.at, self.before) = (Instant::now(), Duration::ZERO);
    }
}

/// A sync that was queued, and what the repository said then. One that says something else has seen the sync begin, or
/// wants another one.
struct Queued {
    at: Instant,
    status: QueuedFor,
}

#[derive(PartialEq)]
struct QueuedFor {
    generation: Option<i64>,
    healthy_since: Option<Timestamp>,
    sync: SyncStatus,
}

impl QueuedFor {
    fn of(repository: &Repository) -> Self {
        let ready = conditions::find(&repository.status.conditions, conditions::types::READY);
        Self {
            generation: repository.metadata.generation,
            healthy_since: ready.map(|ready| ready.last_transition_time.0),
            sync: repository.status.sync.clone(),
        }
    }
}

impl Memory {
    /// How long ago things happened to the repository, which is one of so many.
    pub(crate) fn ages(
        &self,
        key: &ObjectKey,
        repository: &Repository,
        timing: Timing,
        now: Timestamp,
        among: usize,
    ) -> Ages {
        let mut entries = self.lock();
        let entry = entries.entry(key.clone()).or_default();
        if entry.uid != repository.metadata.uid {
            *entry = Entry { uid: repository.metadata.uid.clone(), ..Entry::default() };
        }
        let status = &repository.status;
        let seed = repository.metadata.uid.as_deref().unwrap_or_default();
        let first = |millis: i64, period: Duration| move || first_age(millis, now, period, seed);
        let sync = &status.sync;
        let last = sync.finished.max(sync.scheduled).max(sync.started).max(sync.checked);
        let interval = timing.interval(repository);
        let health = health_lasts(status.health.healthy);
        let is_looked_at =
            repository.spec.sync.enabled && status.health.healthy && sync.state == JobState::Success;
        let look = |millis: i64, period: Duration| {
            let age = first(millis, period);
            move || if is_looked_at { first_look(age(), period, interval, seed) } else { age() }
        };
        let checked =
            Seen::observe(&mut entry.checked, status.health.checked, look(status.health.checked, health));
        let synced = Seen::observe(&mut entry.synced, sync.clone(), look(last, interval));
        let full = Seen::observe(&mut entry.full, sync.last_full, first(sync.last_full, timing.full_sync));
        let event = status.webhook.as_ref().map_or(0, |webhook| webhook.last_event);
        let told = Seen::observe(&mut entry.told, event, first(event, interval));
        let marks = repository.metadata.annotations.as_ref();
        let pushed = marks.and_then(|marks| marks.get(annotations::PUSHED)).cloned().unwrap_or_default();
        let commit = pushed.split('@').next().unwrap_or_default().to_owned();
        let is_marked = !pushed.is_empty();
        // In this order: what is seen at once counts as a push that came later, which costs a look at the most. The end of
        // a pull is none: it looked when it began.
        let is_working = sync.state == JobState::Working;
        let begins = is_working && !entry.working;
        entry.working = is_working;
        let had = entry.looked.as_ref().map_or((0, 0), |seen| seen.value);
        let look = (had.0 + i64::from(begins), sync.checked);
        let looked = Seen::observe(&mut entry.looked, look, || ABSURD);
        let pushed = Seen::observe(&mut entry.pushed, pushed, || Duration::ZERO);
        if entry.hook.is_none() && conditions::is_true(&status.conditions, conditions::types::WEBHOOK) {
            // After a start: hooks that were well are looked at one by one.
            let said = conditions::find(&status.conditions, conditions::types::WEBHOOK);
            let again = hook::one_round(among).mul_f64(place(seed));
            entry.hook = Some(Look::new(said.and_then(|said| said.observed_generation), again));
        }
        if entry.inspected.is_none()
            && conditions::find(&status.conditions, conditions::types::WRITABLE).is_some()
        {
            // After a start: what is said already is looked at again little by little.
            let again = INSPECTED_FOR.saturating_sub(first_age(0, now, INSPECTED_FOR, seed));
            let of = conditions::find(&status.conditions, conditions::types::WRITABLE);
            entry.inspected = Some(Look::new(of.and_then(|said| said.observed_generation), again));
        }
        let token = entry.token.as_ref().filter(|token| token.wanted == TokenTry::wanted(repository));
        Ages {
            secret_changed: (entry.secrets.0 > entry.secrets.1).then_some(entry.secrets.0),
            token_left: token.map(|token| token.again.saturating_sub(token.at.elapsed())),
            hook_left: Look::left(entry.hook.as_ref(), repository).unwrap_or_default(),
            inspect_left: Look::left(entry.inspected.as_ref(), repository).unwrap_or_default(),
            limited: Look::left(entry.limited.as_ref(), repository).unwrap_or_default(),
            pushed: is_marked && commit != sync.last_ref && pushed <= looked,
            checked: (status.health.checked != 0).then_some(checked),
            synced: (last != 0 || sync.state.is_finished()).then_some(synced),
            full: (sync.last_full != 0).then_some(full),
            told: (event != 0).then_some(told),
        }
    }

    /// A look found the source where the last pull left it. Not every such look is written down in the status.
    pub(crate) fn unchanged(&self, key: &ObjectKey) {
        self.note(key, |entry| {
            if let Some(synced) = &mut entry.synced {
                synced.renew();
            }
            if let Some(looked) = &mut entry.looked {
                looked.value.0 += 1;
                looked.renew();
            }
        });
    }

    /// The folder of a local repository has changed.
    pub(crate) fn folder_changed(&self, key: &ObjectKey) {
        self.note(key, |entry| entry.folder.0 += 1);
    }

    /// The change of a folder that nobody has looked at, if there is one.
    pub(crate) fn folder_change(&self, key: &ObjectKey) -> Option<u64> {
        let (changed, seen) = self.lock().get(key)?.folder;
        (changed > seen).then_some(changed)
    }

    /// A sync that takes in this change of the folder was queued, or is not needed.
    pub(crate) fn folder_seen(&self, key: &ObjectKey, change: u64) {
        self.note(key, |entry| entry.folder.1 = change);
    }

    /// A Secret that the repository names has changed.
    pub(crate) fn secret_changed(&self, key: &ObjectKey) {
        self.note(key, |entry| entry.secrets.0 += 1);
    }

    /// The repository was checked with what its Secrets say since this change.
    pub(crate) fn secret_used(&self, key: &ObjectKey, change: u64) {
        self.note(key, |entry| entry.secrets.1 = change);
    }

    /// The hook was looked at, and is again after that time. Answers whether `missed` is a delivery that nobody knew of.
    pub(crate) fn hook_checked(
        &self,
        key: &ObjectKey,
        generation: Option<i64>,
        again: Duration,
        missed: Option<String>,
    ) -> bool {
        let mut entries = self.lock();
        let entry = entries.entry(key.clone()).or_default();
        let news = missed.is_some() && missed != entry.missed;
        entry.hook = Some(Look::new(generation, again));
        entry.missed = missed.or(entry.missed.take());
        news
    }

    /// The repository's server was asked whether it can be written to, and is again after that time.
    pub(crate) fn inspected(&self, key: &ObjectKey, generation: Option<i64>, again: Duration) {
        self.lock().entry(key.clone()).or_default().inspected = Some(Look::new(generation, again));
    }

    /// The repository's server was asked whether it can be read, and wants to be left alone for that time.
    pub(crate) fn limited(&self, key: &ObjectKey, generation: Option<i64>, wait: Duration) {
        self.lock().entry(key.clone()).or_default().limited = Some(Look::new(generation, wait));
    }

    /// A token was asked for, and is again after that time.
    pub(crate) fn token_asked(
        &self,
        key: &ObjectKey,
        repository: &Repository,
        again: Duration,
        failed: bool,
    ) {
        let wanted = TokenTry::wanted(repository);
        let token = TokenTry { at: Instant::now(), wanted, again, failed };
        self.lock().entry(key.clone()).or_default().token = Some(token);
    }

    /// A new token is wanted as soon as may be; where there is a good one only if `another` is wanted.
    pub(crate) fn token_wanted(&self, key: &ObjectKey, another: bool) {
        let mut entries = self.lock();
        let token = entries.get_mut(key).and_then(|entry| entry.token.as_mut());
        if let Some(token) = token.filter(|token| token.failed || another) {
            token.again = Duration::ZERO;
        }
    }

    /// Remembers that a sync was queued for the repository as it is.
    pub(crate) fn queued(&self, key: &ObjectKey, repository: &Repository) {
        let queued = Queued { at: Instant::now(), status: QueuedFor::of(repository) };
        let mut entries = self.lock();
        let entry = entries.entry(key.clone()).or_default();
        (entry.queued, entry.obstacle) = (Some(queued), None);
    }

    /// How long the sync that was queued for the repository as it is may still take to begin, before it is taken to be
    /// lost; nothing when none was queued.
    pub(crate) fn queued_left(
        &self,
        key: &ObjectKey,
        repository: &Repository,
        lost_after: Duration,
    ) -> Option<Duration> {
        let entries = self.lock();
        let queued = entries.get(key)?.queued.as_ref()?;
        let left = lost_after.checked_sub(queued.at.elapsed()).filter(|left| !left.is_zero());
        left.filter(|_| queued.status == QueuedFor::of(repository))
    }

    /// Something stands in the way once more: how long until it is looked at again.
    pub(crate) fn obstructed(&self, key: &ObjectKey) -> Duration {
        let mut entries = self.lock();
        let entry = entries.entry(key.clone()).or_default();
        entry.obstacle.get_or_insert_with(|| Backoff::new(OBSTACLE)).delay()
    }

    /// Nothing stands in the way any more.
    pub(crate) fn cleared(&self, key: &ObjectKey) {
        self.note(key, |entry| entry.obstacle = None);
    }

    /// Notes something of a repository that was looked at.
    fn note(&self, key: &ObjectKey, change: impl FnOnce(&mut Entry)) {
        self.lock().get_mut(key).map(change);
    }

    /// Forgets a repository that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long ago a moment in somebody's Unix milliseconds is taken to be that is seen for the first time. What lies ahead
/// or far back is not believed: it is taken to be now, spread over the period so that not all of them are due at once.
fn first_age(millis: i64, now: Timestamp, period: Duration, seed: &str) -> Duration {
    let apart = now.as_millisecond().saturating_sub(millis);
    let size = Duration::from_millis(apart.unsigned_abs());
    match apart {
        0.. if size <= ABSURD => size,
        ..0 if size <= SKEW => Duration::ZERO,
        _ => period.mul_f64(place(seed)),
    }
}

/// How long ago a look at a source is taken to be that is seen for the first time, and that is due again after `period`.
/// Looks that find nothing are noted every few minutes alone: one that seems to be overdue by no more than that may have
/// been taken in time, as all were before a restart. So as not to take all of them at once, they are spread over the
/// interval.
fn first_look(age: Duration, period: Duration, interval: Duration, seed: &str) -> Duration {
    if age >= period && age < HEALTHY_FOR + interval {
        period.saturating_sub(interval.mul_f64(place(seed)))
    } else {
        age
    }
}

/// A place between 0 and 1 that stays the same for a repository.
fn place(seed: &str) -> f64 {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    (hasher.finish() % 1_000) as f64 / 1_000.0
}

#[cfg(test)]
mod tests;
