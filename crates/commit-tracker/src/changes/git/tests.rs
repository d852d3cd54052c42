use std::time::Duration;

use axum::http::{StatusCode, header};
use secrecy::ExposeSecret as _;
use tempfile::TempDir;
use windlass_cluster::{Admitted, TlsFront};
use windlass_git::{Deadlines, GitConfig, UrlPolicy};
use windlass_git_server::seed::{self, Edit};
use windlass_git_server::{HttpBackend, Running};
use windlass_github::{Credentials, Options};

use super::*;
use crate::SourceKind;
use crate::given::{self, gone, secrets, told};

/// A revision that no server has.
const TIP: &str = "main@sha1:0123456789abcdef0123456789abcdef01234567";

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

/// A real Git server with six commits.
pub(in crate::changes) struct Scene {
    folder: TempDir,
    server: Running,
    pub(in crate::changes) commits: Vec<String>,
}

impl Scene {
    pub(in crate::changes) async fn new(adapt: impl FnOnce(HttpBackend) -> HttpBackend) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = adapt(HttpBackend::new(folder.path())).start().await.unwrap();
        let commit = |number: usize| {
            let edit = Edit::put("a", number.to_string());
            let message = format!("change {number}\n\nwhy");
            seed::commit(&folder.path().join("fleet.git"), "main", [edit], &message).unwrap()
        };
        let commits = (0..6).map(commit).collect();
        Self { folder, server, commits }
    }

    pub(in crate::changes) fn url(&self) -> String {
        format!("{}/fleet.git", self.server.origin())
    }

    pub(in crate::changes) fn finder(&self, secrets: Arc<dyn Secrets>) -> GitChanges {
        finder(&self.folder, &self.server.origin(), secrets)
    }

    /// The change from the third to the last commit.
    fn question(&self) -> ChangesQuery {
        let name = |at: usize| format!("main@sha1:{}", self.commits[at]);
        question(&self.url(), &name(5), &[&name(1), &name(2)])
    }
}

#[tokio::test]
async fn a_revision_brings_the_commits_since_the_known_ones() {
    let scene = Scene::new(|backend| backend).await;
    let (mut finder, sha) = (scene.finder(secrets(&[])), &scene.commits);
    let changes = finder.find(&scene.question()).await.unwrap();
    assert_eq!(told(&changes), sha[3..].join(" "));
    let first = &changes.commits[0];
    assert_eq!((first.summary.as_str(), first.author.as_str()), ("change 3", "Windlass"));
    assert_eq!(changes, Changes { commits: changes.commits.clone(), ..Changes::default() });
    for (to, known) in [
        (sha[5].clone(), format!("HEAD/{}", sha[2])),
        (format!("refs/pull/4/head@sha1:{}", sha[5]), format!("v1.0.0@sha1:{}", sha[2])),
        (format!("sha1:{}", sha[5].to_uppercase()), format!("main/{}", sha[2])),
    ] {
        let again = finder.find(&question(&scene.url(), &to, &[&known])).await.unwrap();
        assert_eq!(again, changes, "{to} over {known}");
    }
    assert_eq!(scene.server.log().count(), 1);
    let switched = question(&scene.url(), &sha[5], &[&gone()]);
    assert!(finder.find(&switched).await.unwrap().unrelated, "it applied an artifact before");
    let nothing = question(&scene.url(), &sha[2], &[&sha[5]]);
    assert_eq!(finder.find(&nothing).await.unwrap(), Changes::default());
    // What was pushed away is not to be had.
    let error = finder.find(&question(&scene.url(), TIP, &[&sha[0]])).await.unwrap_err();
    assert_eq!((error.problem, error.problem.is_permanent()), (Problem::Unreachable, true));
    assert!(error.to_string().contains(TIP) && error.to_string().contains("apps/fleet"), "{error}");
    // Of more commits than are taken the newest are told.
    finder.max_commits = 2;
    let cut = finder.find(&scene.question()).await.unwrap();
    assert_eq!(told(&cut), format!("{} {} truncated", sha[4], sha[5]));
}

