//! Elections among replicas whose networks, clocks and processes fail in every way that a seed comes up with.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::Caller;
use windlass_runtime::{LeaderConfig, LeaderElection, Leadership, ManualClock, Part, merge_patch};
use windlass_telemetry::Health;

use crate::network::{Network, Weather};

const SEEDS: u64 = 20;
/// How long each election goes on badly.
const BAD_TIMES: Duration = Duration::from_mins(6);
/// Within this time after everything works again, somebody leads: the Lease's duration, a look and a late call.
const RECOVERY: Duration = Duration::from_secs(25);

/// All replicas of one election, and what was seen of them.
struct World {
    seed: u64,
    router: Router,
    client: Client,
    slots: Mutex<Vec<Option<Leadership>>>,
    terms: AtomicUsize,
    /// The number of the newest term that has written.
    newest_writer: AtomicU64,
    /// What must not have happened. A panic would be lost with the task that it ends.
    violations: Mutex<Vec<String>>,
}

/// A process that stands for election, and writes while it leads.
struct Replica {
    network: Network,
    clock: Arc<ManualClock>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl World {
    async fn new(seed: u64) -> Arc<Self> {
        let server = ApiServer::builder(in_memory(&StoreOptions::default()).unwrap()).build().unwrap();
        let router = server.router();
        let client = client_of(router.clone(), Caller::system("test"));
        let shared = json!({"metadata": {"name": "shared"}, "data": {"term": "0"}});
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        maps.create(&PostParams::default(), &serde_json::from_value(shared).unwrap()).await.unwrap();
        Arc::new(Self {
            seed,
            router,
            client,
            slots: Mutex::new(vec![None; 3]),
            terms: AtomicUsize::new(0),
            newest_writer: AtomicU64::new(0),
            violations: Mutex::default(),
        })
    }

    fn leaders(&self) -> Vec<usize> {
        let slots = self.slots.lock().unwrap();
        let leads = |slot: &Option<Leadership>| slot.as_ref().is_some_and(Leadership::is_leading);
        slots.iter().enumerate().filter(|(_, slot)| leads(slot)).map(|(number, _)| number).collect()
    }

    fn expect(&self, so: bool, otherwise: impl FnOnce() -> String) {
        if !so {
            self.violations.lock().unwrap().push(otherwise());
        }
    }

    fn start(self: &Arc<Self>, number: usize, rng: &mut StdRng) -> Replica {
        let network = Network::new(rng.random());
        // Years apart from each other.
        let hour = Duration::from_hours(rng.random_range(0..200_000));
        let clock = Arc::new(ManualClock::following_tokio(Timestamp::UNIX_EPOCH));
        clock.advance(hour);
        let world = Arc::clone(self);
        let client = network.client(self.router.clone(), move |request| {
            let writes = request.uri().path().ends_with("/configmaps/shared") && request.method() != "GET";
            let leaders = world.leaders();
            world.expect(!writes || leaders == [number], || {
                format!("replica {number} writes while {leaders:?} lead")
            });
        });
        let identity = format!("replica-{number}-{}", rng.random::<u32>());
        let config = LeaderConfig::new("default", "it", identity);
        let election = LeaderElection::new(client.clone(), config, clock.clone()).unwrap();
        let leadership = election.leadership();
        self.slots.lock().unwrap()[number] = Some(leadership.clone());
        let (stop, finished) = (CancellationToken::new(), CancellationToken::new());
        let (pause, world, stopped) = (network.pause.clone(), Arc::clone(self), stop.clone());
        let task = tokio::spawn(async move {
            let lead = async {
                stopped.run_until_cancelled(world.lead(number, leadership, client)).await;
                finished.cancel();
            };
            let stand = election.run(Health::new(), finished.clone());
            pause.run(Box::pin(async { tokio::join!(lead, stand) })).await;
        });
        Replica { network, clock, stop, task }
    }

    /// Writes down who leads, again and again.
    async fn lead(&self, number: usize, leadership: Leadership, client: Client) {
        loop {
            let term = leadership.term().await;
            let leaders = self.leaders();
            self.expect(leaders == [number], || format!("{number} begins to lead while {leaders:?} do"));
            let own = self.terms.fetch_add(1, Ordering::SeqCst) as u64 + 1;
            let maps: Api<ConfigMap> = Api::namespaced(term.guard(&client), "default");
            let limit = Duration::from_secs(3);
            let write = async {
                loop {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    let Ok(Ok(shared)) = tokio::time::timeout(limit, maps.get("shared")).await else {
                        continue;
                    };
                    let patch =
                        json!({"data": {"term": own.to_string(), "at": format!("{:?}", Instant::now())}});
                    if merge_patch(&maps, &shared, Part::Object, patch, limit).await.is_ok() {
                        let newest = self.newest_writer.fetch_max(own, Ordering::SeqCst);
                        self.expect(newest <= own, || format!("term {own} wrote after term {newest}"));
                    }
                }
            };
            tokio::select! {
                biased;
                () = term.ended() => {}
                () = write => {}
            }
        }
    }
}

/// One more thing that goes wrong, or right again.
async fn disturb(world: &Arc<World>, replicas: &mut [Replica], rng: &mut StdRng) {
    let number = rng.random_range(0..replicas.len());
    let replica = &mut replicas[number];
    let weather = |change: &dyn Fn(&mut Weather)| change(&mut replica.network.weather.lock().unwrap());
    match rng.random_range(0..12) {
        0 | 1 => replica.network.pause.set(true),
        2 | 3 => replica.network.pause.set(false),
        4 => weather(&|weather| weather.cut = !weather.cut),
        5 => weather(&|weather| weather.down = !weather.down),
        6 => weather(&|weather| weather.loss = 0.4 - weather.loss),
        7 => {
            let delay = Duration::from_millis(rng.random_range(0..4000));
            weather(&|weather| weather.delay = delay);
        }
        8 => replica.clock.advance(Duration::from_secs(rng.random_range(0..100_000))),
        // Killed, and started again.
        9 => {
            replica.task.abort();
            *replica = world.start(number, rng);
        }
        // Ended in good order, and started again.
        10 => {
            if let Weather { cut: false, .. } = *replica.network.weather.lock().unwrap() {
                replica.network.pause.set(false);
            }
            replica.stop.cancel();
            let _ = tokio::time::timeout(Duration::from_secs(20), &mut replica.task).await;
            replica.task.abort();
            *replica = world.start(number, rng);
        }
        _ => {
            // Somebody who has nothing to do with it.
            let leases: Api<Lease> = Api::namespaced(world.client.clone(), "default");
            let mark = json!({"metadata": {"annotations": {"seen": rng.random::<u32>().to_string()}}});
            let _ = leases.patch("it", &PatchParams::default(), &Patch::Merge(&mark)).await;
        }
    }
}

async fn election(seed: u64) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let world = World::new(seed).await;
    let count = rng.random_range(2..=3);
    let mut replicas: Vec<Replica> = (0..count).map(|number| world.start(number, &mut rng)).collect();
    let end = Instant::now() + BAD_TIMES;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..6000))).await;
        disturb(&world, &mut replicas, &mut rng).await;
        let leaders = world.leaders();
        world.expect(leaders.len() <= 1, || format!("{leaders:?} lead"));
    }
    for replica in &replicas {
        *replica.network.weather.lock().unwrap() = Weather::default();
        replica.network.pause.set(false);
    }
    tokio::time::sleep(RECOVERY).await;
    let leader = world.leaders();
    assert_eq!(leader.len(), 1, "seed {seed}: {leader:?} lead once everything works again");
    for replica in &replicas {
        assert!(!replica.task.is_finished(), "seed {seed}: a replica ended");
        replica.task.abort();
    }
    let violations = world.violations.lock().unwrap();
    assert!(violations.is_empty(), "seed {}: {violations:#?}", world.seed);
    world.terms.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn never_two_lead_whatever_fails_and_one_leads_once_it_is_over() {
    let mut terms = 0;
    for seed in 0..SEEDS {
        terms += Box::pin(election(seed)).await;
    }
    assert!(terms > 5 * usize::try_from(SEEDS).unwrap(), "only {terms} terms: nothing was put to the test");
}
