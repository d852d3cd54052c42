//! Kubeconfigs that cannot be used, and what they name being rotated under way.

use std::{fs, net::SocketAddr, path::PathBuf};

use axum::{Extension, Router, http::HeaderMap, routing::get};
use http::Request;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_auth::{ApiClients, CertificatePair, PeerIdentity, install_crypto_provider, plain, tls};
use windlass_telemetry::ErrorChain;

/// A folder of files, and a server that answers what it was sent to authenticate with.
struct Bench {
    folder: tempfile::TempDir,
    stop: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// An authority with a server's certificate of it.
struct Authority {
    ca: String,
    certificate: String,
    key: String,
}

fn authority(last_year: i32) -> Authority {
    let (ca, issuer) = issuer();
    let (certificate, key) = certificate(&issuer, "localhost", last_year);
    Authority { ca, certificate, key }
}

fn issuer() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::from_ca_cert_pem(&ca, key).unwrap();
    (ca, issuer)
}

/// A certificate with its key, good to the end of a year.
fn certificate(issuer: &Issuer<'_, KeyPair>, name: &str, last_year: i32) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut leaf = CertificateParams::new([name.to_owned()]).unwrap();
    leaf.distinguished_name.push(DnType::CommonName, name);
    leaf.not_before = date_time_ymd(2000, 1, 1);
    leaf.not_after = date_time_ymd(last_year, 12, 31);
    (leaf.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

fn echo() -> Router {
    Router::new().fallback(get(|headers: HeaderMap| async move {
        headers.get("authorization").map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
    }))
}

impl Bench {
    fn new() -> Self {
        install_crypto_provider().unwrap();
        Self { folder: tempfile::tempdir().unwrap(), stop: CancellationToken::new() }
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        // As a mounted Secret changes: another file takes the name.
        let (new, path) = (self.folder.path().join("new"), self.folder.path().join(name));
        fs::write(&new, content).unwrap();
        fs::rename(&new, &path).unwrap();
        path
    }

    async fn serve_tls(&self, of: &Authority) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let chain = vec![pem(&of.certificate)];
        let key = rustls::pki_types::pem::PemObject::from_pem_slice(of.key.as_bytes()).unwrap();
        let config =
            rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        tokio::spawn(tls::serve(listener, std::sync::Arc::new(config), echo(), self.stop.clone()));
        address
    }

    fn kubeconfig(&self, server: &str, cluster: Value, user: Value) -> PathBuf {
        let mut cluster = cluster;
        cluster["server"] = server.into();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "ours",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [
                {"name": "ours", "context": {"cluster": "c", "user": "u", "namespace": "n"}},
                {"name": "other", "context": {"cluster": "missing", "user": "u"}},
            ],
        });
        self.file("kubeconfig", &config.to_string())
    }

    async fn refused(&self, kubeconfig: &str, context: Option<&str>) -> String {
        let path = self.file("kubeconfig", kubeconfig);
        let error = ApiClients::from_kubeconfig(&path, context).await.unwrap_err();
        let text = ErrorChain(&error).to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        text
    }
}

fn pem(text: &str) -> rustls::pki_types::CertificateDer<'static> {
    rustls::pki_types::pem::PemObject::from_pem_slice(text.as_bytes()).unwrap()
}

async fn fetch(clients: &ApiClients) -> Result<String, String> {
    let request = Request::get("/readyz").body(vec![]).unwrap();
    clients.core.request_text(request).await.map_err(|error| ErrorChain(&error).to_string())
}

