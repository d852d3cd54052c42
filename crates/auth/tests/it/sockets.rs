//! The whole of it over real sockets.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{Extension, Router, extract::ConnectInfo, routing::get};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use secrecy::ExposeSecret as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use windlass_auth::{
    ApiClients, Authenticator, Caller, CertificatePair, ConnectError, ConnectOptions, ExchangeError, Issuer,
    IssuerOptions, Keys, PeerIdentity, ServeOptions, SystemToken, TlsOptions, TokenExchange,
    TokenExchangeConfig, exchange_router, install_crypto_provider, kubeconfig, plain, tls,
};

const JOBS: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/jobs";
const DEADLINE: Duration = Duration::from_secs(30);

/// An API over TLS and an exchange over plain HTTP, on free ports.
struct Servers {
    directory: tempfile::TempDir,
    keys: Keys,
    api: SocketAddr,
    exchange: SocketAddr,
    stop: CancellationToken,
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn servers() -> Servers {
    install_crypto_provider().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(directory.path().join("keys"), &[]).unwrap();
    let stop = CancellationToken::new();
    let (exchange_listener, exchange) = listen().await;
    let (api_listener, api) = listen().await;
    let system_tokens = vec![SystemToken::default_for(exchange).unwrap()];
    let issuer = Issuer::new(&keys, IssuerOptions { system_tokens, ..IssuerOptions::default() }).unwrap();
    let who = |Extension(caller): Extension<Caller>, ConnectInfo(peer): ConnectInfo<SocketAddr>| async move {
        assert!(peer.ip().is_loopback());
        caller.name
    };
    let router = Authenticator::new(issuer.verifier()).protect(Router::new().fallback(get(who)));
    tokio::spawn(plain::serve(exchange_listener, exchange_router(issuer), stop.clone()));
    tokio::spawn(tls::serve(api_listener, tls::config(&keys).unwrap(), router, stop.clone()));
    Servers { directory, keys, api, exchange, stop }
}

impl Servers {
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn trusting(&self) -> TlsOptions {
        TlsOptions { ca_file: self.keys.ca_file(), ..TlsOptions::default() }
    }

    fn presenting(&self, pair: &CertificatePair) -> TlsOptions {
        TlsOptions {
            cert_file: Some(self.file("client.crt", &pair.certificate)),
            key_file: Some(self.file("client.key", pair.key.expose_secret())),
            ..self.trusting()
        }
    }

    fn exchange_client(&self) -> TokenExchange {
        let url = format!("http://{}/sign/access-token", self.exchange);
        TokenExchange::new(TokenExchangeConfig::new(url, "ProvisioningAdminToken".into())).unwrap()
    }

    fn options(&self, tls: TlsOptions, exchange: Option<TokenExchange>) -> ConnectOptions {
        ConnectOptions {
            provisioning_url: format!("https://localhost:{}", self.api.port()),
            folders_url: None,
            dashboards_url: None,
            further_groups: Vec::new(),
            exchange,
            tls,
        }
    }

    fn connect(&self, tls: TlsOptions, exchange: Option<TokenExchange>) -> ApiClients {
        ApiClients::connect(&self.options(tls, exchange)).unwrap()
    }
}

async fn fetch(client: &kube::Client, path: &str) -> kube::Result<String> {
    let answer = client.request_text(Request::get(path).body(vec![]).unwrap());
    tokio::time::timeout(DEADLINE, answer).await.expect("an answer in time")
}

#[tokio::test]
async fn verified_tls_with_exchanged_tokens_reaches_each_group() {
    let servers = servers().await;
    let clients = servers.connect(servers.trusting(), Some(servers.exchange_client()));
    assert_eq!(fetch(&clients.provisioning, JOBS).await.unwrap(), "provisioning-admin");
    let folders = "/apis/folder.grafana.app/v1beta1/namespaces/default/folders";
    assert_eq!(fetch(&clients.folders, folders).await.unwrap(), "provisioning-admin");
    assert_eq!(
        fetch(&clients.core, "/api/v1/namespaces/default/secrets").await.unwrap(),
        "provisioning-admin"
    );
    // Each client has its own audience.
    let error = fetch(&clients.provisioning, "/api/v1/namespaces/default/secrets").await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error}");
}

