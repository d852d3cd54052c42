use std::sync::Mutex;
use std::time::Duration;

use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use secrecy::ExposeSecret as _;
use tempfile::TempDir;
use windlass_cluster::{Admitted, TlsFront};
use windlass_git::{Deadlines, GitConfig, UrlPolicy};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};
use windlass_github::{Credentials, Options};

use super::*;
use crate::SourceKind;
use crate::changes::given::{self, Given};

const TIP: &str = "0123456789abcdef0123456789abcdef01234567";

/// GitHub with a token, whose API is at this host.
fn github(credentials: Credentials, api: &str) -> Github {
    Github::new(Options { api: api.to_owned(), ..Options::new(credentials) }).unwrap()
}

fn token() -> Credentials {
    Credentials::Token("ghs".to_owned().into())
}

fn finder(folder: &TempDir, origin: &str, secrets: Arc<dyn Secrets>) -> GitChanges {
    windlass_git::init_process().unwrap();
    let mut config = GitConfig::new(folder.path().join("cache"));
    config.policy = UrlPolicy::default().allow_origin(origin).unwrap();
    let long = Duration::from_mins(1);
    config.deadlines =
        Deadlines { connect: long, read: long, refs: long, fetch: long, ..Deadlines::default() };
    GitChanges::new(Git::new(config).unwrap(), secrets, 1_000)
}

fn question(url: &str, to: &str, known: &[&str]) -> ChangesQuery {
    given::question(SourceKind::GitRepository, url, to, known)
}

struct Scene {
    folder: TempDir,
    server: Running,
    commits: Vec<String>,
}

impl Scene {
    async fn new(adapt: impl FnOnce(HttpBackend) -> HttpBackend) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = adapt(HttpBackend::new(folder.path())).start().await.unwrap();
        let commit = |number: usize| {
            let edit = Edit::put("a", number.to_string());
            seed::commit(&folder.path().join("fleet.git"), "main", [edit], &format!("change {number}\n\nwhy"))
                .unwrap()
        };
        let commits = (0..6).map(commit).collect();
        Self { folder, server, commits }
    }

    fn url(&self) -> String {
        format!("{}/fleet.git", self.server.origin())
    }

    fn finder(&self, secrets: Arc<dyn Secrets>) -> GitChanges {
        finder(&self.folder, &self.server.origin(), secrets)
    }

    /// The change from the third to the last commit.
    fn question(&self) -> ChangesQuery {
        let name = |at: usize| format!("main@sha1:{}", self.commits[at]);
        question(&self.url(), &name(5), &[&name(1), &name(2)])
    }
}

