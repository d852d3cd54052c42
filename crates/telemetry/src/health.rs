//! Readiness by component, liveness by progress.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The health of a process: what of it is ready, and whether its loops still turn.
///
/// Time is `tokio::time`, so paused-time tests govern it.
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next_id: u64,
    components: BTreeMap<u64, Component>,
    loops: BTreeMap<u64, Progress>,
    checks: Vec<(String, Check)>,
    shutting_down: bool,
}

/// Says what is wrong, if anything is.
type Check = Box<dyn Fn() -> Option<String> + Send>;

struct Component {
    name: String,
    not_ready: Option<String>,
}

struct Progress {
    name: String,
    limit: Duration,
    last: Instant,
}

/// A component that is not ready, or a loop that stands still, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The name that it was registered under.
    pub name: String,
    /// What is wrong, for a person.
    pub reason: String,
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.reason)
    }
}

impl Health {
    /// Makes a health with nothing registered: alive and ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a component that is not ready until its handle says so.
    pub fn component(&self, name: impl Into<String>) -> ComponentHandle {
        let component = Component { name: name.into(), not_ready: Some("starting".to_owned()) };
        let mut state = self.lock();
        let id = state.take_id();
        state.components.insert(id, component);
        ComponentHandle { health: self.clone(), id }
    }

    /// Registers what is asked each time whether it is ready: `None`, or what is wrong. It answers at once.
    pub fn check(&self, name: impl Into<String>, check: impl Fn() -> Option<String> + Send + 'static) {
        self.lock().checks.push((name.into(), Box::new(check)));
    }

    /// Registers a loop that must tick at least once in every `limit`, beginning now.
    pub fn progress(&self, name: impl Into<String>, limit: Duration) -> ProgressHandle {
        let progress = Progress { name: name.into(), limit, last: Instant::now() };
        let mut state = self.lock();
        let id = state.take_id();
        state.loops.insert(id, progress);
        ProgressHandle { health: self.clone(), id }
    }

    /// Makes the process not ready for good, so that no new work is sent to it while it drains.
    pub fn shutting_down(&self) {
        self.lock().shutting_down = true;
    }

    /// What keeps the process from being ready; empty when it is.
    pub fn not_ready(&self) -> Vec<Failing> {
        let state = self.lock();
        let process = state
            .shutting_down
            .then(|| Failing { name: "process".to_owned(), reason: "shutting down".to_owned() });
        let components = state.components.values().filter_map(|component| {
            let reason = component.not_ready.clone()?;
            Some(Failing { name: component.name.clone(), reason })
        });
        let checks = state.checks.iter().filter_map(|(name, check)| {
            let reason = check()?;
            Some(Failing { name: name.clone(), reason })
        });
        process.into_iter().chain(components).chain(checks).collect()
    }

    /// The loops that made no progress within their limit; empty when the process is alive.
    pub fn stalled(&self) -> Vec<Failing> {
        let now = Instant::now();
        let state = self.lock();
        let stalled =
            state.loops.values().filter(|progress| now.duration_since(progress.last) > progress.limit);
        stalled
            .map(|progress| Failing {
                name: progress.name.clone(),
                reason: format!(
                    "no progress for {} s (limit {} s)",
                    now.duration_since(progress.last).as_secs(),
                    progress.limit.as_secs()
                ),
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every update is one assignment, so a panic elsewhere cannot leave a half-made state behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health")
            .field("not_ready", &self.not_ready())
            .field("stalled", &self.stalled())
            .finish()
    }
}

impl State {
    fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// The side of a component that reports; dropping it takes the component off the list.
#[derive(Debug)]
pub struct ComponentHandle {
    health: Health,
    id: u64,
}

impl ComponentHandle {
    /// Says that the component can do its work.
    pub fn ready(&self) {
        self.set(None);
    }

    /// Says that it cannot, and why.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Some(reason.into()));
    }

    fn set(&self, not_ready: Option<String>) {
        if let Some(component) = self.health.lock().components.get_mut(&self.id) {
            component.not_ready = not_ready;
        }
    }
}

impl Drop for ComponentHandle {
    fn drop(&mut self) {
        self.health.lock().components.remove(&self.id);
    }
}

/// The side of a loop that reports; dropping it takes the loop off the list.
#[derive(Debug)]
pub struct ProgressHandle {
    health: Health,
    id: u64,
}

impl ProgressHandle {
    /// Says that the loop went round.
    pub fn tick(&self) {
        if let Some(progress) = self.health.lock().loops.get_mut(&self.id) {
            progress.last = Instant::now();
        }
    }
}

impl Drop for ProgressHandle {
    fn drop(&mut self) {
        self.health.lock().loops.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_each_time_keeps_the_process_from_being_ready_as_long_as_it_says() {
        let (health, problem) = (Health::new(), Arc::new(Mutex::new(None)));
        let asked = problem.clone();
        health.check("store", move || asked.lock().unwrap().clone());
        assert_eq!(health.not_ready(), []);
        *problem.lock().unwrap() = Some("the disk is full".to_owned());
        assert_eq!(health.not_ready(), [Failing { name: "store".into(), reason: "the disk is full".into() }]);
        *problem.lock().unwrap() = None;
        assert_eq!(health.not_ready(), []);
    }

    #[test]
    fn ready_only_when_each_component_is() {
        let health = Health::new();
        assert_eq!(health.not_ready(), []);
        let (watch, store) = (health.component("watch"), health.component("store"));
        watch.ready();
        assert_eq!(health.not_ready(), [Failing { name: "store".into(), reason: "starting".into() }]);
        store.ready();
        assert_eq!(health.not_ready(), []);
        watch.not_ready("server unreachable");
        assert_eq!(health.not_ready()[0].to_string(), "watch: server unreachable");
    }

    #[test]
    fn a_component_that_is_gone_holds_nothing_up() {
        let health = Health::new();
        drop(health.component("watch"));
        assert_eq!(health.not_ready(), []);
    }

    #[test]
    fn a_process_that_shuts_down_is_not_ready() {
        let health = Health::new();
        health.shutting_down();
        assert_eq!(health.not_ready()[0].to_string(), "process: shutting down");
        assert_eq!(health.stalled(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_without_a_tick_within_its_limit_is_stalled() {
        let health = Health::new();
        let jobs = health.progress("watch jobs", Duration::from_mins(1));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(health.stalled(), []);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(health.stalled()[0].to_string(), "watch jobs: no progress for 61 s (limit 60 s)");
        jobs.tick();
        assert_eq!(health.stalled(), []);
        tokio::time::advance(Duration::from_secs(61)).await;
        drop(jobs);
        assert_eq!(health.stalled(), []);
    }
}
