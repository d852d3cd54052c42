//! The HTTP connections beneath every client here, and errors that say what to do.

use std::{error::Error as StdError, io, sync::Arc, task::Poll, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper_rustls::{
    FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, builderstates::WantsProtocols1,
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use jiff::Timestamp;
use rustls::{CertificateError, ClientConfig, pki_types::ServerName};
use tower::{BoxError, Layer, Service};

use super::identity::ReloadedIdentity;

/// TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than a watch may be silent between bookmarks, so that only a dead connection runs into it.
const READ_TIMEOUT: Duration = Duration::from_mins(5);
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
/// Below the idle time of our own listeners, so that a request seldom meets a connection that is just closing.
const POOL_IDLE: Duration = Duration::from_mins(1);
/// Dead peers are noticed by the kernel, also beneath a silent watch.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

pub(super) type HttpClient<B> = Client<TimeoutConnector<HttpsConnector<HttpConnector>>, B>;

/// A pooled HTTP/1 client, as kube's own: each watch takes a connection.
pub(super) fn http_client<B>(tls: ClientConfig) -> HttpClient<B>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    connecting(HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http())
}

/// The same for servers whose certificate has another name than their address, if one is given.
pub(super) fn http_client_of<B>(tls: ClientConfig, name: Option<ServerName<'static>>) -> HttpClient<B>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    connecting(match name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    })
}

fn connecting<B>(builder: HttpsConnectorBuilder<WantsProtocols1>) -> HttpClient<B>
where
    B: hyper::body::Body + Send,
    B::Data: Send,
{
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_keepalive(Some(TCP_KEEPALIVE));
    let https = builder.enable_http1().wrap_connector(http);
    let mut connector = TimeoutConnector::new(https);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_read_timeout(Some(READ_TIMEOUT));
    connector.set_write_timeout(Some(WRITE_TIMEOUT));
    // Else the time that a pooled connection lay idle counts against the next answer.
    connector.set_reset_reader_on_write(true);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE)
        .build(connector)
}

/// A request that never got an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiTransportError {
    /// The server's certificate is not one that we trust.
    #[error(
        "the API server at {url} is not trusted ({reason}): set tls_ca_file to the CA that signed its certificate, \
         or tls_insecure = true to accept any (development only; verified is the default)"
    )]
    UntrustedServer {
        /// The server, redacted.
        url: String,
        /// What is wrong with its certificate.
        reason: String,
    },
    /// The server refused our certificate, or wants one.
    #[error(
        "the API server at {url} refused our side of TLS ({reason}): set tls_cert_file and tls_key_file \
         to a client certificate that it accepts"
    )]
    ClientRefused {
        /// The server, redacted.
        url: String,
        /// The alert that it sent.
        reason: String,
    },
    /// A Kubernetes API server's certificate is not one that we trust.
    #[error(
        "the API server at {url} is not trusted ({reason}): check certificate-authority in the kubeconfig, or ca.crt of \
         the service account"
    )]
    UntrustedCluster {
        /// The server, redacted.
        url: String,
        /// What is wrong with its certificate.
        reason: String,
    },
    /// The server's certificate has expired.
    #[error("the certificate of the API server at {url} expired at {at}: renew it there")]
    ExpiredServer {
        /// The server, redacted.
        url: String,
        /// When.
        at: Timestamp,
    },
    /// What authenticates us has expired.
    #[error("the API server at {url} does not accept {what}: it expired at {at}; {remedy}")]
    ExpiredClient {
        /// The server, redacted.
        url: String,
        /// Which certificate.
        what: String,
        /// When.
        at: Timestamp,
        /// What to do about it.
        remedy: &'static str,
    },
    /// No connection.
    #[error("failed to connect to the API server at {url}")]
    Connect {
        /// The server, redacted.
        url: String,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
}

/// What TLS objected to, if that is why a request failed.
pub(super) enum TlsFailure {
    Expired(Timestamp),
    Untrusted(String),
    Refused(String),
}

