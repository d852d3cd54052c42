//! Measures the file store: durable commits a second, lists, and the file's size beside the live data.
//!
//! `cargo run --release -p windlass-store --example store_bench [-- FOLDER]`; without a folder, a temporary one.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures and may stop at any error"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use windlass_store::{Key, Op, Page, Precondition, Range, Store, StoreOptions, Write, open_file};

const OBJECTS: usize = 10_000;
const OBJECT_BYTES: usize = 5 * 1024;
const REWRITES: usize = 10;
const CLIENTS: usize = 32;
const MEASURED: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::args().nth(1).map_or_else(|| temporary.path().to_owned(), Into::into);
    let path = folder.join("store_bench.redb");
    let _ = std::fs::remove_file(&path);
    let store = open_file(&path, &StoreOptions::default()).unwrap();

    for clients in [1, CLIENTS] {
        let (commits, elapsed) = commits(&store, clients, 600).await;
        println!(
            "{clients:>2} clients: {:>8.0} durable commits/s (600 bytes)",
            commits as f64 / elapsed.as_secs_f64()
        );
    }
    clear(&store).await;

    for (kind, make) in [("dashboards", dashboard as fn(usize, usize) -> Vec<u8>), ("random bytes", noise)] {
        clear(&store).await;
        for round in 0..=REWRITES {
            let started = Instant::now();
            let live = rewrite(&store, round, make).await;
            let size = file_size(&path);
            println!(
                "{kind}, round {round:>2}: {OBJECTS} objects, {:.1} MB, by {CLIENTS} clients in {:.2?}; file {:.1} MB = {:.2} x live data",
                live as f64 / 1e6,
                started.elapsed(),
                size as f64 / 1e6,
                size as f64 / live as f64
            );
        }
        lists(&store).await;
    }
    clear(&store).await;
    println!("all deleted: file {:.1} MB", file_size(&path) as f64 / 1e6);
}

async fn lists(store: &Arc<dyn Store>) {
    println!("resident memory: {}", resident());
    let started = Instant::now();
    let all = store.list(&range(), Page::default()).await.unwrap();
    println!("list of {} objects in {:.1?}", all.objects.len(), started.elapsed());
    println!("resident memory with the list: {}", resident());
    drop(all);
    let started = Instant::now();
    let mut page = Page { limit: 500, ..Page::default() };
    let mut pages = 0;
    loop {
        let answer = store.list(&range(), page).await.unwrap();
        pages += 1;
        if !answer.more {
            break;
        }
        let after = answer.objects.last().map(|object| object.key.clone());
        page = Page { limit: 500, after, snapshot: Some(answer.revision), ..Page::default() };
    }
    println!("the same in {pages} pages in {:.1?}", started.elapsed());
}

/// Each client creates an object and updates it, over and over.
async fn commits(store: &Arc<dyn Store>, clients: usize, bytes: usize) -> (usize, Duration) {
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let store = store.clone();
            tokio::spawn(async move {
                let key =
                    Key::new("bench", "objects", "default", &format!("client-{clients}-{client}")).unwrap();
                let mut revision =
                    store.commit(vec![Write::create(key.clone(), vec![b'x'; bytes])]).await.unwrap().revision;
                let mut commits = 1;
                while started.elapsed() < MEASURED {
                    let write = Write::update(key.clone(), revision, vec![b'x'; bytes]);
                    revision = store.commit(vec![write]).await.unwrap().revision;
                    commits += 1;
                }
                commits
            })
        })
        .collect();
    let mut commits = 0;
    for task in tasks {
        commits += task.await.unwrap();
    }
    (commits, started.elapsed())
}

/// Writes every object once, each in a commit of its own; the bytes of all.
async fn rewrite(store: &Arc<dyn Store>, round: usize, make: fn(usize, usize) -> Vec<u8>) -> usize {
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut live = 0;
                for index in (client..OBJECTS).step_by(CLIENTS) {
                    let key = Key::new("bench", "objects", "default", &name(index)).unwrap();
                    let value = make(round, index);
                    live += value.len();
                    store
                        .commit(vec![Write { key, expect: Precondition::Any, op: Op::Put(value.into()) }])
                        .await
                        .unwrap();
                }
                live
            })
        })
        .collect();
    let mut live = 0;
    for task in tasks {
        live += task.await.unwrap();
    }
    live
}

/// A dashboard of some panels, as JSON.
fn dashboard(round: usize, index: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64((round * OBJECTS + index) as u64);
    let mut panels = String::new();
    for panel in 0.. {
        if panels.len() > OBJECT_BYTES - 700 {
            break;
        }
        let (metric, service): (u32, u32) = (random.random(), random.random());
        write!(
            panels,
            r#"{{"id":{panel},"type":"timeseries","title":"Requests of {service:x}","gridPos":{{"h":8,"w":12,"x":{},"y":{}}},"datasource":{{"type":"prometheus","uid":"${{datasource}}"}},"fieldConfig":{{"defaults":{{"unit":"reqps","custom":{{"lineWidth":1,"fillOpacity":{}}}}},"overrides":[]}},"targets":[{{"refId":"A","expr":"sum by (code) (rate(metric_{metric:x}_total{{service=\"{service:x}\"}}[5m]))","legendFormat":"{{{{code}}}}"}}]}},"#,
            panel % 2 * 12,
            panel / 2 * 8,
            metric % 100,
        )
        .unwrap();
    }
    format!(r#"{{"metadata":{{"name":"{}"}},"spec":{{"title":"Dashboard {index}, version {round}","panels":[{panels}]}}}}"#, name(index))
        .into_bytes()
}

/// What does not compress.
fn noise(round: usize, index: usize) -> Vec<u8> {
    let mut value = vec![0; OBJECT_BYTES];
    StdRng::seed_from_u64((round * OBJECTS + index) as u64).fill_bytes(&mut value);
    value
}

async fn clear(store: &Arc<dyn Store>) {
    let all = store.list(&range(), Page::default()).await.unwrap();
    for objects in all.objects.chunks(100) {
        let writes =
            objects.iter().map(|object| Write::delete(object.key.clone(), object.revision)).collect();
        store.commit(writes).await.unwrap();
    }
}

fn range() -> Range {
    Range::new("bench", "objects", None).unwrap()
}

/// Names in no order, as dashboards have them.
fn name(index: usize) -> String {
    format!("{:08x}-dashboard", index.wrapping_mul(0x9E37_79B1) & 0xFFFF_FFFF)
}

/// The process's memory, where the system tells it.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or_else(|| "unknown".to_owned(), |size| size.trim().to_owned())
}

fn file_size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}
