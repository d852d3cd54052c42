//! What is between a replica and its API server: delay, loss, outages; and the process itself, which can be paused.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kube::Client;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::watch;
use windlass_apiserver::client_of;
use windlass_auth::Caller;

/// A process that stands still while it is paused: nothing of it runs, and nothing reaches or leaves it.
#[derive(Clone)]
pub(crate) struct Pause(Arc<watch::Sender<bool>>);

impl Pause {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(crate) fn set(&self, paused: bool) {
        self.0.send_replace(paused);
    }

    async fn over(&self) {
        self.0.subscribe().wait_for(|paused| !paused).await.unwrap();
    }

    /// Polls `work` only while the process is not paused.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut paused = self.0.subscribe();
        loop {
            self.over().await;
            let stopped = pin!(paused.wait_for(|paused| *paused));
            if let Some(done) = (Unless { work: work.as_mut(), stopped }).await {
                return done;
            }
        }
    }
}

/// Polls `work`, unless `stopped` is ready.
struct Unless<'a, W, S> {
    work: Pin<&'a mut W>,
    stopped: Pin<&'a mut S>,
}

impl<W: Future, S: Future> Future for Unless<'_, W, S> {
    type Output = Option<W::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        self.work.as_mut().poll(context).map(Some)
    }
}

/// How bad a network is at the moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weather {
    /// Nothing gets through, in either direction.
    pub(crate) cut: bool,
    /// The server answers 503.
    pub(crate) down: bool,
    /// The share of requests, and of answers, that are lost.
    pub(crate) loss: f64,
    /// The longest delay in each direction.
    pub(crate) delay: Duration,
}

/// One replica's way to the server.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) weather: Arc<Mutex<Weather>>,
    pub(crate) pause: Pause,
    rng: Arc<Mutex<StdRng>>,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            weather: Arc::default(),
            pause: Pause::new(),
            rng: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
        }
    }

    /// A client that goes through this network. `leaving` sees every request as it leaves the process.
    pub(crate) fn client(
        &self,
        router: Router,
        leaving: impl Fn(&Request) + Clone + Send + Sync + 'static,
    ) -> Client {
        let network = self.clone();
        let router = router.layer(from_fn(move |request: Request, next: Next| {
            leaving(&request);
            let network = network.clone();
            async move { network.through(request, next).await }
        }));
        client_of(router, Caller::system("replica"))
    }

    async fn through(&self, request: Request, next: Next) -> Response {
        self.travel().await;
        if self.weather.lock().unwrap().down {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let response = next.run(request).await;
        self.travel().await;
        // A paused process reads the answer when it goes on.
        self.pause.over().await;
        response
    }

    /// One way; for ever when the message is lost.
    async fn travel(&self) {
        let weather = *self.weather.lock().unwrap();
        let (lost, share) = {
            let mut rng = self.rng.lock().unwrap();
            (rng.random_bool(weather.loss), rng.random::<f64>())
        };
        if weather.cut || lost {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(weather.delay.mul_f64(share)).await;
    }
}
