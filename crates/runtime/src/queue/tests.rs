use tokio::sync::mpsc;

use super::*;

const POLICY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(1), max: Duration::from_secs(8), factor: 2.0, jitter: 0.0 };

/// A queue whose workers are the test: each piece of work is seen as it starts and ends with what is answered.
struct Bench {
    queue: KeyedQueue<&'static str>,
    started: mpsc::UnboundedReceiver<(&'static str, tokio::sync::oneshot::Sender<Requeue>)>,
    shutdown: CancellationToken,
    run: tokio::task::JoinHandle<()>,
    start: Instant,
}

impl Bench {
    fn new(workers: usize) -> Self {
        let queue = KeyedQueue::new(POLICY);
        let shutdown = CancellationToken::new();
        let (starts, started) = mpsc::unbounded_channel();
        let run = tokio::spawn(run_keyed(
            queue.clone(),
            workers,
            shutdown.clone(),
            move |key| {
                let (finish, finished) = tokio::sync::oneshot::channel();
                starts.send((key, finish)).unwrap();
                async move { finished.await.expect("the test answers") }
            },
            |_key| {},
        ));
        Self { queue, started, shutdown, run, start: Instant::now() }
    }

    /// The next work to start, and the seconds since the test began.
    async fn next(&mut self) -> (&'static str, u64, tokio::sync::oneshot::Sender<Requeue>) {
        let (key, finish) = self.started.recv().await.expect("work");
        (key, self.start.elapsed().as_secs(), finish)
    }

    /// Expects `key` to start at that second, and answers.
    async fn expect(&mut self, key: &str, second: u64, action: Requeue) {
        let (started, at, finish) = self.next().await;
        assert_eq!((started, at), (key, second));
        finish.send(action).unwrap();
    }

