use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use windlass_github::{Credentials, Options, Retries};
use windlass_github_stand_in::{Fault, Repository, StandIn};

use super::*;
use crate::given::{self, told};

const FILE: &str = "exporter-info.json";

/// A repository of manifests, and what finds commits in it.
struct Scene {
    stand_in: StandIn,
    repository: Repository,
    finder: GithubChanges,
}

impl Scene {
    async fn new() -> Self {
        let stand_in = StandIn::start().await.unwrap();
        let repository = stand_in.repository("grafana/kube-manifests");
        Self { finder: finder(&stand_in, None), repository, stand_in }
    }

    /// Commits of manifests, one a minute: `a,b` is the export of these, whose names are also their hashes, `=1` the same
    /// again as in the first minute, `!` an export that makes no sense, `x` the end of all exports, `-` something else.
    fn history(&self, commits: &str) -> Vec<String> {
        let mut files: Vec<Option<Vec<u8>>> = Vec::new();
        let push = |(minute, commit): (u32, &str)| {
            let (path, file) = match (commit, commit.strip_prefix('=')) {
                ("-", _) => ("other", Some(minute.to_string().into_bytes())),
                ("!", _) => (FILE, Some(b"{".to_vec())),
                ("x", _) => (FILE, None),
                (_, Some(before)) => (FILE, files[before.parse::<usize>().unwrap() - 1].clone()),
                _ => (FILE, Some(payload(minute, &commit.split(',').collect::<Vec<_>>()).into_bytes())),
            };
            files.push(file.clone());
            self.repository.push("a change", time(minute), &[(path, file.as_deref())])
        };
        (1..).zip(commits.split_whitespace()).map(push).collect()
    }

    /// The export of `commits` in this minute onto a commit, or onto nothing.
    fn push_onto(&self, parent: Option<&String>, minute: u32, commits: &[&str]) -> String {
        let info = payload(minute, commits);
        let parents: Vec<&str> = parent.map(String::as_str).into_iter().collect();
        self.repository.push_onto(&parents, "export", time(minute), &[(FILE, Some(info.as_bytes()))])
    }

    fn question(&self, known: &[&String], to: &str) -> ChangesQuery {
        let revision = |sha: &str| format!("main@sha1:{sha}");
        let known = known.iter().map(|sha| given::accounted(&revision(sha), None)).collect();
        let url = self.stand_in.url_of(&self.repository);
        ChangesQuery { known, ..given::question(SourceKind::GitRepository, &url, &revision(to), &[]) }
    }

    async fn ask(&self, known: &[&String], to: &str) -> Changes {
        self.finder.find(&self.question(known, to)).await.unwrap()
    }

    async fn problem(&self, known: &[&String], to: &str) -> ChangesError {
        self.finder.find(&self.question(known, to)).await.unwrap_err()
    }

    fn requests(&self) -> usize {
        self.stand_in.requests().len()
    }
}

/// A finder that remembers nothing yet.
fn finder(stand_in: &StandIn, configured: Option<&str>) -> GithubChanges {
    let token = secrecy::SecretString::from("ghp_a_t0ken");
    stand_in.allow_token(&token);
    let (api, moment) = (stand_in.api().to_owned(), Duration::from_millis(1));
    let retries = Retries { times: 1, first: moment, longest: moment };
    let options = Options { api, retries, max_file: 4 << 20, ..Options::new(Credentials::Token(token)) };
    let repository = configured.map(|name| name.parse().unwrap());
    let config = GithubConfig { file: FILE.to_owned(), repository, max_commits: 1_000 };
    GithubChanges::new(Github::new(options).unwrap(), config)
}

fn time(minute: u32) -> Timestamp {
    given::at("09:00:00") + Duration::from_mins(minute.into())
}

fn payload(minute: u32, commits: &[&str]) -> String {
    let merged = time(minute) - Duration::from_secs(30);
    let commit = |name| json!({"hash": name, "summary": format!("about {name}"), "time": merged});
    let commits: Vec<_> = commits.iter().map(commit).collect();
    let link = format!("https://ci.example.org/{minute}");
    json!({"commit": format!("export-{minute}"), "commits_since_last_export": commits, "export_build_link": link})
        .to_string()
}

