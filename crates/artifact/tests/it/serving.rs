use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use windlass_artifact::{Algorithm, ArtifactPath, Kept, Missing, Place, Server, Store};

struct Scene {
    _folder: tempfile::TempDir,
    store: Arc<Store>,
    path: String,
    server: Server,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

fn keep(store: &Store, content: &[u8]) -> Kept {
    let mut draft = store.draft().unwrap();
    draft.write_all(content).unwrap();
    store.keep(draft).unwrap()
}

fn place() -> Place {
    Place::new("gitrepository", "default", "app").unwrap()
}

fn scene(content: &[u8]) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Algorithm::Sha256).unwrap();
    let path = store.publish(&keep(&store, content), &place()).unwrap().to_string();
    let server = Server::new(Arc::clone(&store), None);
    Scene { _folder: folder, store, path, server }
}

/// A connection to the server.
async fn connect(server: &Server) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    tokio::spawn(server.clone().serve(accepted, CancellationToken::new()));
    client
}

/// Sends this and reads until the server closes.
async fn say(server: &Server, text: &str) -> Vec<u8> {
    let mut stream = connect(server).await;
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    // One that was told nothing more may be cut off instead of closed.
    let _ = stream.read_to_end(&mut all).await;
    all
}

fn parse(all: &[u8]) -> Answer {
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
    let text = std::str::from_utf8(&all[..end]).unwrap();
    let mut lines = text.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap()));
    Answer { status, headers: headers.collect(), body: all[end..].to_vec() }
}

impl Scene {
    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut text = format!("{method} /{path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n");
        for (name, value) in headers {
            write!(text, "{name}: {value}\r\n").unwrap();
        }
        parse(&say(&self.server, &format!("{text}\r\n")).await)
    }

    async fn get(&self, headers: &[(&str, &str)]) -> (StatusCode, Vec<u8>) {
        let answer = self.ask("GET", &self.path, headers).await;
        (answer.status, answer.body)
    }
}

