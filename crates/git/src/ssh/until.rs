//! A connection that ends when its call does: a session runs by itself, and a server that keeps it busy must not keep it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

pub(super) struct Until {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
}

impl Until {
    pub(super) fn new(stream: TcpStream, end: Instant) -> Self {
        Self { stream, end: Box::pin(sleep_until(end)) }
    }
}

impl AsyncRead for Until {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Until {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_ends_when_its_time_is_over_however_busy_it_is() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let end = Instant::now() + Duration::from_millis(100);
        let mut until = Until::new(stream, end);
        // The other side never stops.
        let busy = async {
            loop {
                peer.writable().await.unwrap();
                let _full_or_gone = peer.try_write(b"noise");
                tokio::task::yield_now().await;
            }
        };
        let read = async {
            let mut buffer = [0; 1024];
            loop {
                if let Err(error) = until.read(&mut buffer).await {
                    return error.kind();
                }
            }
        };
        tokio::select! {
            kind = read => assert_eq!(kind, io::ErrorKind::TimedOut),
            () = busy => {}
        }
        assert!(Instant::now() >= end);
    }
}
