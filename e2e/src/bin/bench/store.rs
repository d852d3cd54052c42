//! The size of the store's file after every dashboard was changed ten times, each time by a pull.

use anyhow::Result;
use windlass_e2e::Remote;

use crate::api::{DASHBOARDS, FOLDERS, HISTORY, REPOSITORIES};
use crate::samples::Samples;
use crate::scene::{self, Separate};
use crate::table::{Row, Table, Target, Unit};

const COUNT: usize = 10_000;
const CHANGES: usize = 10;

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let remote = Remote::new(scene::files(COUNT)?).await?;
    let scene = Separate::start(&remote, "bench").await?;
    scene.api.pull("bench", false).await?;
    let file = scene.server.folder.path().join("data/store.redb");
    let (first_size, first_live) = (std::fs::metadata(&file)?.len() as f64, live(&scene).await?);
    let mut times = Vec::new();
    for edition in 1..=CHANGES {
        let changes = (0..COUNT).map(|number| {
            let (path, text) = scene::file(number, edition)?;
            Ok((path, Some(text)))
        });
        remote.commit(changes.collect::<Result<_>>()?).await?;
        // A full pull compares with a list of everything, whose snapshots keep old pages alive.
        times.push(scene.api.pull("bench", edition % 2 == 0).await?);
    }
    let (size, live) = (std::fs::metadata(&file)?.len() as f64, live(&scene).await?);
    let figure = format!("store: file ÷ live data after {COUNT} were changed {CHANGES} times");
    let note = format!(
        "{:.0} MB ÷ {:.0} MB; {:.2}× after the first pull",
        size / 1e6,
        live / 1e6,
        first_size / first_live
    );
    table.add(Row::new(figure, Target::AtMost(3.0), Unit::Times, Samples::one(size / live)).note(note));
    let figure = format!("store: a pull in which all {COUNT} changed");
    table.add(Row::new(figure, Target::None, Unit::Millis, Samples::millis(times)));
    Ok(())
}

/// Bytes of everything that the API holds, as it lists it.
async fn live(scene: &Separate) -> Result<f64> {
    let mut bytes = 0;
    for collection in [DASHBOARDS, FOLDERS, HISTORY, REPOSITORIES] {
        bytes += scene.api.get(collection).await?.len();
    }
    Ok(bytes as f64)
}
