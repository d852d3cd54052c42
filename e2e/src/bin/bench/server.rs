//! The API server with many objects of two kilobytes and many watchers, beside a real kube-apiserver with etcd that is
//! asked the same. Both keep each write on disk before they answer it.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tokio::task::JoinSet;
use windlass_cluster::{Cluster, Options, OwnCluster};
use windlass_e2e::Server;

use crate::api::{Api, DASHBOARDS};
use crate::samples::Samples;
use crate::scene;
use crate::table::{Row, Table, Target, Unit};
use crate::writes::CLIENTS;

/// Objects with one value of the label that is selected by.
const SELECTED: usize = 100;
/// Objects of a first page.
const PAGE: usize = 500;
/// How often what is quick is asked.
const TIMES: usize = 20;
/// How long the objects may take that are created first. A server that is slower has fewer.
const LOAD: Duration = Duration::from_secs(75);
/// How often the servers take turns at it.
const TURNS: usize = 5;
const WATCHERS: usize = 1_000;
/// Each has as many watchers as the others.
const NAMESPACES: usize = 100;
const WRITES_A_SECOND: usize = 1_000;
const WRITES: usize = 5_000;
/// How long a watcher waits for the last event.
const DEADLINE: Duration = Duration::from_mins(1);
/// The description of an object of two kilobytes.
pub(crate) const SMALL: usize = 1_680;
const STAMP: &str = "sent-";
const END: &str = "sent-last";

/// What a server is loaded with at first.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) objects: usize,
    /// Who each wait for an answer before they create the next.
    pub(crate) clients: usize,
}

pub(crate) async fn measure(table: &mut Table, asked: Load) -> Result<()> {
    let mut server = Server::start(&[]).await?;
    let process = server.process.id().context("the server is gone")?;
    // A million take longer, which whoever asks for them knows.
    let within = if asked.objects > 100_000 { Duration::from_hours(1) } else { LOAD };
    let mut embedded = Subject::new("embedded", Api::of(&server).await?, vec![process], within);
    let cluster = real_cluster().await?;
    let mut real = match &cluster {
        Some((api, cluster)) => {
            Some(Subject::new("real", api.clone(), cluster.processes().await?.to_vec(), LOAD))
        }
        None => None,
    };
    for subject in [Some(&mut embedded), real.as_mut()].into_iter().flatten() {
        subject.at_rest(table)?;
    }
    // In turns: a machine is not as fast in one minute as in another.
    for turn in 1..=TURNS {
        for subject in [Some(&mut embedded), real.as_mut()].into_iter().flatten() {
            subject.load(asked, turn).await?;
        }
    }
    let embedded = embedded.measure(table, asked).await?;
    start_after_kill(table, &mut server, embedded.objects).await?;
    let Some(real) = real else { return Ok(()) };
    let real = real.measure(table, asked).await?;
    let rate = Samples::one(embedded.rate / real.rate);
    let figure = format!("embedded ÷ real: durable creates a second, {} clients", asked.clients);
    table.add(Row::new(figure, Target::AtLeast(10.0), Unit::Times, rate).note(format!("in {TURNS} turns")));
    let share = Samples::one(embedded.memory / real.memory);
    let note = format!("{} objects here, {} there", embedded.objects, real.objects);
    let figure = "embedded ÷ real: memory after all of it";
    table.add(Row::new(figure, Target::AtMost(0.15), Unit::Times, share).note(note));
    Ok(())
}

struct Figures {
    /// Creates a second.
    rate: f64,
    /// Megabytes at the end.
    memory: f64,
    objects: usize,
}