#[tokio::test]
async fn mutual_tls_names_the_caller() {
    let servers = servers().await;
    let admin = servers.connect(servers.presenting(servers.keys.admin()), None);
    assert_eq!(fetch(&admin.core, "/api/v1/secrets").await.unwrap(), "windlass-admin");
    // A certificate of another CA is refused, with a hint.
    let stranger = Keys::ephemeral(&[]).unwrap();
    let clients = servers.connect(servers.presenting(stranger.admin()), None);
    let error = fetch(&clients.core, "/api/v1/secrets").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    // Anybody else gets a 401, not a failed handshake.
    let nobody = servers.connect(servers.trusting(), None);
    let error = fetch(&nobody.core, "/api/v1/secrets").await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 401), "{error}");
}

#[tokio::test]
async fn an_ordinary_client_certificate_proves_a_name_and_opens_nothing() {
    let servers = servers().await;
    let worker = servers.keys.client_certificate("worker", &["workers"]).unwrap();
    let clients = servers.connect(servers.presenting(&worker), None);
    let error = fetch(&clients.provisioning, JOBS).await.unwrap_err().to_string();
    assert!(error.contains("\\\"worker\\\"") || error.contains("\"worker\""), "{error}");
    let clients = servers.connect(servers.presenting(&worker), Some(servers.exchange_client()));
    assert_eq!(fetch(&clients.provisioning, JOBS).await.unwrap(), "provisioning-admin");
}

#[tokio::test]
async fn an_unverified_server_is_accepted_only_when_asked_for() {
    let servers = servers().await;
    let insecure = TlsOptions { insecure: true, ..TlsOptions::default() };
    let clients = servers.connect(insecure, Some(servers.exchange_client()));
    assert_eq!(fetch(&clients.provisioning, JOBS).await.unwrap(), "provisioning-admin");

    let other = Keys::ephemeral(&[]).unwrap();
    let wrong = TlsOptions {
        ca_file: Some(servers.file("other.crt", other.ca_certificate())),
        ..TlsOptions::default()
    };
    // With a wrong CA, and with whatever this machine trusts.
    for options in [wrong, TlsOptions::default()] {
        let error = match ApiClients::connect(&servers.options(options, None)) {
            Ok(clients) => fetch(&clients.provisioning, JOBS).await.unwrap_err().to_string(),
            Err(error) => std::error::Error::source(&error).unwrap().to_string(),
        };
        assert!(error.contains("tls_ca_file"), "{error}");
        assert!(error.contains("tls_insecure") || error.contains("this machine"), "{error}");
    }
}

#[tokio::test]
async fn an_exchange_that_is_not_trusted_is_told_apart() {
    let servers = servers().await;
    let (listener, address) = listen().await;
    tokio::spawn(tls::serve(
        listener,
        tls::config(&servers.keys).unwrap(),
        Router::new(),
        servers.stop.clone(),
    ));
    let other = Keys::ephemeral(&[]).unwrap();
    let mut config = TokenExchangeConfig::new(format!("https://{address}/sign/access-token"), "t".into());
    config.tls.ca_file = Some(servers.file("other.crt", other.ca_certificate()));
    let error = TokenExchange::new(config.clone()).unwrap().token(&["a"]).await.unwrap_err();
    assert!(matches!(error, ExchangeError::UntrustedServer { .. }), "{error}");
    assert!(
        error.to_string().contains("tls_ca_file") && error.to_string().contains("tls_insecure"),
        "{error}"
    );
    config.tls = servers.trusting();
    let error = TokenExchange::new(config).unwrap().token(&["a"]).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    install_crypto_provider().unwrap();
    let (listener, address) = listen().await;
    drop(listener);
    let options = ConnectOptions {
        provisioning_url: format!("http://user:canary-5e1f@{address}"),
        folders_url: None,
        dashboards_url: None,
        further_groups: Vec::new(),
        exchange: None,
        tls: TlsOptions { insecure: true, ..TlsOptions::default() },
    };
    let error = fetch(&ApiClients::connect(&options).unwrap().core, "/x").await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains(&address.to_string()) && !text.contains("canary-5e1f"), "{text}");
}