#[tokio::test]
async fn the_secret_of_a_source_opens_its_repository() {
    let scene = Scene::new(|backend| backend.basic_auth("me", "sesame".to_owned().into())).await;
    let given = |password| secrets(&[("auth", &[("username", "me"), ("password", password)])]);
    for (values, secret, says) in [
        (given("sesame"), None, "failed to find"),
        (secrets(&[]), Some("auth"), "source_secrets"),
        (given("0pen"), Some("auth"), "failed to find"),
    ] {
        let question = ChangesQuery { secret: secret.map(str::to_owned), ..scene.question() };
        let error = scene.finder(values).find(&question).await.unwrap_err();
        assert_eq!(error.problem, Problem::Unauthorized);
        assert!(error.to_string().contains(says) && !format!("{error:?}").contains("0pen"), "{error:?}");
    }
    let question = ChangesQuery { secret: Some("auth".to_owned()), ..scene.question() };
    assert_eq!(scene.finder(given("sesame")).find(&question).await.unwrap().commits.len(), 3);
}

#[tokio::test]
async fn the_secret_of_a_source_says_whom_to_trust_and_what_to_show() {
    let scene = Scene::new(|backend| backend).await;
    let upstream = scene.server.origin();
    let front =
        TlsFront::start(upstream.trim_start_matches("http://"), Admitted::WithCertificate).await.unwrap();
    let (origin, (chain, key)) = (format!("https://{}", front.address()), front.client());
    let ask = async |values: &[(&str, &str)]| {
        let (url, secret) = (format!("{origin}/fleet.git"), Some("tls".to_owned()));
        let question = ChangesQuery { url, secret, ..scene.question() };
        finder(&scene.folder, &origin, secrets(&[("tls", values)])).find(&question).await
    };
    for keys in [["ca.crt", "tls.crt", "tls.key"], ["caFile", "certFile", "keyFile"]] {
        let values: Vec<_> = keys.into_iter().zip([front.authority(), chain, key]).collect();
        assert_eq!(ask(&values).await.unwrap().commits.len(), 3);
        for part in [&values[..1], &values[1..]] {
            assert_eq!(ask(part).await.unwrap_err().problem, Problem::Unavailable);
        }
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_said_and_nothing_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let https = "https://git.example.org/a.git";
    let secret = |values: &'static [(&str, &str)], problem, says| (https, TIP, values, problem, says);
    let gone = &*gone();
    let other = |url, to, problem, says| (url, to, &[("known_hosts", "h")][..], problem, says);
    for (url, to, values, problem, says) in [
        secret(&[("identity", "key"), ("known_hosts", "h")], Problem::Unsupported, "SSH key"),
        secret(&[("username", "u")], Problem::Malformed, "no password"),
        secret(&[("password", "s3cret")], Problem::Malformed, "no username"),
        secret(&[("tls.crt", "c"), ("tls.key", "s3cret")], Problem::Malformed, "tls.crt and tls.key"),
        secret(&[("tls.crt", "c")], Problem::Malformed, "no tls.key"),
        secret(&[("keyFile", "s3cret")], Problem::Malformed, "no tls.crt"),
        secret(&[("githubAppID", "1")], Problem::Unsupported, "github_app_id"),
        secret(&[("ca.crt", "no certificate")], Problem::Malformed, "ca.crt"),
        other(https, gone, Problem::Unsupported, ""),
        other(https, "main@sha1:0123", Problem::Malformed, ""),
        other(https, "whatever", Problem::Malformed, ""),
        other("ssh://git@example.org/org/repo.git", TIP, Problem::Unsupported, "SSH"),
        other("ssh://git@github.com:22/org/repo", TIP, Problem::Unsupported, "SSH"),
        other("http://git.example.org/a.git", TIP, Problem::Unsupported, ""),
        other("https://127.0.0.1/a.git", TIP, Problem::Unsupported, ""),
        other("https://user:s3cret@git.example.org/a.git", TIP, Problem::Unsupported, ""),
        other("file:///etc/a.git", TIP, Problem::Unsupported, ""),
        other("", TIP, Problem::Unsupported, ""),
    ] {
        let finder = finder(&folder, "http://127.0.0.1:1", secrets(&[("auth", values)]));
        let question = ChangesQuery { secret: Some("auth".to_owned()), ..question(url, to, &[]) };
        let error = finder.find(&question).await.unwrap_err();
        assert!(error.problem == problem && error.to_string().contains(says), "{url} {to}: {error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_repository_is_asked_as_its_secret_says_or_else_with_the_token_of_github() {
    let (at_github, elsewhere) = ("api.github.com", "git.example.org/api/v3");
    let (https, ssh) = ("https://github.com/org/repo.git", "ssh://git@github.com/org/repo.git");
    let (empty, key) = (&[("username", ""), ("password", "")][..], &[("identity", "key")][..]);
    let both = [("username", "u"), ("password", "p"), ("bearerToken", "abc\n")];
    for (url, api, secret, expected) in [
        (https, elsewhere, &both[2..], Some("Bearer abc")),
        (https, at_github, &both, Some("Bearer abc")),
        (https, at_github, &both[..2], Some("u:p")),
        (https, at_github, empty, Some("x-access-token:ghs")),
        (https, elsewhere, empty, Some("")),
        // Over SSH nothing is, but where there is a token for HTTPS.
        (ssh, at_github, key, Some("x-access-token:ghs")),
        (ssh, elsewhere, key, None),
        (ssh, "", key, None),
    ] {
        let (host, credentials) = match api {
            "" => (at_github, Credentials::Anonymous),
            host => (host, Credentials::Token("ghs".to_owned().into())),
        };
        let options = Options { api: format!("https://{host}"), ..Options::new(credentials) };
        let github = Some(Github::new(options).unwrap());
        let access = Access { secrets: secrets(&[("auth", secret)]), github };
        let question = ChangesQuery { secret: Some("auth".to_owned()), ..question(url, TIP, &[]) };
        let asked = access.remote(&question).await.ok().map(|remote| {
            assert_eq!(remote.url, https);
            match remote.credentials {
                Some(windlass_git::Credentials::Basic { user, token }) => {
                    format!("{user}:{}", token.expose_secret())
                }
                Some(windlass_git::Credentials::Bearer(token)) => format!("Bearer {}", token.expose_secret()),
                _ => String::new(),
            }
        });
        assert_eq!(asked.as_deref(), expected, "{url} {api} {secret:?}");
    }
}

#[tokio::test]
async fn statuses_become_problems() {
    let folder = tempfile::tempdir().unwrap();
    for (status, problem, retry_after) in [
        (401, Problem::Unauthorized, None),
        (403, Problem::Forbidden, None),
        (404, Problem::NotFound, None),
        (418, Problem::Malformed, None),
        (429, Problem::RateLimited, Some(Duration::from_secs(17))),
        (500, Problem::Unavailable, None),
        (503, Problem::Unavailable, None),
    ] {
        let later = (status == 429).then_some([(header::RETRY_AFTER, "17")]);
        let answer = (StatusCode::from_u16(status).unwrap(), later, ());
        let router = axum::Router::new().fallback(move || std::future::ready(answer.clone()));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let finder = finder(&folder, &origin, secrets(&[]));
        let error = finder.find(&question(&origin, TIP, &[])).await.unwrap_err();
        assert_eq!((error.problem, error.retry_after), (problem, retry_after), "{status}: {error:?}");
    }
}

#[test]
fn times_beyond_what_can_be_told_are_the_last_or_first_that_can() {
    assert_eq!([i64::MIN, i64::MAX].map(timestamp), [Timestamp::MIN, Timestamp::MAX]);
    assert_eq!(timestamp(-5_000_000_000).as_second(), -5_000_000_000);
}
