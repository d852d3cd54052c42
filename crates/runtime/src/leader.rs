//! Leader election over a `coordination.k8s.io/v1` Lease: of several replicas, one works.
//!
//! Nobody's wall clock is compared with anybody else's. A replica that stands by takes the Lease over once it has *not
//! seen it change* for the Lease's duration, on its own monotonic clock. The leader counts from the moment it *sent* the
//! last renewal that was answered, and stops writing after the renew deadline, which is shorter: by the time that
//! somebody else may lead, it has stopped. The difference between the two covers clocks that run at different speeds.
//!
//! What was on its way when a process was paused is not stopped by any clock. That is why every write under a [`Term`]
//! also names the version it was made from.
//!
//! The record is written as client-go writes it, so that `kubectl get lease` and dashboards read it.

mod record;
mod term;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_telemetry::{ComponentHandle, ErrorChain, Health};

use self::record::{Observed, Record, Standing};
pub use self::term::{Leadership, NotLeading, Term};
use crate::log_on_change::LogOnChange;
use crate::{CallError, Clock};

/// A process is not ready after this many failed attempts in a row.
const FAILURES_BEFORE_NOT_READY: u32 = 3;

/// Which Lease is held, by whom, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderConfig {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// Tells this process apart from every other one, earlier ones of the same host included.
    pub identity: String,
    /// How long a Lease that is not seen to change is respected. Written in whole seconds, rounded up.
    pub lease_duration: Duration,
    /// How long after its last renewal a leader may write.
    pub renew_deadline: Duration,
    /// How often the Lease is renewed, and looked at by those that stand by.
    pub retry_period: Duration,
}

/// Times of an election that do not go together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to set up leader election: {0}")]
pub struct LeaderConfigError(String);

impl LeaderConfig {
    /// The times that client-go has by default: 15 s, 10 s and 2 s.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    fn check(&self) -> Result<(), LeaderConfigError> {
        let refused = |text: String| Err(LeaderConfigError(text));
        let Self { lease_duration, renew_deadline, retry_period, .. } = self;
        if renew_deadline >= lease_duration {
            return refused(format!(
                "the renew deadline ({renew_deadline:?}) has to be shorter than the lease duration ({lease_duration:?}), \
                 so that a leader stops before another one begins"
            ));
        }
        if *retry_period * 2 > *renew_deadline || retry_period.is_zero() {
            return refused(format!(
                "the retry period ({retry_period:?}) has to be above 0 and at most half of the renew deadline \
                 ({renew_deadline:?}), so that one lost renewal is made up for"
            ));
        }
        Ok(())
    }

    /// The most time that one call may take: three fit into the renew deadline.
    fn call_deadline(&self) -> Duration {
        self.renew_deadline / 3
    }
}

/// One replica's part in an election.
pub struct LeaderElection {
    record: Record,
    config: LeaderConfig,
    terms: watch::Sender<Option<Term>>,
    observed: Observed,
    /// What was logged about standing by, and about failing.
    standing_by: LogOnChange,
    failing: LogOnChange,
    failures: u32,
}

/// What an attempt to become leader came to.
enum Attempt {
    /// The Lease is ours, by a write that was sent at that moment.
    Acquired(Box<Lease>, Instant),
    /// It is somebody else's, who is respected until then at least.
    Held { by: String, until: Instant },
}

