//! Random scripts are answered alike by both servers.

use futures::StreamExt as _;
use windlass_conformance::{Pair, Script, compare, generate};

use crate::scripts::intended;

/// A range of seeds: `1000..3000`.
const SEEDS: &str = "WINDLASS_CONFORMANCE_SEEDS";
/// The seeds of every run.
const FIXED: std::ops::Range<u64> = 0..40;
const STEPS: usize = 25;
const PARALLEL: usize = 8;
/// How many failing scripts are shrunk and shown.
const SHOWN: usize = 3;

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var(SEEDS) else { return FIXED };
    let (start, end) = text.split_once("..").expect("a range of seeds, as 0..40");
    start.parse().unwrap()..end.parse().unwrap()
}

#[ignore = "random scripts still find known differences: see not-yet.md"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_scripts_are_answered_alike() {
    let Some(pair) = Pair::start().await.unwrap() else { return };
    let intended = intended();
    let compared: Vec<_> = futures::stream::iter(seeds())
        .map(|seed| {
            let (pair, intended) = (&pair, &intended);
            async move {
                let script = generate::script(seed, STEPS);
                (compare(pair, &script, intended).await, script)
            }
        })
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    let mut failed: Vec<Script> =
        compared.into_iter().filter(|(compared, _)| !compared.is_equal()).map(|(_, script)| script).collect();
    failed.sort_by_key(|script| script.name.clone());
    let count = failed.len();
    let mut shown: Vec<String> = Vec::new();
    for script in failed.into_iter().take(SHOWN) {
        let fails = |script: Script| {
            let (pair, intended) = (&pair, &intended);
            async move {
                let compared = compare(pair, &script, intended).await;
                // A script that lacks what a step needs is another failure.
                compared.problems.is_empty() && !compared.steps.is_empty()
            }
        };
        let shortest = generate::shrink(script, fails).await;
        let compared = compare(&pair, &shortest, &intended).await;
        shown.push(format!("{}\n{compared}", generate::render(&shortest)));
    }
    assert!(count == 0, "{count} random scripts differ\n{}", shown.join("\n"));
}
