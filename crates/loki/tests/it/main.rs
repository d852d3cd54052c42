//! The history of jobs against a stand-in of Loki.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod stand_in;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use stand_in::{Behaviour, LokiStandIn};
use tokio_util::sync::CancellationToken;
use windlass_lease_queue::{Key, NewRecord};
use windlass_loki::{DropReason, Entry, Loki, LokiOptions, Observer, QueueLimits, queue};

/// `me:secret`, as basic authentication has it.
const CREDENTIALS: &str = "Basic bWU6c2VjcmV0";
const ORIGINAL_UID: &str = "provisioning.grafana.app/original-uid";

fn client(url: &str) -> Loki {
    Loki::new(LokiOptions {
        url: url.parse().unwrap(),
        user: "me".to_owned(),
        password: "secret".to_owned().into(),
        tenant: "team-a".to_owned(),
        tls: windlass_http_client::Tls::default(),
        lookback: Duration::from_hours(720),
    })
    .unwrap()
}

/// The record of a job that ended so many milliseconds ago.
fn ended(repository: &str, uid: &str, ago: i64) -> Entry {
    let now = Timestamp::now();
    let record = NewRecord {
        key: Key::new("default", format!("{repository}-sync-{uid}")),
        labels: BTreeMap::from([(ORIGINAL_UID.to_owned(), uid.to_owned())]),
        annotations: BTreeMap::new(),
        spec: json!({"action": "pull", "repository": repository, "pull": {"incremental": true}}),
        status: json!({"state": "success", "finished": now.as_millisecond() - ago, "message": uid}),
    };
    Entry::of(&record, now)
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(&'static str, usize)>>>);

impl Observer for Seen {
    fn dropped(&self, why: DropReason, count: usize) {
        self.0.lock().unwrap().push((why.as_str(), count));
    }
}

impl Seen {
    fn all(&self) -> Vec<(&'static str, usize)> {
        self.0.lock().unwrap().clone()
    }
}

async fn eventually(what: &str, wish: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !wish() {
        assert!(Instant::now() < until, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_is_pushed_is_read_back_by_repository_and_by_uid() {
    let loki = LokiStandIn::start().await;
    loki.expect(Some("team-a"), Some(CREDENTIALS));
    let client = client(&loki.url());
    let entries = [
        ended("one", "u1", 9000),
        ended("two", "u2", 8000),
        ended("one", "u3", 7000),
        ended("one", "u4", 5000),
    ];
    client.push(&entries).await.unwrap();
    let uids = |jobs: Vec<windlass_api::HistoricJob>| -> Vec<String> {
        jobs.into_iter().map(|job| job.metadata.labels.unwrap()[ORIGINAL_UID].clone()).collect()
    };
    assert_eq!(uids(client.newest("default", "one", None, 10).await.unwrap()), ["u4", "u3", "u1"]);
    assert_eq!(uids(client.newest("default", "one", None, 2).await.unwrap()), ["u4", "u3"]);
    let until = entries[2].time / 1_000_000;
    assert_eq!(uids(client.newest("default", "one", Some(until), 10).await.unwrap()), ["u3", "u1"]);
    assert!(client.newest("other", "one", None, 10).await.unwrap().is_empty());
    let found = client.of_job("default", "two", "u2").await.unwrap().unwrap();
    assert_eq!((&*found.spec.repository, &*found.status.message), ("two", "u2"));
    assert!(client.of_job("default", "one", "u2").await.unwrap().is_none());
    let named = client.of_name("default", "one", "one-sync-u3").await.unwrap().unwrap();
    assert_eq!(named.status.message, "u3");
    loki.assert_well_spoken();
}

#[tokio::test]
async fn a_job_that_was_filed_twice_is_shown_once() {
    let loki = LokiStandIn::start().await;
    let client = client(&loki.url());
    let (first, second) = (ended("one", "u1", 5000), ended("one", "u1", 4000));
    client.push(&[first, second]).await.unwrap();
    assert_eq!(loki.lines().len(), 2);
    assert_eq!(client.newest("default", "one", None, 10).await.unwrap().len(), 1);
    loki.assert_well_spoken();
}

#[tokio::test]
async fn records_wait_while_loki_is_down_and_none_is_lost() {
    let loki = LokiStandIn::start().await;
    loki.behave(Behaviour::Answer(503));
    let seen = Seen::default();
    let (records, writer) = queue(client(&loki.url()), QueueLimits::default(), seen.clone());
    let running = tokio::spawn(writer.run(CancellationToken::new()));
    for number in 0..500 {
        records.offer(ended("one", &format!("u{number}"), 500 - number));
    }
    eventually("Loki was asked twice", || loki.requests() >= 2).await;
    loki.behave(Behaviour::Work);
    eventually("all is there", || loki.lines().len() == 500).await;
    drop(records);
    running.await.unwrap();
    assert_eq!(seen.all(), []);
    loki.assert_well_spoken();
}

#[tokio::test]
async fn what_there_is_no_room_for_is_dropped_and_counted() {
    let loki = LokiStandIn::start().await;
    loki.behave(Behaviour::Hang);
    let seen = Seen::default();
    let limits = QueueLimits { entries: 3, flush: Duration::from_millis(50), ..QueueLimits::default() };
    let (records, writer) = queue(client(&loki.url()), limits, seen.clone());
    // Nobody sends yet: exactly three fit.
    for number in 0..5 {
        records.offer(ended("one", &format!("u{number}"), 1000));
    }
    assert_eq!(seen.all(), [("queue_full", 1), ("queue_full", 1)]);
    let running = tokio::spawn(writer.run(CancellationToken::new()));
    eventually("Loki was asked", || loki.requests() == 1).await;
    drop(records);
    running.await.unwrap();
    assert_eq!(seen.all()[2..], [("shutdown", 3)], "what was being sent counts as well");
}

#[tokio::test]
async fn bytes_that_wait_are_bounded_too() {
    let loki = LokiStandIn::start().await;
    let seen = Seen::default();
    let limits = QueueLimits { bytes: 500, ..QueueLimits::default() };
    let (records, _writer) = queue(client(&loki.url()), limits, seen.clone());
    for number in 0..4 {
        records.offer(ended("one", &format!("u{number}"), 1000));
    }
    assert!(!seen.all().is_empty());
}

#[tokio::test]
async fn a_record_that_loki_refuses_costs_no_other() {
    let loki = LokiStandIn::start().await;
    loki.behave(Behaviour::RefuseLinesWith("poison"));
    let seen = Seen::default();
    let (records, writer) = queue(client(&loki.url()), QueueLimits::default(), seen.clone());
    for uid in ["u1", "u2", "poison", "u3"] {
        records.offer(ended("one", uid, 1000));
    }
    drop(records);
    writer.run(CancellationToken::new()).await;
    assert_eq!(loki.lines().len(), 3);
    assert_eq!(seen.all(), [("refused", 1)]);
}

#[tokio::test]
async fn a_wrong_password_loses_nothing_and_is_not_in_the_error() {
    let loki = LokiStandIn::start().await;
    loki.expect(None, Some("Basic another"));
    let error = client(&loki.url()).push(&[ended("one", "u1", 1000)]).await.unwrap_err().to_string();
    assert!(error.contains("401") && !error.contains("secret"), "{error}");
    let seen = Seen::default();
    let (records, writer) = queue(client(&loki.url()), QueueLimits::default(), seen.clone());
    let running = tokio::spawn(writer.run(CancellationToken::new()));
    records.offer(ended("one", "u1", 1000));
    eventually("it was refused", || loki.requests() >= 2).await;
    loki.expect(None, Some(CREDENTIALS));
    eventually("it is taken", || loki.lines().len() == 1).await;
    drop(records);
    running.await.unwrap();
    assert_eq!(seen.all(), []);
}
