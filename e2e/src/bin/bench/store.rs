//! The store's file: its size after every dashboard was changed ten times, each time by a pull, and writes to one of ten
//! gigabytes.

use std::time::Duration;

use anyhow::{Result, bail};
use windlass_e2e::{Remote, Server};

use crate::api::{Api, DASHBOARDS, FOLDERS, HISTORY, REPOSITORIES};
use crate::samples::Samples;
use crate::scene::{self, Separate};
use crate::server::{SMALL, document, load};
use crate::table::{Row, Table, Target, Unit};
use crate::writes::CLIENTS;

const COUNT: usize = 10_000;
const CHANGES: usize = 10;
/// What fills a store: as large as still fits half a megabyte, in which the database keeps it.
const FILLER: usize = 500_000;
/// How many of them are a gigabyte.
const FILLERS: usize = 2_000;
/// Objects of two kilobytes that are created, and measured, between.
const MEASURED: usize = 20_000;
const DEADLINE: Duration = Duration::from_mins(30);

pub(crate) async fn measure(table: &mut Table, large: bool) -> Result<()> {
    changed(table).await?;
    if large { filled(table).await } else { Ok(()) }
}

/// The slowest hundredth of creates while the store has one gigabyte, and while it has ten.
async fn filled(table: &mut Table) -> Result<()> {
    let server = Server::start(&[]).await?;
    let api = Api::of(&server).await?;
    let (mut next, mut held) = (0, 0);
    let mut p99s = Vec::new();
    for gigabytes in [1, 10] {
        let more = gigabytes * FILLERS - held;
        held += more;
        load(&api, next..next + more, CLIENTS, DEADLINE, |number| document(number, 8, FILLER)).await?;
        next += more;
        let loaded =
            load(&api, next..next + MEASURED, CLIENTS, DEADLINE, |number| document(number, 8, SMALL)).await?;
        if loaded.times.len() < MEASURED {
            bail!("{MEASURED} objects were not created in {DEADLINE:?}");
        }
        next += MEASURED;
        let p99 = Samples::millis(loaded.times).percentile(99);
        let figure = format!("store of {gigabytes} GB: p99 of a create of 2 KB");
        let file = std::fs::metadata(server.folder.path().join("data/store.redb"))?.len() as f64;
        let note = format!("{:.0} a second, file of {:.1} GB", loaded.rate, file / 1e9);
        table.add(Row::new(figure, Target::None, Unit::Millis, Samples::one(p99)).note(note));
        p99s.push(p99);
    }
    let ratio = Samples::one(p99s[1] / p99s[0]);
    table.add(Row::new("store of 10 GB ÷ 1 GB: p99 of a create", Target::AtMost(2.0), Unit::Times, ratio));
    Ok(())
}

async fn changed(table: &mut Table) -> Result<()> {
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