#[tokio::test]
async fn a_revision_costs_two_requests_and_says_what_was_exported_when() {
    let scene = Scene::new().await;
    let sha = scene.history("a b,c - d,c e");
    let changes = scene.ask(&[&sha[0]], &sha[1]).await;
    assert_eq!((&*told(&changes), scene.requests()), ("b c", 2));
    let first = &changes.commits[0];
    assert_eq!((first.merged, first.summary.as_str()), (time(2) - Duration::from_secs(30), "about b"));
    let expected = Changes {
        commits: changes.commits.clone(),
        exported_as: Some(sha[1].clone()),
        exported: Some(time(2)),
        build_link: Some("https://ci.example.org/2".to_owned()),
        ..Changes::default()
    };
    assert_eq!(changes, expected);
    // Of the first revision it tells what that was exported with.
    assert_eq!(told(&scene.ask(&[], &sha[1]).await), "b c");
    // What Flux skipped has the time of its own export.
    let scene = Scene { finder: finder(&scene.stand_in, None), ..scene };
    let before = scene.requests();
    let changes = scene.ask(&[&sha[0]], &sha[4]).await;
    let exported: Vec<_> = changes.commits.iter().map(|commit| (&*commit.id, commit.exported)).collect();
    let (second, fourth) = (Some(time(2)), Some(time(4)));
    assert_eq!(exported, [("b", second), ("c", second), ("d", fourth), ("e", None)]);
    assert_eq!(scene.requests(), before + 4, "a list and three files");
    scene.ask(&[&sha[0], &sha[4]], &sha[0]).await;
    assert_eq!(scene.requests(), before + 4, "what is known is not asked about");
}

#[tokio::test]
async fn what_the_known_revisions_do_not_hold_is_told_and_nothing_twice() {
    // A history, which of its commits are known, which is asked about, what is told, and when it was exported.
    for (history, known, to, expected, exported) in [
        ("a b - c,b d", &[1][..], 5, "b c d", Some(5)),
        // An export that makes no sense keeps none of the others from being told.
        ("a b ! d", &[1], 4, "b d incomplete", Some(4)),
        // A revision without an export brings nothing and hides nothing.
        ("a -", &[1], 2, "", None),
        ("a - -", &[1, 2], 3, "", None),
        ("a - - b -", &[1, 2, 3], 5, "b", Some(4)),
        // What is reverted or made again.
        ("a b =1", &[1, 2], 3, "", Some(3)),
        ("a b =1 =2", &[1, 2, 3], 4, "", Some(4)),
        ("a b =1 =2", &[1, 2], 4, "", Some(4)),
        ("a b =1 =2 c", &[1, 2], 5, "c", Some(5)),
        // Back and forth.
        ("a b", &[1, 2], 1, "", None),
        ("a b c", &[1, 3], 2, "", None),
        ("a b c", &[2, 1], 3, "c", Some(3)),
        // An exporter that begins later is told from its begin.
        ("- a b", &[1], 3, "a b", Some(3)),
        ("- a b", &[1, 2], 3, "b", Some(3)),
    ] {
        let scene = Scene::new().await;
        let sha = scene.history(history);
        let known: Vec<_> = known.iter().map(|minute| &sha[minute - 1]).collect();
        let changes = scene.ask(&known, &sha[to - 1]).await;
        let answered = (told(&changes), changes.exported);
        assert_eq!(answered, (expected.to_owned(), exported.map(time)), "{history}: {to} over {known:?}");
    }
}

#[tokio::test]
async fn exports_are_paged_through_until_a_known_one_and_what_is_beyond_is_said_to_be_cut_off() {
    for (exports, told) in [(50, 49), (130, 120)] {
        let scene = Scene::new().await;
        let sha = scene.history(&(1..=exports).map(|n| format!("c{n}")).collect::<Vec<_>>().join(" "));
        let changes = scene.ask(&[&sha[0]], sha.last().unwrap()).await;
        assert_eq!((changes.commits.len(), &changes.commits[told - 1].id), (told, &format!("c{exports}")));
        assert_eq!((changes.truncated, changes.rewritten), (exports == 130, false));
    }
}

#[tokio::test]
async fn after_a_force_push_only_what_the_old_history_did_not_hold_is_told() {
    // Onto what both have in common, or all anew: that tells its newest export alone.
    for anew in [false, true] {
        let scene = Scene::new().await;
        let old = scene.history("a b");
        let root = if anew { scene.push_onto(None, 2, &["a", "b"]) } else { old[0].clone() };
        let new = scene.push_onto(Some(&root), 3, &["c"]);
        for collected in [false, true] {
            if collected {
                scene.repository.collect(&old[1]);
            }
            let known = if anew { &old[1..] } else { &old };
            let changes = scene.ask(&known.iter().collect::<Vec<_>>(), &new).await;
            let expected = if anew { "c unrelated rewritten" } else { "c rewritten" };
            assert_eq!(told(&changes), expected, "collected: {collected}");
        }
    }
}

