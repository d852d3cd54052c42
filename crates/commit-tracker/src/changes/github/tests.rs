use std::time::Duration;

use jiff::Timestamp;
use windlass_github::{Credentials, Options, Retries};
use windlass_github_stand_in::{Fault, Repository, StandIn};

use super::*;
use crate::changes::given;

const FILE: &str = "exporter-info.json";
const BEGIN: &str = "2026-03-04T09:00:00Z";

/// A repository of manifests, and what finds commits in it.
struct Scene {
    stand_in: StandIn,
    repository: Repository,
    finder: GithubChanges,
}

impl Scene {
    async fn new() -> Self {
        Self::with(None).await
    }

    async fn with(configured: Option<&str>) -> Self {
        let stand_in = StandIn::start().await.unwrap();
        let repository = stand_in.repository("grafana/kube-manifests");
        Self { finder: finder(&stand_in, configured), repository, stand_in }
    }

    /// Commits the export of `commits`, whose names are also their hashes, in this minute.
    fn export(&self, minute: i64, commits: &[&str]) -> String {
        let info = payload(minute, commits);
        self.repository.push("export", time(minute), &[(FILE, Some(info.as_bytes()))])
    }

    /// Commits something else in this minute.
    fn other(&self, minute: i64) -> String {
        let content = minute.to_string();
        self.repository.push("by hand", time(minute), &[("other", Some(content.as_bytes()))])
    }