impl LeaderElection {
    /// A part in the election that `config` names, not begun yet. `clock` is for what is written into the Lease only.
    ///
    /// # Errors
    /// The times do not go together.
    pub fn new(
        client: Client,
        config: LeaderConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, LeaderConfigError> {
        config.check()?;
        let (terms, _) = watch::channel(None);
        Ok(Self {
            record: Record::new(client, &config, clock),
            observed: Observed::new(config.lease_duration),
            config,
            terms,
            standing_by: LogOnChange::default(),
            failing: LogOnChange::default(),
            failures: 0,
        })
    }

    /// Tells whether this process leads.
    pub fn leadership(&self) -> Leadership {
        Leadership::following(self.terms.subscribe())
    }

    /// Stands for election until `stop`; then gives the Lease back if it is held. Cancel `stop` after the last write.
    ///
    /// A process is ready as soon as it could read the Lease: one that stands by is ready to take over.
    pub async fn run(mut self, health: Health, stop: CancellationToken) {
        let component = health.component("leader election");
        component.not_ready("the Lease was not read yet");
        while let Some((lease, sent)) = stop.run_until_cancelled(self.acquire(&component)).await {
            self.lead(lease, sent, &component, &stop).await;
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Tries to become leader until it works.
    async fn acquire(&mut self, component: &ComponentHandle) -> (Lease, Instant) {
        loop {
            let mut next = Instant::now() + jittered(self.config.retry_period);
            match self.attempt().await {
                Ok(Attempt::Acquired(lease, sent)) => {
                    self.answered(component);
                    self.standing_by.clear();
                    return (*lease, sent);
                }
                Ok(Attempt::Held { by, until }) => {
                    self.answered(component);
                    if self.standing_by.is_new(&by) {
                        tracing::info!(lease = %self.config.name, leader = by, "standing by");
                    }
                    next = next.min(until.max(Instant::now()) + jittered(self.config.retry_period) / 8);
                }
                Err(error) => self.failed(component, &error),
            }
            sleep_until(next).await;
        }
    }

    async fn attempt(&mut self) -> Result<Attempt, CallError> {
        let Some(lease) = self.record.read().await? else {
            // A Lease that was held and is deleted has an owner that does not know yet.
            let until = self.observed.vanished(&self.config.identity);
            if until > Instant::now() {
                return Ok(Attempt::Held { by: "nobody: the Lease was deleted".to_owned(), until });
            }
            let sent = Instant::now();
            return self.granted(sent, self.record.create().await);
        };
        match self.observed.standing(&lease, &self.config.identity) {
            Standing::Held { by, until } if until > Instant::now() => Ok(Attempt::Held { by, until }),
            _ => {
                let sent = Instant::now();
                self.granted(sent, self.record.take(&lease).await)
            }
        }
    }

    fn granted(&mut self, sent: Instant, answer: Result<Lease, CallError>) -> Result<Attempt, CallError> {
        match answer {
            Ok(lease) => {
                self.observed.standing(&lease, &self.config.identity);
                Ok(Attempt::Acquired(Box::new(lease), sent))
            }
            Err(error) if error.is_conflict() || error.is_already_exists() || error.is_not_found() => {
                let by = "somebody else, who was faster".to_owned();
                Ok(Attempt::Held { by, until: Instant::now() + self.config.retry_period })
            }
            Err(error) => Err(error),
        }
    }

    /// Leads until the Lease is lost, or `stop`.
    async fn lead(
        &mut self,
        mut lease: Lease,
        sent: Instant,
        component: &ComponentHandle,
        stop: &CancellationToken,
    ) {
        let term = Term::until(sent + self.config.renew_deadline);
        let _ends = term.clone().ends_with_this();
        self.terms.send_replace(Some(term.clone()));
        tracing::info!(lease = %self.config.name, identity = %self.config.identity, "leading");
        let mut next = sent + self.config.retry_period;
        let lost = loop {
            tokio::select! {
                biased;
                () = term.ended() => break "it was not renewed in time".to_owned(),
                () = stop.cancelled() => {
                    term.end();
                    self.release(&lease).await;
                    return;
                }
                () = sleep_until(next) => {}
            }
            let sent = Instant::now();
            let renewed = tokio::select! {
                biased;
                () = term.ended() => break "it was not renewed in time".to_owned(),
                renewed = self.renew(&lease) => renewed,
            };
            match renewed {
                Ok(Renewed::Until(renewed)) => {
                    if !term.extend(sent + self.config.renew_deadline) {
                        break "it was renewed too late".to_owned();
                    }
                    lease = *renewed;
                    self.answered(component);
                    next = sent + self.config.retry_period;
                }
                Ok(Renewed::Changed(newest)) => {
                    lease = *newest;
                    next = Instant::now();
                }
                Ok(Renewed::Lost(why)) => break why,
                Err(error) => {
                    self.failed(component, &error);
                    next = Instant::now() + jittered(self.config.retry_period) / 2;
                }
            }
        };
        term.end();
        self.terms.send_replace(None);
        tracing::warn!(lease = %self.config.name, why = lost, "no longer leading");
    }

    async fn renew(&mut self, lease: &Lease) -> Result<Renewed, CallError> {
        let refused = match self.record.renew(lease).await {
            Ok(renewed) => return Ok(Renewed::Until(Box::new(renewed))),
            Err(error) => error,
        };
        if !refused.is_conflict() && !refused.is_not_found() {
            return Err(refused);
        }
        // A renewal of ours that was not answered, or somebody who labels Leases, is no reason to stop.
        let Some(newest) = self.record.read().await? else {
            self.observed.vanished(&self.config.identity);
            return Ok(Renewed::Lost("the Lease was deleted".to_owned()));
        };
        Ok(match self.observed.standing(&newest, &self.config.identity) {
            Standing::Ours => Renewed::Changed(Box::new(newest)),
            Standing::Held { by, .. } => Renewed::Lost(format!("{by} leads")),
            Standing::Free => Renewed::Lost("the Lease was given away".to_owned()),
        })
    }

    async fn release(&mut self, lease: &Lease) {
        self.terms.send_replace(None);
        match self.record.release(lease).await {
            Ok(_released) => tracing::info!(lease = %self.config.name, "gave the Lease back"),
            Err(error) => {
                tracing::warn!(lease = %self.config.name, error = %ErrorChain(&error), "the Lease runs out by itself");
            }
        }
    }

    fn answered(&mut self, component: &ComponentHandle) {
        self.failures = 0;
        self.failing.clear();
        component.ready();
    }

    /// Reports a failure when it is new, and the process as not ready when failures go on.
    fn failed(&mut self, component: &ComponentHandle, error: &CallError) {
        self.failures += 1;
        let mut text = ErrorChain(error).to_string();
        let lasting = matches!(error.code(), Some(401 | 403));
        if lasting {
            text.push_str("; give this account the right: see deploy/rbac");
        }
        if self.failing.is_new(&text) {
            tracing::warn!(lease = %self.config.name, error = text, "the Lease cannot be used");
        }
        if lasting || self.failures >= FAILURES_BEFORE_NOT_READY {
            component.not_ready(text);
        }
    }
}

/// What a renewal came to.
enum Renewed {
    /// The Lease is ours for another while.
    Until(Box<Lease>),
    /// It is ours, and is at another version than we knew: renew it from there.
    Changed(Box<Lease>),
    /// It is not ours any more.
    Lost(String),
}

/// Up to a fifth longer, so that replicas do not ask at the same moment for ever.
fn jittered(period: Duration) -> Duration {
    period.mul_f64(1.0 + 0.2 * rand::random::<f64>())
}
