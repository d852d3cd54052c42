//! Waiting for a condition.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long anything may take before a test gives up on it: a watch connection lasts a minute, and machines are busy.
pub const DEADLINE: Duration = Duration::from_mins(3);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(50);

/// Asks until the answer is `Ok(Some(…))`, for at most [`DEADLINE`]. `Ok(None)` and errors mean "not yet"; the last error
/// is what a failure says.
pub async fn eventually<T, F>(what: &str, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let until = Instant::now() + DEADLINE;
    let mut interval = tokio::time::interval(LOOK);
    let mut last = String::from("nothing was seen");
    while Instant::now() < until {
        interval.tick().await;
        match ask().await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => {}
            Err(error) => last = format!("{error:#}"),
        }
    }
    bail!("{what}: not within {DEADLINE:?}; last: {last}")
}
