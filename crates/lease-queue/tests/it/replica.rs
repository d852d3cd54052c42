//! A simulated process of the jobs controller: a queue, its watch, its drivers, a reaper.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::{Sleep, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use windlass_api::{JobState, JobStatus};
use windlass_lease_queue::progress::{Progress, Recorder};
use windlass_lease_queue::{Claimed, Queue, QueueConfig};

use crate::store::{Client, Fate, OWNER, now};

/// Runs until it crashes or has stopped.
pub(crate) async fn run(name: String, client: Client, stop: CancellationToken) {
    let fate = Arc::clone(&client.fate);
    let process =
        pin!(Pausable { fate: Arc::clone(&fate), inner: Box::pin(process(name, client, stop)), wake: None });
    tokio::select! {
        biased;
        () = fate.crashed.cancelled() => {}
        () = process => {}
    }
}

async fn process(name: String, client: Client, stop: CancellationToken) {
    // No two wall clocks agree, by up to an hour.
    let skew =
        SignedDuration::try_from(client.fate.millis(0..7_200_000)).unwrap() - SignedDuration::from_hours(1);
    let clock = Arc::new(move || now() + skew);
    let queue = Queue::new(Arc::new(client.clone()), clock, QueueConfig::new(name)).unwrap();
    let watch = async {
        let mut events = client.server.watch();
        while queue.relist().await.is_err() {
            sleep(Duration::from_secs(1)).await;
        }
        while let Some(event) = events.recv().await {
            sleep(client.fate.millis(0..5)).await;
            if !client.fate.event_lost() {
                queue.observe(event);
            }
        }
    };
    let ticks = async {
        loop {
            sleep(Duration::from_secs(30)).await;
            queue.tick();
            let _ = queue.relist().await;
        }
    };
    let never = CancellationToken::new();
    let drivers = futures::future::join(driver(0, &queue, &client, &stop), driver(1, &queue, &client, &stop));
    tokio::select! {
        biased;
        _ = drivers => {}
        () = watch => {}
        () = ticks => {}
        () = queue.run_reaper_for(Duration::from_mins(1), &(), &never) => {}
    }
}

async fn driver(number: usize, queue: &Queue, client: &Client, stop: &CancellationToken) {
    while let Some(claimed) = queue.next(number, stop).await {
        work(claimed, client, stop).await;
    }
}

/// A job of a few steps, each of which changes something outside the queue.
async fn work(claimed: Claimed, client: &Client, stop: &CancellationToken) {
    let fate = &client.fate;
    let (record, lease) = claimed.into_parts();
    let owner = record.labels[OWNER].clone();
    let progress = Progress::new(Recorder::new(0), Arc::new(lease.guard()));
    let lost = lease.lost();
    if lease.valid() {
        client.server.effect(&record.key, &record.uid, &owner);
    }
    for step in 0..fate.millis(1..5).as_millis() {
        progress.message(format!("step {step}"));
        tokio::select! {
            biased;
            () = stop.cancelled() => {
                let _ = lease.release().await;
                return;
            }
            () = lost.cancelled() => return,
            () = sleep(fate.millis(0..20_000)) => {}
        }
        if !lease.valid() {
            return;
        }
        client.server.effect(&record.key, &record.uid, &owner);
    }
    if fate.chance(3) {
        return;
    }
    let status = JobStatus { state: JobState::Success, finished: 1, ..progress.finish(Ok(()), 1) };
    let _ = lease.complete(status).await;
}

/// A process that is not scheduled while its fate says so. What it has spawned itself does nothing but store calls, which
/// wait for the same.
struct Pausable<F> {
    fate: Arc<Fate>,
    inner: Pin<Box<F>>,
    wake: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Future for Pausable<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        while let Some(until) = self.fate.paused_until() {
            let mut wake = Box::pin(sleep_until(until));
            if wake.as_mut().poll(context).is_pending() {
                self.wake = Some(wake);
                return Poll::Pending;
            }
        }
        self.wake = None;
        self.inner.as_mut().poll(context)
    }
}

/// Stops and starts a replica, and pauses it, until all is calm; then lets it run until `end`.
pub(crate) async fn supervise(slot: usize, client: impl Fn(u64) -> Client, end: CancellationToken) {
    for incarnation in 0.. {
        let client = client(incarnation);
        let fate = Arc::clone(&client.fate);
        let stop = CancellationToken::new();
        let chaos = async {
            loop {
                sleep(fate.millis(5_000..90_000)).await;
                if fate.chance(30) {
                    fate.pause(fate.millis(1_000..150_000));
                }
                if fate.chance(10) {
                    stop.cancel();
                }
            }
        };
        tokio::select! {
            biased;
            () = end.cancelled() => return,
            () = run(format!("replica-{slot}-{incarnation}"), client, stop.clone()) => {}
            () = chaos => {}
        }
        if !fate.calm.load(Ordering::Relaxed) {
            sleep(fate.millis(0..30_000)).await;
        }
    }
}
