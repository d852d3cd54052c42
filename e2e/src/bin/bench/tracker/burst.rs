//! Many Kustomizations that apply something at once.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::Instant;
use windlass_e2e::flux::Tracker;

use super::fleet::{Fleet, Way};
use super::{DEADLINE, processor, settled};
use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

/// Revisions that are applied at once.
const BURST: usize = 1_000;
/// Where there is room for one more burst.
pub(super) const LAST: usize = 3 * BURST;
/// How long it may take until the last commit is told.
const SOON: Target = Target::AtMost(1500.0);

/// So many Kustomizations, beginning with this number, that apply these commits.
struct Burst<'a> {
    what: String,
    way: Way<'a>,
    first: usize,
    commits: &'a [String],
    /// How many distinct commits there are.
    distinct: usize,
}

/// A burst of distinct revisions, one of the same revision for all, and one that the API server does not slow down. Takes
/// the first 3,000 Kustomizations.
pub(super) async fn all(table: &mut Table, fleet: &Fleet, tracker: &Tracker, beneath: Way<'_>) -> Result<()> {
    let distinct = fleet.branches(BURST).await?;
    let what = format!("tracker: {BURST} distinct revisions of one repository");
    let burst = Burst { what, way: Way::ApiServer, first: 0, commits: &distinct, distinct: BURST };
    burst.measure(table, fleet, tracker).await?;
    let one = fleet.branches(1).await?.pop().context("no commit was made")?;
    let (what, shared) =
        (format!("tracker: one revision, applied by {BURST} Kustomizations"), vec![one; BURST]);
    let burst = Burst { what, way: Way::ApiServer, first: BURST, commits: &shared, distinct: 1 };
    burst.measure(table, fleet, tracker).await?;
    let what = format!("tracker: {BURST} distinct revisions, written to etcd");
    self::distinct(table, fleet, tracker, beneath, 2 * BURST, what).await
}

/// A burst of distinct revisions, from this Kustomization on.
pub(super) async fn distinct(
    table: &mut Table,
    fleet: &Fleet,
    tracker: &Tracker,
    way: Way<'_>,
    first: usize,
    what: String,
) -> Result<()> {
    let commits = fleet.branches(BURST).await?;
    Burst { what, way, first, commits: &commits, distinct: BURST }.measure(table, fleet, tracker).await
}

impl Burst<'_> {
    async fn measure(&self, table: &mut Table, fleet: &Fleet, tracker: &Tracker) -> Result<()> {
        let Self { what, commits, .. } = self;
        let written = fleet.prepare(self.first, commits, self.way).await?;
        let (told, asked, used) = (told(tracker), fleet.remote.requests(), processor(tracker)?);
        let recorded = fleet.ledger_writes().await?;
        let started = Instant::now();
        fleet.write(written).await?;
        let written = started.elapsed();
        let mut interval = tokio::time::interval(Duration::from_millis(20));
        while self::told(tracker) < told + commits.len() {
            interval.tick().await;
            if started.elapsed() > DEADLINE {
                let found = self::told(tracker) - told;
                bail!("{found} of {} commits were measured in {DEADLINE:?}", commits.len());
            }
        }
        let took = started.elapsed();
        let note = format!("{:.2} s of processor", processor(tracker)? - used);
        let figure = format!("{what}: until the statuses are written");
        table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis([written])));
        let figure = format!("{what}: from the last status to the last commit told");
        let after = Samples::millis([took.saturating_sub(written)]);
        table.add(Row::new(figure, SOON, Unit::Millis, after).note(note));
        let figure = format!("{what}: from the first status to the last commit told");
        // Where it waits for the API server's own work, it says nothing of the tracker.
        let target = if matches!(self.way, Way::Etcd(_)) { SOON } else { Target::None };
        table.add(Row::new(figure, target, Unit::Millis, Samples::millis([took])));
        settled(tracker).await?;
        let requests = fleet.remote.requests() - asked;
        let share = Samples::one(requests as f64 / self.distinct as f64);
        let figure = format!("{what}: Git requests per distinct revision");
        let note = format!("{requests} requests");
        table.add(Row::new(figure, Target::AtMost(1.0), Unit::Times, share).note(note));
        let writes = fleet.ledger_writes().await? - recorded;
        let share = Samples::one(writes / commits.len() as f64);
        let figure = format!("{what}: writes to the API per revision of a Kustomization");
        table.add(
            Row::new(figure, Target::AtMost(2.0), Unit::Times, share).note(format!("{writes:.0} writes")),
        );
        let counted = self::told(tracker) - told;
        if counted != commits.len() {
            bail!("{counted} commits were told of {}", commits.len());
        }
        Ok(())
    }
}

/// How many commits it told so far.
fn told(tracker: &Tracker) -> usize {
    tracker.process.count(windlass_e2e::flux::TOLD)
}
