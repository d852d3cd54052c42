use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::ManualClock;
use crate::testing::{Asked, Server, config_maps, status};

/// A replica that stands for election against a scripted server.
struct Bench {
    server: Server,
    client: Client,
    leadership: Leadership,
    health: Health,
    stop: CancellationToken,
    run: JoinHandle<()>,
}

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/ours/leases/it";

fn start() -> Bench {
    let (server, client) = Server::new();
    let clock = Arc::new(ManualClock::new(Timestamp::UNIX_EPOCH));
    let config = LeaderConfig::new("ours", "it", "me");
    let election = LeaderElection::new(client.clone(), config, clock).unwrap();
    let (leadership, health, stop) = (election.leadership(), Health::new(), CancellationToken::new());
    let run = tokio::spawn(election.run(health.clone(), stop.clone()));
    Bench { server, client, leadership, health, stop, run }
}

/// A Lease of this holder; a number tells its versions apart.
fn lease(holder: &str, version: u32) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": "ours", "name": "it", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 4,
            "acquireTime": "2001-01-01T00:00:00.000000Z",
            "renewTime": format!("2001-01-01T00:00:00.{version:06}Z"),
        },
    })
}

impl Bench {
    async fn asked(&mut self, method: &str) -> Asked {
        let asked = self.server.next().await;
        assert_eq!((asked.method.as_str(), asked.path.as_str()), (method, PATH));
        asked
    }

    /// Lets the replica take a Lease that was given back.
    async fn leads(&mut self) -> Term {
        self.asked("GET").await.answer(&lease("", 1));
        self.asked("PATCH").await.answer(&lease("me", 2));
        self.leadership.term().await
    }

    fn second(&self) -> f64 {
        self.server.seconds()
    }

