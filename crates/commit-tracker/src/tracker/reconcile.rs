//! One look at one Kustomization.

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use kube::Api;
use kube::core::DynamicObject;
use windlass_runtime::{ObjectKey, Requeue, deadline};
use windlass_telemetry::ErrorChain;

use super::lead::Work;
use super::plan::{pending, plan};
use super::queue::Task;
use super::sources::Known;
use super::state::{Example, MISSING, Waiting};
use crate::changes::{Changes, ChangesError, ChangesQuery, NoAnswer, ORIGIN_REVISION, Problem};
use crate::facts::{source_of, standing};
use crate::ledger::{
    Accounted, CommitCounts, Entry, LastApplied, LedgerError, Outcome, Pending, Record, mark_of,
};
use crate::measure::{FIRST_COMMIT, Measured, measure};
use crate::objects::{Kustomization, SecretRef, Source};
use crate::report;
use crate::{Revision, SourceKey, SourceKind, Standing, Step};

/// How long one request may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// What is said of a Kustomization whose source cannot be looked up.
const WAITING: &str =
    "the Kustomization's source is of a kind that cannot be listed, nothing is measured until it can be";

/// How far a commit's date may be ahead.
const AHEAD: Duration = Duration::from_hours(1);

/// A Kustomization with its source, as they are now.
pub(super) struct View {
    pub(super) standing: Standing,
    pub(super) source: Option<Arc<Source>>,
    /// The revision that its source has.
    pub(super) has: Option<Revision>,
}

impl Work {
    pub(super) async fn perform(&self, task: Task) -> Requeue {
        match task {
            Task::Reconcile(key) => Box::pin(self.reconcile(&key)).await,
            Task::Forget(key, uid) => Box::pin(self.forget(&key, &uid)).await,
        }
    }

    /// Observe, plan, account, look ahead.
    async fn reconcile(&self, key: &ObjectKey) -> Requeue {
        let Some(kustomization) = self.tracker.kustomizations.get(key) else { return Requeue::No };
        let view = match self.observe(kustomization) {
            Ok(Some(view)) => view,
            Ok(None) => return Requeue::No,
            Err(after) => return Requeue::After(after),
        };
        self.remark(&view);
        self.wait(&view);
        let stuck = match self.account(&view).await {
            Ok(stuck) => stuck,
            Err(requeue) => return requeue,
        };
        let coming = self.look_ahead(&view).await;
        stuck.into_iter().chain(coming).min().map_or(Requeue::No, Requeue::After)
    }

    /// What can be said of what waits before anybody was asked.
    fn wait(&self, view: &View) {
        let Standing { uid, suspended, steps, .. } = &view.standing;
        let entry = self.ledger.entry(uid);
        let coming = plan(&view.standing, view.has.as_ref(), entry.as_deref(), self.ledger.began()).coming;
        let is_settled = view.source.is_some() && coming.is_none();
        self.states.change(uid, |now| {
            now.suspended = *suspended;
            if is_settled {
                now.waiting = Waiting::Nothing;
            } else {
                now.look(|coming| steps.iter().any(|step| step.revision == *coming));
            }
        });
    }

    /// The Kustomization with its source; nothing while it is not known what its source says.
    fn observe(&self, kustomization: Arc<Kustomization>) -> Result<Option<View>, Duration> {
        let uid = &kustomization.metadata.uid;
        let known = source_of(&kustomization).map(|key| self.tracker.sources.get(&key));
        let source = match known {
            Some(Known::NotYet) => {
                let left = self.states.missing_for(uid);
                if left.is_none() && self.states.is_news(uid, WAITING) {
                    let ObjectKey { namespace, name } = &*kustomization.metadata.key;
                    tracing::warn!(name, namespace, "{WAITING}");
                }
                return left.map_or(Ok(None), Err);
            }
            Some(Known::There(source)) => Some(source),
            Some(Known::Gone) => match self.states.missing_for(uid) {
                Some(left) => return Err(left),
                None => None,
            },
            None => None,
        };
        if source.is_some() {
            self.states.found(uid);
        }
        let standing = standing(&kustomization, source.as_deref());
        let has = source.as_ref().and_then(|source| source.revision());
        Ok(Some(View { standing, source, has }))
    }

    /// Tells what keeps a Kustomization from being measured, once.
    fn remark(&self, view: &View) {
        let Standing { key, uid, source, suspended, steps, attempted, failing, .. } = &view.standing;
        let text = match (source, &view.source) {
            (None, _) => "the Kustomization names no source of a kind that is known, nothing is measured",
            (Some(_), None) => "the Kustomization's source is not there, nothing is measured until it is",
            _ if *suspended => "the Kustomization is suspended",
            _ if steps.is_empty() => "has not reconciled successfully yet, skipping",
            _ => return self.states.is_well(uid),
        };
        if self.states.is_news(uid, text) {
            let source = source.as_ref().map(ToString::to_string);
            let revision = attempted.as_ref().map(Revision::as_str);
            tracing::info!(name = key.name, namespace = key.namespace, source, revision, failing, "{text}");
        }
    }

