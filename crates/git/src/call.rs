//! What all requests of one operation share.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use url::Url;
use windlass_http_client::{Deadline, Failure, Tls, judging_resolver, limit_reset, printable, retry_after};

use crate::hosts::HostSlots;
use crate::metrics::Figures;
use crate::policy::{self, Origin};
use crate::redact::redact;
use crate::upload::Progress;
use crate::{Credentials, GitError, Proxy};

/// Some servers show their web pages to anything that does not begin with `git/`.
const AGENT: &str = concat!("git/2.0 (windlass ", env!("CARGO_PKG_VERSION"), ")");

/// What all requests of one operation share.
pub(crate) struct Call<'a> {
    /// The repository's URL.
    pub(crate) url: &'a Url,
    /// Who asks.
    pub(crate) credentials: Option<&'a Credentials>,
    /// What to send requests with.
    pub(crate) clients: &'a Clients,
    /// What lies between.
    pub(crate) proxy: Option<&'a Proxy>,
    /// What is being done, for messages: `read the refs of`.
    pub(crate) what: &'static str,
    /// How long it may take.
    pub(crate) deadline: Deadline,
    /// How slow it may be.
    pub(crate) pace: Pace,
    /// The caller's signal to stop.
    pub(crate) cancel: &'a CancellationToken,
    /// Where it is told what they cost.
    pub(crate) figures: &'a Figures,
    /// How far the body of the request is that is under way, if it has a large one.
    pub(crate) upload: Option<Arc<Progress>>,
}

/// The least that has to come, or go, in a time of waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes a second; 0 for none.
    pub(crate) least: u64,
    pub(crate) window: Duration,
    /// How long nothing may happen at all.
    pub(crate) silence: Duration,
}

impl Pace {
    pub(crate) fn is_too_slow(&self, bytes: u64, waited: Duration) -> bool {
        waited >= self.window && (bytes as f64) < self.least as f64 * waited.as_secs_f64()
    }
}