    fn question(&self, known: &[&String], to: &str) -> ChangesQuery {
        let revision = |sha: &str| format!("main@sha1:{sha}");
        let known: Vec<_> = known.iter().map(|sha| revision(sha)).collect();
        let url = self.stand_in.url_of(&self.repository);
        given::question(SourceKind::GitRepository, &url, &revision(to), &known)
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
    let retries = Retries { times: 1, first: Duration::from_millis(1), longest: Duration::from_millis(1) };
    let github = Github::new(Options {
        api: stand_in.api().to_owned(),
        retries,
        max_file: 4 << 20,
        ..Options::new(Credentials::Token(token))
    });
    let config = GithubConfig {
        file: FILE.to_owned(),
        repository: configured.map(|name| name.parse().unwrap()),
        max_commits: 1_000,
    };
    GithubChanges::new(github.unwrap(), config)
}

fn time(minute: i64) -> Timestamp {
    BEGIN.parse::<Timestamp>().unwrap() + Duration::from_secs(60 * minute.unsigned_abs())
}

fn payload(minute: i64, commits: &[&str]) -> String {
    let commits: Vec<_> = commits
        .iter()
        .map(|name| {
            serde_json::json!({ "hash": name, "summary": format!("about {name}"), "author": "A. Writer",
                                "email": "a@example.org", "time": (time(minute) - Duration::from_secs(30)).to_string() })
        })
        .collect();
    serde_json::json!({ "commit": format!("export-{minute}"), "commits_since_last_export": commits,
                        "export_build_link": format!("https://ci.example.org/{minute}") })
    .to_string()
}

fn names(changes: &Changes) -> String {
    changes.commits.iter().map(|commit| commit.id.as_str()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_revision_costs_two_requests_and_says_what_was_exported_when() {
    let scene = Scene::new().await;
    let first = scene.export(1, &["a"]);
    let second = scene.export(2, &["b", "c"]);
    let changes = scene.ask(&[&first], &second).await;

    assert_eq!(names(&changes), "b c");
    assert_eq!(changes.commits[0].merged, time(2) - Duration::from_secs(30));
    assert_eq!((changes.commits[0].summary.as_str(), changes.commits[0].exported), ("about b", None));
    assert_eq!((changes.exported_as, changes.exported), (Some(second.clone()), Some(time(2))));
    assert_eq!(changes.build_link.as_deref(), Some("https://ci.example.org/2"));
    assert!(!changes.rewritten && !changes.truncated && !changes.unrelated);
    assert_eq!(scene.requests(), 2);
    assert_eq!(
        names(&scene.ask(&[], &second).await),
        "b c",
        "of the first revision what it was exported with"
    );
}

#[tokio::test]
async fn what_flux_skipped_is_told_with_the_time_of_its_own_export() {
    let scene = Scene::new().await;
    let first = scene.export(1, &["a"]);
    scene.export(2, &["b"]);
    scene.other(3);
    scene.export(4, &["c", "b"]);
    let last = scene.export(5, &["d"]);
    let changes = scene.ask(&[&first], &last).await;

    assert_eq!(names(&changes), "b c d");
    let exported: Vec<_> = changes.commits.iter().map(|commit| commit.exported).collect();
    assert_eq!(exported, [Some(time(2)), Some(time(4)), None]);
    assert_eq!(changes.exported, Some(time(5)));
    assert_eq!(scene.requests(), 4, "a list and three files");
}

#[tokio::test]
async fn a_skipped_export_that_makes_no_sense_keeps_none_of_the_others_from_being_told() {
    let scene = Scene::new().await;
    let first = scene.export(1, &["a"]);
    scene.export(2, &["b"]);
    let broken = scene.repository.push("export", time(3), &[(FILE, Some(b"{"))]);
    let changes = scene.ask(&[&first], &scene.export(4, &["d"])).await;
    assert_eq!((names(&changes).as_str(), changes.incomplete, changes.truncated), ("b d", true, false));
    assert_eq!(scene.problem(&[&first], &broken).await.problem, Problem::Malformed);
}

#[tokio::test]
async fn an_export_that_is_reverted_or_made_again_tells_nothing_twice() {
    let scene = Scene::new().await;
    let (info, again) = (payload(1, &["a"]), payload(2, &["b"]));
    let first = scene.export(1, &["a"]);
    let second = scene.export(2, &["b"]);
    let revert = scene.repository.push("revert", time(3), &[(FILE, Some(info.as_bytes()))]);
    let changes = scene.ask(&[&first, &second], &revert).await;
    assert_eq!((names(&changes).as_str(), changes.exported), ("", Some(time(3))));
    let back = scene.repository.push("revert the revert", time(4), &[(FILE, Some(again.as_bytes()))]);
    assert_eq!(names(&scene.ask(&[&first, &second, &revert], &back).await), "");

    // A process that remembers nothing, and an export on top of what was skipped.
    let scene = Scene { finder: finder(&scene.stand_in, None), ..scene };
    assert_eq!(names(&scene.ask(&[&first, &second], &back).await), "");
    let next = scene.export(5, &["c"]);
    assert_eq!(names(&scene.ask(&[&first, &second], &next).await), "c");
}

#[tokio::test]
async fn a_revision_without_an_export_brings_nothing_and_hides_nothing() {
    let scene = Scene::new().await;
    let first = scene.export(1, &["a"]);
    let by_hand = scene.other(2);
    let changes = scene.ask(&[&first], &by_hand).await;
    assert_eq!((names(&changes).as_str(), changes.exported), ("", None));

    let again = scene.other(3);
    assert_eq!(names(&scene.ask(&[&first, &by_hand], &again).await), "");
    scene.export(4, &["b"]);
    let on_top = scene.other(5);
    let changes = scene.ask(&[&first, &by_hand, &again], &on_top).await;
    assert_eq!((names(&changes).as_str(), changes.exported), ("b", Some(time(4))));
    assert!(!changes.rewritten);
}

#[tokio::test]
async fn exports_are_paged_through_until_a_known_one_and_what_is_beyond_is_said_to_be_cut_off() {
    for (exports, told) in [(50, 49), (130, 120)] {
        let scene = Scene::new().await;
        let known = scene.export(1, &["first"]);
        let mut last = String::new();
        for minute in 2..=exports {
            last = scene.export(minute, &[&format!("c{minute}")]);
        }
        let changes = scene.ask(&[&known], &last).await;
        assert_eq!((changes.commits.len(), &changes.commits[told - 1].id), (told, &format!("c{exports}")));
        assert_eq!((changes.truncated, changes.rewritten), (exports == 130, false));
    }
}

#[tokio::test]
async fn after_a_force_push_only_what_the_old_history_did_not_hold_is_told() {
    let scene = Scene::new().await;
    let base = scene.export(1, &["a"]);
    let lost = scene.export(2, &["b"]);
    let info = payload(3, &["c"]);
    let new = scene.repository.push_onto(&[&base], "export", time(3), &[(FILE, Some(info.as_bytes()))]);
    let changes = scene.ask(&[&base, &lost], &new).await;
    assert_eq!(names(&changes), "c");
    assert!(changes.rewritten);

    scene.repository.collect(&lost);
    let changes = scene.ask(&[&base, &lost], &new).await;
    assert_eq!((names(&changes).as_str(), changes.rewritten), ("c", true), "although the old commit is gone");
}

#[tokio::test]
async fn a_history_with_nothing_in_common_tells_its_newest_export() {
    let scene = Scene::new().await;
    let old = scene.export(1, &["a"]);
    let root = payload(2, &["a", "b"]);
    let root = scene.repository.push_onto(&[], "all anew", time(2), &[(FILE, Some(root.as_bytes()))]);
    let info = payload(3, &["c"]);
    let new = scene.repository.push_onto(&[&root], "export", time(3), &[(FILE, Some(info.as_bytes()))]);
    for collected in [false, true] {
        if collected {
            scene.repository.collect(&old);
        }
        let changes = scene.ask(&[&old], &new).await;
        assert_eq!((names(&changes).as_str(), changes.rewritten), ("c", true), "collected: {collected}");
        assert!(changes.unrelated);
    }
}

#[tokio::test]
async fn back_and_forth_tells_nothing_twice() {
    let scene = Scene::new().await;
    let first = scene.export(1, &["a"]);
    let second = scene.export(2, &["b"]);
    let third = scene.export(3, &["c"]);
    assert_eq!(names(&scene.ask(&[&first, &second], &first).await), "");
    assert_eq!(scene.requests(), 0, "what is known is not asked about");
    assert_eq!(names(&scene.ask(&[&first, &third], &second).await), "", "an ancestor of what was applied");
    assert_eq!(names(&scene.ask(&[&second, &first], &third).await), "c");
}

#[tokio::test]
async fn an_exporter_that_begins_later_is_told_from_its_begin() {
    let scene = Scene::new().await;
    let before = scene.other(1);
    let first = scene.export(2, &["a"]);
    let second = scene.export(3, &["b"]);
    assert_eq!(names(&scene.ask(&[&before], &second).await), "a b");
    assert_eq!(names(&scene.ask(&[&before, &first], &second).await), "b");
}

#[tokio::test]
async fn without_the_file_the_payload_is_missing_and_nothing_else() {
    let scene = Scene::new().await;
    let first = scene.other(1);
    let second = scene.other(2);
    for known in [vec![], vec![&first]] {
        let error = scene.problem(&known, &second).await;
        assert_eq!(error.problem, Problem::PayloadMissing, "{error}");
    }
    let exported = scene.export(3, &["a"]);
    let removed = scene.repository.push("no more exports", time(4), &[(FILE, None)]);
    let later = scene.other(5);
    assert_eq!(scene.problem(&[&exported], &removed).await.problem, Problem::PayloadMissing);
    assert_eq!(scene.problem(&[&removed], &later).await.problem, Problem::PayloadMissing);
}

#[tokio::test]
async fn a_thousand_questions_for_one_revision_are_one_set_of_requests() {
    let scene = Scene::new().await;
    // As GitHub says: what comes out of octocrab's queue after the first answer finds it kept.
    scene.stand_in.let_answers_live(Duration::from_mins(1));
    let first = scene.export(1, &["a"]);
    let second = scene.export(2, &["b"]);
    let question = scene.question(&[&first], &second);
    let all = futures::future::join_all((0..1_000).map(|_| scene.finder.find(&question))).await;
    assert!(all.iter().all(|changes| changes.as_ref().is_ok_and(|changes| names(changes) == "b")));
    assert_eq!(scene.requests(), 2);

    let spent = scene.stand_in.spent();
    for _ in 0..10 {
        scene.ask(&[&first], &second).await;
    }
    assert_eq!(scene.stand_in.spent(), spent, "repeats cost no rate limit");
}

#[tokio::test]
async fn what_was_built_of_the_manifests_is_asked_about_by_its_origin() {
    let scene = Scene::with(Some("grafana/kube-manifests")).await;
    let first = scene.export(1, &["a"]);
    let second = scene.export(2, &["b"]);
    let digest = "a".repeat(64);
    let mut question = scene.question(&[&first], &second);
    question.source.kind = SourceKind::OciRepository;
    question.url = "oci://registry.example.org/manifests".to_owned();
    let built = format!("latest@sha256:{digest}");
    question.to = format!("latest@sha256:{}", "b".repeat(64)).parse().unwrap();
    question.known = vec![given::accounted(&built, Some(&format!("main@sha1:{first}")))];
    question.origin = Some(format!("main@sha1:{second}"));
    assert_eq!(names(&scene.finder.find(&question).await.unwrap()), "b");

    question.known = vec![given::accounted(&built, None)];
    assert!(scene.finder.find(&question).await.unwrap().unrelated, "it applied something else before");
    question.origin = None;
    let error = scene.finder.find(&question).await.unwrap_err();
    assert_eq!(error.problem, Problem::Malformed, "{error}");
}

#[tokio::test]
async fn another_forge_is_not_asked_and_a_malformed_revision_neither() {
    let scene = Scene::new().await;
    let sha = scene.export(1, &["a"]);
    let mut question = scene.question(&[], &sha);
    assert!(scene.finder.serves(&question));
    question.url = "https://gitlab.com/grafana/kube-manifests".to_owned();
    assert!(!scene.finder.serves(&question));
    assert_eq!(scene.finder.find(&question).await.unwrap_err().problem, Problem::Unsupported);

    for revision in ["main@sha1:", "main@sha1:abc", "main", "main@md5:00", &format!("main@sha1:{sha}0")] {
        let mut question = scene.question(&[], &sha);
        question.to = revision.parse().unwrap();
        let error = scene.finder.find(&question).await.unwrap_err();
        assert_eq!(error.problem, Problem::Malformed, "{revision}: {error}");
    }
    assert_eq!(scene.requests(), 0);
}

#[tokio::test]
async fn failures_of_github_are_problems_of_their_own_and_half_an_answer_is_none() {
    let mut scene = Scene::new().await;
    let first = scene.export(1, &["a"]);
    scene.export(2, &["b"]);
    let last = scene.export(3, &["c"]);
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
        let error = scene.problem(&[&first], &last).await;
        assert_eq!(error.problem, expected, "{fault:?}: {error}");
        assert_eq!(error.retry_after.map(|wait| wait.as_secs()), retry_after, "{fault:?}");
        assert!(!error.to_string().contains("ghp_"), "{error}");
        scene.stand_in.heal();
        if expected != Problem::RateLimited {
            assert_eq!(names(&scene.ask(&[&first], &last).await), "b c", "after {fault:?}");
        }
    }
}

#[tokio::test]
async fn a_hidden_repository_and_a_bad_payload_say_what_to_do() {
    let scene = Scene::new().await;
    let bad = scene.repository.push("export", time(1), &[(FILE, Some(b"{\"commit\": 3}"))]);
    let error = scene.problem(&[], &bad).await;
    assert_eq!(error.problem, Problem::Malformed);
    assert!(error.to_string().contains(&format!("{FILE} of grafana/kube-manifests at {bad}")), "{error}");
    let error = scene.problem(&[], &"0".repeat(40)).await;
    assert_eq!(error.problem, Problem::NotFound);
    assert!(error.to_string().contains("could be private"), "{error}");
    let big = vec![b' '; 5 << 20];
    let big = scene.repository.push("export", time(2), &[(FILE, Some(&big))]);
    assert_eq!(scene.problem(&[&bad], &big).await.problem, Problem::TooLarge);
}

#[tokio::test]
async fn a_payload_over_1_mb_is_read() {
    let scene = Scene::new().await;
    let many: Vec<String> = (0..12_000).map(|n| format!("{n:040x}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let info = payload(1, &many);
    assert!(info.len() > 1 << 20);
    let sha = scene.repository.push("export", time(1), &[(FILE, Some(info.as_bytes()))]);
    let changes = scene.ask(&[], &sha).await;
    assert_eq!((changes.commits.len(), changes.truncated), (1_000, true));
    assert_eq!(scene.requests(), 3);
}
