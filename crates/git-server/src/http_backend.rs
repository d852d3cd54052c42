//! Bare repositories of a folder over Git's smart HTTP, by running `git http-backend` for each request.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use axum::serve::ListenerExt as _;
use base64::Engine as _;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

/// Requests whose lines are kept.
const LOGGED: usize = 1_000;
/// Bytes of CGI headers that are believed.
const MAX_HEADERS: usize = 64 << 10;

/// A server of every bare repository under one folder, `<root>/<name>.git` at `/<name>.git`.
#[derive(Clone)]
pub struct HttpBackend {
    root: PathBuf,
    credentials: Option<Arc<(String, Mutex<SecretString>)>>,
    v2: bool,
    filter: bool,
    writable: bool,
    log: RequestLog,
    on_push: Option<OnPush>,
}

/// Told that a push has ended.
type OnPush = Arc<dyn Fn() + Send + Sync>;

/// The requests that a server has received.
#[derive(Clone, Default)]
pub struct RequestLog {
    count: Arc<AtomicU64>,
    lines: Arc<Mutex<Vec<String>>>,
}

impl RequestLog {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The first thousand, as `POST /a.git/git-upload-pack`.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, request: &Request<Body>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < LOGGED {
            lines.push(format!("{} {}", request.method(), request.uri()));
        }
    }
}

