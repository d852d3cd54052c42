//! Small proxies that ask who comes: what stands between a repository and its readers.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A proxy on a free port of 127.0.0.1 that lets one user through, until it is dropped.
pub struct TestProxy {
    address: String,
    passed: Arc<AtomicU64>,
    _stop: DropGuard,
}

/// The connection of whoever was let through, and the one to where they wanted to go.
type Accepted = io::Result<Option<(TcpStream, TcpStream)>>;

impl TestProxy {
    /// An HTTP proxy: `CONNECT`, and requests with a whole URL, which servers take as they are.
    pub async fn http(user: &str, password: &str) -> io::Result<Self> {
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        let expected = format!("proxy-authorization: basic {login}").to_ascii_lowercase();
        Self::serve("http", move |stream| accept_http(stream, expected.clone())).await
    }

    /// A SOCKS5 proxy (RFC 1928, RFC 1929).
    pub async fn socks5(user: &str, password: &str) -> io::Result<Self> {
        let login = (user.to_owned(), password.to_owned());
        Self::serve("socks5", move |stream| accept_socks5(stream, login.clone())).await
    }

    async fn serve<F: Future<Output = Accepted> + Send>(
        scheme: &str,
        meet: impl Fn(TcpStream) -> F + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("{scheme}://{}", listener.local_addr()?);
        let (passed, stop) = (Arc::new(AtomicU64::new(0)), CancellationToken::new());
        let (counter, meet, stopped) = (Arc::clone(&passed), Arc::new(meet), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (counter, meet) = (Arc::clone(&counter), Arc::clone(&meet));
                tokio::spawn(stopped.clone().run_until_cancelled_owned(async move {
                    if let Ok(Some((mut one, mut other))) = meet(stream).await {
                        counter.fetch_add(1, Ordering::Relaxed);
                        let _ended = copy_bidirectional(&mut one, &mut other).await;
                    }
                }));
            }
        }));
        Ok(Self { address, passed, _stop: stop.drop_guard() })
    }

    /// `http://127.0.0.1:<port>` or `socks5://…`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many connections it let through.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

async fn accept_http(mut stream: TcpStream, expected: String) -> Accepted {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    if !text.to_ascii_lowercase().contains(&expected) {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(refusal).await?;
        return Ok(None);
    }
    let target = text.split(' ').nth(1).unwrap_or_default().trim_start_matches("http://");
    let mut server = TcpStream::connect(target.split('/').next().unwrap_or_default()).await?;
    if text.starts_with("CONNECT ") {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    } else {
        server.write_all(&head).await?;
    }
    Ok(Some((stream, server)))
}

async fn accept_socks5(mut stream: TcpStream, expected: (String, String)) -> Accepted {
    let version = stream.read_u8().await?;
    let methods = text(&mut stream).await?;
    if version != 5 || !methods.contains('\u{2}') {
        stream.write_all(&[5, 0xff]).await?;
        return Ok(None);
    }
    stream.write_all(&[5, 2]).await?;
    stream.read_u8().await?;
    let login = (text(&mut stream).await?, text(&mut stream).await?);
    stream.write_all(&[1, u8::from(login != expected)]).await?;
    if login != expected {
        return Ok(None);
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request).await?;
    let host = match request[3] {
        1 => Ipv4Addr::from(stream.read_u32().await?).to_string(),
        _ => text(&mut stream).await?,
    };
    let server = TcpStream::connect((host, stream.read_u16().await?)).await?;
    stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok(Some((stream, server)))
}

/// Text behind its length in one byte.
async fn text(stream: &mut TcpStream) -> io::Result<String> {
    let mut text = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut text).await?;
    String::from_utf8(text).map_err(io::Error::other)
}