    /// Accounts for every revision that was applied and is not accounted for, oldest first. Answers when to ask again about
    /// those that nobody can look into.
    async fn account(&self, view: &View) -> Result<Option<Duration>, Requeue> {
        let standing = &view.standing;
        let Some(source_key) = &standing.source else { return Ok(None) };
        let entry = self.ledger.entry(&standing.uid);
        let plan = plan(standing, None, entry.as_deref(), self.ledger.began());
        self.baseline(view, source_key, &plan.baseline).await?;
        let entry = self.ledger.entry(&standing.uid);
        let pending = pending(&plan.due, standing, entry.as_deref(), self.looking);
        let seen = Record { pending: pending.clone(), ..nothing(view, source_key, entry.as_deref()) };
        match &entry {
            // Its series begin at zero.
            None => self.record(seen).await?,
            // Its times are written down whatever comes of the question; what is answered at once goes with them.
            Some(entry) if entry.pending != pending => self.ledger.note(seen),
            Some(_) => {}
        }
        // What waits for the ledger alone, as all do at the first start, takes no room for the rest.
        Box::pin(self.look_into(view, source_key, plan.since, pending)).await
    }

    /// Finds the commits of what is pending, oldest first, and accounts for each. Answers when to ask again about those that
    /// nobody can look into.
    async fn look_into(
        &self,
        view: &View,
        source_key: &SourceKey,
        since: Timestamp,
        mut pending: Vec<Pending>,
    ) -> Result<Option<Duration>, Requeue> {
        let standing = &view.standing;
        let (mut next, mut stuck) = (0, None::<Duration>);
        while let Some(Pending { step, problem }) = pending.get(next).cloned() {
            next += 1;
            let began = self.tracker.clock.now();
            let entry = self.ledger.entry(&standing.uid);
            let accounted = entry.as_deref().map_or(&[][..], |entry| &entry.accounted);
            let found = self.find(view, source_key, accounted, &step.revision, step.origin.as_deref());
            let found = self.tracker.reporter.around(standing, &step, began, found).await;
            let answered = self.tracker.clock.now();
            let work =
                || report::Work { standing, step: &step, began, answered, ended: self.tracker.clock.now() };
            match found {
                Ok(changes) => {
                    let measured = &measure(&step, &changes, floor(since, entry.as_deref(), &changes));
                    // What waited before it came with it.
                    pending.drain(..next);
                    (next, stuck) = (0, None);
                    let known =
                        Record { pending: pending.clone(), ..nothing(view, source_key, entry.as_deref()) };
                    self.record(counted(known, &step, &changes, measured)).await?;
                    if let Some(trace) = self.tracker.reporter.measured(&work(), &changes, measured) {
                        let example = Example::new(trace, answered, &measured.observations);
                        self.states.change(&standing.uid, |now| now.example = Some(Arc::new(example)));
                    }
                }
                // The two are watched apart: what its source says of it may be on its way.
                Err(no) if no.error.problem.is_permanent() && is_ahead(view, &step, answered) => {
                    return Err(Requeue::After(MISSING));
                }
                Err(no) if no.error.problem.is_permanent() => {
                    // Its commits come with the next one, if that can be looked into.
                    stuck = Some(stuck.map_or(no.again, |before| before.min(no.again)));
                    let now = Some(no.error.problem);
                    if problem != now {
                        pending[next - 1].problem = now;
                        let outcome = problem.is_none().then_some(Outcome::Failed(no.error.problem));
                        let known = nothing(view, source_key, entry.as_deref());
                        self.record(Record { pending: pending.clone(), outcome, ..known }).await?;
                        self.tracker.reporter.failed(&work(), &no.error);
                    }
                }
                Err(no) => {
                    complain(view, &step.revision, &no);
                    return Err(Requeue::After(no.again));
                }
            }
        }
        Ok(stuck)
    }

