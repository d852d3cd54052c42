//! A proxy that loses the answers to pushes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// Forwards connections to a server. When one has sent a push, the server is let finish its answer, and the client gets
/// the end of the connection in its place.
pub(crate) struct CutProxy {
    address: SocketAddr,
    cut: Arc<AtomicUsize>,
    _task: AbortOnDropHandle<()>,
}

impl CutProxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&cut);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, Arc::clone(&counter)));
            }
        });
        Self { address, cut, _task: AbortOnDropHandle::new(task) }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers that were lost.
    pub(crate) fn cut(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }
}

async fn forward(mut client: TcpStream, server: SocketAddr, cut: Arc<AtomicUsize>) {
    let mut server = TcpStream::connect(server).await.unwrap();
    let (mut from_client, mut from_server) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let (mut pushed, mut answer) = (false, Vec::new());
    loop {
        tokio::select! {
            read = client.read(&mut from_client) => {
                let Ok(read @ 1..) = read else { return };
                let piece = &from_client[..read];
                pushed |= piece.windows(22).any(|window| window == b"/git-receive-pack HTTP");
                server.write_all(piece).await.unwrap();
            }
            read = server.read(&mut from_server) => {
                let Ok(read @ 1..) = read else { return };
                if !pushed {
                    client.write_all(&from_server[..read]).await.unwrap();
                    continue;
                }
                answer.extend_from_slice(&from_server[..read]);
                if answer.ends_with(b"\r\n0\r\n\r\n") {
                    cut.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
    }
}
