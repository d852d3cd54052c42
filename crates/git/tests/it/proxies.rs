//! Repositories through proxies that ask who comes.

use windlass_git::{Credentials, Git, GitConfig, GitError, Proxy, Remote, SshIdentity, UrlPolicy};
use windlass_git_server::seed::Edit;
use windlass_git_server::{PeerProxy, SshServer, TestProxy, ssh_key};

use crate::fixture::{Fixture, generous};

const USER: &str = PeerProxy::USER;
const PASSWORD: &str = PeerProxy::PASSWORD;

/// One of ours, or squid or dante.
enum Any {
    Ours(TestProxy),
    Peer(PeerProxy),
}

impl Any {
    fn address(&self) -> &str {
        match self {
            Self::Ours(proxy) => proxy.address(),
            Self::Peer(proxy) => proxy.address(),
        }
    }

    fn passed(&self) -> u64 {
        match self {
            Self::Ours(proxy) => proxy.passed(),
            Self::Peer(proxy) => proxy.passed(),
        }
    }

    /// How many it let through, once it says of any; a log may be behind.
    async fn passed_some(&self) -> u64 {
        let until = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        while self.passed() == 0 {
            assert!(tokio::time::Instant::now() < until, "{} was passed by", self.address());
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        self.passed()
    }
}

async fn proxies() -> Vec<Any> {
    let ours =
        [TestProxy::http(USER, PASSWORD).await.unwrap(), TestProxy::socks5(USER, PASSWORD).await.unwrap()];
    let peers = [PeerProxy::squid().unwrap(), PeerProxy::dante().unwrap()];
    ours.into_iter().map(Any::Ours).chain(peers.into_iter().flatten().map(Any::Peer)).collect()
}

fn as_me(address: &str, password: &str) -> Proxy {
    Proxy::new(address, Some((USER.to_owned(), password.to_owned().into()))).unwrap()
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
    for proxy in proxies().await {
        let fixture = Fixture::new().await;
        let tip = fixture.commit([Edit::put("a", "1")]);
        let git = git(&fixture, &[&fixture.server.origin(), proxy.address()]);
        let remote = |password| Remote {
            url: fixture.url(),
            proxy: Some(as_me(proxy.address(), password)),
            ..Remote::default()
        };
        let source = git.remote(remote(PASSWORD)).unwrap();
        assert_eq!(source.resolve("main", &fixture.cancel).await.unwrap(), tip);
        assert_eq!(source.tree(&tip, "", &fixture.cancel).await.unwrap().entries.len(), 1);
        let passed = proxy.passed_some().await;
        let stranger = git.remote(remote("hidden-wrong")).unwrap();
        let error = stranger.resolve("main", &fixture.cancel).await.unwrap_err();
        assert!(!error.to_string().contains("hidden"), "{error}");
        assert_eq!(proxy.passed(), passed, "{error}");
    }
}

#[tokio::test]
async fn ssh_goes_through_proxies_too() {
    for proxy in proxies().await {
        let fixture = Fixture::new().await;
        let tip = fixture.commit([Edit::put("a", "1")]);
        let (private, public) = ssh_key(&fixture.folder.path().join("identity"), &["ed25519"], "").unwrap();
        let server = SshServer::start(&fixture.folder.path().join("sshd"), "ed25519", &public, &[]).unwrap();
        let Some(server) = server else { return };
        let git = git(&fixture, &[&server.origin(), proxy.address()]);
        let identity = SshIdentity::new(private.into(), None, server.known_hosts());
        let remote = Remote {
            url: server.url(&fixture.repository()),
            credentials: Some(Credentials::Ssh(identity)),
            proxy: Some(as_me(proxy.address(), PASSWORD)),
            ..Remote::default()
        };
        let source = git.remote(remote).unwrap();
        assert_eq!(source.resolve("main", &fixture.cancel).await.unwrap(), tip, "{}", proxy.address());
        proxy.passed_some().await;
    }
}

#[tokio::test]
async fn a_proxy_in_a_private_network_has_to_be_allowed() {
    let (fixture, proxy) = (Fixture::new().await, TestProxy::http(USER, PASSWORD).await.unwrap());
    fixture.commit([Edit::put("a", "1")]);
    let git = git(&fixture, &[&fixture.server.origin()]);
    let through = |proxy: Proxy| Remote { url: fixture.url(), proxy: Some(proxy), ..Remote::default() };
    let Err(error) = git.remote(through(as_me(proxy.address(), PASSWORD))) else { panic!("it is taken") };
    assert!(error.to_string().contains("not a public address"), "{error}");
    // By a name that only the resolver knows to be this machine's.
    let named = Proxy::new(&proxy.address().replace("127.0.0.1", "localhost"), None).unwrap();
    let error = git.remote(through(named)).unwrap().resolve("main", &fixture.cancel).await.unwrap_err();
    assert!(matches!(error, GitError::PolicyRefused { .. }), "{error}");
    assert_eq!(proxy.passed(), 0);
    let _ = UrlPolicy::default().allow_origin("socks5://proxy").unwrap();
}
