//! Connections of several clients of one API.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use windlass_github::{Credentials, ErrorKind, Github, Options};

use crate::{manifests, secret};

/// A server that has nothing; its URL, and how many connections were made to it.
async fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    head.extend_from_slice(&buffer[..read]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}";
                        stream.write_all(answer).await.unwrap();
                    }
                }
            });
        }
    });
    (url, made)
}

#[tokio::test]
async fn clients_with_different_tokens_share_the_connections_that_they_are_given() {
    for (is_shared, expected) in [(false, 2), (true, 1)] {
        let (api, made) = server().await;
        let options = |token| Options { api: api.clone(), ..Options::new(Credentials::Token(secret(token))) };
        let one = Github::new(options("ghp_one")).unwrap();
        let http = is_shared.then(|| one.http());
        let other = Github::new(Options { http, ..options("ghp_other") }).unwrap();
        for github in [one, other] {
            let error = github.repository(&manifests()).await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::NotFound { .. }), "{error}");
            assert_eq!(github.api(), api);
        }
        assert_eq!(made.load(Ordering::SeqCst), expected, "shared: {is_shared}");
    }
}