#[tokio::test]
async fn options_that_cannot_be_used_are_named() {
    let servers = servers().await;
    let text = servers.file("text", "no certificate");
    let key_for_cert = servers.keys.admin_files().unwrap();
    let missing = servers.directory.path().join("missing");
    let with = |edit: &dyn Fn(&mut TlsOptions)| {
        let mut options = servers.trusting();
        edit(&mut options);
        options.client_config().unwrap_err().to_string()
    };
    for (error, words) in [
        (with(&|o| o.ca_file = Some(missing.clone())), "tls_ca_file"),
        (with(&|o| o.ca_file = Some(text.clone())), "no certificate in PEM"),
        (with(&|o| o.cert_file = Some(text.clone())), "tls_cert_file is set and tls_key_file is not"),
        (with(&|o| o.key_file = Some(text.clone())), "tls_key_file is set and tls_cert_file is not"),
        (
            with(&|o| {
                o.cert_file = Some(key_for_cert.0.clone());
                o.key_file = Some(text.clone());
            }),
            "no private key in PEM",
        ),
        (
            with(&|o| {
                o.cert_file = servers.keys.ca_file();
                o.key_file = Some(key_for_cert.1.clone());
            }),
            "tls_cert_file with tls_key_file",
        ),
    ] {
        assert!(error.contains(words), "{error:?} lacks {words:?}");
    }
    let mut options = servers.options(servers.trusting(), None);
    options.provisioning_url = String::new();
    assert!(matches!(ApiClients::connect(&options).unwrap_err(), ConnectError::MissingUrl { .. }));
    options.provisioning_url = "localhost".into();
    assert!(matches!(ApiClients::connect(&options).unwrap_err(), ConnectError::InvalidUrl { .. }));
}

#[tokio::test]
async fn the_written_kubeconfig_is_private_and_works() {
    use std::os::unix::fs::PermissionsExt as _;
    let servers = servers().await;
    let path = servers.directory.path().join("sub/kubeconfig");
    let write = |path: &Path| {
        let admin = servers.keys.admin();
        let url = format!("https://127.0.0.1:{}", servers.api.port());
        kubeconfig::write(path, &url, servers.keys.ca_certificate(), &admin.certificate, &admin.key)
    };
    write(&path).unwrap();
    write(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let clients = ApiClients::from_kubeconfig(&path, None).await.unwrap();
    assert_eq!(clients.core.default_namespace(), "default");
    assert_eq!(fetch(&clients.core, "/api/v1/secrets").await.unwrap(), "windlass-admin");

    let foreign = servers.file("mine", "apiVersion: v1\nkind: Config\n");
    let error = write(&foreign).unwrap_err().to_string();
    assert!(error.contains("not written by windlass"), "{error}");
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "apiVersion: v1\nkind: Config\n");
}

#[tokio::test]
async fn http_2_is_spoken_with_those_who_ask_for_it() {
    let servers = servers().await;
    let mut config = servers.presenting(servers.keys.admin()).client_config().unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(servers.api).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request =
        Request::get(format!("https://localhost{JOBS}")).body(Empty::<bytes::Bytes>::new()).unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "windlass-admin");
}

/// A plain server with these limits.
async fn plain_server(
    router: Router,
    options: ServeOptions,
) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let (listener, address) = listen().await;
    let stop = CancellationToken::new();
    let server = tokio::spawn(plain::serve_with(listener, router, options, stop.clone()));
    (address, stop, server)
}