#[tokio::test]
async fn what_was_built_of_the_manifests_is_asked_about_by_its_origin() {
    let mut scene = Scene::new().await;
    scene.finder = finder(&scene.stand_in, Some("grafana/kube-manifests"));
    let sha = scene.history("a b");
    let artifact = |digit: &str| format!("latest@sha256:{}", digit.repeat(64));
    let mut question = scene.question(&[], &sha[1]);
    question.source.kind = SourceKind::OciRepository;
    question.url = "oci://registry.example.org/manifests".to_owned();
    question.to = artifact("b").parse().unwrap();
    question.known = vec![given::accounted(&artifact("a"), Some(&format!("main@sha1:{}", sha[0])))];
    question.origin = Some(format!("main@sha1:{}", sha[1]));
    assert_eq!(told(&scene.finder.find(&question).await.unwrap()), "b");

    question.known = vec![given::accounted(&artifact("a"), None)];
    assert!(scene.finder.find(&question).await.unwrap().unrelated, "it applied something else before");
    question.origin = None;
    assert_eq!(scene.finder.find(&question).await.unwrap_err().problem, Problem::Malformed);
}

#[tokio::test]
async fn another_forge_is_not_asked_and_a_malformed_revision_neither() {
    let scene = Scene::new().await;
    let sha = scene.history("a").remove(0);
    let mut question = scene.question(&[], &sha);
    assert!(scene.finder.serves(&question));
    for revision in ["main@sha1:", "main@sha1:abc", "main", "main@md5:00", &format!("main@sha1:{sha}0")] {
        question.to = revision.parse().unwrap();
        let error = scene.finder.find(&question).await.unwrap_err();
        assert_eq!(error.problem, Problem::Malformed, "{revision}: {error}");
    }
    question.url = "https://gitlab.com/grafana/kube-manifests".to_owned();
    assert!(!scene.finder.serves(&question));
    assert_eq!(scene.finder.find(&question).await.unwrap_err().problem, Problem::Unsupported);
    assert_eq!(scene.requests(), 0);
}

#[tokio::test]
async fn failures_of_github_are_problems_of_their_own_and_half_an_answer_is_none() {
    let mut scene = Scene::new().await;
    let sha = scene.history("a b c");
    for (at, fault, expected, retry_after) in [
        ("commits", Fault::Status(500), Problem::Unavailable, None),
        ("contents", Fault::Status(502), Problem::Unavailable, None),
        ("contents", Fault::Truncated, Problem::Unavailable, None),
        ("contents", Fault::Status(401), Problem::Unauthorized, None),
        ("commits", Fault::Status(403), Problem::Forbidden, None),
        ("commits", Fault::Status(404), Problem::NotFound, None),
        ("commits", Fault::Status(409), Problem::Unreachable, None),
        ("contents", Fault::WrongBase64, Problem::Malformed, None),
        ("contents", Fault::OtherContent, Problem::Malformed, None),
        ("commits", Fault::NoJson, Problem::Malformed, None),
        ("contents", Fault::Huge(64 << 20), Problem::TooLarge, None),
        ("contents", Fault::StatusRetryAfter(429, Duration::from_secs(40)), Problem::RateLimited, Some(40)),
    ] {
        scene.finder = finder(&scene.stand_in, None);
        scene.stand_in.fail(at, 9, fault.clone());
        let error = scene.problem(&[&sha[0]], &sha[2]).await;
        let answered = (error.problem, error.retry_after.map(|wait| wait.as_secs()));
        assert_eq!(answered, (expected, retry_after), "{fault:?}: {error}");
        assert!(!error.to_string().contains("ghp_"), "{error}");
        scene.stand_in.heal();
        if expected != Problem::RateLimited {
            assert_eq!(told(&scene.ask(&[&sha[0]], &sha[2]).await), "b c", "after {fault:?}");
        }
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_file_or_its_repository_says_what_to_do() {
    // A history, which of its commits is known, which is asked about.
    for (history, known, to, problem) in [
        ("- -", None, 2, Problem::PayloadMissing),
        ("- -", Some(1), 2, Problem::PayloadMissing),
        ("a x", Some(1), 2, Problem::PayloadMissing),
        ("a x -", Some(2), 3, Problem::PayloadMissing),
        ("a !", Some(1), 2, Problem::Malformed),
    ] {
        let scene = Scene::new().await;
        let sha = scene.history(history);
        let known: Vec<_> = known.iter().map(|minute: &usize| &sha[minute - 1]).collect();
        let error = scene.problem(&known, &sha[to - 1]).await;
        assert_eq!(error.problem, problem, "{history}: {error}");
        let place = format!("{FILE} of grafana/kube-manifests at {}", sha[to - 1]);
        assert!(problem != Problem::Malformed || error.to_string().contains(&place), "{error}");
    }
    let scene = Scene::new().await;
    let known = scene.history("a");
    let error = scene.problem(&[], &"0".repeat(40)).await;
    assert!(error.problem == Problem::NotFound && error.to_string().contains("could be private"), "{error}");
    let big = scene.repository.push("export", time(2), &[(FILE, Some(&vec![b' '; 5 << 20]))]);
    assert_eq!(scene.problem(&[&known[0]], &big).await.problem, Problem::TooLarge);
}