    /// Asks for what the source has and nobody applied yet: how old its oldest commit is, and for an answer that is needed
    /// soon anyway. Answers when to ask again.
    async fn look_ahead(&self, view: &View) -> Option<Duration> {
        let View { standing, has, .. } = view;
        let entry = self.ledger.entry(&standing.uid);
        let plan = plan(standing, has.as_ref(), entry.as_deref(), self.ledger.began());
        let (coming, source_key) = plan.coming.zip(standing.source.as_ref())?;
        let accounted = entry.as_deref().map_or(&[][..], |entry| &entry.accounted);
        match Box::pin(self.find(view, source_key, accounted, coming, None)).await {
            Ok(changes) => {
                let since = floor(plan.since, entry.as_deref(), &changes).unwrap_or(Timestamp::MIN);
                let now = self.tracker.clock.now();
                let merged = changes.commits.iter().map(|commit| commit.merged);
                let oldest = merged.filter(|merged| *merged >= since && is_a_date(*merged, now)).min();
                let since = |oldest| Waiting::Since(Box::new((coming.clone(), oldest)));
                self.states.change(&standing.uid, |now| now.waiting = oldest.map_or(Waiting::Nothing, since));
                None
            }
            // What lasts is said when the revision is applied.
            Err(no) => {
                if no.error.problem.is_permanent() {
                    self.states.change(&standing.uid, |now| now.waiting = Waiting::Unknown);
                } else {
                    complain(view, coming, &no);
                }
                Some(no.again)
            }
        }
    }

    /// Which commits a revision brought over those that are accounted for.
    async fn find(
        &self,
        view: &View,
        key: &SourceKey,
        accounted: &[Accounted],
        to: &Revision,
        origin: Option<&str>,
    ) -> Result<Arc<Changes>, NoAnswer> {
        let Some(source) = &view.source else {
            let text = format!("failed to find the commits of {to}: {key} is not there");
            let error = Arc::new(ChangesError::new(Problem::NotFound, text));
            return Err(NoAnswer { error, again: MISSING, is_new: true });
        };
        let (spec, artifact) = (&source.spec, &source.status.artifact);
        let current = artifact.as_ref().filter(|_| view.has.as_ref() == Some(to));
        let metadata = current.map(|artifact| artifact.metadata.clone()).unwrap_or_default();
        let secret = |named: &Option<SecretRef>| {
            named.as_ref().filter(|_| self.tracker.source_secrets).map(|secret| secret.name.to_string())
        };
        let question = ChangesQuery {
            source: key.clone(),
            url: spec.url.as_deref().unwrap_or_default().to_owned(),
            insecure: spec.insecure,
            secret: secret(&spec.secret_ref),
            cert_secret: secret(&spec.cert_secret_ref),
            known: accounted.to_vec(),
            to: to.clone(),
            origin: origin.map(str::to_owned).or_else(|| metadata.get(ORIGIN_REVISION).cloned()),
            metadata,
            generation: source.metadata.generation,
        };
        self.tracker.ask.ask(&question).await
    }

    /// Takes revisions that were there before the tracker for accounted, all in one write.
    async fn baseline(&self, view: &View, source: &SourceKey, steps: &[&Step]) -> Result<(), Requeue> {
        let mut from = None;
        let records = steps.iter().map(|step| {
            let record = Record {
                from: from.replace(step.revision.clone()),
                to: Some(accounted(step)),
                outcome: Some(Outcome::Baseline),
                ..nothing(view, source, None)
            };
            self.record(record)
        });
        // In this order, since each is worked out from the one before.
        join_all(records.collect::<Vec<_>>()).await.into_iter().collect()
    }

    /// The ledger has the record when this returns: of the many that wait none holds one besides.
    fn record(&self, record: Record) -> impl Future<Output = Result<(), Requeue>> {
        let recorded = self.ledger.record(record);
        async move { self.recorded(recorded.await) }
    }

    fn recorded(&self, recorded: Result<(), LedgerError>) -> Result<(), Requeue> {
        self.tracker.metrics.recorded(recorded.is_ok());
        let mut failing = self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
        let Err(error) = recorded else {
            failing.clear();
            return Ok(());
        };
        let text = ErrorChain(&error).to_string();
        // Of a lost ledger everything is dropped in a moment, and whoever opens it says so.
        if failing.is_new(&text) && !error.is_lost() {
            tracing::error!(error = text, "what was measured cannot be recorded, trying again");
        }
        Err(Requeue::Backoff)
    }