/// A server that answers everything with `status`, and keeps what it was sent.
async fn server(status: u16) -> (String, Arc<Mutex<Vec<(Uri, HeaderMap)>>>) {
    let seen: Arc<Mutex<Vec<(Uri, HeaderMap)>>> = Arc::default();
    let log = Arc::clone(&seen);
    let router = axum::Router::new().fallback(move |uri: Uri, headers: HeaderMap| {
        log.lock().unwrap().push((uri, headers));
        async move {
            let answer = Response::builder().status(StatusCode::from_u16(status).unwrap());
            let answer = if status == 429 { answer.header(header::RETRY_AFTER, "17") } else { answer };
            answer.body(axum::body::Body::empty()).unwrap()
        }
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (origin, seen)
}

async fn refused(url: &str, secrets: Arc<dyn Secrets>, secret: Option<&str>) -> ChangesError {
    let folder = tempfile::tempdir().unwrap();
    let finder = finder(&folder, "http://127.0.0.1:1", secrets);
    let question =
        ChangesQuery { secret: secret.map(str::to_owned), ..question(url, &format!("main@sha1:{TIP}"), &[]) };
    finder.find(&question).await.unwrap_err()
}

#[tokio::test]
async fn a_revision_brings_the_commits_since_the_known_ones() {
    let scene = Scene::new(|backend| backend).await;
    let finder = scene.finder(Arc::new(Given::default()));
    let changes = finder.find(&scene.question()).await.unwrap();
    let ids: Vec<_> = changes.commits.iter().map(|commit| commit.id.as_str()).collect();
    assert_eq!(ids, scene.commits[3..]);
    assert_eq!(
        (changes.commits[0].summary.as_str(), changes.commits[0].author.as_str()),
        ("change 3", "Windlass")
    );
    assert!((changes.rewritten, changes.truncated) == (false, false) && changes.exported.is_none());
    let sha = &scene.commits;
    for (to, known) in [
        (sha[5].clone(), format!("HEAD/{}", sha[2])),
        (format!("refs/pull/4/head@sha1:{}", sha[5]), format!("v1.0.0@sha1:{}", sha[2])),
        (format!("sha1:{}", sha[5].to_uppercase()), format!("main/{}", sha[2])),
    ] {
        let again = finder.find(&question(&scene.url(), &to, &[&known])).await.unwrap();
        assert_eq!(again, changes, "{to} over {known}");
    }
    assert_eq!(scene.server.log().count(), 1);
    let switched = question(&scene.url(), &sha[5], &[&format!("latest@sha256:{}", "0".repeat(64))]);
    assert!(finder.find(&switched).await.unwrap().unrelated, "it applied an artifact before");
    let nothing = question(&scene.url(), &sha[2], &[&sha[5]]);
    assert_eq!(finder.find(&nothing).await.unwrap(), Changes::default());
}

#[tokio::test]
async fn what_names_no_commit_is_not_asked_for() {
    let (origin, seen) = server(500).await;
    let folder = tempfile::tempdir().unwrap();
    let finder = finder(&folder, &origin, Arc::new(Given::default()));
    for (to, problem) in [
        (
            "latest@sha256:55609ff9d959589ed917ce32e6bc0f0a36809565f308602c15c3668965979edc",
            Problem::Unsupported,
        ),
        ("main@sha1:0123", Problem::Malformed),
        ("whatever", Problem::Malformed),
    ] {
        let error = finder.find(&question(&origin, to, &[])).await.unwrap_err();
        assert_eq!(error.problem, problem, "{to}: {error}");
    }
    assert!(seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_revision_that_was_pushed_away_is_unreachable() {
    let scene = Scene::new(|backend| backend).await;
    let gone = question(&scene.url(), &format!("main@sha1:{TIP}"), &[&scene.commits[0]]);
    let error = scene.finder(Arc::new(Given::default())).find(&gone).await.unwrap_err();
    assert_eq!((error.problem, error.problem.is_permanent()), (Problem::Unreachable, true));
    assert!(error.to_string().contains(TIP) && error.to_string().contains("apps/fleet"), "{error}");
}

#[tokio::test]
async fn the_secret_of_a_source_opens_its_repository() {
    let scene = Scene::new(|backend| backend.basic_auth("me", "sesame".to_owned().into())).await;
    let mut question = scene.question();
    let anonymous = scene.finder(Arc::new(Given::default())).find(&question).await.unwrap_err();
    assert_eq!(anonymous.problem, Problem::Unauthorized);
    question.secret = Some("fleet-auth".to_owned());
    let unread = scene.finder(Arc::new(Given::default())).find(&question).await.unwrap_err();
    assert!(unread.to_string().contains("source_secrets"), "{unread}");
    let right = Given::one("fleet-auth", &[("username", "me"), ("password", "sesame")]);
    assert_eq!(scene.finder(right).find(&question).await.unwrap().commits.len(), 3);
    let wrong = Given::one("fleet-auth", &[("username", "me"), ("password", "open")]);
    let wrong = scene.finder(wrong).find(&question).await.unwrap_err();
    assert_eq!(wrong.problem, Problem::Unauthorized);
    assert!(!format!("{wrong:?}").contains("open\""), "{wrong:?}");
}

#[tokio::test]
async fn the_secret_of_a_source_says_whom_to_trust_and_what_to_show() {
    let scene = Scene::new(|backend| backend).await;
    let upstream = scene.server.origin();
    let front =
        TlsFront::start(upstream.trim_start_matches("http://"), Admitted::WithCertificate).await.unwrap();
    let (origin, (chain, key)) = (format!("https://{}", front.address()), front.client());
    let ask = async |values: &[(&str, &str)]| {
        let mut question = scene.question();
        question.url = format!("{origin}/fleet.git");
        question.secret = Some("tls".to_owned());
        finder(&scene.folder, &origin, Given::one("tls", values)).find(&question).await
    };
    for keys in [["ca.crt", "tls.crt", "tls.key"], ["caFile", "certFile", "keyFile"]] {
        let values: Vec<_> = keys.into_iter().zip([front.authority(), chain, key]).collect();
        assert_eq!(ask(&values).await.unwrap().commits.len(), 3);
        for missing in [&values[..1], &values[1..]] {
            assert_eq!(ask(missing).await.unwrap_err().problem, Problem::Unavailable);
        }
        let strangers = TlsFront::start(&front.address(), Admitted::Anyone).await.unwrap();
        let mixed = [values[0], values[1], (keys[2], strangers.client().1)];
        let error = ask(&mixed).await.unwrap_err();
        assert_eq!(error.problem, Problem::Malformed, "{error:?}");
        assert!(!format!("{error:?}").contains("PRIVATE"), "{error:?}");
    }
}

#[tokio::test]
async fn tokens_go_out_as_their_scheme_says() {
    let basic = |pair: &str| {
        use base64::Engine as _;
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
    };
    let bearer = Given::one("auth", &[("bearerToken", "abc\n")]);
    let both = Given::one("auth", &[("username", "u"), ("password", "p"), ("bearerToken", "abc")]);
    let empty = Given::one("auth", &[("username", ""), ("password", "")]);
    let user = Given::one("auth", &[("username", "u"), ("password", "p")]);
    for (secret, has_token, expected) in [
        (bearer, false, Some("Bearer abc".to_owned())),
        (both, true, Some("Bearer abc".to_owned())),
        (user, true, Some(basic("u:p"))),
        (empty.clone(), true, Some(basic("x-access-token:ghs"))),
        (empty, false, None),
    ] {
        let (origin, seen) = server(403).await;
        let folder = tempfile::tempdir().unwrap();
        let mut finder = finder(&folder, &origin, secret);
        if has_token {
            finder = finder.with_github(Some(github(token(), "http://127.0.0.1:1/api/v3")));
        }
        let question = ChangesQuery {
            secret: Some("auth".to_owned()),
            ..question(&format!("{origin}/a.git"), &format!("main@sha1:{TIP}"), &[])
        };
        assert_eq!(finder.find(&question).await.unwrap_err().problem, Problem::Forbidden);
        let seen = seen.lock().unwrap();
        let sent = seen[0].1.get(header::AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(sent, expected);
    }
}

#[tokio::test]
async fn what_a_secret_cannot_be_used_for_is_said() {
    let url = "https://git.example.org/a.git";
    for (values, problem, words) in [
        (&[("identity", "key"), ("known_hosts", "h")][..], Problem::Unsupported, "SSH key"),
        (&[("username", "u")][..], Problem::Malformed, "no password"),
        (&[("password", "p")][..], Problem::Malformed, "no username"),
        (&[("tls.crt", "c"), ("tls.key", "s3cret")][..], Problem::Malformed, "tls.crt and tls.key"),
        (&[("tls.crt", "c")][..], Problem::Malformed, "no tls.key"),
        (&[("keyFile", "s3cret")][..], Problem::Malformed, "no tls.crt"),
        (&[("githubAppID", "1")][..], Problem::Unsupported, "github_app_id"),
        (&[("ca.crt", "no certificate")][..], Problem::Malformed, "ca.crt"),
    ] {
        let error = refused(url, Given::one("auth", values), Some("auth")).await;
        assert_eq!(error.problem, problem, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn ssh_is_refused_but_where_there_is_a_token_for_https() {
    for url in ["ssh://git@example.org/org/repo.git", "ssh://git@github.com:22/org/repo"] {
        let error = refused(url, Arc::new(Given::default()), None).await;
        assert_eq!(error.problem, Problem::Unsupported);
        assert!(error.to_string().contains("SSH"), "{error}");
    }
    for (github, is_covered) in [
        (github(token(), "https://api.github.com"), true),
        (github(token(), "https://git.example.org/api/v3"), false),
        (github(Credentials::Anonymous, "https://api.github.com"), false),
    ] {
        let access = Access { secrets: Arc::new(Given::default()), github: Some(github) };
        let question = ChangesQuery {
            secret: Some("deploy-key".to_owned()),
            ..question("ssh://git@github.com/org/repo.git", &format!("main@sha1:{TIP}"), &[])
        };
        let remote = access.remote(&question).await;
        assert_eq!(remote.is_ok(), is_covered);
        let Ok(remote) = remote else { continue };
        assert_eq!(remote.url, "https://github.com/org/repo.git");
        assert!(matches!(remote.credentials, Some(windlass_git::Credentials::Basic { user, token })
            if user == "x-access-token" && token.expose_secret() == "ghs"));
    }
}

#[tokio::test]
async fn urls_that_the_policy_refuses_are_unsupported() {
    for url in [
        "http://git.example.org/a.git",
        "https://127.0.0.1/a.git",
        "https://user:sesame@git.example.org/a.git",
        "file:///etc/a.git",
        "",
    ] {
        let error = refused(url, Arc::new(Given::default()), None).await;
        assert_eq!(error.problem, Problem::Unsupported, "{url}: {error}");
        assert!(!format!("{error:?}").contains("sesame"), "{error:?}");
    }
}

#[tokio::test]
async fn statuses_become_problems() {
    for (status, problem) in [
        (401, Problem::Unauthorized),
        (403, Problem::Forbidden),
        (404, Problem::NotFound),
        (418, Problem::Malformed),
        (429, Problem::RateLimited),
        (500, Problem::Unavailable),
        (503, Problem::Unavailable),
    ] {
        let (origin, _) = server(status).await;
        let folder = tempfile::tempdir().unwrap();
        let finder = finder(&folder, &origin, Arc::new(Given::default()));
        let error = finder.find(&question(&origin, &format!("main@sha1:{TIP}"), &[])).await.unwrap_err();
        assert_eq!(error.problem, problem, "{status}: {error:?}");
        let expected = (status == 429).then(|| Duration::from_secs(17));
        assert_eq!(error.retry_after, expected);
    }
    let error = refused("http://127.0.0.1:1/a.git", Arc::new(Given::default()), None).await;
    assert_eq!(error.problem, Problem::Unavailable, "{error:?}");
}

#[test]
fn times_beyond_what_can_be_told_are_the_last_or_first_that_can() {
    assert_eq!(timestamp(i64::MAX), Timestamp::MAX);
    assert_eq!(timestamp(i64::MIN), Timestamp::MIN);
    assert_eq!(timestamp(31_556_889_864_403_199), Timestamp::MAX);
    assert_eq!(timestamp(-5_000_000_000).as_second(), -5_000_000_000);
}
