//! The payloads that GitHub publishes as examples of its webhooks, for the tests of the receiver: each of them once,
//! packed, since they say much the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use anyhow::{Context as _, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::npm::Package;
use crate::shell::root;

/// The package with the examples, and the version that was taken.
const PACKAGE: &str = "@octokit/webhooks-examples";
const VERSION: &str = "7.6.1";
/// Where they go.
const TARGET: &str = "crates/repository/src/webhook/examples.json.gz";

pub(crate) fn run() -> Result<()> {
    let package = Package::fetch(PACKAGE, VERSION)?;
    let license = package.json("package.json")?["license"].clone();
    let mut events: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // github.com, and each GitHub Enterprise Server by itself.
    for folder in std::fs::read_dir(package.path())? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() {
            continue;
        }
        let index = package.json(folder.path().join("index.json"))?;
        for event in index.as_array().context("the index is no list")? {
            let name = event["name"].as_str().context("an event without a name")?;
            let examples = event["examples"].as_array().context("an event without examples")?;
            events.entry(name.to_owned()).or_default().extend(examples.iter().map(Value::to_string));
        }
    }
    let count: usize = events.values().map(BTreeSet::len).sum();
    let parsed = |texts: BTreeSet<String>| -> Result<Vec<Value>> {
        texts.iter().map(|text| Ok(serde_json::from_str(text)?)).collect()
    };
    let events = events
        .into_iter()
        .map(|(name, texts)| Ok((name, parsed(texts)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let from = json!({"package": PACKAGE, "version": VERSION, "license": license});
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(json!({"from": from, "events": events}).to_string().as_bytes())?;
    let packed = packed.finish()?;
    std::fs::write(root().join(TARGET), &packed)?;
    println!("wrote {TARGET}: {count} examples, {} bytes", packed.len());
    Ok(())
}
