use futures::channel::mpsc;

use super::*;

const GRACE: Duration = Duration::from_secs(10);

fn no_signals() -> impl Stream<Item = Signal> {
    futures::stream::pending()
}

async fn until_cancelled(token: CancellationToken) {
    token.cancelled().await;
}

async fn panics(message: String) {
    tokio::task::yield_now().await;
    panic!("{message}");
}

async fn check_ends_with(supervisor: &Supervisor, message: &str) {
    let health = Health::new();
    let error = supervisor.run(no_signals(), &health, GRACE).await.unwrap_err();
    assert_eq!(ErrorChain(&error).to_string(), message);
    assert!(supervisor.token().is_cancelled(), "the other tasks are asked to end");
    assert_eq!(health.not_ready()[0].reason, "shutting down");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_unasked_ends_the_process_with_its_name() {
    let supervisor = Supervisor::new();
    supervisor.spawn("steady", until_cancelled(supervisor.token().clone()));
    supervisor.spawn("watch jobs", async {});
    check_ends_with(&supervisor, "task watch jobs ended unasked").await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_ends_the_process_with_its_name_and_error() {
    let supervisor = Supervisor::new();
    supervisor.spawn("migrate", async { Err::<(), BoxError>("disk full".into()) });
    check_ends_with(&supervisor, "task migrate failed: disk full").await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_ends_the_process_with_its_name_and_message() {
    let supervisor = Supervisor::new();
    supervisor.spawn("driver 3", panics(format!("index {} out of range", 7)));
    check_ends_with(&supervisor, "task driver 3 panicked: index 7 out of range").await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_asks_every_task_to_end_and_waits_for_them() {
    let supervisor = Supervisor::new();
    let token = supervisor.token().clone();
    supervisor.spawn("drains", async move {
        token.cancelled().await;
        tokio::time::sleep(GRACE / 2).await;
    });
    let signals = futures::stream::iter([Signal::Terminate]);
    supervisor.run(signals, &Health::new(), GRACE).await.unwrap();
    assert_eq!(format!("{supervisor:?}"), "{}", "no task is left");
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_cuts_the_shutdown_short() {
    let supervisor = Supervisor::new();
    supervisor.spawn("stuck", std::future::pending::<()>());
    let signals = futures::stream::iter([Signal::Terminate, Signal::Interrupt]);
    let error = supervisor.run(signals, &Health::new(), GRACE).await.unwrap_err();
    assert_eq!(error.to_string(), "shutdown was cut short by SIGINT");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_the_grace_period_is_named_and_aborted() {
    let supervisor = Supervisor::new();
    let (held, mut released) = mpsc::channel::<()>(0);
    supervisor.spawn("stuck", async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    supervisor.spawn("prompt", until_cancelled(supervisor.token().clone()));
    let error = supervisor.shutdown(GRACE).await.unwrap_err();
    assert_eq!(error.to_string(), "tasks did not end within 10s: stuck");
    assert_eq!(released.next().now_or_never(), Some(None), "what the task held is dropped");
}

#[tokio::test(start_paused = true)]
async fn a_panic_during_the_shutdown_is_reported() {
    let supervisor = Supervisor::new();
    let token = supervisor.token().clone();
    supervisor.spawn("drains", async move {
        token.cancelled().await;
        panics("while draining".to_owned()).await;
    });
    let signals = futures::stream::iter([Signal::Interrupt]);
    let error = supervisor.run(signals, &Health::new(), GRACE).await.unwrap_err();
    assert_eq!(error.to_string(), "task drains panicked: while draining");
}

#[tokio::test(start_paused = true)]
async fn an_error_during_the_shutdown_is_no_failure_of_the_process() {
    let supervisor = Supervisor::new();
    let token = supervisor.token().clone();
    supervisor.spawn("watch jobs", async move {
        token.cancelled().await;
        Err::<(), BoxError>("connection closed".into())
    });
    let signals = futures::stream::iter([Signal::Interrupt]);
    supervisor.run(signals, &Health::new(), GRACE).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_token_ends_the_process_well() {
    let supervisor = Supervisor::new();
    let token = supervisor.token().clone();
    supervisor.spawn("demo", async move { token.cancel() });
    supervisor.run(no_signals(), &Health::new(), GRACE).await.unwrap();
}