#[tokio::test]
async fn an_artifact_is_served_whole_in_parts_and_not_again_to_who_has_it() {
    let content: Vec<u8> = (0..1_500_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let scene = scene(&content);
    assert_eq!(scene.get(&[]).await, (StatusCode::OK, content.clone()));
    let head = scene.ask("HEAD", &scene.path, &[]).await;
    assert_eq!(head.headers["content-length"], content.len().to_string());
    assert_eq!(head.headers["accept-ranges"], "bytes");
    let tag = head.headers["etag"].to_str().unwrap().to_owned();
    let modified = head.headers["last-modified"].to_str().unwrap().to_owned();
    assert!(head.body.is_empty());

    assert_eq!(scene.get(&[("if-none-match", &tag)]).await.0, StatusCode::NOT_MODIFIED);
    assert_eq!(scene.get(&[("if-none-match", "\"other\"")]).await.0, StatusCode::OK);
    assert_eq!(scene.get(&[("if-modified-since", &modified)]).await.0, StatusCode::NOT_MODIFIED);
    let part = |range: std::ops::Range<usize>| (StatusCode::PARTIAL_CONTENT, content[range].to_vec());
    assert_eq!(scene.get(&[("range", "bytes=0-9")]).await, part(0..10));
    assert_eq!(scene.get(&[("range", "bytes=600000-1400000")]).await, part(600_000..1_400_001));
    assert_eq!(scene.get(&[("range", "bytes=1499999-")]).await, part(1_499_999..1_500_000));
    assert_eq!(scene.get(&[("range", "bytes=-5")]).await, part(1_499_995..1_500_000));
    assert_eq!(scene.get(&[("range", "bytes=5-"), ("if-range", &tag)]).await.0, StatusCode::PARTIAL_CONTENT);
    assert_eq!(scene.get(&[("range", "bytes=5-"), ("if-range", "\"x\"")]).await.0, StatusCode::OK);
    assert_eq!(
        scene.get(&[("range", "bytes=9-5")]).await.0,
        StatusCode::OK,
        "what is no range is not heeded"
    );
    assert_eq!(scene.get(&[("range", "bytes=1500000-")]).await.0, StatusCode::RANGE_NOT_SATISFIABLE);
}

#[tokio::test]
async fn nothing_but_artifacts_can_be_asked_for() {
    let scene = scene(b"secret");
    let hex = scene.path.rsplit('/').next().unwrap().to_owned();
    std::os::unix::fs::symlink("/etc/passwd", scene.store.path(&ArtifactPath::parse("a/b/c/d").unwrap()))
        .unwrap_err();
    let beside = ArtifactPath::parse("gitrepository/default/app/link.tar.gz").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", scene.store.path(&beside)).unwrap();
    for path in [
        "",
        "gitrepository",
        "gitrepository/default/app",
        "gitrepository/default/app/",
        "gitrepository/default/app/..",
        &format!(".content/sha256-{hex}"),
        &format!("gitrepository/../.content/sha256-{hex}"),
        &format!("gitrepository/default/%2e%2e/%2e%2e/.content/sha256-{hex}"),
        "gitrepository%2fdefault%2fapp%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
        "../../../../etc/passwd",
        "gitrepository/default/app/%00",
        &beside.to_string(),
    ] {
        let answer = scene.ask("GET", path, &[]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(scene.ask("POST", &scene.path, &[]).await.status, StatusCode::METHOD_NOT_ALLOWED);
}

struct Copies {
    from: Arc<Store>,
    to: Arc<Store>,
}

#[async_trait]
impl Missing for Copies {
    async fn bring(&self, path: &ArtifactPath) -> bool {
        let Ok(content) = std::fs::read(self.from.path(path)) else { return false };
        self.to.publish(&keep(&self.to, &content), path.place()).is_ok_and(|published| published == *path)
    }
}

#[tokio::test]
async fn a_replica_brings_what_it_lacks_on_the_first_request() {
    let scene = scene(b"content");
    let folder = tempfile::tempdir().unwrap();
    let to = Store::open(folder.path(), Algorithm::Sha256).unwrap();
    let copies = Copies { from: Arc::clone(&scene.store), to: Arc::clone(&to) };
    let replica = Scene { server: Server::new(to, Some(Arc::new(copies))), ..scene };
    assert_eq!(replica.get(&[]).await, (StatusCode::OK, b"content".to_vec()));
    let absent = replica.ask("GET", &replica.path.replace("app", "other"), &[]).await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn one_connection_serves_many_requests_and_a_request_may_come_in_pieces() {
    let scene = scene(b"content");
    let request = |more: &str| format!("GET /{} HTTP/1.1\r\nHost: here\r\n{more}\r\n", scene.path);
    // Two at once, then one byte by byte, and one by its whole URL, which is the last.
    let mut stream = connect(&scene.server).await;
    stream.write_all((request("") + &request("")).as_bytes()).await.unwrap();
    for byte in request("").bytes() {
        stream.write_all(&[byte]).await.unwrap();
    }
    let whole = format!("http://here/{}", scene.path);
    let last = request("Connection: close\r\n").replace(&format!("/{}", scene.path), &whole);
    stream.write_all(last.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let text = String::from_utf8(all).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 4, "{text}");
    assert_eq!(text.matches("\r\n\r\ncontent").count(), 4, "{text}");
}

#[tokio::test]
async fn what_is_no_request_for_a_file_is_refused_and_the_connection_closed() {
    let scene = scene(b"content");
    let path = &scene.path;
    let many = "x: y\r\n".repeat(100);
    let long = "y".repeat(20_000);
    for (text, code) in [
        ("nonsense\r\n\r\n".to_owned(), 400),
        (format!("GET /{path} HTTP/1.1\r\n\r\n"), 400),
        (format!("GET /{path} HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"), 400),
        (format!("GET /{path} HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nGET"), 400),
        (format!("GET /{path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), 400),
        (format!("GET /{path} HTTP/1.1\r\nhost: a\r\n{many}\r\n"), 400),
        (format!("GET /{path} HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n"), 431),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 400),
        (format!("DELETE /{path} HTTP/1.1\r\nhost: a\r\n\r\n"), 405),
    ] {
        let answer = parse(&say(&scene.server, &text).await);
        assert_eq!((answer.status.as_u16(), answer.body.len()), (code, 0), "{text}");
        assert_eq!(answer.headers["connection"], "close");
    }
    let old = parse(&say(&scene.server, &format!("GET /{path} HTTP/1.0\r\n\r\n")).await);
    assert_eq!((old.status, &*old.body), (StatusCode::OK, &b"content"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_readers_at_once_get_the_whole_file_each() {
    let content: Vec<u8> = (0..250_000_u32).flat_map(u32::to_le_bytes).collect();
    let scene = Arc::new(scene(&content));
    let readers = (0..500).map(|_| {
        let scene = Arc::clone(&scene);
        tokio::spawn(async move { scene.get(&[]).await })
    });
    for reader in futures::future::join_all(readers).await {
        let (status, body) = reader.unwrap();
        assert_eq!(status, StatusCode::OK);
        assert!(body == content);
    }
}

#[tokio::test]
async fn what_a_reader_does_not_take_does_not_pile_up_in_the_kernel() {
    let scene = scene(&vec![7; 64 << 10]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let accepted = listener.accept().await.unwrap().0.into_std().unwrap();
    let same = accepted.try_clone().unwrap();
    let accepted = TcpStream::from_std(accepted).unwrap();
    tokio::spawn(scene.server.clone().serve(accepted, CancellationToken::new()));
    client
        .write_all(format!("HEAD /{} HTTP/1.1\r\nhost: here\r\n\r\n", scene.path).as_bytes())
        .await
        .unwrap();
    client.read_exact(&mut [0; 12]).await.unwrap();
    let waiting = socket2::SockRef::from(&same).tcp_notsent_lowat().unwrap();
    assert!(
        waiting <= 256 << 10,
        "{waiting} bytes of each connection: all of them are more than the kernel has"
    );
}