impl Call<'_> {
    /// `host:port`, for messages.
    pub(crate) fn host(&self) -> String {
        Origin::of(self.url).map(|origin| origin.authority()).unwrap_or_default()
    }

    /// A protocol error of this call.
    pub(crate) fn protocol(&self, detail: impl Into<String>) -> GitError {
        GitError::Protocol { host: self.host(), detail: self.printable(&detail.into(), 200) }
    }

    /// A server's words without the secrets of this call, for a message.
    pub(crate) fn printable(&self, text: &str, max: usize) -> String {
        printable(&self.redact(text), max)
    }

    /// `text` without the secrets of this call.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact(self.credentials, text)
    }

    /// One of the places for requests to the host, for as long as the answer is kept. It is not waited for longer than
    /// `limit`.
    pub(crate) async fn host_slot(
        &self,
        slots: &HostSlots,
        limit: Duration,
    ) -> Result<OwnedSemaphorePermit, GitError> {
        let turn = timeout(limit, slots.acquire());
        match self.unless_cancelled(turn).await? {
            Ok(permit) => permit.map_err(|_closed| GitError::Cancelled),
            Err(_elapsed) => Err(GitError::HostBusy { host: self.host() }),
        }
    }

    /// Waits for `future`, but no longer than the whole operation's deadline, and not when the caller gives up.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = T>) -> Result<T, GitError> {
        let done = self.unless_cancelled(self.deadline.by_the_end(future)).await?;
        done.map_err(|failure| self.failed(failure))
    }

    pub(crate) async fn unless_cancelled<T>(&self, future: impl Future<Output = T>) -> Result<T, GitError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(GitError::Cancelled),
            value = future => Ok(value),
        }
    }

    /// Waits for the network. While a body is sent, an answer is not expected as long as that goes on; once all of it
    /// is sent the server may act on it, and the answer is waited for whether the caller gives up or not.
    pub(crate) async fn waiting<T>(&self, future: impl Future<Output = T>) -> Result<T, GitError> {
        let Some(progress) = &self.upload else {
            return self.unless_cancelled(future).await;
        };
        let mut future = std::pin::pin!(future);
        let mut before = progress.sent();
        loop {
            let step = timeout(self.pace.silence, &mut future);
            let done =
                if progress.is_complete() { Ok(step.await) } else { self.unless_cancelled(step).await };
            match done {
                Ok(Ok(value)) => return Ok(value),
                Err(error) if !progress.is_complete() => return Err(error),
                Err(_) => continue,
                Ok(Err(_elapsed)) => {}
            }
            let sent = progress.sent();
            if sent == before {
                return Err(self.failed(Failure::Timeout(self.pace.silence)));
            }
            let pace = Pace { window: self.pace.silence, ..self.pace };
            if !progress.is_complete() && pace.is_too_slow(sent - before, self.pace.silence) {
                return Err(self.too_slow());
            }
            before = sent;
        }
    }

    pub(crate) fn too_slow(&self) -> GitError {
        GitError::TooSlow { host: self.host(), what: self.what, least: self.pace.least }
    }

    pub(crate) fn failed(&self, failure: Failure) -> GitError {
        match failure {
            Failure::Refused(detail) => GitError::PolicyRefused { url: self.url.to_string(), detail },
            Failure::Timeout(after) => GitError::Timeout { host: self.host(), what: self.what, after },
            Failure::Broken(detail) => {
                GitError::Unreachable { host: self.host(), detail: self.redact(&detail) }
            }
            Failure::TooLarge(max) => self.protocol(format!("it has more than {max} bytes")),
        }
    }

    /// Where a redirect leads, if that is where the credentials may go.
    pub(crate) fn redirect(&self, target: Option<Url>) -> Result<Url, GitError> {
        let target = target.ok_or_else(|| self.protocol("a redirect without a target"))?;
        if Origin::of(&target) == Origin::of(self.url) {
            return Ok(target);
        }
        let elsewhere = Origin::of(&target).map_or_else(|| target.scheme().to_owned(), |it| it.to_string());
        Err(GitError::PolicyRefused {
            url: self.url.to_string(),
            detail: format!(
                "it redirects to another origin, {}; use that URL if you trust it",
                self.printable(&elsewhere, 200)
            ),
        })
    }

    /// The typed error of a status that is not 200.
    pub(crate) fn judge(&self, status: StatusCode, headers: &HeaderMap, sent: bool) -> Result<(), GitError> {
        let host = self.host();
        let exhausted = headers.get("x-ratelimit-remaining").is_some_and(|remaining| remaining == "0");
        let retry_after = retry_after(headers).or_else(|| limit_reset(headers));
        Err(match status {
            StatusCode::OK => return Ok(()),
            StatusCode::UNAUTHORIZED => GitError::Unauthorized { host, sent },
            StatusCode::FORBIDDEN if exhausted || retry_after.is_some() => {
                GitError::RateLimited { host, retry_after }
            }
            StatusCode::FORBIDDEN => GitError::Forbidden { host },
            StatusCode::NOT_FOUND => GitError::NotFound { url: self.url.to_string() },
            StatusCode::TOO_MANY_REQUESTS => GitError::RateLimited { host, retry_after },
            status if status.is_server_error() => GitError::Unavailable { host, status: status.as_u16() },
            status => {
                GitError::NotGit { url: self.url.to_string(), detail: format!("it answers HTTP {status}") }
            }
        })
    }
}

/// One keep-alive client for public addresses, and one for origins that settings allow to be anything. Proxy
/// settings of the environment are not used: a proxy would connect to addresses that nobody judged.
pub(crate) struct Clients {
    pub(crate) public: reqwest::Client,
    pub(crate) lifted: reqwest::Client,
}

impl Clients {
    pub(crate) fn new(tls: &Tls, connect: Duration, proxy: Option<&Proxy>) -> reqwest::Result<Self> {
        let builder = || {
            let builder = windlass_http_client::builder(tls, connect).user_agent(AGENT).no_proxy();
            Ok::<_, reqwest::Error>(match proxy {
                Some(proxy) => builder.proxy(proxy.for_http()?),
                None => builder,
            })
        };
        let public = builder()?.dns_resolver(judging_resolver(policy::refused)).build()?;
        Ok(Self { public, lifted: builder()?.build()? })
    }
}
