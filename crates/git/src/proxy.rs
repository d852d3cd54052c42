//! Proxies between us and a server.
//!
//! Names of servers are resolved by the proxy, so that their addresses cannot be judged here. The proxy's own address is:
//! one that is not public has to be an allowed origin, and whoever allows it answers for where it leads.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tower::Service as _;
use url::Url;

use crate::GitError;
use crate::policy::without_user_info;

/// A proxy that a repository is asked through, and as whom.
#[derive(Clone)]
pub struct Proxy {
    url: Url,
    login: Option<(String, SecretString)>,
}

impl Proxy {
    /// The proxy at `http://host:port`, `https://…` or `socks5://…`, without user-info.
    ///
    /// # Errors
    /// [`GitError::PolicyRefused`] for everything else.
    pub fn new(address: &str, login: Option<(String, SecretString)>) -> Result<Self, GitError> {
        let refuse = |detail: &str| GitError::PolicyRefused {
            url: without_user_info(address),
            detail: format!("{detail}; write a proxy as http://host:port or socks5://host:port"),
        };
        let url = Url::parse(address.trim()).map_err(|error| refuse(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https" | "socks5") {
            return Err(refuse("its scheme is none of http, https and socks5"));
        }
        let is_bare = matches!(url.path(), "" | "/") && url.query().is_none() && url.username().is_empty();
        if !is_bare || url.password().is_some() || url.host_str().is_none_or(str::is_empty) {
            return Err(refuse("it is more than the address of a proxy"));
        }
        Ok(Self { url, login })
    }

    /// For whoever sends others than Git's requests through it.
    ///
    /// # Errors
    /// The HTTP client cannot use it.
    pub fn for_others(&self) -> Result<reqwest::Proxy, GitError> {
        self.for_http().map_err(|_error| GitError::SetUp {
            action: "set up the proxy",
            detail: format!("{} cannot be used", without_user_info(self.url.as_str())),
        })
    }

    /// What tells it from others; no part of the password can be had from it.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let (user, password) = self.login.as_ref().map_or(("", ""), |(user, it)| (user, it.expose_secret()));
        for part in [self.url.as_str(), user, password] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// As the HTTP client takes it. Names go to the proxy as they are.
    pub(crate) fn for_http(&self) -> reqwest::Result<reqwest::Proxy> {
        let (scheme, rest) = self.url.as_str().split_once("://").unwrap_or_default();
        let scheme = if scheme == "socks5" { "socks5h" } else { scheme };
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let login = self.login.as_ref().map_or_else(String::new, |(user, password)| {
            format!("{}:{}@", encoded(user), encoded(password.expose_secret()))
        });
        reqwest::Proxy::all(format!("{scheme}://{login}{rest}"))
    }

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

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("url", &self.url.as_str()).finish_non_exhaustive()
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

    #[test]
    fn proxies_are_addresses_and_show_no_password() {
        for address in ["http://squid:3128", "https://proxy", "socks5://[::1]:1080/"] {
            let login = Some(("me".to_owned(), SecretString::from("p@ss/word")));
            let proxy = Proxy::new(address, login).unwrap();
            proxy.for_http().unwrap();
            assert!(!format!("{proxy:?}").contains("p@ss"));
        }
        for address in ["squid:3128", "ftp://a", "http://u:hidden@a", "http://a/b", "socks5://"] {
            let error = Proxy::new(address, None).unwrap_err().to_string();
            assert!(!error.contains("hidden"), "{error}");
        }
        let of = |password: &str| {
            Proxy::new("http://a", Some(("u".to_owned(), password.into()))).unwrap().fingerprint()
        };
        assert_ne!(of("a"), of("b"));
    }
}
