//! Servers that are slow, lying, or not Git servers at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode, header};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_git::{
    Credentials, Deadlines, Git, GitError, Limits, Rate, Remote, RemoteRepository, Revision, UrlPolicy,
};

use crate::fixture::{generous, git};

const TIP: &str = "0123456789abcdef0123456789abcdef01234567";

/// A server that answers each request with what `answer` says to its method, path and body.
async fn server<F>(answer: F) -> String
where
    F: Fn(String, Bytes) -> Response<Body> + Send + Sync + 'static,
{
    let answer = Arc::new(answer);
    let router = Router::new().fallback(move |request: Request<Body>| {
        let answer = Arc::clone(&answer);
        async move {
            let line = format!("{} {}", request.method(), request.uri());
            let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
            answer(line, body)
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    origin
}

fn status(code: u16) -> Response<Body> {
    Response::builder().status(code).body(Body::from("no")).unwrap()
}

fn result(body: impl Into<Body>) -> Response<Body> {
    let kind = "application/x-git-upload-pack-result";
    Response::builder().header(header::CONTENT_TYPE, kind).body(body.into()).unwrap()
}

fn pkt(payload: &[u8]) -> Vec<u8> {
    let mut frame = format!("{:04x}", payload.len() + 4).into_bytes();
    frame.extend(payload);
    frame
}

struct Client {
    _folder: TempDir,
    source: Arc<RemoteRepository>,
    cancel: CancellationToken,
}

impl Client {
    fn new(origin: &str, deadlines: Deadlines, limits: Limits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let git: Git = git(&folder, origin, limits, deadlines);
        let source = git.remote(Remote { url: format!("{origin}/a.git"), ..Remote::default() }).unwrap();
        Self { _folder: folder, source, cancel: CancellationToken::new() }
    }

    fn generous(origin: &str) -> Self {
        Self::new(origin, generous(), Limits::default())
    }

    async fn resolve(&self) -> GitError {
        self.source.resolve("main", &self.cancel).await.unwrap_err()
    }

    async fn tree(&self) -> GitError {
        self.source.tree(&Revision::new(TIP), "", &self.cancel).await.unwrap_err()
    }
}

/// A server whose refs are honest and whose transfer is `fetch`.
async fn transfer(fetch: impl Fn() -> Response<Body> + Send + Sync + 'static) -> Client {
    let origin = server(move |_, body| {
        if body.windows(7).any(|window| window == b"ls-refs") {
            let mut refs = pkt(format!("{TIP} refs/heads/main\n").as_bytes());
            refs.extend(b"0000");
            return result(refs);
        }
        fetch()
    })
    .await;
    let client = Client::generous(&origin);
    assert_eq!(client.source.resolve("main", &client.cancel).await.unwrap().as_str(), TIP);
    client
}

#[tokio::test]
async fn statuses_become_typed_errors() {
    for (code, reason, http) in [
        (401, "AuthenticationFailed", 401),
        (403, "AuthenticationFailed", 403),
        (404, "InvalidSpec", 404),
        (418, "InvalidSpec", 400),
        (429, "RateLimited", 429),
        (500, "ServiceUnavailable", 503),
        (502, "ServiceUnavailable", 503),
        (503, "ServiceUnavailable", 503),
    ] {
        let origin = server(move |_, _| status(code)).await;
        let error = Client::generous(&origin).resolve().await;
        assert_eq!((error.reason(), error.http_code()), (reason, http), "{code}: {error:?}");
    }
}

#[tokio::test]
async fn retry_after_is_kept() {
    for code in [403, 429] {
        let origin = server(move |_, _| {
            Response::builder().status(code).header("retry-after", "17").body(Body::empty()).unwrap()
        })
        .await;
        let error = Client::generous(&origin).resolve().await;
        let seventeen = Some(Duration::from_secs(17));
        assert!(
            matches!(error, GitError::RateLimited { retry_after, .. } if retry_after == seventeen),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_host_is_left_alone_as_long_as_it_asks_by_those_whose_limit_it_is() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = server(move |line, _| {
        count.fetch_add(1, Ordering::SeqCst);
        let answer = Response::builder();
        let answer = if line.contains("/busy.git") {
            answer.status(503).header("retry-after", "60")
        } else {
            answer.status(403).header("x-ratelimit-remaining", "0").header("x-ratelimit-reset", "99999999999")
        };
        answer.body(Body::empty()).unwrap()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = windlass_git::GitConfig::new(folder.path());
    config.policy = UrlPolicy::default().allow_origin(&origin).unwrap();
    let client = Git::new(config).unwrap();
    let (cancel, before) = (CancellationToken::new(), asked.load(Ordering::SeqCst));
    let resolve = async |name: &str, token: Option<&str>| {
        let credentials =
            token.map(|token| Credentials::Basic { user: String::new(), token: token.to_owned().into() });
        let remote = Remote { url: format!("{origin}/{name}.git"), credentials, ..Remote::default() };
        let error = client.remote(remote).unwrap().resolve("main", &cancel).await.unwrap_err();
        (error.reason(), asked.load(Ordering::SeqCst) - before)
    };
    assert_eq!(resolve("a", Some("one")).await, ("RateLimited", 1));
    assert_eq!(resolve("b", Some("one")).await, ("RateLimited", 1), "whatever repository it is");
    assert_eq!(resolve("a", Some("two")).await, ("RateLimited", 2), "the limit is a token's");
    assert_eq!(resolve("busy", None).await, ("ServiceUnavailable", 3));
    assert_eq!(resolve("c", Some("three")).await, ("RateLimited", 3), "and this the host's");
}

#[tokio::test]
async fn a_host_gets_no_more_requests_a_second_than_its_share() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = server(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        status(404)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let mut config = windlass_git::GitConfig::new(folder.path());
    config.policy = UrlPolicy::default().allow_origin(&origin).unwrap();
    config.rate_per_host = Rate { per_second: 1, burst: 3 };
    config.deadlines = Deadlines { refs: Duration::from_millis(900), ..generous() };
    let client = Git::new(config).unwrap();
    let cancel = CancellationToken::new();
    let began = std::time::Instant::now();
    for n in 0..6 {
        let remote = Remote { url: format!("{origin}/{n}.git"), ..Remote::default() };
        let error = client.remote(remote).unwrap().resolve("main", &cancel).await.unwrap_err();
        // One whose turn comes late has little time left.
        let was_sent = matches!(error, GitError::NotFound { .. } | GitError::Timeout { .. });
        assert!(was_sent || matches!(error, GitError::HostBusy { .. }), "{error:?}");
    }
    let (asked, most) = (asked.load(Ordering::SeqCst) as u64, 3 + began.elapsed().as_secs());
    assert!((3..=most).contains(&asked), "{asked} of {most}");
}

#[tokio::test]
async fn a_web_page_is_no_git_repository() {
    let page =
        || Response::builder().header(header::CONTENT_TYPE, "text/html").body(Body::from("<html>")).unwrap();
    let origin = server(move |_, _| page()).await;
    let error = Client::generous(&origin).resolve().await;
    assert!(matches!(error, GitError::NotGit { .. }), "{error:?}");
    assert!(error.to_string().contains("is not a Git repository"), "{error}");
}

#[tokio::test]
async fn a_redirect_to_another_origin_is_refused_and_not_asked() {
    let asked = server(|line, _| panic!("asked for {line}")).await;
    let target = asked.clone();
    let origin = server(move |_, _| {
        Response::builder()
            .status(StatusCode::FOUND)
            .header(header::LOCATION, format!("{target}/a.git"))
            .body(Body::empty())
            .unwrap()
    })
    .await;
    let error = Client::generous(&origin).resolve().await;
    assert!(matches!(error, GitError::PolicyRefused { .. }), "{error:?}");
    assert!(error.to_string().contains(asked.trim_start_matches("http://")), "{error}");
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_and_remembered() {
    let requests = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let origin = server(move |line, body| {
        seen.lock().unwrap().push(line.clone());
        if let Some(rest) = line.split_once("/a.git/").map(|(_, rest)| rest) {
            let location = format!("/moved/b.git/{}", rest.split(' ').next().unwrap());
            return Response::builder()
                .status(301)
                .header(header::LOCATION, location)
                .body(Body::empty())
                .unwrap();
        }
        if line.starts_with("GET") {
            let mut advertised = pkt(b"# service=git-upload-pack\n");
            advertised.extend(b"0000");
            for line in ["version 2\n", "ls-refs\n", "fetch=shallow\n", "object-format=sha1\n"] {
                advertised.extend(pkt(line.as_bytes()));
            }
            advertised.extend(b"0000");
            let kind = "application/x-git-upload-pack-advertisement";
            return Response::builder()
                .header(header::CONTENT_TYPE, kind)
                .body(Body::from(advertised))
                .unwrap();
        }
        assert!(body.starts_with(b"0014command=ls-refs\n"));
        let mut refs = pkt(format!("{TIP} refs/heads/main\n").as_bytes());
        refs.extend(b"0000");
        result(refs)
    })
    .await;
    let client = Client::generous(&origin);
    for _ in 0..2 {
        client.source.resolve("main", &client.cancel).await.unwrap();
    }
    let requests = requests.lock().unwrap();
    assert_eq!(
        *requests,
        [
            "POST /a.git/git-upload-pack",
            "GET /a.git/info/refs?service=git-upload-pack",
            "GET /moved/b.git/info/refs?service=git-upload-pack",
            "POST /moved/b.git/git-upload-pack",
            "POST /moved/b.git/git-upload-pack",
        ]
    );
}

#[tokio::test]
async fn a_redirect_loop_ends() {
    let origin = server(|line, _| {
        let location = line.split(' ').nth(1).unwrap().to_owned();
        Response::builder().status(302).header(header::LOCATION, location).body(Body::empty()).unwrap()
    })
    .await;
    let error = Client::generous(&origin).resolve().await;
    assert!(matches!(error, GitError::Protocol { .. }), "{error:?}");
}

#[tokio::test]
async fn a_silent_server_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let short = Duration::from_millis(100);
    let client =
        Client::new(&origin, Deadlines { refs: short, fetch: short, ..generous() }, Limits::default());
    let error = client.resolve().await;
    assert!(matches!(error, GitError::Timeout { after, .. } if after == short), "{error:?}");
    assert_eq!((error.reason(), error.http_code()), ("ServiceUnavailable", 504));
    assert!(matches!(client.tree().await, GitError::Timeout { .. }));
    drop(listener);
}

#[tokio::test]
async fn a_server_that_stops_in_the_middle_is_a_timeout() {
    let origin = server(|_, _| {
        let forever = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"00")) });
        result(Body::from_stream(futures::StreamExt::chain(forever, futures::stream::pending())))
    })
    .await;
    let deadlines = Deadlines { read: Duration::from_millis(100), ..generous() };
    let error = Client::new(&origin, deadlines, Limits::default()).resolve().await;
    assert!(matches!(error, GitError::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn an_endless_server_is_a_limit() {
    let origin = server(|_, _| {
        let frame = Bytes::from(pkt(format!("{TIP} refs/heads/main\n").as_bytes()).repeat(100));
        result(Body::from_stream(futures::stream::repeat_with(move || {
            Ok::<_, std::io::Error>(frame.clone())
        })))
    })
    .await;
    let limits = Limits { refs_bytes: 1 << 20, refs: usize::MAX, ..Limits::default() };
    let error = Client::new(&origin, generous(), limits).resolve().await;
    assert!(matches!(error, GitError::LimitExceeded { limit: "refs_bytes", .. }), "{error:?}");
}

#[tokio::test]
async fn an_endless_transfer_is_a_limit() {
    let endless = || {
        let frame = Bytes::from(pkt(&[&[2_u8][..], &[b'.'; 1_000]].concat()));
        let head = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(pkt(b"packfile\n")))]);
        let rest = futures::stream::repeat_with(move || Ok(frame.clone()));
        result(Body::from_stream(futures::StreamExt::chain(head, rest)))
    };
    let origin = server(
        move |_, body| {
            if body.starts_with(b"0012command=fetch") { endless() } else { result("0000") }
        },
    )
    .await;
    let limits = Limits { pack_bytes: 1 << 20, ..Limits::default() };
    let client = Client::new(&origin, generous(), limits);
    assert!(matches!(client.resolve().await, GitError::Empty { .. }));
    let error = client.tree().await;
    assert!(matches!(error, GitError::LimitExceeded { limit: "pack_bytes", .. }), "{error:?}");
}

#[tokio::test]
async fn garbage_is_a_protocol_error() {
    for garbage in ["", "garbage", "0003", "0009a", "000cgarbage\n0000", "ffff", "0001"] {
        let origin = server(move |_, _| result(garbage)).await;
        let error = Client::generous(&origin).resolve().await;
        let expected = matches!(error, GitError::Protocol { .. } | GitError::NotGit { .. });
        assert!(expected, "{garbage:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_transfer_that_is_damaged_is_a_protocol_error() {
    let with_pack = |pack: &[u8]| {
        let mut body = pkt(b"packfile\n");
        body.extend(pkt(&[&[1_u8][..], pack].concat()));
        body.extend(b"0000");
        body
    };
    let mut empty = b"PACK\0\0\0\x02\0\0\0\0".to_vec();
    empty.extend([
        0x02, 0x9d, 0x08, 0x82, 0x3b, 0xd8, 0xa8, 0xea, 0xb5, 0x10, 0xad, 0x6a, 0xc7, 0x5c, 0x82, 0x3c,
    ]);
    empty.extend([0xfd, 0x3e, 0xd3, 0x1e]);
    let mut wrong_sum = empty.clone();
    wrong_sum[20] ^= 1;
    let mut cut = pkt(b"packfile\n");
    cut.extend(pkt(b"\x01PACK\0\0\0\x02\0\0\0\x05"));
    for (what, body) in [
        ("no section", b"0000".to_vec()),
        ("unknown section", [pkt(b"surprise\n"), b"0000".to_vec()].concat()),
        ("no pack", with_pack(b"NOPE\0\0\0\x02\0\0\0\0")),
        ("version", with_pack(b"PACK\0\0\0\x09\0\0\0\0")),
        ("nothing in it", with_pack(b"")),
        ("objects missing", with_pack(b"PACK\0\0\0\x02\0\0\0\x05")),
        ("garbage objects", with_pack(b"PACK\0\0\0\x02\0\0\0\x01garbage that is no zlib stream....")),
        ("wrong checksum", with_pack(&wrong_sum)),
        ("cut", cut),
        ("band", [pkt(b"packfile\n"), pkt(b"\x09x")].concat()),
        ("without the commit", with_pack(&empty)),
    ] {
        let client = transfer(move || result(body.clone())).await;
        let error = client.tree().await;
        assert!(matches!(error, GitError::Protocol { .. }), "{what}: {error:?}");
        assert_eq!(error.http_code(), 502);
    }
}

#[tokio::test]
async fn the_servers_own_errors_are_shown_without_control_characters() {
    let in_band = || result([pkt(b"packfile\n"), pkt(b"\x03out of \x1b[31mcheese\n")].concat());
    let as_frame = || result(pkt(b"ERR out of \x1b[31mcheese\n"));
    for fetch in [in_band as fn() -> Response<Body>, as_frame] {
        let error = transfer(fetch).await.tree().await;
        assert!(
            matches!(&error, GitError::Remote { message, .. } if message == "out of  [31mcheese"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn nobody_listening_is_unreachable() {
    // Taken, so that nobody else gets it, and not listened at.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let origin = format!("http://{}", taken.local_addr().unwrap());
    let error = Client::generous(&origin).resolve().await;
    assert!(matches!(error, GitError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(origin.trim_start_matches("http://")), "{error}");
}

#[tokio::test]
async fn a_name_of_a_private_address_is_refused_at_connect_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = windlass_git::GitConfig::new(folder.path());
    config.policy = UrlPolicy::default();
    let git = Git::new(config).unwrap();
    let source = git.remote(Remote { url: "https://localhost/a.git".into(), ..Remote::default() }).unwrap();
    let error = source.resolve("main", &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, GitError::PolicyRefused { .. }), "{error:?}");
    assert_eq!(error.reason(), "InvalidSpec");
}

#[tokio::test]
async fn a_dropped_call_frees_the_transfer_for_the_next() {
    let origin = server(|_, body| {
        if body.starts_with(b"0012command=fetch") {
            let head = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(pkt(b"packfile\n")))]);
            return result(Body::from_stream(futures::StreamExt::chain(head, futures::stream::pending())));
        }
        result("0000")
    })
    .await;
    let client = Client::generous(&origin);
    client.resolve().await;
    for _ in 0..10 {
        // More often than there are places for transfers.
        let cancel = CancellationToken::new();
        let revision = Revision::new(TIP);
        let call = client.source.tree(&revision, "", &cancel);
        let soon = tokio::time::timeout(Duration::from_millis(30), call).await;
        assert!(soon.is_err(), "the server never answers");
    }
    let cancel = client.cancel.clone();
    tokio::spawn(async move { cancel.cancel() });
    assert!(matches!(client.tree().await, GitError::Cancelled));
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;

    let peers = Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let seen = Arc::clone(&peers);
    let router = Router::new().fallback(move |ConnectInfo(peer): ConnectInfo<SocketAddr>| async move {
        seen.lock().unwrap().insert(peer);
        // Its last bytes come in a piece of their own.
        let frames = [pkt(format!("{TIP} refs/heads/main\n").as_bytes()), b"0000".to_vec()];
        result(Body::from_stream(futures::stream::iter(frames.map(Ok::<_, std::io::Error>))))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    let client = Client::generous(&origin);
    for _ in 0..5 {
        client.source.resolve("main", &client.cancel).await.unwrap();
    }
    assert_eq!(peers.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_transfer_that_trickles_is_given_up() {
    let trickle = || {
        let frame = Bytes::from(pkt(b"\x02."));
        let head = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(pkt(b"packfile\n")))]);
        let rest = futures::stream::unfold(frame, |frame| async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Some((Ok(frame.clone()), frame))
        });
        result(Body::from_stream(futures::StreamExt::chain(head, rest)))
    };
    let origin = server(
        move |_, body| if body.starts_with(b"0012command=fetch") { trickle() } else { result("0000") },
    )
    .await;
    let deadlines = Deadlines { min_throughput: 1 << 20, window: Duration::from_millis(100), ..generous() };
    let client = Client::new(&origin, deadlines, Limits::default());
    client.resolve().await;
    let error = client.tree().await;
    assert!(matches!(error, GitError::TooSlow { .. }) && error.is_transient(), "{error:?}");
    assert!(error.to_string().contains("git_min_throughput"), "{error}");
}

#[tokio::test]
async fn a_slow_host_gets_no_more_requests_than_its_share() {
    let (current, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let release = CancellationToken::new();
    let handler = {
        let (current, most, release) = (Arc::clone(&current), Arc::clone(&most), release.clone());
        move |_: Request<Body>| async move {
            most.fetch_max(current.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            release.cancelled().await;
            current.fetch_sub(1, Ordering::SeqCst);
            let mut refs = pkt(format!("{TIP} refs/heads/main\n").as_bytes());
            refs.extend(b"0000");
            result(refs)
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
    let folder = tempfile::tempdir().unwrap();
    let mut config = windlass_git::GitConfig::new(folder.path());
    config.policy = UrlPolicy::default().allow_origin(&origin).unwrap();
    config.requests_per_host = 2;
    config.deadlines = Deadlines { refs: Duration::from_millis(100), ..generous() };
    let client = Git::new(config).unwrap();
    let remote = |n: usize| {
        let remote = Remote { url: format!("{origin}/{n}.git"), ..Remote::default() };
        client.remote(remote).unwrap()
    };
    let cancel = CancellationToken::new();
    let transfers: Vec<_> = (0..4)
        .map(|n| {
            let (remote, cancel) = (remote(n), cancel.clone());
            tokio::spawn(async move { remote.tree(&Revision::new(TIP), "", &cancel).await })
        })
        .collect();
    let started = std::time::Instant::now();
    while current.load(Ordering::SeqCst) < 2 {
        assert!(started.elapsed() < Duration::from_mins(1));
        tokio::task::yield_now().await;
    }
    // Whoever gets no place in time says whose fault that is.
    for n in 4..6 {
        let error = remote(n).resolve("main", &cancel).await.unwrap_err();
        assert!(matches!(error, GitError::HostBusy { .. }) && error.is_transient(), "{error:?}");
        assert!(error.to_string().contains("git_max_requests_per_host"), "{error}");
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
    cancel.cancel();
    release.cancel();
    for transfer in transfers {
        transfer.await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn a_server_that_echoes_the_token_does_not_bring_it_into_messages() {
    const TOKEN: &str = "s3cr3t-T0ken/with+more";
    // Long enough that a message is cut in the middle of it.
    let flood = || format!("{}{TOKEN}", "x".repeat(190));
    let redirect = |location: String| {
        Response::builder().status(302).header(header::LOCATION, location).body(Body::empty()).unwrap()
    };
    let answers: Vec<Box<dyn Fn() -> Response<Body> + Send + Sync>> = vec![
        Box::new(move || result(pkt(format!("ERR no access for {TOKEN}\n").as_bytes()))),
        Box::new(move || result(pkt(format!("ERR {}\n", flood()).as_bytes()))),
        Box::new(move || result(pkt(format!("{TOKEN} refs/heads/main\n").as_bytes()))),
        Box::new(move || result(pkt(format!("{} refs/heads/main\n", flood()).as_bytes()))),
        Box::new(|| result(pkt(b"ERR Basic Z2l0OnMzY3IzdC1UMGtlbi93aXRoK21vcmU=\n"))),
        Box::new(|| result(pkt(b"ERR s3cr3t-T0ken%2Fwith%2Bmore\n"))),
        Box::new(move || redirect(format!("/a/{TOKEN}"))),
        Box::new(move || redirect("http://elsewhere/?s3cr3t-T0ken%2Fwith%2Bmore".to_owned())),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        // A server that cannot be asked by v2 is asked by v0 before it is given up, and has to look like one.
        let origin = server(move |line, _| {
            let (mut answer, advertisement) = (answer(), "application/x-git-upload-pack-advertisement");
            if line.starts_with("GET") && answer.status().is_success() {
                answer.headers_mut().insert(header::CONTENT_TYPE, advertisement.parse().unwrap());
            }
            answer
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let credentials =
            windlass_git::Credentials::Basic { user: String::new(), token: TOKEN.to_owned().into() };
        let remote =
            Remote { url: format!("{origin}/a.git"), credentials: Some(credentials), ..Remote::default() };
        let source = git(&folder, &origin, Limits::default(), generous()).remote(remote).unwrap();
        let error = source.resolve("main", &CancellationToken::new()).await.unwrap_err();
        let text = format!("{error} {error:?}");
        for part in ["s3cr3t-", "T0ken", "Z2l0"] {
            assert!(!text.contains(part), "{number}: {text}");
        }
        // What a redirect says is not repeated at all.
        assert!(number > 5 || text.contains("redacted"), "{number}: {text}");
    }
}