/// A server that runs until this is dropped.
pub struct Running {
    address: SocketAddr,
    log: RequestLog,
    credentials: Option<Arc<(String, Mutex<SecretString>)>>,
    _stop: DropGuard,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:<port>`, without a slash at the end.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it received.
    pub fn log(&self) -> &RequestLog {
        &self.log
    }

    /// Takes this token from now on, and no longer the one of [`HttpBackend::basic_auth`].
    pub fn rotate_token(&self, token: SecretString) {
        if let Some(credentials) = &self.credentials {
            *credentials.1.lock().unwrap_or_else(PoisonError::into_inner) = token;
        }
    }
}

impl HttpBackend {
    /// Serves the bare repositories under `root`, to anyone, with protocol v2.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            credentials: None,
            v2: true,
            filter: true,
            writable: false,
            log: RequestLog::default(),
            on_push: None,
        }
    }

    /// Calls `tell` when a push has been answered, whatever the answer.
    #[must_use]
    pub fn on_push(mut self, tell: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_push = Some(Arc::new(tell));
        self
    }

    /// Takes pushes from whoever may read; hooks of the repositories run. Else a push is answered 403.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.writable = true;
        self
    }

    /// Answers 401 to whoever does not send these by Basic authentication.
    #[must_use]
    pub fn basic_auth(mut self, user: impl Into<String>, token: SecretString) -> Self {
        self.credentials = Some(Arc::new((user.into(), Mutex::new(token))));
        self
    }

    /// Speaks protocol v0 only, as servers before Git 2.18 do.
    #[must_use]
    pub fn without_v2(mut self) -> Self {
        self.v2 = false;
        self
    }

    /// Leaves nothing out of a transfer that a filter names, as servers do that were not told to.
    #[must_use]
    pub fn without_filter(mut self) -> Self {
        self.filter = false;
        self
    }

    /// What it received, whichever way it is served.
    pub fn log(&self) -> &RequestLog {
        &self.log
    }

    /// The server as a router, to be mounted anywhere at the root.
    pub fn router(self) -> Router {
        Router::new().fallback(handle).with_state(Arc::new(self))
    }

    /// Serves on `listener` until `stop`; requests under way are cut off.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
        // Else the end of an answer waits for the client's delayed acknowledgement: 40 ms on a kept connection.
        let listener = listener.tap_io(|stream| {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "connection ended before it began");
            }
        });
        tokio::select! {
            result = async { axum::serve(listener, self.router()).await } => result,
            () = stop.cancelled() => Ok(()),
        }
    }

    /// Serves on a free port of 127.0.0.1 until the answer is dropped.
    pub async fn start(self) -> io::Result<Running> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let (log, credentials) = (self.log.clone(), self.credentials.clone());
        tokio::spawn(self.serve(listener, stop.clone()));
        Ok(Running { address, log, credentials, _stop: stop.drop_guard() })
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(credentials) = &self.credentials else {
            return true;
        };
        let sent = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Basic "))
            .and_then(|encoded| base64::engine::general_purpose::STANDARD.decode(encoded).ok());
        let (user, token) = credentials.as_ref();
        let token = token.lock().unwrap_or_else(PoisonError::into_inner);
        sent.is_some_and(|sent| sent == format!("{user}:{}", token.expose_secret()).as_bytes())
    }

    fn command(&self, request: &Request<Body>) -> Command {
        let header = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
        let mut command = Command::new("git");
        command
            // The folder is the caller's choice, whoever owns it.
            .args(["-c", "safe.directory=*"])
            .args(["-c", &format!("uploadpack.allowFilter={}", self.filter)])
            .args(["-c", &format!("http.receivepack={}", self.writable)])
            .arg("http-backend")
            .env_clear()
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("REQUEST_METHOD", request.method().as_str())
            .env("PATH_INFO", percent_decode_str(request.uri().path()).decode_utf8_lossy().as_ref())
            .env("QUERY_STRING", request.uri().query().unwrap_or_default())
            .env("REMOTE_ADDR", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        // Not CONTENT_LENGTH: of a request that breaks off, Git would wait for the rest for ever, in a busy loop. Without, the
        // end of its input is the end of the request.
        let passed =
            [("CONTENT_TYPE", header::CONTENT_TYPE), ("HTTP_CONTENT_ENCODING", header::CONTENT_ENCODING)];
        for (variable, name) in passed {
            if let Some(value) = header(name) {
                command.env(variable, value);
            }
        }
        if let Some(protocol) = header(HeaderName::from_static("git-protocol")).filter(|_| self.v2) {
            command.env("GIT_PROTOCOL", protocol);
        }
        command
    }
}

async fn handle(State(backend): State<Arc<HttpBackend>>, request: Request<Body>) -> Response<Body> {
    backend.log.add(&request);
    if !backend.admits(request.headers()) {
        let mut response = plain(StatusCode::UNAUTHORIZED, "credentials are needed");
        let challenge = HeaderValue::from_static("Basic realm=\"git\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    let is_push = request.method() == "POST" && request.uri().path().ends_with("/git-receive-pack");
    let told = backend.on_push.clone().filter(|_| is_push);
    match run(backend.command(&request), request.into_body().into_data_stream(), told).await {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(%error, "git http-backend failed");
            plain(StatusCode::INTERNAL_SERVER_ERROR, "git http-backend failed")
        }
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

/// A running CGI programme; dropping it kills the process and stops feeding it.
struct Cgi {
    output: ChildStdout,
    pending: Bytes,
    /// Told when there is no more output.
    told: Option<OnPush>,
    _child: Child,
    _input: AbortOnDropHandle<()>,
}

async fn run(mut command: Command, body: BodyDataStream, told: Option<OnPush>) -> io::Result<Response<Body>> {
    let mut child = command.spawn()?;
    let (Some(stdin), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("no pipes to git http-backend"));
    };
    let input = AbortOnDropHandle::new(tokio::spawn(feed(stdin, body)));
    let mut head = BytesMut::new();
    let end = loop {
        if let Some(end) = end_of_headers(&head) {
            break end;
        }
        if head.len() > MAX_HEADERS || output.read_buf(&mut head).await? == 0 {
            return Err(io::Error::other("no CGI headers"));
        }
    };
    let mut rest = head.split_off(end);
    let mut response = headers(&head)?;
    let cgi = Cgi { output, pending: rest.split().freeze(), told, _child: child, _input: input };
    *response.body_mut() = Body::from_stream(futures::stream::unfold(cgi, next_piece));
    Ok(response)
}

async fn feed(mut stdin: ChildStdin, mut body: BodyDataStream) {
    while let Some(Ok(piece)) = body.next().await {
        if stdin.write_all(&piece).await.is_err() {
            return;
        }
    }
}

async fn next_piece(mut cgi: Cgi) -> Option<(io::Result<Bytes>, Cgi)> {
    if !cgi.pending.is_empty() {
        return Some((Ok(std::mem::take(&mut cgi.pending)), cgi));
    }
    let mut piece = BytesMut::with_capacity(64 << 10);
    match cgi.output.read_buf(&mut piece).await {
        Ok(0) => {
            if let Some(told) = cgi.told.take() {
                told();
            }
            None
        }
        Ok(_) => Some((Ok(piece.freeze()), cgi)),
        Err(error) => Some((Err(error), cgi)),
    }
}

fn end_of_headers(head: &[u8]) -> Option<usize> {
    let crlf = head.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    crlf.or_else(|| head.windows(2).position(|window| window == b"\n\n").map(|at| at + 2))
}

fn headers(head: &[u8]) -> io::Result<Response<Body>> {
    let bad = |what: &str| io::Error::other(format!("bad CGI header: {what}"));
    let text = std::str::from_utf8(head).map_err(|_| bad("not UTF-8"))?;
    let mut response = Response::new(Body::empty());
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| bad(line))?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().and_then(|code| code.parse().ok()).ok_or_else(|| bad(line))?;
            *response.status_mut() = StatusCode::from_u16(code).map_err(|_| bad(line))?;
        } else {
            let name = HeaderName::try_from(name).map_err(|_| bad(line))?;
            response.headers_mut().insert(name, HeaderValue::try_from(value).map_err(|_| bad(line))?);
        }
    }
    Ok(response)
}
