//! HTTP/1.1 over a connection: RFC 9112, as far as requests without bodies go.
//!
//! A file goes to the socket inside the kernel (`sendfile(2)`), which no HTTP library lets it do; what is left of the
//! protocol without bodies of requests is little, and `httparse`, which hyper reads with too, reads it. There is no HTTP/2,
//! whose frames would take that away: Flux serves HTTP/1.1 too, and its consumers speak nothing else without TLS.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, SystemTime};

use bytes::{Buf as _, BytesMut};
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use rustix::net::SendFlags;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::answer::{File, empty, http_date};

/// The most bytes of a request, and the most headers.
const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// A connection on which no whole request arrives for so long is closed.
const IDLE: Duration = Duration::from_secs(75);
/// Who takes nothing of an answer for so long is given up.
const STALLED: Duration = Duration::from_secs(30);
/// Bytes that the socket takes before it is the others' turn, where it takes them without a wait.
const TURN: u64 = 4 << 20;
/// Bytes of an answer that wait in the kernel for their turn on the network, on each connection. Without a bound the kernel
/// takes megabytes from each, and what five hundred readers have waiting is more than it has for all connections: then it
/// shrinks their windows and drops what has arrived.
const WAITING: u32 = 128 << 10;

impl Server {
    /// Answers what is asked for over a connection, until that ends, or `shutdown` while nothing is asked.
    pub async fn serve(self, mut stream: TcpStream, shutdown: CancellationToken) {
        if let Err(error) = SockRef::from(&stream).set_tcp_notsent_lowat(WAITING) {
            tracing::debug!(%error, "what waits on a connection to the server of artifacts is not bounded");
        }
        if let Err(error) = self.converse(&mut stream, &shutdown).await {
            tracing::debug!(%error, "a connection to the server of artifacts ended");
        }
    }

    async fn converse(&self, stream: &mut TcpStream, shutdown: &CancellationToken) -> io::Result<()> {
        let mut received = BytesMut::new();
        loop {
            let asked = timeout(IDLE, receive(stream, &mut received));
            let Some(asked) = shutdown.run_until_cancelled(asked).await else { return Ok(()) };
            let (answer, stays) = match asked?? {
                None => return Ok(()),
                Some(Err(status)) => {
                    let mut answer = empty(status);
                    if status == StatusCode::METHOD_NOT_ALLOWED {
                        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                    }
                    (answer, false)
                }
                Some(Ok(request)) => {
                    let stays = stays_open(&request) && !shutdown.is_cancelled();
                    (self.answer(&request).await, stays)
                }
            };
            send(stream, answer, stays).await?;
            if !stays {
                return stream.shutdown().await;
            }
        }
    }
}

/// The next request, or what it is refused with; nothing when the other side has no more to ask. What is left in `received`
/// belongs to the one after it.
async fn receive(
    stream: &mut TcpStream,
    received: &mut BytesMut,
) -> io::Result<Option<Result<Request<()>, StatusCode>>> {
    loop {
        match parse(received) {
            Ok(Some((request, length))) => {
                received.advance(length);
                return Ok(Some(Ok(request)));
            }
            Ok(None) if received.len() >= MAX_HEAD => {
                return Ok(Some(Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)));
            }
            Ok(None) => {}
            Err(status) => return Ok(Some(Err(status))),
        }
        if stream.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
}

/// A request and its length; nothing while some of it is missing.
fn parse(received: &[u8]) -> Result<Option<(Request<()>, usize)>, StatusCode> {
    let bad = |_: httparse::Error| StatusCode::BAD_REQUEST;
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(received).map_err(bad)? else { return Ok(None) };
    let method = head.method.unwrap_or_default();
    if method != Method::GET.as_str() && method != Method::HEAD.as_str() {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let version = if head.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut request = Request::builder().method(method).uri(head.path.unwrap_or_default()).version(version);
    for header in head.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_bytes(header.value);
        let (Ok(name), Ok(value)) = (name, value) else { return Err(StatusCode::BAD_REQUEST) };
        request = request.header(name, value);
    }
    let request = request.body(()).map_err(|_| StatusCode::BAD_REQUEST)?;
    let headers = request.headers();
    let has_body = headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length.as_bytes() != b"0");
    if has_body || (version == Version::HTTP_11 && headers.get_all(HOST).iter().count() != 1) {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(Some((request, length)))
}

fn stays_open(request: &Request<()>) -> bool {
    let asks = |what: &str| {
        let values = request.headers().get_all(CONNECTION).into_iter();
        let mut words = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
        words.any(|word| word.trim().eq_ignore_ascii_case(what))
    };
    if request.version() == Version::HTTP_10 { asks("keep-alive") } else { !asks("close") }
}

async fn send(stream: &mut TcpStream, answer: Response<Option<File>>, stays: bool) -> io::Result<()> {
    let (parts, body) = answer.into_parts();
    let mut head = format!("HTTP/1.1 {}\r\ndate: {}\r\n", parts.status, http_date(SystemTime::now()));
    for (name, value) in &parts.headers {
        // All of them are made here, of what can be shown.
        let _ = write!(head, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    head.push_str(if stays { "connection: keep-alive\r\n\r\n" } else { "connection: close\r\n\r\n" });
    let Some(File { file, range }) = body else {
        return timeout(STALLED, stream.write_all(head.as_bytes())).await?;
    };
    // The head goes with the first bytes of the file, and wakes nobody by itself.
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    let (mut head, mut at) = (head.as_bytes(), range.start);
    send_as_it_takes(stream, || {
        while !head.is_empty() {
            head = &head[rustix::net::send(&*stream, head, flags)?..];
        }
        if at == range.end {
            return Ok(Sent::All);
        }
        let count = usize::try_from(TURN.min(range.end - at)).unwrap_or(usize::MAX);
        let mut from = at;
        match rustix::fs::sendfile(&*stream, &file, Some(&mut from), count)? {
            // It was cut off, which the length that was announced tells the other side.
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            sent => at += sent as u64,
        }
        Ok(if at == range.end { Sent::All } else { Sent::Some })
    })
    .await
}

enum Sent {
    All,
    Some,
}

/// Sends until all is sent. A socket that takes what it is given is given more, and only one that does not is waited for:
/// many readers at once cost no timer for each piece. Artifacts are read from their beginning: the kernel has them in memory,
/// or reads ahead.
async fn send_as_it_takes(stream: &TcpStream, mut send: impl FnMut() -> io::Result<Sent>) -> io::Result<()> {
    loop {
        match stream.try_io(Interest::WRITABLE, &mut send) {
            Ok(Sent::All) => return Ok(()),
            Ok(Sent::Some) => tokio::task::consume_budget().await,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timeout(STALLED, stream.writable()).await??;
            }
            Err(error) => return Err(error),
        }
    }
}
