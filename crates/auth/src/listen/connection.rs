//! What every listener does: accept within limits, serve HTTP/1 and HTTP/2, end in time.

use std::{
    convert::Infallible, net::SocketAddr, panic::AssertUnwindSafe, pin::pin, sync::Arc, time::Duration,
};

use axum::{
    Json, Router,
    extract::ConnectInfo,
    response::{IntoResponse as _, Response},
};
use futures::FutureExt as _;
use http::StatusCode;
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use windlass_api::status;

use super::activity::{Activity, BodyUnderWay, Peers};
use super::unread_body::track;
use super::{PeerIdentity, ServeOptions};

/// Wait after a failed accept, which a shortage of file descriptors makes fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Which HTTP versions a connection may speak.
#[derive(Clone, Copy, Debug)]
pub(super) enum Protocol {
    Http1,
    Http2,
    /// Told by the first bytes.
    Either,
}

/// Accepts connections and hands each to `handle` in a task of its own until `shutdown`; then waits for them,
/// at most the grace.
pub(super) async fn accept_loop<H, F>(
    listener: TcpListener,
    options: &ServeOptions,
    shutdown: CancellationToken,
    handle: H,
) where
    H: Fn(TcpStream, SocketAddr) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(options.max_connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    let peers = Arc::new(Peers::default());
    loop {
        let accepted = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            (slot, accepted) = accepted => match accepted {
                Ok((stream, peer)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "connection ended before it began");
                        continue;
                    }
                    let Some(admitted) = peers.admit(peer.ip(), options.max_connections_per_peer) else {
                        tracing::debug!(%peer, "a connection is closed: its peer has too many");
                        continue;
                    };
                    let connection = handle(stream, peer);
                    connections.spawn(async move {
                        connection.await;
                        drop((slot, admitted));
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let drained =
        tokio::time::timeout(options.grace, async { while connections.join_next().await.is_some() {} });
    if drained.await.is_err() {
        tracing::debug!(connections = connections.len(), "closing connections that outlived the grace");
        connections.shutdown().await;
    }
}

/// Serves one connection until it ends; after `shutdown` requests under way are finished and no more are taken.
pub(super) async fn serve_connection<S>(
    stream: S,
    peer: SocketAddr,
    identity: Option<PeerIdentity>,
    protocol: Protocol,
    router: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(options.header_read_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    let builder = match protocol {
        Protocol::Http1 => builder.http1_only(),
        Protocol::Http2 => builder.http2_only(),
        Protocol::Either => builder,
    };
    let activity = Arc::new(Activity::default());
    let requests = Arc::clone(&activity);
    let service = hyper::service::service_fn(move |mut request: http::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        if let Some(identity) = &identity {
            request.extensions_mut().insert(identity.clone());
        }
        let (request, unread) = {
            let (parts, body) = request.into_parts();
            let (body, unread) = track(body, options.body_timeout);
            (http::Request::from_parts(parts, body), unread)
        };
        let under_way = requests.begin();
        let answer = answer(router.clone(), request);
        async move {
            let answer = answer.await;
            unread.drain().await;
            answer.map(|answer| answer.map(|body| BodyUnderWay { body, _under_way: under_way }))
        }
    });
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = async {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = activity.ended_for(options.idle_timeout) => {}
            }
        } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "connection ended with an error");
    }
}

/// The router's answer. A panic ends the request that it happened in, and no other one of its connection; what panicked
/// was told by the panic hook.
async fn answer<B>(mut router: Router, request: http::Request<B>) -> Result<Response, Infallible>
where
    Router: tower::Service<http::Request<B>, Response = Response, Error = Infallible, Future: Send>,
{
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let answered = AssertUnwindSafe(async move { router.call(request).await }).catch_unwind().await;
    answered.unwrap_or_else(|_panic| {
        tracing::error!(%method, path, "a request panicked");
        let status = status::internal_error("the request could not be worked on");
        Ok((StatusCode::INTERNAL_SERVER_ERROR, Json(status)).into_response())
    })
}
