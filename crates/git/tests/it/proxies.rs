//! Repositories through proxies: small ones that speak the wire and ask who comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use windlass_git::{
    Credentials, Git, GitConfig, GitError, Proxy, Remote, Source as _, SshIdentity, UrlPolicy,
};
use windlass_git_server::seed::Edit;
use windlass_git_server::{SshServer, ssh_key};

use crate::fixture::{Fixture, generous};

const USER: &str = "me";
const PASSWORD: &str = "p@ss:word";

/// A proxy, and how many connections it passed on.
struct Through {
    address: String,
    passed: Arc<AtomicU64>,
}

/// An HTTP proxy: `CONNECT`, and requests with a whole URL, which servers take as they are.
async fn http_proxy() -> Through {
    let login = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let expected = format!("proxy-authorization: basic {login}").to_ascii_lowercase();
    serve("http", move |mut stream| {
        let expected = expected.clone();
        async move {
            let mut head = Vec::new();
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                if stream.read_buf(&mut head).await? == 0 {
                    return Ok(None);
                }
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            if !text.to_ascii_lowercase().contains(&expected) {
                stream
                    .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
                    .await?;
                return Ok(None);
            }
            let target = text.split(' ').nth(1).unwrap().trim_start_matches("http://");
            let mut server = TcpStream::connect(target.split('/').next().unwrap()).await?;
            if text.starts_with("CONNECT ") {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            } else {
                server.write_all(&head).await?;
            }
            Ok(Some((stream, server)))
        }
    })
    .await
}

/// A SOCKS5 proxy (RFC 1928, RFC 1929).
async fn socks_proxy() -> Through {
    serve("socks5", |mut stream| async move {
        let mut hello = [0; 2];
        stream.read_exact(&mut hello).await?;
        let mut methods = vec![0; hello[1].into()];
        stream.read_exact(&mut methods).await?;
        if hello[0] != 5 || !methods.contains(&2) {
            stream.write_all(&[5, 0xff]).await?;
            return Ok(None);
        }
        stream.write_all(&[5, 2]).await?;
        let text = async |stream: &mut TcpStream| {
            let length = stream.read_u8().await?;
            let mut text = vec![0; length.into()];
            stream.read_exact(&mut text).await?;
            Ok::<_, std::io::Error>(String::from_utf8(text).unwrap())
        };
        stream.read_u8().await?;
        let login = (text(&mut stream).await?, text(&mut stream).await?);
        let is_known = login == (USER.to_owned(), PASSWORD.to_owned());
        stream.write_all(&[1, u8::from(!is_known)]).await?;
        if !is_known {
            return Ok(None);
        }
        let mut request = [0; 4];
        stream.read_exact(&mut request).await?;
        let host = match request[3] {
            1 => std::net::Ipv4Addr::from(stream.read_u32().await?).to_string(),
            _ => text(&mut stream).await?,
        };
        let server = TcpStream::connect((host, stream.read_u16().await?)).await?;
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        Ok(Some((stream, server)))
    })
    .await
}

async fn serve<F>(scheme: &str, meet: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Through
where
    F: Future<Output = std::io::Result<Option<(TcpStream, TcpStream)>>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("{scheme}://{}", listener.local_addr().unwrap());
    let passed = Arc::new(AtomicU64::new(0));
    let (counter, meet) = (Arc::clone(&passed), Arc::new(meet));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (counter, meet) = (Arc::clone(&counter), Arc::clone(&meet));
            tokio::spawn(async move {
                if let Ok(Some((mut one, mut other))) = meet(stream).await {
                    counter.fetch_add(1, Ordering::Relaxed);
                    let _ = copy_bidirectional(&mut one, &mut other).await;
                }
            });
        }
    });
    Through { address, passed }
}

impl Through {
    fn proxy(&self, password: &str) -> Proxy {
        Proxy::new(&self.address, Some((USER.to_owned(), password.to_owned().into()))).unwrap()
    }

    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

fn git(fixture: &Fixture, origins: &[&str]) -> Git {
    let mut config = GitConfig::new(fixture.folder.path().join(format!("cache-{}", origins.len())));
    for origin in origins {
        config.policy = config.policy.allow_origin(origin).unwrap();
    }
    config.deadlines = generous();
    Git::new(config).unwrap()
}

#[tokio::test]
async fn a_repository_is_read_through_a_proxy_that_knows_who_asks() {
    for proxy in [http_proxy().await, socks_proxy().await] {
        let fixture = Fixture::new().await;
        let tip = fixture.commit([Edit::put("a", "1")]);
        let git = git(&fixture, &[&fixture.server.origin(), &proxy.address]);
        let remote =
            |password| Remote { url: fixture.url(), proxy: Some(proxy.proxy(password)), ..Remote::default() };
        let source = git.remote(remote(PASSWORD)).unwrap();
        assert_eq!(source.resolve("main", &fixture.cancel).await.unwrap(), tip);
        assert_eq!(source.tree(&tip, "", &fixture.cancel).await.unwrap().entries.len(), 1);
        let passed = proxy.passed();
        assert!(passed > 0, "{} was passed by", proxy.address);
        let stranger = git.remote(remote("hidden-wrong")).unwrap();
        let error = stranger.resolve("main", &fixture.cancel).await.unwrap_err();
        assert!(!error.to_string().contains("hidden"), "{error}");
        assert_eq!(proxy.passed(), passed, "{error}");
    }
}

#[tokio::test]
async fn ssh_goes_through_proxies_too() {
    for proxy in [http_proxy().await, socks_proxy().await] {
        let fixture = Fixture::new().await;
        let tip = fixture.commit([Edit::put("a", "1")]);
        let (private, public) = ssh_key(&fixture.folder.path().join("identity"), &["ed25519"], "").unwrap();
        let server = SshServer::start(&fixture.folder.path().join("sshd"), "ed25519", &public, &[]).unwrap();
        let Some(server) = server else { return };
        let git = git(&fixture, &[&server.origin(), &proxy.address]);
        let identity = SshIdentity::new(private.into(), None, server.known_hosts());
        let remote = Remote {
            url: server.url(&fixture.repository()),
            credentials: Some(Credentials::Ssh(identity)),
            proxy: Some(proxy.proxy(PASSWORD)),
            ..Remote::default()
        };
        let source = git.remote(remote).unwrap();
        assert_eq!(source.resolve("main", &fixture.cancel).await.unwrap(), tip, "{}", proxy.address);
        assert!(proxy.passed() > 0, "{} was passed by", proxy.address);
    }
}

#[tokio::test]
async fn a_proxy_in_a_private_network_has_to_be_allowed() {
    let (fixture, proxy) = (Fixture::new().await, http_proxy().await);
    fixture.commit([Edit::put("a", "1")]);
    let git = git(&fixture, &[&fixture.server.origin()]);
    let through = |proxy: Proxy| Remote { url: fixture.url(), proxy: Some(proxy), ..Remote::default() };
    let Err(error) = git.remote(through(proxy.proxy(PASSWORD))) else { panic!("it is taken") };
    assert!(error.to_string().contains("not a public address"), "{error}");
    // By a name that only the resolver knows to be this machine's.
    let named = Proxy::new(&proxy.address.replace("127.0.0.1", "localhost"), None).unwrap();
    let error = git.remote(through(named)).unwrap().resolve("main", &fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::PolicyRefused { .. }), "{error}");
    assert_eq!(proxy.passed(), 0);
    let _ = UrlPolicy::default().allow_origin("socks5://proxy").unwrap();
}