async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut text));
    // A reset ends the connection as well.
    let _ = read.await.expect("the connection ends");
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_request_under_way_is_finished_after_the_shutdown_began() {
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (entered, leave) = (entered.clone(), leave.clone());
        get(move || async move {
            entered.notify_one();
            leave.notified().await;
            "finished"
        })
    };
    let options = ServeOptions { grace: DEADLINE, ..ServeOptions::default() };
    let (address, stop, server) = plain_server(Router::new().route("/", handler), options).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut idle = TcpStream::connect(address).await.unwrap();
    entered.notified().await;
    stop.cancel();
    assert_eq!(read_to_end(&mut idle).await, "");
    leave.notify_one();
    assert!(read_to_end(&mut stream).await.ends_with("finished"));
    tokio::time::timeout(DEADLINE, server).await.expect("the server ends").unwrap();
    TcpStream::connect(address).await.unwrap_err();
}

#[tokio::test]
async fn a_request_that_outlives_the_grace_is_cut() {
    let entered = Arc::new(Notify::new());
    let handler = {
        let entered = entered.clone();
        get(move || async move {
            entered.notify_one();
            std::future::pending::<()>().await;
        })
    };
    let options = ServeOptions { grace: Duration::from_millis(10), ..ServeOptions::default() };
    let (address, stop, server) = plain_server(Router::new().route("/", handler), options).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    entered.notified().await;
    stop.cancel();
    tokio::time::timeout(DEADLINE, server).await.expect("the server ends").unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn a_client_that_sends_nothing_or_half_a_request_is_cut() {
    let options = ServeOptions { header_read_timeout: Duration::from_millis(50), ..ServeOptions::default() };
    let (address, stop, _server) = plain_server(Router::new().route("/", get(|| async {})), options).await;
    for sent in ["", "GET / HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        assert!(!read_to_end(&mut stream).await.contains("200 OK"), "{sent:?}");
    }
    stop.cancel();
}

#[tokio::test]
async fn a_client_that_never_shakes_hands_is_cut() {
    install_crypto_provider().unwrap();
    let keys = Keys::ephemeral(&[]).unwrap();
    let (listener, address) = listen().await;
    let options = ServeOptions { handshake_timeout: Duration::from_millis(50), ..ServeOptions::default() };
    let stop = CancellationToken::new();
    tokio::spawn(tls::serve_with(
        listener,
        tls::config(&keys).unwrap(),
        Router::new(),
        options,
        stop.clone(),
    ));
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
    stop.cancel();
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_their_turn() {
    let options = ServeOptions { max_connections: 1, ..ServeOptions::default() };
    let (address, stop, _server) =
        plain_server(Router::new().route("/", get(|| async { "served" })), options).await;
    let mut first = TcpStream::connect(address).await.unwrap();
    first.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut byte = [0];
    first.read_exact(&mut byte).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(50), second.read_exact(&mut byte)).await;
    assert!(early.is_err(), "the second connection was served beside the first");
    drop(first);
    assert!(read_to_end(&mut second).await.ends_with("served"));
    stop.cancel();
}

#[tokio::test]
async fn a_peer_identity_cannot_be_sent_from_outside() {
    let shown = |peer: Option<Extension<PeerIdentity>>| async move { format!("{}", peer.is_some()) };
    let (address, stop, _server) =
        plain_server(Router::new().route("/", get(shown)), ServeOptions::default()).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: x\r\nx-peer-identity: admin\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(read_to_end(&mut stream).await.ends_with("false"));
    stop.cancel();
}

#[tokio::test]
async fn a_peer_that_has_too_many_connections_gets_no_more_until_one_ends() {
    let options = ServeOptions { max_connections_per_peer: 2, ..ServeOptions::default() };
    let (address, stop, _server) =
        plain_server(Router::new().route("/", get(|| async { "served" })), options).await;
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut byte = [0];
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        stream.read_exact(&mut byte).await.unwrap();
        open.push(stream);
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    let _ = third.write_all(request).await;
    assert_eq!(read_to_end(&mut third).await, "");
    open.clear();
    let served = async {
        loop {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let _ = stream.write_all(request).await;
            if stream.read_exact(&mut byte).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, served).await.expect("there is room again");
    stop.cancel();
}

#[tokio::test]
async fn a_panic_ends_its_own_request_with_500_and_no_other_of_the_connection() {
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (entered, leave) = (entered.clone(), leave.clone());
        get(move || async move {
            entered.notify_one();
            leave.notified().await;
            "finished"
        })
    };
    let panics = get(|| async { if true { panic!("a s3cret of the handler") } else { "never" } });
    let router = Router::new().route("/slow", slow).route("/panics", panics);
    let (address, stop, _server) = plain_server(router, ServeOptions::default()).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let ask = |path: &str| {
        let url = format!("http://{address}{path}");
        let mut sender = sender.clone();
        async move {
            let request = Request::get(url).body(Empty::<bytes::Bytes>::new()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            let code = answer.status().as_u16();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (code, String::from_utf8(body.to_vec()).unwrap())
        }
    };
    let under_way = tokio::spawn(ask("/slow"));
    entered.notified().await;
    for _ in 0..2 {
        let (code, body) = ask("/panics").await;
        assert_eq!(code, 500, "{body}");
        assert!(body.contains("InternalError") && !body.contains("s3cret"), "{body}");
    }
    leave.notify_one();
    assert_eq!(under_way.await.unwrap(), (200, "finished".to_owned()));
    stop.cancel();
}

#[tokio::test]
async fn an_http_2_connection_that_is_idle_is_closed_and_one_that_is_not_is_kept() {
    let leave = Arc::new(Notify::new());
    let handler = {
        let leave = leave.clone();
        get(move || async move {
            leave.notified().await;
            "finished"
        })
    };
    let options = ServeOptions { idle_timeout: Duration::from_millis(50), ..ServeOptions::default() };
    let (address, stop, _server) = plain_server(Router::new().route("/", handler), options).await;
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let mut connection = tokio::spawn(connection);
    let request = Request::get(format!("http://{address}/")).body(Empty::<bytes::Bytes>::new()).unwrap();
    let answer = tokio::spawn(async move { sender.send_request(request).await });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut connection).await;
    assert!(early.is_err(), "a connection with a request under way is kept");
    leave.notify_one();
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "finished");
    let ended = tokio::time::timeout(DEADLINE, connection).await;
    ended.expect("the idle connection is closed").unwrap().unwrap();
    stop.cancel();
}