    fn not_ready(&self) -> Option<String> {
        self.health.not_ready().first().map(ToString::to_string)
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_replica_creates_the_lease_as_client_go_writes_it() {
    let mut bench = start();
    let read = bench.asked("GET").await;
    assert_eq!(bench.not_ready().unwrap(), "leader election: the Lease was not read yet");
    read.refuse(404, "NotFound");
    let create = bench.server.next().await;
    assert_eq!(create.method, "POST");
    assert_eq!(
        create.body["spec"],
        json!({
            "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "1970-01-01T00:00:00.000000Z", "renewTime": "1970-01-01T00:00:00.000000Z",
        })
    );
    assert!(!bench.leadership.is_leading());
    create.answer(&lease("me", 1));
    bench.leadership.term().await;
    assert!(bench.leadership.is_leading());
    assert_eq!(bench.not_ready(), None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_over_once_it_was_not_seen_to_change_for_its_duration() {
    let mut bench = start();
    // Whatever its times say: they are of another clock.
    bench.asked("GET").await.answer(&lease("other", 1));
    while bench.second() < 10.0 {
        bench.asked("GET").await.answer(&lease("other", 1));
    }
    assert_eq!(bench.not_ready(), None, "a replica that stands by is ready");
    bench.asked("GET").await.answer(&lease("other", 2));
    let seen = bench.second();
    let take = loop {
        let asked = bench.server.next().await;
        match asked.method.as_str() {
            "GET" => asked.answer(&lease("other", 2)),
            _ => break asked,
        }
    };
    assert!((15.0..15.5).contains(&(bench.second() - seen)), "after {}", bench.second() - seen);
    assert_eq!(take.body["metadata"]["resourceVersion"], "2");
    assert_eq!(
        (take.body["spec"]["holderIdentity"].clone(), take.body["spec"]["leaseTransitions"].clone()),
        (json!("me"), json!(5))
    );
    take.refuse(409, "Conflict");
    bench.asked("GET").await.answer(&lease("third", 3));
    assert!(!bench.leadership.is_leading(), "somebody else was faster");
}

#[tokio::test(start_paused = true)]
async fn every_renewal_changes_the_lease_also_when_the_clock_stands_still() {
    let mut bench = start();
    let term = bench.leads().await;
    let mut current = lease("me", 2);
    for version in 3..8 {
        let renewal = bench.asked("PATCH").await;
        assert_eq!(renewal.body["metadata"]["resourceVersion"], (version - 1).to_string());
        assert!((bench.second() - f64::from(version - 2) * 2.0).abs() < 0.1, "at {}", bench.second());
        assert_ne!(current["spec"]["renewTime"], renewal.body["spec"]["renewTime"]);
        current["spec"]["renewTime"] = renewal.body["spec"]["renewTime"].clone();
        current["metadata"]["resourceVersion"] = version.to_string().into();
        renewal.answer(&current);
    }
    assert!(term.holds());
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_at_the_renew_deadline_counted_from_the_last_renewal_that_was_sent() {
    let mut bench = start();
    let term = bench.leads().await;
    let renewal = bench.asked("PATCH").await;
    let sent = bench.second();
    tokio::time::sleep(Duration::from_secs(2)).await;
    renewal.answer(&lease("me", 3));
    // From here on nothing is answered.
    let mut unanswered = Vec::new();
    let ended = term.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            biased;
            () = &mut ended => break,
            asked = bench.server.next() => unanswered.push(asked),
        }
    }
    assert!((bench.second() - sent - 10.0).abs() < 0.01, "after {}", bench.second() - sent);
    assert!(unanswered.len() >= 2, "it tried {} times", unanswered.len());
    assert!(!bench.leadership.is_leading());
    // The Lease still says that it leads; it becomes so by a new write only.
    bench.server.next().await.answer(&lease("me", 3));
    let again = loop {
        let asked = bench.server.next().await;
        match asked.method.as_str() {
            "GET" => asked.answer(&lease("me", 3)),
            _ => break asked,
        }
    };
    assert!(!bench.leadership.is_leading());
    again.answer(&lease("me", 4));
    assert!(bench.leadership.term().await.holds() && !term.holds(), "a term that is over stays over");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_is_taken_for_what_it_was() {
    let mut bench = start();
    let term = bench.leads().await;
    drop(bench.asked("PATCH").await);
    bench.asked("PATCH").await.refuse(409, "Conflict");
    bench.asked("GET").await.answer(&lease("me", 3));
    let renewal = bench.asked("PATCH").await;
    assert_eq!(renewal.body["metadata"]["resourceVersion"], "3");
    renewal.answer(&lease("me", 4));
    bench.asked("PATCH").await.answer(&lease("me", 5));
    assert!(term.holds());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_one_stops_at_once_and_stands_by() {
    let mut bench = start();
    let term = bench.leads().await;
    bench.asked("PATCH").await.refuse(409, "Conflict");
    bench.asked("GET").await.answer(&lease("other", 3));
    term.ended().await;
    assert!((bench.second() - 2.0).abs() < 0.1);
    assert_eq!(bench.not_ready(), None);
    bench.asked("GET").await.answer(&lease("other", 4));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_has_an_owner_that_may_not_know_yet() {
    let mut bench = start();
    bench.asked("GET").await.answer(&lease("other", 1));
    bench.asked("GET").await.refuse(404, "NotFound");
    let gone = bench.second();
    let create = loop {
        let asked = bench.server.next().await;
        match asked.method.as_str() {
            "GET" => asked.refuse(404, "NotFound"),
            _ => break asked,
        }
    };
    assert_eq!(create.method, "POST");
    assert!((15.0..16.0).contains(&(bench.second() - gone)), "after {}", bench.second() - gone);
    // One's own is another matter.
    let mut bench = start();
    let term = bench.leads().await;
    bench.asked("PATCH").await.refuse(404, "NotFound");
    bench.asked("GET").await.refuse(404, "NotFound");
    term.ended().await;
    bench.asked("GET").await.refuse(404, "NotFound");
    assert_eq!(bench.server.next().await.method, "POST");
}

#[tokio::test(start_paused = true)]
async fn an_orderly_end_gives_the_lease_back_after_the_last_write() {
    let mut bench = start();
    let term = bench.leads().await;
    bench.stop.cancel();
    let release = bench.asked("PATCH").await;
    assert!(!term.holds(), "what comes after the release is not ours to write");
    assert_eq!(
        (
            release.body["spec"]["holderIdentity"].clone(),
            release.body["spec"]["leaseDurationSeconds"].clone()
        ),
        (json!(""), json!(1))
    );
    assert_eq!(release.body["metadata"]["resourceVersion"], "2");
    release.answer(&lease("", 3));
    bench.run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guarded_client_reads_always_and_writes_only_during_its_term() {
    let mut bench = start();
    let term = bench.leads().await;
    let guarded = config_maps(term.guard(&bench.client));
    let write = |api: kube::Api<k8s_openapi::api::core::v1::ConfigMap>| {
        tokio::spawn(async move { api.delete("a", &kube::api::DeleteParams::default()).await })
    };
    let first = write(guarded.clone());
    let asked = bench.server.next().await;
    assert_eq!(asked.method, "DELETE");
    asked.answer(&status(200, ""));
    first.await.unwrap().unwrap();

    // One that is on its way when the term ends is given up.
    let second = write(guarded.clone());
    let asked = bench.server.next().await;
    assert_eq!(asked.method, "DELETE");
    bench.stop.cancel();
    let error = second.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("does not lead"), "{error}");
    drop(asked);

    let error = write(guarded.clone()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("does not lead"), "{error}");
    bench.asked("PATCH").await.answer(&lease("", 3));
    let read = tokio::spawn(async move { guarded.get("a").await });
    let asked = bench.server.next().await;
    assert_eq!(asked.method, "GET");
    asked.refuse(404, "NotFound");
    read.await.unwrap().unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_may_not_be_read_makes_the_process_unready_and_is_told_of_once() {
    let mut bench = start();
    for _ in 0..4 {
        bench.asked("GET").await.refuse(403, "Forbidden");
    }
    let _next = bench.asked("GET").await;
    let said = bench.not_ready().unwrap();
    assert_eq!(
        said,
        "leader election: failed to read the Lease it: refused as Forbidden (403); \
         give this account the right: see deploy/rbac"
    );
}

#[tokio::test]
async fn times_that_would_let_two_lead_are_refused() {
    let (_server, client) = Server::new();
    let refused = |change: fn(&mut LeaderConfig)| {
        let mut config = LeaderConfig::new("ours", "it", "me");
        change(&mut config);
        LeaderElection::new(client.clone(), config, Arc::new(crate::SystemClock)).err().unwrap().to_string()
    };
    assert!(refused(|config| config.renew_deadline = config.lease_duration).contains("renew deadline"));
    assert!(refused(|config| config.retry_period = Duration::from_secs(6)).contains("retry period"));
}
