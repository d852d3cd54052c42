//! Our ignore rules against Flux's own package, over random patterns and paths.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use windlass_artifact::Rules;

const CASES: usize = 12_000;
const PATHS: usize = 12;
/// Segments of patterns, the malformed ones included.
const SEGMENTS: [&str; 22] = [
    "a",
    "b",
    "ab",
    "*",
    "a*",
    "*b",
    "?",
    "**",
    "**",
    "a**",
    "[ab]",
    "[^a]",
    "[a-",
    "[",
    "\\a",
    "a\\",
    "x.png",
    "*.png",
    ".git",
    ".gitignore",
    "",
    ".github",
];
const NAMES: [&str; 10] = ["a", "b", "ab", "ba", "c", "x.png", ".git", ".gitignore", ".github", ".flux.yaml"];

fn pattern(chance: &mut StdRng) -> String {
    let mut text = String::new();
    if chance.random_ratio(1, 20) {
        text.push_str(["# ", "#", " ", "\\ ", "   "].choose(chance).unwrap());
    }
    if chance.random_ratio(1, 3) {
        text.push('!');
    }
    if chance.random_ratio(1, 3) {
        text.push('/');
    }
    let segments: Vec<&str> =
        (0..chance.random_range(1..4)).map(|_| *SEGMENTS.choose(chance).unwrap()).collect();
    text.push_str(&segments.join("/"));
    if chance.random_ratio(1, 4) {
        text.push('/');
    }
    if chance.random_ratio(1, 10) {
        text.push_str(["  ", "\\ "].choose(chance).unwrap());
    }
    text
}

fn path(chance: &mut StdRng) -> String {
    let names: Vec<&str> = (0..chance.random_range(1..5)).map(|_| *NAMES.choose(chance).unwrap()).collect();
    names.join("/")
}

#[tokio::test]
async fn ignore_rules_leave_out_what_flux_leaves_out() {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/sourceignore");
    let program = tokio::task::spawn_blocking(move || windlass_cluster::go_program(&module)).await.unwrap();
    let Some(program) = program.unwrap() else { return };
    let seed = rand::rng().random();
    let mut chance = StdRng::seed_from_u64(seed);
    let (mut input, mut cases) = (String::new(), Vec::new());
    for _ in 0..CASES {
        let mut files = Vec::new();
        for directory in ["", "a", "a/b"] {
            if chance.random_ratio(1, 2) {
                let lines: Vec<String> =
                    (0..chance.random_range(0..4)).map(|_| pattern(&mut chance)).collect();
                files.push((directory, lines.join("\n")));
            }
        }
        let paths: Vec<(String, bool)> =
            (0..PATHS).map(|_| (path(&mut chance), chance.random_bool(0.3))).collect();
        let shown_files: Vec<_> =
            files.iter().map(|(at, text)| json!({"directory": at, "text": text})).collect();
        let shown: Vec<_> = paths.iter().map(|(path, is)| json!({"path": path, "directory": is})).collect();
        input.push_str(&json!({"files": shown_files, "paths": shown}).to_string());
        input.push('\n');
        cases.push((files, paths));
    }
    let mut child = tokio::process::Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let give = async move { stdin.write_all(input.as_bytes()).await.unwrap() };
    let ((), done) = tokio::join!(give, child.wait_with_output());
    let answers = String::from_utf8(done.unwrap().stdout).unwrap();
    assert_eq!(answers.lines().count(), CASES);
    for ((files, paths), answer) in cases.iter().zip(answers.lines()) {
        let named: BTreeMap<String, Vec<u8>> = files
            .iter()
            .map(|(at, text)| {
                let directory = if at.is_empty() { String::new() } else { format!("{at}/") };
                (format!("{directory}.sourceignore"), text.clone().into_bytes())
            })
            .collect();
        let rules = Rules::new(&named, None).unwrap();
        let ours: String =
            paths.iter().map(|(path, is)| if rules.ignores(path, *is) { '1' } else { '0' }).collect();
        assert_eq!(ours, answer, "seed {seed}: {files:#?} {paths:#?}");
    }
}