    /// Expects nothing to start for an hour.
    async fn expect_quiet(&mut self) {
        let quiet = tokio::time::timeout(Duration::from_hours(1), self.started.recv()).await;
        assert!(quiet.is_err(), "{:?} started", quiet.unwrap().map(|(key, _)| key));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_added_often_is_worked_on_once() {
    let mut bench = Bench::new(1);
    for _ in 0..5 {
        bench.queue.add("a");
    }
    bench.queue.add("b");
    assert_eq!(bench.queue.waiting(), 2);
    bench.expect("a", 0, Requeue::No).await;
    bench.expect("b", 0, Requeue::No).await;
    bench.expect_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_worked_on_is_worked_on_once_more_afterwards() {
    let mut bench = Bench::new(4);
    bench.queue.add("a");
    let (_, _, finish) = bench.next().await;
    bench.queue.add("a");
    bench.queue.add("a");
    bench.expect_quiet().await;
    finish.send(Requeue::No).unwrap();
    bench.expect("a", 3600, Requeue::No).await;
    bench.expect_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn different_keys_are_worked_on_together_up_to_the_number_of_workers() {
    let mut bench = Bench::new(2);
    for key in ["a", "b", "c"] {
        bench.queue.add(key);
    }
    let (first, _, finish_first) = bench.next().await;
    let (second, _, _finish_second) = bench.next().await;
    assert_eq!((first, second), ("a", "b"));
    bench.expect_quiet().await;
    finish_first.send(Requeue::No).unwrap();
    assert_eq!(bench.next().await.0, "c");
}

#[tokio::test(start_paused = true)]
async fn failures_in_a_row_back_off_and_a_success_starts_over() {
    let mut bench = Bench::new(1);
    bench.queue.add("a");
    for second in [0, 1, 3, 7, 15] {
        bench.expect("a", second, Requeue::Backoff).await;
    }
    bench.expect("a", 23, Requeue::After(Duration::from_secs(7))).await;
    bench.expect("a", 30, Requeue::Backoff).await;
    bench.expect("a", 31, Requeue::No).await;
    bench.expect_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn keys_back_off_each_by_itself() {
    let mut bench = Bench::new(1);
    bench.queue.add("bad");
    bench.expect("bad", 0, Requeue::Backoff).await;
    bench.expect("bad", 1, Requeue::Backoff).await;
    bench.queue.add("good");
    bench.expect("good", 1, Requeue::Backoff).await;
    bench.expect("good", 2, Requeue::No).await;
    bench.expect("bad", 3, Requeue::No).await;
}

#[tokio::test(start_paused = true)]
async fn adding_a_key_makes_it_due_whatever_it_waited_for() {
    let mut bench = Bench::new(1);
    bench.queue.add("a");
    bench.expect("a", 0, Requeue::After(Duration::from_mins(10))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    bench.queue.add("a");
    bench.expect("a", 5, Requeue::No).await;
    bench.expect_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn the_sooner_of_two_delays_counts() {
    let mut bench = Bench::new(1);
    bench.queue.add_after("a", Duration::from_secs(10));
    bench.queue.add_after("a", Duration::from_secs(5));
    bench.queue.add_after("a", Duration::from_secs(20));
    bench.queue.add_after("never", Duration::MAX);
    bench.expect("a", 5, Requeue::No).await;
    bench.expect_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_set_while_one_worker_is_busy_is_kept_by_another() {
    let mut bench = Bench::new(2);
    bench.queue.add("long");
    let (_, _, _finish) = bench.next().await;
    bench.queue.add_after("late", Duration::from_secs(5));
    bench.queue.add("short");
    bench.expect("short", 0, Requeue::No).await;
    bench.expect("late", 5, Requeue::No).await;
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_key_does_not_come_back() {
    let mut bench = Bench::new(1);
    bench.queue.add_after("a", Duration::from_secs(5));
    bench.queue.add("b");
    bench.queue.forget(&"a");
    bench.queue.forget(&"b");
    bench.expect_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_finishes_what_runs_and_starts_nothing() {
    let mut bench = Bench::new(1);
    bench.queue.add("a");
    bench.queue.add("b");
    let (_, _, finish) = bench.next().await;
    bench.shutdown.cancel();
    bench.expect_quiet().await;
    assert!(!bench.run.is_finished(), "the work that runs is waited for");
    finish.send(Requeue::No).unwrap();
    bench.run.await.unwrap();
    assert!(bench.started.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_work_on_one_key_backs_off_and_ends_nothing_else() {
    let queue = KeyedQueue::new(POLICY);
    let (shutdown, start) = (CancellationToken::new(), Instant::now());
    let (worked, mut work) = mpsc::unbounded_channel();
    let panics = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&panics);
    let run = run_keyed(
        queue.clone(),
        1,
        shutdown.clone(),
        move |key| {
            worked.send((key, start.elapsed().as_secs())).unwrap();
            async move { if key == "bad" { panic!("bad work") } else { Requeue::No } }
        },
        move |_key| {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        },
    );
    let run = tokio::spawn(run);
    queue.add("bad");
    queue.add("good");
    for expected in [("bad", 0), ("good", 0), ("bad", 1), ("bad", 3), ("bad", 7)] {
        assert_eq!(work.recv().await.unwrap(), expected, "each time after a longer delay");
    }
    shutdown.cancel();
    run.await.unwrap();
    assert_eq!(panics.load(std::sync::atomic::Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn how_long_keys_wait_and_the_oldest_of_them_are_known() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.queue.lag(), Duration::ZERO);
    bench.queue.add("a");
    let (_, _, finish) = bench.next().await;
    bench.queue.add("b");
    tokio::time::sleep(Duration::from_secs(3)).await;
    bench.queue.add("a");
    assert_eq!((bench.queue.lag().as_secs(), bench.queue.waiting()), (3, 1), "the one that is worked on");
    finish.send(Requeue::No).unwrap();
    let (key, _, finish) = bench.next().await;
    assert_eq!((key, bench.queue.waited(&"b").as_secs()), ("b", 3));
    tokio::time::sleep(Duration::from_secs(2)).await;
    finish.send(Requeue::After(Duration::from_secs(10))).unwrap();
    let (key, _, finish) = bench.next().await;
    assert_eq!((key, bench.queue.waited(&"a").as_secs()), ("a", 2), "since it was added meanwhile");
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!((bench.queue.lag().as_secs(), bench.queue.waiting()), (17, 1), "`b` is due again, and waits");
    finish.send(Requeue::No).unwrap();
    let (key, _, finish) = bench.next().await;
    assert_eq!(
        (key, bench.queue.waited(&"b").as_secs()),
        ("b", 5),
        "since it was due, not since it was looked for"
    );
    finish.send(Requeue::No).unwrap();
    bench.expect_quiet().await;
    assert_eq!(bench.queue.lag(), Duration::ZERO);
}
