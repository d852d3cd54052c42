//! The time in which a process may write, and clients that write in no other.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::service_fn;

use crate::BoxError;

/// A write was not sent, since the process does not lead any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not sent: this process does not lead any more")]
pub struct NotLeading;

/// Tells whether this process leads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership {
    terms: watch::Receiver<Option<Term>>,
    /// Keeps the channel of a process that leads for good.
    _always: Option<Arc<watch::Sender<Option<Term>>>>,
}

impl Leadership {
    /// Of a process that needs no election: it leads for good.
    pub fn always() -> Self {
        let (sender, terms) = watch::channel(Some(Term::new(None)));
        Self { terms, _always: Some(Arc::new(sender)) }
    }

    pub(super) fn following(terms: watch::Receiver<Option<Term>>) -> Self {
        Self { terms, _always: None }
    }

    /// Whether this process leads at this moment.
    pub fn is_leading(&self) -> bool {
        self.terms.borrow().as_ref().is_some_and(Term::holds)
    }

    /// Waits until this process leads. Never returns when it does not stand for election any more.
    pub async fn term(&self) -> Term {
        let mut terms = self.terms.clone();
        loop {
            let term = terms.borrow_and_update().clone();
            if let Some(term) = term.filter(Term::holds) {
                return term;
            }
            if terms.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Has `work` done whenever this process leads, until `shutdown`. Work is dropped where it is when its term ends; a
    /// shutdown it has to see itself, so that it may finish what is under way.
    pub async fn lead<W: Future<Output = ()>>(&self, shutdown: &CancellationToken, work: impl Fn(Term) -> W) {
        while let Some(term) = shutdown.run_until_cancelled(self.term()).await {
            tokio::select! {
                biased;
                () = term.ended() => {}
                () = work(term.clone()) => {}
            }
            if shutdown.is_cancelled() {
                return;
            }
        }
    }
}

/// One uninterrupted time as leader. Once it is over it stays over. Clones share it.
#[derive(Clone)]
pub struct Term {
    /// The moment after which nothing may be written; none for a term that only an end ends.
    deadline: Arc<Mutex<Option<Instant>>>,
    ended: CancellationToken,
}

impl Term {
    fn new(deadline: Option<Instant>) -> Self {
        Self { deadline: Arc::new(Mutex::new(deadline)), ended: CancellationToken::new() }
    }

    pub(super) fn until(deadline: Instant) -> Self {
        Self::new(Some(deadline))
    }

    /// Whether it goes on at this moment, by this process's monotonic clock.
    pub fn holds(&self) -> bool {
        self.look(&mut self.lock())
    }

    /// Waits until it is over.
    pub async fn ended(&self) {
        loop {
            let deadline = *self.lock();
            if !self.holds() {
                return;
            }
            let over = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.ended.cancelled() => return,
                // It may have been renewed meanwhile.
                () = over => {}
            }
        }
    }

    /// A client that reads as `client` does, and writes only while the term goes on. A write that waits for a connection
    /// when the term ends is not sent any more.
    pub fn guard(&self, client: &Client) -> Client {
        let (term, inner) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Body>| {
            let (term, inner) = (term.clone(), inner.clone());
            async move {
                if matches!(*request.method(), Method::GET | Method::HEAD) {
                    return inner.send(request).await.map_err(BoxError::from);
                }
                let (mut send, mut ended) = (pin!(inner.send(request)), pin!(term.ended()));
                poll_fn(|context| {
                    // The clock is looked at before each step: a timer may be late, above all after a pause.
                    if !term.holds() || ended.as_mut().poll(context).is_ready() {
                        return Poll::Ready(Err(NotLeading.into()));
                    }
                    send.as_mut().poll(context).map_err(BoxError::from)
                })
                .await
            }
        });
        Client::new(service, client.default_namespace())
    }

    /// Moves the deadline. False when the term is over already, which it then stays.
    pub(super) fn extend(&self, deadline: Instant) -> bool {
        let mut current = self.lock();
        let holds = self.look(&mut current);
        if holds {
            *current = Some(deadline);
        }
        holds
    }

    pub(super) fn end(&self) {
        self.ended.cancel();
    }

    /// Ends the term when the answer is dropped.
    pub(super) fn ends_with_this(self) -> DropGuard {
        self.ended.drop_guard()
    }

    fn look(&self, deadline: &mut MutexGuard<'_, Option<Instant>>) -> bool {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.ended.cancel();
        }
        !self.ended.is_cancelled()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").field("holds", &self.holds()).finish()
    }
}
