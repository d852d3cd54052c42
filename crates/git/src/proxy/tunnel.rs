//! A proxy in front of an SSH server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::Service as _;

use super::Proxy;

impl Proxy {
    /// Where it listens.
    pub(crate) fn server(&self) -> (String, u16) {
        let usual = if self.url.scheme() == "socks5" { 1080 } else { 80 };
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        (host.to_owned(), self.url.port_or_known_default().unwrap_or(usual))
    }

    /// Has the proxy at the other end of `stream` connect to a server.
    pub(crate) async fn tunnel(&self, stream: TcpStream, host: &str, port: u16) -> io::Result<TcpStream> {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let target: Uri = format!("http://{host}:{port}/").parse().map_err(io::Error::other)?;
        let mut stream = Some(TokioIo::new(ByteByByte(stream)));
        let connected = tower::service_fn(move |_: Uri| {
            let stream = stream.take().ok_or_else(|| io::Error::other("asked twice"));
            async move { stream }
        });
        let proxy = Uri::from_static("http://proxy/");
        let stream = match self.url.scheme() {
            "socks5" => {
                let mut socks = SocksV5::new(proxy, connected);
                if let Some((user, password)) = &self.login {
                    socks = socks.with_auth(user.clone(), password.expose_secret().to_owned());
                }
                socks.call(target).await.map_err(io::Error::other)?
            }
            "http" => {
                let mut tunnel = Tunnel::new(proxy, connected);
                if let Some((user, password)) = &self.login {
                    let pair = STANDARD.encode(format!("{user}:{}", password.expose_secret()));
                    let mut value =
                        HeaderValue::try_from(format!("Basic {pair}")).map_err(io::Error::other)?;
                    value.set_sensitive(true);
                    tunnel = tunnel.with_auth(value);
                }
                tunnel.call(target).await.map_err(io::Error::other)?
            }
            _ => return Err(io::Error::other("an https: proxy carries no SSH; use http: or socks5:")),
        };
        Ok(stream.into_inner().0)
    }
}

/// A connection that gives one byte at a time. An SSH server speaks first, so that what it says may come along with the end
/// of the proxy's answer: whoever reads the answer would take it, and lose it.
struct ByteByByte(TcpStream);

impl AsyncRead for ByteByByte {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut byte = [0];
        let mut one = ReadBuf::new(&mut byte);
        if buffer.remaining() > 0 {
            ready!(Pin::new(&mut self.0).poll_read(context, &mut one))?;
            buffer.put_slice(one.filled());
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ByteByByte {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A proxy that reads so many bytes and answers, again and again, then goes on until its client has gone.
    async fn proxy(scheme: &str, answers: Vec<(usize, Vec<u8>)>) -> (Proxy, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            for (asked, answer) in answers {
                client.read_exact(&mut vec![0; asked]).await.unwrap();
                client.write_all(&answer).await.unwrap();
            }
            let _gone = client.read_u8().await;
        });
        let proxy = Proxy::new(&format!("{scheme}://{address}"), None).unwrap();
        (proxy, TcpStream::connect(address).await.unwrap())
    }

    #[tokio::test]
    async fn what_a_server_says_along_with_the_proxys_answer_is_not_lost() {
        let said = b"SSH-2.0-server\r\n";
        let request = "CONNECT git.example:22 HTTP/1.1\r\nHost: git.example:22\r\n\r\n".len();
        let established = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        let connect = 7 + "git.example".len();
        let connected = vec![5, 0, 0, 1, 127, 0, 0, 1, 0, 22];
        for (scheme, answers) in [
            ("http", vec![(request, [established, said.to_vec()].concat())]),
            ("socks5", vec![(3, vec![5, 0]), (connect, [connected, said.to_vec()].concat())]),
        ] {
            let (proxy, stream) = proxy(scheme, answers).await;
            let mut stream = proxy.tunnel(stream, "git.example", 22).await.unwrap();
            let mut heard = vec![0; said.len()];
            stream.read_exact(&mut heard).await.unwrap();
            assert_eq!(heard, said, "{scheme}");
        }
    }
}
