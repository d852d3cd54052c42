//! HTTP without TLS: for loopback, and behind something that ends TLS.

use std::net::SocketAddr;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{
    ServeOptions,
    connection::{Protocol, accept_loop, serve_connection},
};

/// Serves `router` until `shutdown`, with the default limits.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    serve_with(listener, router, ServeOptions::default(), shutdown).await;
}

/// Serves `router` until `shutdown`. Requests carry [`axum::extract::ConnectInfo`].
pub async fn serve_with(
    listener: TcpListener,
    router: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) {
    accept_loop(listener, &options, shutdown.clone(), |stream, peer| {
        connection(stream, peer, router.clone(), options.clone(), shutdown.clone())
    })
    .await;
}

/// Hands each connection to `handle`, within the limits, until `shutdown`: for what speaks a protocol of its own.
pub async fn accept<H, F>(
    listener: TcpListener,
    options: ServeOptions,
    shutdown: CancellationToken,
    handle: H,
) where
    H: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    accept_loop(listener, &options, shutdown, |stream, _peer| handle(stream)).await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) {
    // Telling HTTP/1 from HTTP/2 takes the first bytes, and nothing else bounds the wait for them.
    let mut first_byte = [0];
    tokio::select! {
        peeked = tokio::time::timeout(options.header_read_timeout, stream.peek(&mut first_byte)) => {
            if !matches!(peeked, Ok(Ok(1))) {
                return;
            }
        }
        () = shutdown.cancelled() => return,
    }
    serve_connection(stream, peer, None, Protocol::Either, router, options, shutdown).await;
}