#[tokio::test]
async fn a_kubeconfig_that_says_too_little_is_refused_with_what_it_has() {
    let bench = Bench::new();
    let usable = fs::read_to_string(bench.kubeconfig("https://localhost:1", json!({}), json!({}))).unwrap();
    let without = usable.replace("\"current-context\":\"ours\",", "");
    let text = bench.refused(&without, None).await;
    assert!(text.contains("no current-context") && text.contains("it has: ours, other"), "{text}");
    let text = bench.refused(&usable, Some("theirs")).await;
    assert!(text.contains("no context \"theirs\"") && text.contains("it has: ours, other"), "{text}");
    let text = bench.refused(&usable, Some("other")).await;
    assert!(text.contains("cluster of context: missing"), "{text}");
    let text = bench.refused("{not a kubeconfig", None).await;
    assert!(text.contains("failed to read the kubeconfig"), "{text}");
    let clients =
        ApiClients::from_kubeconfig(&bench.file("kubeconfig", &without), Some("ours")).await.unwrap();
    assert_eq!(clients.core.default_namespace(), "n");

    let missing = bench.folder.path().join("none");
    let error = ApiClients::from_kubeconfig(&missing, None).await.unwrap_err();
    let text = ErrorChain(&error).to_string();
    assert!(text.contains(missing.to_str().unwrap()) && text.contains("No such file"), "{text}");
    assert_eq!(text.matches("No such file").count(), 1, "{text}");
}

#[tokio::test]
async fn a_plugin_that_is_not_there_is_named() {
    let bench = Bench::new();
    let plugin =
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}});
    let path = bench.kubeconfig("https://localhost:1", json!({}), plugin);
    let text = bench.refused(&fs::read_to_string(path).unwrap(), None).await;
    assert!(text.contains("credentials from /no/such/plugin") && text.contains("No such file"), "{text}");
}

#[tokio::test]
async fn certificates_that_expired_are_named_with_the_time() {
    let bench = Bench::new();
    let old = authority(2001);
    let (cert, key) = (bench.file("client.crt", &old.certificate), bench.file("client.key", &old.key));
    let user = json!({"client-certificate": cert, "client-key": key});
    let path = bench.kubeconfig("https://localhost:1", json!({}), user);
    let error = ApiClients::from_kubeconfig(&path, None).await.unwrap_err();
    let text = ErrorChain(&error).to_string();
    let expected = format!("the client certificate {} expired at 2001-12-31", cert.display());
    assert!(text.contains(&expected), "{text}");

    let server = bench.serve_tls(&old).await;
    let url = format!("https://localhost:{}", server.port());
    let ca = bench.file("ca.crt", &old.ca);
    let path = bench.kubeconfig(&url, json!({"certificate-authority": ca}), json!({}));
    let clients = ApiClients::from_kubeconfig(&path, None).await.unwrap();
    let text = fetch(&clients).await.unwrap_err();
    assert!(
        text.contains(&format!("the certificate of the API server at {url} expired at 2001-12-31")),
        "{text}"
    );
}

#[tokio::test]
async fn authorities_that_are_rotated_are_trusted_from_the_next_connection_on() {
    let bench = Bench::new();
    let (first, second) = (authority(3000), authority(3000));
    let server = bench.serve_tls(&second).await;
    let ca = bench.file("ca.crt", &first.ca);
    let url = format!("https://localhost:{}", server.port());
    let path = bench.kubeconfig(&url, json!({"certificate-authority": ca}), json!({}));
    let clients = ApiClients::from_kubeconfig(&path, None).await.unwrap();
    let text = fetch(&clients).await.unwrap_err();
    assert!(text.contains(&format!("the API server at {url} is not trusted")), "{text}");
    assert!(text.contains("certificate-authority in the kubeconfig"), "{text}");
    bench.file("ca.crt", "half a file");
    fetch(&clients).await.unwrap_err();
    bench.file("ca.crt", &format!("{}{}", first.ca, second.ca));
    fetch(&clients).await.unwrap();
}

