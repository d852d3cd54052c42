//! A door in front of a server: who comes waits until it is opened.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Holds every connection to a server until [`Gate::open`], and passes everything on from then.
pub struct Gate {
    origin: String,
    came: Arc<AtomicUsize>,
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Gate {
    /// A closed gate in front of the plain-http server at `origin`.
    pub async fn before(origin: &str) -> Result<Self> {
        let behind: SocketAddr = origin.strip_prefix("http://").context("no http origin")?.parse()?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let (came, (open, opened)) = (Arc::new(AtomicUsize::new(0)), watch::channel(false));
        let counted = Arc::clone(&came);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(pass(stream, behind, opened.clone()));
            }
        });
        Ok(Self { origin, came, open, task })
    }

    /// Scheme, host and port to use in place of the server's own.
    pub fn origin(&self) -> String {
        self.origin.clone()
    }

    /// Connections that have come so far.
    pub fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }

    /// Lets everybody through from now on.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut stream: TcpStream, behind: SocketAddr, mut opened: watch::Receiver<bool>) {
    if opened.wait_for(|open| *open).await.is_ok()
        && let Ok(mut server) = TcpStream::connect(behind).await
    {
        // A connection that breaks is what either side makes of it.
        let _ = tokio::io::copy_bidirectional(&mut stream, &mut server).await;
    }
}
