//! The server: gRPC and HTTP on one port, on a thread of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tonic::{Code, Status};

use crate::services::router;
use crate::signal::{Signal, StartError};
use crate::tls::{Certificates, TlsListener};
use crate::{Headers, Received};

/// How a collector answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    /// At once.
    #[default]
    Answer,
    /// After this time.
    Dawdle(Duration),
    /// Not at all, until it is told to behave otherwise; then it goes on with what it was asked meanwhile.
    Hang,
    /// With this status, or the one of HTTP that means the same; nothing is kept.
    Refuse(Code),
    /// At once, and it keeps what came; but it says that it rejected so many of the spans, records or points in it.
    Reject(i64),
}

/// A collector on `127.0.0.1`. Dropped, it closes every connection and its port.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    certificates: Option<Certificates>,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct State {
    received: Mutex<Received>,
    /// Counts what was taken, for those who wait.
    taken: watch::Sender<u64>,
    /// To each signal.
    behaviour: [watch::Sender<Behaviour>; 3],
}

impl Receiver {
    /// A collector on a free port, without TLS.
    pub fn start() -> Result<Self, StartError> {
        Self::start_on(0)
    }

    /// A collector on this port, without TLS: for one that comes back.
    pub fn start_on(port: u16) -> Result<Self, StartError> {
        Self::serve(listen(port)?, None)
    }

    /// A collector on a port that somebody else took before, and did not serve.
    pub fn start_at(listener: TcpListener) -> Result<Self, StartError> {
        Self::serve(listener, None)
    }

    /// A collector on a free port that speaks TLS as `127.0.0.1` and `localhost`; [`Receiver::authority`] vouches for it.
    pub fn start_with_tls() -> Result<Self, StartError> {
        Self::serve(listen(0)?, Some(Certificates::new(false)?))
    }

    /// The same, for nobody who does not show [`Receiver::identity`].
    pub fn start_with_mutual_tls() -> Result<Self, StartError> {
        Self::serve(listen(0)?, Some(Certificates::new(true)?))
    }

    fn serve(listener: TcpListener, certificates: Option<Certificates>) -> Result<Self, StartError> {
        let failed = |source| StartError::Listen { port: 0, source };
        let address = listener.local_addr().map_err(failed)?;
        let failed = |source| StartError::Listen { port: address.port(), source };
        listener.set_nonblocking(true).map_err(failed)?;
        let state = Arc::new(State {
            received: Mutex::default(),
            taken: watch::Sender::new(0),
            behaviour: Signal::ALL.map(|_| watch::Sender::new(Behaviour::default())),
        });
        let router = router(&state);
        let acceptor = certificates.as_ref().map(Certificates::acceptor).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        // A runtime of its own: when it goes, so does every connection, as when a collector is killed.
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let serving = async {
                    match acceptor {
                        Some(acceptor) => axum::serve(TlsListener::new(listener, acceptor), router).await,
                        None => axum::serve(listener, router).await,
                    }
                };
                tokio::select! {
                    _ = serving => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self { address, certificates, state, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its URL, as `--telemetry-endpoint` and `OTEL_EXPORTER_OTLP_ENDPOINT` take it.
    pub fn url(&self) -> String {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The authority of its certificate, PEM, where it speaks TLS.
    pub fn authority(&self) -> Option<&str> {
        self.certificates.as_ref().map(|all| all.authority.as_str())
    }

    /// A client's certificate that it trusts and its key, PEM, where it speaks TLS.
    pub fn identity(&self) -> Option<(&str, &str)> {
        self.certificates.as_ref().map(|all| (all.client.0.as_str(), all.client.1.as_str()))
    }

    /// Answers like this from now on, what is waiting included.
    pub fn behave(&self, behaviour: Behaviour) {
        for signal in Signal::ALL {
            self.behave_to(signal, behaviour);
        }
    }

    /// Answers what brings this signal like this from now on, what is waiting included.
    pub fn behave_to(&self, signal: Signal, behaviour: Behaviour) {
        self.state.behaviour[signal as usize].send_replace(behaviour);
    }

    /// Looks at what came so far.
    pub fn look<T>(&self, look: impl FnOnce(&Received) -> T) -> T {
        look(&self.state.lock())
    }

    /// Forgets what came so far.
    pub fn forget(&self) {
        *self.state.lock() = Received::default();
    }

    /// Waits until `look` finds what it wants, for at most `deadline`; None when it never came.
    pub async fn until<T>(
        &self,
        deadline: Duration,
        mut look: impl FnMut(&Received) -> Option<T>,
    ) -> Option<T> {
        let mut taken = self.state.taken.subscribe();
        let found = async {
            loop {
                taken.borrow_and_update();
                if let Some(found) = look(&self.state.lock()) {
                    return Some(found);
                }
                // The sender is ours and lives as long as we do.
                taken.changed().await.ok()?;
            }
        };
        tokio::time::timeout(deadline, found).await.ok().flatten()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Gone already when the server ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request once the behaviour says so, with how much of it was rejected.
    pub(crate) async fn take(
        &self,
        signal: Signal,
        headers: Headers,
        keep: impl FnOnce(&mut Received),
    ) -> Result<i64, Status> {
        let mut behaviour = self.behaviour[signal as usize].subscribe();
        let awake = |behaviour: &Behaviour| *behaviour != Behaviour::Hang;
        let now = behaviour.wait_for(awake).await.map_or(Behaviour::Answer, |now| *now);
        let rejected = match now {
            Behaviour::Answer | Behaviour::Hang => 0,
            Behaviour::Dawdle(time) => {
                tokio::time::sleep(time).await;
                0
            }
            Behaviour::Refuse(code) => return Err(Status::new(code, "refused, as it was told to")),
            Behaviour::Reject(items) => items,
        };
        let mut received = self.lock();
        keep(&mut received);
        received.headers.push((signal, headers));
        drop(received);
        self.taken.send_modify(|taken| *taken += 1);
        Ok(rejected)
    }
}

fn listen(port: u16) -> Result<TcpListener, StartError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|source| StartError::Listen { port, source })
}
