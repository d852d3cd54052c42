//! Every script of `scripts/` is answered alike by both servers.

use std::path::Path;

use futures::StreamExt as _;
use windlass_conformance::{Intended, Pair, Script, compare, parse};

/// How many scripts run at a time.
const PARALLEL: usize = 8;

/// Plays only the scripts whose name contains this.
const ONLY: &str = "WINDLASS_CONFORMANCE_ONLY";
/// Prints the real server's answers.
const SHOW: &str = "WINDLASS_CONFORMANCE_SHOW";

fn scripts() -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let area = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        all.extend(parse(&area, &text).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
    }
    all
}

pub(crate) fn intended() -> Intended {
    Intended::parse(include_str!("../../intended.md")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_script_is_answered_alike() {
    let Some(pair) = Pair::start().await.unwrap() else { return };
    let only = std::env::var(ONLY).ok();
    let mut scripts = scripts();
    if let Some(only) = &only {
        scripts.retain(|script| script.name.contains(only.as_str()));
    }
    let count = scripts.len();
    let intended = intended();
    let mut compared: Vec<_> = futures::stream::iter(&scripts)
        .map(|script| compare(&pair, script, &intended))
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    compared.sort_by(|a, b| a.script.cmp(&b.script));
    if std::env::var_os(SHOW).is_some() {
        for (step, answer) in compared.iter().flat_map(|compared| &compared.answers) {
            eprintln!("{step}\n{answer:#}");
        }
    }
    let failed: Vec<String> =
        compared.iter().filter(|compared| !compared.is_equal()).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {count} scripts differ\n{}", failed.len(), failed.join("\n"));
    if only.is_none() {
        let unused = intended.unused();
        assert!(unused.is_empty(), "intended differences that no script meets: {unused:#?}");
    }
}