async fn start_after_kill(table: &mut Table, server: &mut Server, objects: usize) -> Result<()> {
    server.process.kill().await?;
    let started = Instant::now();
    server.restart().await?;
    while server.ask("/readyz").await.map_or(0, |(code, _)| code) != 200 {
        if started.elapsed() > DEADLINE {
            bail!("the server is not ready again");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let took = Samples::millis([started.elapsed()]);
    let figure = format!("embedded: start after a kill, {objects} objects");
    table.add(Row::new(figure, Target::AtMost(500.0), Unit::Millis, took));
    Ok(())
}

/// `None`: the programs are missing, and that was said.
async fn real_cluster() -> Result<Option<(Api, OwnCluster)>> {
    let options = Options { durable: true, compacts: true, ..Options::default() };
    let Some(cluster) = Box::pin(Cluster::own_with(options)).await? else { return Ok(None) };
    let api = Api::of_cluster(&cluster, "default", cluster.admin_token())?;
    for number in 0..NAMESPACES {
        let namespace = json!({ "metadata": { "name": format!("watched-{number}") } });
        api.post("/api/v1/namespaces", namespace.to_string()).await?;
    }
    Ok(Some((api, cluster)))
}

/// A server that is measured.
struct Subject {
    who: &'static str,
    api: Api,
    processes: Vec<u32>,
    has_targets: bool,
    /// How long the first creates may take.
    within: Duration,
    /// How long each of them took.
    times: Vec<Duration>,
    /// How long all of them took.
    loaded_for: Duration,
}

impl Subject {
    fn new(who: &'static str, api: Api, processes: Vec<u32>, within: Duration) -> Self {
        let has_targets = who == "embedded";
        Self { who, api, processes, has_targets, within, times: Vec::new(), loaded_for: Duration::ZERO }
    }

    fn at_rest(&self, table: &mut Table) -> Result<()> {
        let idle = memory(&self.processes)?;
        self.add(table, "memory at rest", Target::None, Unit::Megabytes, Samples::one(idle));
        Ok(())
    }

    /// Creates the objects of a turn.
    async fn load(&mut self, asked: Load, turn: usize) -> Result<()> {
        let groups = (asked.objects / SELECTED).max(8);
        let document = move |number| document(number, groups, SMALL);
        let numbers = self.times.len()..asked.objects * turn / TURNS;
        let within = self.within / u32::try_from(TURNS)?;
        let loaded = load(&self.api, numbers, asked.clients, within, document).await?;
        self.loaded_for += Duration::from_secs_f64(loaded.times.len() as f64 / loaded.rate);
        self.times.extend(loaded.times);
        Ok(())
    }

    async fn measure(&self, table: &mut Table, asked: Load) -> Result<Figures> {
        let (times, count) = (&self.times, self.times.len());
        let rate = count as f64 / self.loaded_for.as_secs_f64();
        self.add(table, "durable creates of 2 KB", Target::None, Unit::PerSecond, Samples::one(rate));
        let tenth = (count / 10).max(1);
        for (which, times) in [("first", &times[..tenth]), ("last", &times[count.saturating_sub(tenth)..])] {
            let p99 = Samples::millis(times.iter().copied()).percentile(99);
            let figure = format!("p99 of a create, {} clients, the {which} tenth of {count}", asked.clients);
            self.add(table, &figure, Target::None, Unit::Millis, Samples::one(p99));
        }
        let held = memory(&self.processes)?;
        let figure = format!("memory with {count} objects");
        self.add(table, &figure, Target::None, Unit::Megabytes, Samples::one(held));

        let page = format!("{DASHBOARDS}?limit={PAGE}");
        let times = self.times(&page).await?;
        self.add(table, &format!("first page of {PAGE}"), Target::AtMost(5.0), Unit::Millis, times);
        self.whole(table).await?;
        self.selected(table, count).await?;
        self.watched(table).await?;
        Ok(Figures { rate, memory: memory(&self.processes)?, objects: count })
    }

    fn add(&self, table: &mut Table, figure: &str, target: Target, unit: Unit, samples: Samples) {
        let target = if self.has_targets { target } else { Target::None };
        table.add(Row::new(format!("{}: {figure}", self.who), target, unit, samples));
    }

    async fn times(&self, path: &str) -> Result<Samples> {
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let started = Instant::now();
            self.api.get(path).await?;
            times.push(started.elapsed());
        }
        Ok(Samples::millis(times))
    }

    /// A list of everything, which is not kept here.
    async fn whole(&self, table: &mut Table) -> Result<()> {
        let before = memory(&self.processes)?;
        let peak = Peak::of(self.processes.clone());
        let (started, mut bytes) = (Instant::now(), 0_u64);
        let mut answer = self.api.open(DASHBOARDS).await?;
        while let Some(piece) = answer.chunk().await? {
            bytes += piece.len() as u64;
        }
        let took = Samples::millis([started.elapsed()]);
        let above = (peak.end().await - before).max(0.0);
        let figure = format!("list of everything, {:.0} MB", bytes as f64 / 1e6);
        self.add(table, &figure, Target::None, Unit::Millis, took);
        self.add(table, "memory for it", Target::AtMost(100.0), Unit::Megabytes, Samples::one(above));
        Ok(())
    }

    async fn selected(&self, table: &mut Table, count: usize) -> Result<()> {
        let path = format!("{DASHBOARDS}?labelSelector=group%3Dg-7");
        let started = Instant::now();
        self.api.get(&path).await?;
        let first = Samples::millis([started.elapsed()]);
        let figure = format!("{SELECTED} of {count} by a label, for the first time");
        self.add(table, &figure, Target::None, Unit::Millis, first);
        if self.has_targets {
            // An index is made beside.
            let until = Instant::now() + DEADLINE;
            while self.times(&path).await?.median() > 50.0 && Instant::now() < until {}
        }
        let times = self.times(&path).await?;
        self.add(table, "the same, afterwards", Target::AtMost(5.0), Unit::Millis, times);
        Ok(())
    }

    /// Writes to namespaces of which each has its watchers.
    async fn watched(&self, table: &mut Table) -> Result<()> {
        let revision = self.api.revision(DASHBOARDS).await?;
        let path = format!("{DASHBOARDS}?watch=1&resourceVersion={revision}");
        let before = memory(&self.processes)?;
        let peak = Peak::of(self.processes.clone());
        let epoch = Instant::now();
        let opened = futures::stream::iter(0..WATCHERS).map(|number| {
            let (api, path) = (self.api.within(format!("watched-{}", number % NAMESPACES)), path.clone());
            async move { api.open(&path).await }
        });
        let opened: Vec<reqwest::Response> = opened.buffer_unordered(CLIENTS).try_collect().await?;
        let mut watchers = JoinSet::new();
        for response in opened {
            watchers.spawn(tokio::time::timeout(DEADLINE, follow(response, epoch)));
        }
        let started = Instant::now();
        self.write(epoch).await?;
        let rate = WRITES as f64 / started.elapsed().as_secs_f64();
        for number in 0..NAMESPACES {
            let api = self.api.within(format!("watched-{number}"));
            api.post(DASHBOARDS, stamped("last", END)).await?;
        }
        let (mut delays, mut complete) = (Vec::new(), 0);
        while let Some(ended) = watchers.join_next().await {
            if let Ok(ended) = ended? {
                let told = ended?;
                complete += usize::from(told.len() == WRITES / NAMESPACES);
                delays.extend(told);
            }
        }
        let above = (peak.end().await - before).max(0.0);
        let p99 = Samples::millis(delays).percentile(99);
        let figure =
            format!("{WATCHERS} watchers, {} of each write: p99 from write to event", WATCHERS / NAMESPACES);
        let target = if self.has_targets { Target::AtMost(50.0) } else { Target::None };
        let note = format!("{rate:.0} writes a second");
        let row = Row::new(format!("{}: {figure}", self.who), target, Unit::Millis, Samples::one(p99));
        table.add(row.note(note));
        let all = Target::AtLeast(WATCHERS as f64);
        self.add(table, "watchers told of every write", all, Unit::Count, Samples::one(complete as f64));
        self.add(table, "memory for them", Target::AtMost(300.0), Unit::Megabytes, Samples::one(above));
        Ok(())
    }

    async fn write(&self, epoch: Instant) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let begins = tokio::time::Instant::now();
        let mut writers = JoinSet::new();
        for _ in 0..CLIENTS {
            let (api, next) = (self.api.clone(), next.clone());
            writers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= WRITES {
                        return anyhow::Ok(());
                    }
                    let due = Duration::from_secs_f64(number as f64 / WRITES_A_SECOND as f64);
                    tokio::time::sleep_until(begins + due).await;
                    let title = format!("{STAMP}{}", epoch.elapsed().as_micros());
                    let api = api.within(format!("watched-{}", number % NAMESPACES));
                    api.post(DASHBOARDS, stamped(&format!("w-{number}"), &title)).await?;
                }
            });
        }
        while let Some(ended) = writers.join_next().await {
            ended??;
        }
        Ok(())
    }
}