#[tokio::test]
async fn a_client_certificate_that_is_rotated_is_shown_with_the_next_request() {
    let bench = Bench::new();
    let server = authority(3000);
    let (client_ca, issuer) = issuer();
    let pair = CertificatePair { certificate: server.certificate.clone(), key: server.key.clone().into() };
    let config = tls::config_from(&pair, Some(&client_ca)).unwrap();
    let who = |Extension(peer): Extension<PeerIdentity>| async move { peer.name };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(tls::serve(listener, config, Router::new().fallback(get(who)), bench.stop.clone()));

    let [one, two, old] = [("one", 3000), ("two", 3000), ("old", 2001)]
        .map(|(name, last_year)| certificate(&issuer, name, last_year));
    let (cert, key) = (bench.file("client.crt", &one.0), bench.file("client.key", &one.1));
    let ca = bench.file("ca.crt", &server.ca);
    let user = json!({"client-certificate": cert, "client-key": key});
    let path = bench.kubeconfig(&url, json!({"certificate-authority": ca}), user);
    let clients = ApiClients::from_kubeconfig(&path, None).await.unwrap();
    assert_eq!(fetch(&clients).await.unwrap(), "one");

    bench.file("client.crt", &two.0);
    assert_eq!(fetch(&clients).await.unwrap(), "one", "its key is still to come");
    bench.file("client.key", &two.1);
    assert_eq!(fetch(&clients).await.unwrap(), "two", "the connection of the old one is used no more");

    bench.file("client.key", &old.1);
    bench.file("client.crt", &old.0);
    let text = fetch(&clients).await.unwrap_err();
    let expected =
        format!("does not accept the client certificate {}: it expired at 2001-12-31", cert.display());
    assert!(text.contains(&expected) && text.contains("renew it in its file"), "{text}");

    bench.file("client.crt", &one.0);
    bench.file("client.key", &one.1);
    assert_eq!(fetch(&clients).await.unwrap(), "one");
    fs::remove_file(&key).unwrap();
    assert_eq!(fetch(&clients).await.unwrap(), "one");
}

#[tokio::test]
async fn a_client_certificate_that_cannot_be_used_is_named() {
    let bench = Bench::new();
    let (_, issuer) = issuer();
    let (one, two) = (certificate(&issuer, "one", 3000), certificate(&issuer, "two", 3000));
    let refused = |certificate: &str, key: &str| {
        let user = json!({"client-certificate": bench.file("client.crt", certificate),
            "client-key": bench.file("client.key", key)});
        let path = bench.kubeconfig("https://localhost:1", json!({}), user);
        async move { ErrorChain(&ApiClients::from_kubeconfig(&path, None).await.unwrap_err()).to_string() }
    };
    let file = bench.folder.path().join("client.crt").display().to_string();
    let text = refused(&one.0, &two.1).await;
    assert!(text.contains(&file) && text.contains("cannot be used together"), "{text}");
    let text = refused("nothing", &two.1).await;
    assert!(text.contains(&file) && text.contains("no certificate in PEM"), "{text}");
    let text = refused(&one.0, "nothing").await;
    assert!(text.contains(&file) && text.contains("no private key in PEM"), "{text}");
}

#[tokio::test]
async fn a_token_that_is_rotated_is_sent_with_the_next_request() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(plain::serve(listener, echo(), bench.stop.clone()));
    let token = bench.file("token", "one\n");
    let path = bench.kubeconfig(&url, json!({}), json!({"tokenFile": token}));
    let clients = ApiClients::from_kubeconfig(&path, None).await.unwrap();
    assert_eq!(fetch(&clients).await.unwrap(), "Bearer one");
    bench.file("token", "two\n");
    assert_eq!(fetch(&clients).await.unwrap(), "Bearer two");
    bench.file("token", "");
    assert_eq!(fetch(&clients).await.unwrap(), "Bearer two", "what is of no use is not used");
    fs::remove_file(&token).unwrap();
    assert_eq!(fetch(&clients).await.unwrap(), "Bearer two");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let bench = Bench::new();
    // Nobody listens on a port that was given back.
    let url = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let path = bench.kubeconfig(&url, json!({}), json!({}));
    let clients = ApiClients::from_kubeconfig(&path, None).await.unwrap();
    let text = fetch(&clients).await.unwrap_err();
    assert!(text.contains(&format!("failed to connect to the API server at {url}")), "{text}");
    assert!(text.contains("refused"), "{text}");
}
