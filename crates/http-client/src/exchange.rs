//! One request and its answer.

use std::error::Error as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use reqwest::{ClientBuilder, Request, RequestBuilder, Response, redirect};
use tracing::{Instrument as _, Span};
use url::Url;

use crate::address::AddressRefused;
use crate::{Deadline, Deadlines, Tls, printable};

const AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

/// Why there is no answer, or no whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A name resolves to an address that may not be connected to; and why.
    Refused(String),
    /// It took longer than this.
    Timeout(Duration),
    /// There is no connection, or it broke; and what the network said.
    Broken(String),
    /// It has more than this many bytes.
    TooLarge(u64),
}

/// A client that follows no redirect, says nothing of where a request comes from, and trusts and shows what `tls` says.
pub fn builder(tls: &Tls, connect: Duration) -> ClientBuilder {
    let builder = reqwest::Client::builder()
        .user_agent(AGENT)
        .redirect(redirect::Policy::none())
        .referer(false)
        .connect_timeout(connect)
        .pool_idle_timeout(Duration::from_mins(1));
    tls.apply(builder)
}

/// Sends a request and waits for the head of its answer.
///
/// # Errors
/// [`Failure`], without the URL: that of a redirect may be signed.
pub async fn send(request: RequestBuilder, deadline: &Deadline) -> Result<Answer, Failure> {
    let Deadlines { connect, read, .. } = deadline.deadlines;
    let (client, request) = request.build_split();
    let request = request.map_err(|error| failure(&error, connect))?;
    let span = span(&request);
    let sent = deadline.within(connect + read, client.execute(request)).instrument(span.clone()).await?;
    if let Ok(response) = &sent {
        span.record("http.response.status_code", response.status().as_u16());
    }
    let response = sent.map_err(|error| failure(&error, connect))?;
    Ok(Answer { response, deadline: *deadline, received: 0 })
}

/// The span of a request, by OpenTelemetry's conventions, where it is a part of something that has one. Its URL may be
/// signed: the server is named, and no more of it.
fn span(request: &Request) -> Span {
    if Span::current().is_none() {
        return Span::none();
    }
    tracing::info_span!(
        "http",
        otel.name = request.method().as_str(),
        otel.kind = "client",
        http.request.method = request.method().as_str(),
        server.address = request.url().host_str(),
        server.port = request.url().port_or_known_default(),
        http.response.status_code = tracing::field::Empty,
    )
}

/// An answer whose body was not read yet, or in part.
#[derive(Debug)]
pub struct Answer {
    response: Response,
    deadline: Deadline,
    received: u64,
}

impl Answer {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// Its headers.
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Where it says that the answer is (`Location`), relative to where it was asked for.
    pub fn location(&self) -> Option<Url> {
        let location = self.headers().get(LOCATION)?.to_str().ok()?;
        self.response.url().join(location).ok()
    }

    /// The next piece of the body, which may have `max` bytes as a whole; nothing at its end.
    ///
    /// # Errors
    /// [`Failure`]; of one that broke, after how many bytes.
    pub async fn chunk(&mut self, max: u64) -> Result<Option<Bytes>, Failure> {
        let piece = self.deadline.within(self.deadline.deadlines.read, self.response.chunk()).await?;
        let piece = piece.map_err(|error| {
            Failure::Broken(format!(
                "the answer ended early after {} bytes: {}",
                self.received,
                chain(&error)
            ))
        })?;
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if self.received > max { Err(Failure::TooLarge(max)) } else { Ok(piece) }
    }

    /// The whole body, if it has at most `max` bytes. Of a larger one nothing is read when the server says how large it
    /// is, and no more than `max` when it does not.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn body(mut self, max: u64) -> Result<Bytes, Failure> {
        if self.response.content_length().is_some_and(|length| length > max) {
            return Err(Failure::TooLarge(max));
        }
        let mut body = BytesMut::new();
        while let Some(piece) = self.chunk(max).await? {
            body.extend_from_slice(&piece);
        }
        Ok(body.freeze())
    }
}

fn failure(error: &reqwest::Error, connect: Duration) -> Failure {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(refused) = cause.downcast_ref::<AddressRefused>() {
            return Failure::Refused(refused.to_string());
        }
        source = cause.source();
    }
    if error.is_timeout() { Failure::Timeout(connect) } else { Failure::Broken(chain(error)) }
}

/// An error's causes in one line, without repetitions. Its own words are left out: they name the URL.
pub(crate) fn chain(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        source = cause.source();
    }
    if parts.is_empty() {
        parts.push("the request failed".to_owned());
    }
    printable(&parts.join(": "), 300)
}