/// How late each event came, until the last one.
async fn follow(mut response: reqwest::Response, epoch: Instant) -> Result<Vec<Duration>> {
    let (mut delays, mut pending) = (Vec::new(), Vec::new());
    loop {
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            let stamp = text.split_once(STAMP).context("an event without its time")?.1;
            let digits: String = stamp.chars().take_while(char::is_ascii_digit).collect();
            match digits.parse() {
                Ok(micros) => delays.push(epoch.elapsed().saturating_sub(Duration::from_micros(micros))),
                Err(_) => return Ok(delays),
            }
        }
        pending.extend_from_slice(&response.chunk().await?.context("the watch ended")?);
    }
}

/// What came of the creates, in the order of their beginning.
pub(crate) struct Loaded {
    pub(crate) rate: f64,
    pub(crate) times: Vec<Duration>,
}

/// Creates the objects of these numbers, as many as there is time for.
pub(crate) async fn load(
    api: &Api,
    numbers: Range<usize>,
    clients: usize,
    within: Duration,
    document: impl Fn(usize) -> String + Copy + Send + 'static,
) -> Result<Loaded> {
    let next = Arc::new(AtomicUsize::new(numbers.start));
    let started = Instant::now();
    let mut creating = JoinSet::new();
    for _ in 0..clients {
        let (api, next) = (api.clone(), next.clone());
        creating.spawn(async move {
            let mut times = Vec::new();
            while started.elapsed() < within {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= numbers.end {
                    break;
                }
                let document = document(number);
                let begun = Instant::now();
                api.post(DASHBOARDS, document).await?;
                times.push((number, begun.elapsed()));
            }
            anyhow::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = creating.join_next().await {
        times.extend(ended??);
    }
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    Ok(Loaded { rate, times: times.into_iter().map(|(_, took)| took).collect() })
}

/// An object with a description of so many bytes, below two million, that do not compress to nothing.
pub(crate) fn document(number: usize, groups: usize, text: usize) -> String {
    // Made once: what is measured is the server.
    static NOISE: LazyLock<String> = LazyLock::new(|| {
        let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::with_capacity(1 << 20);
        while bytes.len() < 1 << 20 {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            bytes.extend(noise.to_le_bytes());
        }
        hex::encode(bytes)
    });
    let from = number * 7_919 % (NOISE.len() - text);
    json!({ "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
        "metadata": { "name": format!("d-{number:07}"),
            "labels": { "group": format!("g-{}", number % groups), "made-by": "bench" } },
        "spec": { "title": format!("Dashboard {number}"), "description": &NOISE[from..from + text] } })
    .to_string()
}

fn stamped(name: &str, title: &str) -> String {
    json!({ "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
        "metadata": { "name": name }, "spec": { "title": title } })
    .to_string()
}

/// Megabytes that these processes have together.
pub(crate) fn memory(processes: &[u32]) -> Result<f64> {
    processes.iter().map(|id| scene::memory_of(*id, "VmRSS")).sum()
}

/// The most memory of processes while something goes on.
pub(crate) struct Peak {
    stop: tokio::sync::oneshot::Sender<()>,
    looking: tokio::task::JoinHandle<f64>,
}

impl Peak {
    pub(crate) fn of(processes: Vec<u32>) -> Self {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let looking = tokio::spawn(async move {
            let mut most = 0.0_f64;
            loop {
                most = most.max(memory(&processes).unwrap_or_default());
                let pause = tokio::time::sleep(Duration::from_millis(25));
                tokio::select! {
                    _ = &mut stopped => return most,
                    () = pause => {}
                }
            }
        });
        Self { stop, looking }
    }

    /// In megabytes.
    pub(crate) async fn end(self) -> f64 {
        let _ = self.stop.send(());
        self.looking.await.unwrap_or(f64::NAN)
    }
}
