//! Random scripts are answered alike by both servers.

use std::fmt::Write as _;
use std::ops::Range;

use futures::StreamExt as _;
use windlass_conformance::{Compared, Intended, Pair, Script, compare, generate};

use crate::scripts::intended;

/// A range of seeds in place of the fixed ones: `1000..3000`.
const SEEDS: &str = "WINDLASS_CONFORMANCE_SEEDS";
/// The seeds of every run.
const FIXED: Range<u64> = 0..40;
const STEPS: usize = 25;
const PARALLEL: usize = 8;
/// How many failing scripts are shrunk and shown as a whole; of the others the first difference is.
const SHOWN: usize = 3;
/// How often one script is played to shrink it.
const TRIES: usize = 60;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var(SEEDS) else { return FIXED };
    let (start, end) = text.split_once("..").expect("a range of seeds, as 0..40");
    start.parse().unwrap()..end.parse().unwrap()
}

/// A failing script without the steps that it does not need, and what differs.
async fn shortest(pair: &Pair, script: Script, intended: &Intended) -> String {
    let fails = |script: Script| async move {
        let compared = compare(pair, &script, intended).await;
        // A script that lacks what a step needs is another failure.
        compared.problems.is_empty() && !compared.steps.is_empty()
    };
    let shortest = generate::shrink(script, TRIES, fails).await;
    let compared = compare(pair, &shortest, intended).await;
    format!("{}\n{compared}", generate::render(&shortest))
}

/// The first difference, or why the script could not be played.
fn first(compared: &Compared) -> String {
    let Some(step) = compared.steps.first() else { return compared.problems.join("; ") };
    let places = step.differences.iter().take(1).map(ToString::to_string).collect::<String>();
    format!("line {}: {}\n{places}", step.line, step.summary)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_scripts_are_answered_alike() {
    let Some(pair) = Pair::start().await.unwrap() else { return };
    let (pair, intended) = (&*pair, &intended());
    let mut failed: Vec<(u64, Script, Compared)> = futures::stream::iter(seeds())
        .map(|seed| async move {
            let script = generate::script(seed, STEPS);
            let compared = compare(pair, &script, intended).await;
            (seed, script, compared)
        })
        .buffer_unordered(PARALLEL)
        .filter(|(_, _, compared)| std::future::ready(!compared.is_equal()))
        .collect()
        .await;
    failed.sort_by_key(|(seed, ..)| *seed);
    let mut shown = String::new();
    for (place, (seed, script, compared)) in failed.iter().enumerate() {
        writeln!(shown, "\nseed {seed} ({SEEDS}={seed}..{} plays it alone)", seed + 1).unwrap();
        if place < SHOWN && compared.problems.is_empty() {
            shown.push_str(&shortest(pair, script.clone(), intended).await);
        } else {
            shown.push_str(&first(compared));
        }
    }
    assert!(failed.is_empty(), "{} random scripts differ\n{shown}", failed.len());
}