/// Looks for a TLS failure through a chain of sources. An [`io::Error`] hides the error it wraps from
/// [`StdError::source`], so it is opened.
pub(super) fn tls_failure(error: &(dyn StdError + 'static)) -> Option<TlsFailure> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return match error {
                rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. }) => {
                    let at = i64::try_from(not_after.as_secs()).ok();
                    Some(TlsFailure::Expired(
                        at.and_then(|at| Timestamp::from_second(at).ok()).unwrap_or_default(),
                    ))
                }
                rustls::Error::InvalidCertificate(reason) => Some(TlsFailure::Untrusted(reason.to_string())),
                rustls::Error::AlertReceived(alert) => Some(TlsFailure::Refused(format!("{alert:?}"))),
                _ => None,
            };
        }
        if let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref)
            && let Some(failure) = tls_failure(inner)
        {
            return Some(failure);
        }
        next = error.source();
    }
    None
}

/// Turns the errors of an [`HttpClient`] into [`ApiTransportError`]s that name the server.
#[derive(Clone, Debug)]
pub(super) struct ExplainLayer {
    pub(super) url: String,
    /// What we show, if it is something that expires.
    pub(super) credential: Option<Shown>,
    /// Whether the way to the server is a kubeconfig's or a pod's, and not that of our settings.
    pub(super) kubernetes: bool,
}

/// What authenticates us, and until when.
#[derive(Clone, Debug)]
pub(super) struct Credential {
    pub(super) what: String,
    pub(super) expires: Timestamp,
    /// Whether a renewed one is taken without a restart.
    pub(super) is_reloaded: bool,
}

/// What authenticates us for as long as we run.
#[derive(Clone, Debug)]
pub(super) enum Shown {
    Fixed(Credential),
    Reloaded(Arc<ReloadedIdentity>),
}

impl Shown {
    /// What authenticates us now, if its time is over.
    pub(super) fn expired(&self) -> Option<Credential> {
        let credential = match self {
            Self::Fixed(credential) => credential.clone(),
            Self::Reloaded(identity) => identity.current().credential().clone(),
        };
        Some(credential).filter(|credential| credential.expires <= Timestamp::now())
    }
}

impl ExplainLayer {
    fn expired(&self) -> Option<ApiTransportError> {
        let Credential { what, expires, is_reloaded } = self.credential.as_ref()?.expired()?;
        let remedy = if is_reloaded { "renew it in its file" } else { "renew it and start again" };
        Some(ApiTransportError::ExpiredClient { url: self.url.clone(), what, at: expires, remedy })
    }
}

impl<S> Layer<S> for ExplainLayer {
    type Service = Explain<S>;

    fn layer(&self, inner: S) -> Explain<S> {
        Explain { inner, of: self.clone() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Explain<S> {
    inner: S,
    of: ExplainLayer,
}

impl<S, B> Service<Request<B>> for Explain<S>
where
    S: Service<Request<B>, Response = Response<Incoming>, Error = hyper_util::client::legacy::Error>,
    S::Future: Send + 'static,
{
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let of = self.of.clone();
        self.inner
            .call(request)
            .map(move |answer| match answer {
                // Some servers say no more than that.
                Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => match of.expired() {
                    Some(error) => Err(error.into()),
                    None => Ok(answer),
                },
                Ok(answer) => Ok(answer),
                Err(error) => Err(explain(of, error)),
            })
            .boxed()
    }
}

fn explain(of: ExplainLayer, error: hyper_util::client::legacy::Error) -> BoxError {
    let url = of.url.clone();
    match tls_failure(&error) {
        Some(TlsFailure::Expired(at)) => ApiTransportError::ExpiredServer { url, at }.into(),
        Some(TlsFailure::Untrusted(reason)) if of.kubernetes => {
            ApiTransportError::UntrustedCluster { url, reason }.into()
        }
        Some(TlsFailure::Untrusted(reason)) => ApiTransportError::UntrustedServer { url, reason }.into(),
        Some(TlsFailure::Refused(reason)) => {
            of.expired().unwrap_or(ApiTransportError::ClientRefused { url, reason }).into()
        }
        None if error.is_connect() => ApiTransportError::Connect { url, source: error.into() }.into(),
        None => error.into(),
    }
}
