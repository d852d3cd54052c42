//! What the machine gives: the other figures cannot be better.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

/// How long is measured, in so many pieces.
const PIECE: Duration = Duration::from_millis(300);
const PIECES: usize = 5;

pub(crate) fn measure(table: &mut Table) -> Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![0; 1 << 20])?;
    file.sync_all()?;
    let mut rates = Vec::new();
    for _ in 0..PIECES {
        let (started, mut count) = (Instant::now(), 0_u64);
        while started.elapsed() < PIECE {
            file.write_all_at(&[1; 4096], count % 256 * 4096)?;
            file.sync_data()?;
            count += 1;
        }
        rates.push(count as f64 / started.elapsed().as_secs_f64());
    }
    let processors = std::thread::available_parallelism()?;
    let row = Row::new("machine: fdatasync of 4 KB", Target::None, Unit::PerSecond, Samples::new(rates));
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let note =
        format!("{processors} processors, shared by the servers and the benchmark; load at the start {load}");
    table.add(row.note(note));
    Ok(())
}
