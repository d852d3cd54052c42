use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::client_of;
use windlass_auth::{ApiClients, Caller};
use windlass_launch::Context;
use windlass_runtime::{Clock, Registry};
use windlass_settings::{Settings, Sources};
use windlass_telemetry::Metrics;

use super::World;

/// When a process dies, counted in its writes. Leases do not count: how often they are renewed is a matter of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// Not at all.
    Never,
    /// Before it could send this one.
    Before(usize),
    /// Before it could read the answer to this one.
    After(usize),
}

/// An operator that runs.
pub(crate) struct Process {
    pub(crate) context: Arc<Context>,
    life: Arc<Life>,
    task: JoinHandle<()>,
}

struct Life {
    death: Death,
    writes: AtomicUsize,
    dead: CancellationToken,
}

impl World {
    /// Starts an operator.
    pub(crate) fn start(
        &self,
        registry: impl Fn(Registry<Context>) -> Registry<Context>,
        name: &str,
    ) -> Process {
        self.start_with(registry, name, Death::Never, |_context| {})
    }

    pub(crate) fn start_with_clock(
        &self,
        registry: impl Fn(Registry<Context>) -> Registry<Context>,
        name: &str,
        clock: Arc<dyn Clock>,
    ) -> Process {
        self.start_with(registry, name, Death::Never, |context| context.clock = clock)
    }

    pub(crate) fn start_with(
        &self,
        registry: impl Fn(Registry<Context>) -> Registry<Context>,
        name: &str,
        death: Death,
        change: impl FnOnce(&mut Context),
    ) -> Process {
        let flags = self.settings.iter().map(|(key, value)| {
            let (section, key) = key.split_once('.').unwrap();
            (section.to_owned(), key.to_owned(), value.clone())
        });
        let sources = Sources {
            config: None,
            env: Vec::<(String, String)>::new(),
            flags: flags.collect(),
            operator: None,
        };
        let settings = Settings::load(sources).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let life = Arc::new(Life { death, writes: AtomicUsize::new(0), dead: CancellationToken::new() });
        let mortal = Arc::clone(&life);
        let router = self.router.clone().layer(from_fn(move |request: Request, next: Next| {
            let mortal = Arc::clone(&mortal);
            async move { mortal.through(request, next).await }
        }));
        let client = client_of(router, Caller::system(name));
        let cache = self.folder.path().join("cache");
        let mut context =
            Context::new(settings, ApiClients::same(client), &cache, Metrics::new().unwrap()).unwrap();
        change(&mut context);
        let context = Arc::new(context);
        let operator = registry(Registry::new()).make(name).unwrap();
        let running = Arc::clone(&context);
        let task = tokio::spawn(async move { operator.run(running).await.unwrap() });
        Process { context, life, task }
    }
}

impl Life {
    async fn through(&self, request: Request, next: Next) -> Response {
        if self.dead.is_cancelled() {
            return std::future::pending().await;
        }
        let is_lease = request.uri().path().starts_with("/apis/coordination.k8s.io/");
        if is_lease || matches!(request.method().as_str(), "GET" | "HEAD") {
            return self.dead.run_until_cancelled(next.run(request)).await.unwrap_or_default();
        }
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if self.death == Death::Before(number) {
            self.dead.cancel();
            return std::future::pending().await;
        }
        let response = next.run(request).await;
        if self.death == Death::After(number) {
            self.dead.cancel();
        }
        if self.dead.is_cancelled() { std::future::pending().await } else { response }
    }
}

impl Process {
    /// Waits until the process is dead.
    pub(crate) async fn dead(&self) {
        self.life.dead.cancelled().await;
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life.dead.is_cancelled()
    }

    /// Ends it as a signal does.
    pub(crate) async fn stop(self) {
        self.context.supervisor.token().cancel();
        self.task.await.unwrap();
    }

    /// Ends it without a word.
    pub(crate) async fn kill(self) {
        self.life.dead.cancel();
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}
