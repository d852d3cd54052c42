//! The server's certificate while it serves.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, routing::get};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;
use windlass_auth::{Keys, install_crypto_provider, tls};

/// A connection that is verified.
async fn connect(address: SocketAddr, authority: &str) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

async fn ask(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    while !answer.ends_with(b"here") {
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut piece));
        let count = read.await.expect("an answer in time").unwrap();
        assert_ne!(count, 0, "the connection goes on: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&piece[..count]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_certificate_that_is_renewed_is_shown_at_the_next_handshake_and_connections_go_on() {
    install_crypto_provider().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(folder.path(), &[]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let router = Router::new().route("/", get(|| async { "here" }));
    let serving = tls::serve(listener, tls::config(&keys).unwrap(), router, stop.clone());
    let serving = tokio::spawn(serving);
    let mut before = connect(address, keys.ca_certificate()).await;
    ask(&mut before).await;
    let first = shown(&before);
    assert_eq!(shown(&connect(address, keys.ca_certificate()).await), first);

    // Half of a renewal is none.
    let (certificate, key) = keys.server_files().unwrap();
    std::fs::remove_file(&certificate).unwrap();
    assert_eq!(shown(&connect(address, keys.ca_certificate()).await), first);
    std::fs::remove_file(&key).unwrap();
    // As a running server renews what is near its end.
    let renewed = Keys::load_or_create(folder.path(), &[]).unwrap();
    assert_eq!(renewed.ca_certificate(), keys.ca_certificate());
    let mut after = connect(address, keys.ca_certificate()).await;
    assert_ne!(shown(&after), first, "the new certificate is shown");
    ask(&mut after).await;
    ask(&mut before).await;
    stop.cancel();
    serving.await.unwrap();
}