    /// Forgets a Kustomization that is gone. One that is only not selected any more keeps what was counted.
    async fn forget(&self, key: &ObjectKey, uid: &Arc<str>) -> Requeue {
        let tracker = &self.tracker;
        if tracker.kustomizations.get(key).is_some_and(|found| found.metadata.uid == *uid) {
            return Requeue::No;
        }
        self.states.forget(uid);
        if !tracker.selected.is_everything() {
            let resource = Kustomization::resource();
            let api: Api<DynamicObject> =
                Api::namespaced_with(tracker.client.clone(), &key.namespace, &resource);
            match deadline(DEADLINE, format!("get Kustomization {key}"), api.get_opt(&key.name)).await {
                Ok(Some(found)) if found.metadata.uid.as_deref() == Some(&**uid) => return Requeue::No,
                Ok(_) => {}
                // Not ours to see.
                Err(error) if error.code() == Some(403) => return Requeue::No,
                Err(error) => {
                    tracing::debug!(error = %ErrorChain(&error), "looking again whether a Kustomization is gone");
                    return Requeue::Backoff;
                }
            }
        }
        tracing::info!(
            name = key.name,
            namespace = key.namespace,
            uid = &**uid,
            "kustomization not found, forgetting it"
        );
        self.ledger.forget(uid);
        Requeue::No
    }
}

/// From when on commits count, where that is not all that are new: from the first sight on while nothing is accounted for,
/// or where an artifact is older than what is; from what was applied last on where the history has nothing in common.
fn floor(first_sight: Timestamp, entry: Option<&Entry>, changes: &Changes) -> Option<Timestamp> {
    match entry.filter(|entry| !entry.accounted.is_empty()) {
        None => Some(first_sight),
        Some(entry) if changes.unrelated => {
            Some(entry.last.as_ref().map_or(entry.began, |last| last.applied.max(entry.began)))
        }
        Some(_) => changes.older.then_some(first_sight),
    }
}

/// Whether a step was ready a moment ago and is not what is known of its source, which may say more of it: of a commit of
/// Git nobody needs that.
fn is_ahead(view: &View, step: &Step, now: Timestamp) -> bool {
    let is_git = view.standing.source.as_ref().is_some_and(|key| key.kind == SourceKind::GitRepository);
    view.source.is_some()
        && !is_git
        && view.has.as_ref() != Some(&step.revision)
        && now.duration_since(step.ready).unsigned_abs() < MISSING
}

fn accounted(step: &Step) -> Accounted {
    Accounted { revision: step.revision.clone(), origin: step.origin.as_deref().map(Into::into) }
}

/// Whether a commit's date can be one at this time, which may be as far away as a status says.
fn is_a_date(merged: Timestamp, now: Timestamp) -> bool {
    let ahead = now.saturating_add(AHEAD).unwrap_or(Timestamp::MAX);
    (FIRST_COMMIT..=ahead).contains(&merged)
}

/// A record that says nothing new over what is remembered.
fn nothing(view: &View, source: &SourceKey, entry: Option<&Entry>) -> Record {
    let Standing { key, uid, .. } = &view.standing;
    Record {
        uid: Arc::clone(uid),
        key: Arc::clone(key),
        source_kind: source.kind,
        from: entry.and_then(|entry| entry.newest().cloned()),
        to: None,
        skipped: Vec::new(),
        observations: Vec::new(),
        commits: CommitCounts::default(),
        outcome: None,
        last: None,
        pending: entry.map(|entry| entry.pending.clone()).unwrap_or_default(),
    }
}

/// The same with what is to be remembered of a revision that was measured.
fn counted(known: Record, step: &Step, changes: &Changes, measured: &Measured) -> Record {
    let Measured { counted, baseline, skewed, .. } = *measured;
    let outcome = if measured.truncated {
        Outcome::Truncated
    } else if changes.rewritten {
        Outcome::Rewritten
    } else if changes.incomplete {
        Outcome::Incomplete
    } else if counted + skewed > 0 {
        Outcome::Measured
    } else if baseline > 0 {
        Outcome::Baseline
    } else {
        Outcome::Empty
    };
    let applied = measured.ready.unwrap_or(step.ready);
    let dated = measured.commits.iter().rev().find(|commit| is_a_date(commit.commit.merged, applied));
    let last = dated.map(|newest| LastApplied {
        commit: newest.commit.id.as_str().into(),
        merged: newest.commit.merged,
        applied,
    });
    Record {
        to: Some(accounted(step)),
        skipped: changes.skipped.iter().map(|digest| mark_of(digest)).collect(),
        observations: measured.observations.clone(),
        commits: CommitCounts { counted, baseline, skewed },
        outcome: Some(outcome),
        last,
        ..known
    }
}

/// Tells of a failure that may mend itself, once until it is another one.
fn complain(view: &View, revision: &Revision, no: &NoAnswer) {
    let ObjectKey { namespace, name } = &*view.standing.key;
    let (problem, again) = (no.error.problem.name(), no.again.as_secs());
    let error = ErrorChain(&*no.error);
    if no.is_new {
        tracing::warn!(name, namespace, revision = %revision, problem, again, %error, "the revision's commits were not found yet, trying again");
    } else {
        tracing::debug!(name, namespace, revision = %revision, problem, again, %error, "the revision's commits were not found yet");
    }
}