#[tokio::test]
async fn a_body_that_stops_coming_breaks_its_request_off() {
    let options = ServeOptions { body_timeout: Duration::from_millis(50), ..ServeOptions::default() };
    let handler = axum::routing::post(|body: Result<String, _>| async move {
        body.map_or_else(|_: axum::extract::rejection::StringRejection| "broken off", |_| "whole")
    });
    let (address, stop, _server) = plain_server(Router::new().route("/", handler), options).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 10\r\n\r\nhalf";
    stream.write_all(request).await.unwrap();
    assert!(read_to_end(&mut stream).await.ends_with("broken off"));
    stop.cancel();
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn a_client_that_takes_back_what_it_asks_for_again_and_again_is_cut_and_others_are_answered() {
    // The head of `GET /`: static entries of HPACK, and one literal.
    const HEAD: &[u8] = b"\x82\x86\x84\x41\x09localhost";
    let router = Router::new().route("/", get(|| async { "served" }));
    let (address, stop, _server) = plain_server(router, ServeOptions::default()).await;
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(4, 0, 0, b""));
    for number in 0..1_000 {
        let stream = number * 2 + 1;
        sent.extend(frame(1, 0x5, stream, HEAD));
        sent.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    let (mut answers, mut requests) = TcpStream::connect(address).await.unwrap().into_split();
    // The server may have enough of it before it was all sent.
    let sending = tokio::spawn(async move {
        let _ = requests.write_all(&sent).await;
        requests
    });
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(DEADLINE, answers.read_to_end(&mut answer)).await;
    let _ = ended.expect("the connection is closed, although its client has not");
    drop(sending.await.unwrap());
    let mut other = TcpStream::connect(address).await.unwrap();
    other.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(read_to_end(&mut other).await.ends_with("served"));
    stop.cancel();
}
