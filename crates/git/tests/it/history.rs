//! Commits between revisions, from Git's own server.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use git2::{ObjectType, Oid, Repository};
use tokio_util::sync::CancellationToken;
use windlass_git::{GitError, History, HistoryQuery, Limits, RemoteRepository, Revision};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::Edit;

use crate::fixture::{Fixture, generous, git};

/// A repository whose commits are made one by one, with dates and parents of the test's choice.
struct Scene {
    fixture: Fixture,
    repository: Repository,
    tree: Oid,
    made: usize,
}

impl Scene {
    async fn new() -> Self {
        Self::with(Limits::default(), |backend| backend).await
    }

    async fn with(limits: Limits, adapt: impl FnOnce(HttpBackend) -> HttpBackend) -> Self {
        let fixture = Fixture::with(limits, adapt).await;
        let mut options = git2::RepositoryInitOptions::new();
        options.bare(true).external_template(false).initial_head("main");
        let repository = Repository::init_opts(fixture.repository(), &options).unwrap();
        let tree = repository.treebuilder(None).unwrap().write().unwrap();
        Self { fixture, repository, tree, made: 0 }
    }

    /// A commit that no branch points at, a minute after the one before.
    fn commit(&mut self, parents: &[Oid]) -> Oid {
        self.made += 1;
        let (time, message) = (1_700_000_000 + self.made * 60, format!("change {}\n", self.made));
        self.raw(parents, &format!("C <c@localhost> {time} +0000"), message.as_bytes())
    }

    fn raw(&self, parents: &[Oid], committer: &str, message: &[u8]) -> Oid {
        let parents: Vec<_> = parents.iter().map(|parent| format!("parent {parent}\n")).collect();
        let parents = parents.concat();
        let author = "A. Writer <a@localhost> 1600000000 +0000";
        let head = format!("tree {}\n{parents}author {author}\ncommitter {committer}\n\n", self.tree);
        let mut data = head.into_bytes();
        data.extend_from_slice(message);
        self.repository.odb().unwrap().write(ObjectType::Commit, &data).unwrap()
    }

    fn line(&mut self, from: Option<Oid>, count: usize) -> Vec<Oid> {
        let mut line = Vec::new();
        let mut parents: Vec<Oid> = from.into_iter().collect();
        for _ in 0..count {
            let commit = self.commit(&parents);
            parents = vec![commit];
            line.push(commit);
        }
        line
    }

    fn point(&self, branch: &str, commit: Oid) {
        self.repository.reference(&format!("refs/heads/{branch}"), commit, true, "").unwrap();
    }

    async fn asked(
        &self,
        source: &Arc<RemoteRepository>,
        new: Oid,
        known: &[Oid],
    ) -> Result<History, GitError> {
        source.history(&query(new, known), &CancellationToken::new()).await
    }

    async fn ask(&self, new: Oid, known: &[Oid]) -> History {
        self.asked(&self.fixture.source(), new, known).await.unwrap()
    }

    /// A source that remembers nothing of what others asked.
    fn fresh(&self, limits: Limits) -> (tempfile::TempDir, Arc<RemoteRepository>) {
        let folder = tempfile::tempdir().unwrap();
        let git = git(&folder, &self.fixture.server.origin(), limits, generous());
        let remote = windlass_git::Remote { url: self.fixture.url(), ..windlass_git::Remote::default() };
        (folder, git.remote(remote).unwrap())
    }
}

fn revision(id: Oid) -> Revision {
    Revision::new(id.to_string())
}

fn query(new: Oid, known: &[Oid]) -> HistoryQuery {
    HistoryQuery { new: revision(new), known: known.iter().map(|id| revision(*id)).collect(), max: 10_000 }
}

fn ids(history: &History) -> Vec<String> {
    history.commits.iter().map(|commit| commit.id.to_string()).collect()
}

fn names(commits: &[Oid]) -> Vec<String> {
    commits.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_new_revision_costs_one_request_and_brings_its_commits_alone() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 40);
    scene.point("main", line[20]);
    assert_eq!(ids(&scene.ask(line[20], &[line[17]]).await), names(&line[18..=20]));
    assert_eq!(scene.fixture.requests(), 1);
    scene.point("main", line[39]);
    let history = scene.ask(line[39], &[line[17], line[20]]).await;
    assert_eq!(ids(&history), names(&line[21..]));
    assert_eq!((history.rewritten, history.truncated), (false, false));
    let first = &history.commits[0];
    assert_eq!((first.subject.as_str(), first.author.as_str()), ("change 22", "A. Writer"));
    assert_eq!((first.committed, first.merged), (1_700_000_000 + 22 * 60, 1_700_000_000 + 22 * 60));
    assert_eq!(scene.fixture.requests(), 2);
    // Whoever else knows less, or more, of it.
    for known in [3, 17, 30, 39] {
        assert_eq!(ids(&scene.ask(line[39], &[line[known]]).await), names(&line[known + 1..]));
    }
    assert_eq!(scene.fixture.requests(), 2);
    assert!(scene.fixture.server.log().lines().iter().all(|line| line == "POST /sample.git/git-upload-pack"));
}

#[tokio::test]
async fn a_thousand_questions_at_once_share_their_requests() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 1_200);
    scene.point("main", line[1_199]);
    let answers = join_all((200..1_200).map(|at| {
        let known: Vec<Oid> = line[at - 16..at].to_vec();
        let (scene, new) = (&scene, line[at]);
        async move { scene.ask(new, &known).await }
    }))
    .await;
    for (at, answer) in (200..).zip(&answers) {
        assert_eq!(ids(answer), [line[at].to_string()]);
        assert_eq!((answer.rewritten, answer.truncated), (false, false));
    }
    assert!(scene.fixture.requests() <= 3, "{} requests", scene.fixture.requests());
}

#[tokio::test]
async fn questions_one_after_the_other_cost_a_request_each_at_most() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 31);
    scene.point("main", line[30]);
    let source = scene.fixture.source();
    for at in 1..=30 {
        let answer = scene.asked(&source, line[at], &[line[at - 1]]).await.unwrap();
        assert_eq!(ids(&answer), [line[at].to_string()]);
        let requests = scene.fixture.requests();
        assert!(requests <= at as u64, "{requests} requests for {at} revisions");
        assert_eq!(scene.asked(&source, line[at], &[line[at - 1]]).await.unwrap(), answer);
        assert_eq!(scene.fixture.requests(), requests);
    }
}

#[tokio::test]
async fn a_branch_from_long_ago_is_merged_with_one_request() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 600);
    let branch = scene.line(Some(line[5]), 3);
    let merge = scene.commit(&[line[599], branch[2]]);
    scene.point("main", merge);
    assert_eq!(ids(&scene.ask(line[599], &[line[598]]).await), names(&line[599..]));
    let history = scene.ask(merge, &[line[598], line[599]]).await;
    assert_eq!(ids(&history), names(&[branch[0], branch[1], branch[2], merge]));
    assert_eq!((history.rewritten, history.truncated), (false, false));
    let merged = history.commits[3].committed;
    assert!(history.commits.iter().all(|commit| commit.merged == merged && commit.committed <= merged));
    assert_eq!(scene.fixture.requests(), 2);
}

#[tokio::test]
async fn a_history_is_followed_as_far_as_it_takes() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 3_000);
    scene.point("main", line[2_999]);
    let history = scene.ask(line[2_999], &[line[1]]).await;
    assert_eq!((history.commits.len(), history.rewritten, history.truncated), (2_998, false, false));
    // First 128, then 1,000, then as far as the limit goes.
    assert_eq!(scene.fixture.requests(), 3);
    assert_eq!(scene.ask(line[2_999], &[line[0], line[1]]).await, history);
    assert_eq!(scene.fixture.requests(), 3);
}

#[tokio::test]
async fn more_than_the_limit_is_truncated_and_the_newest_are_told() {
    let limits = Limits { history_commits: 500, ..Limits::default() };
    let mut scene = Scene::with(limits, |backend| backend).await;
    let line = scene.line(None, 2_000);
    scene.point("main", line[1_999]);
    let history = scene.ask(line[1_999], &[line[1]]).await;
    assert!(history.truncated && !history.commits.is_empty() && history.commits.len() <= 500);
    assert_eq!(ids(&history), names(&line[2_000 - history.commits.len()..]));
    let requests = scene.fixture.requests();
    assert_eq!(scene.ask(line[1_999], &[line[1]]).await, history);
    assert_eq!(scene.fixture.requests(), requests, "what cannot be answered better is not asked again");
    let (_folder, source) = scene.fresh(Limits { history_bytes: 3_000, ..Limits::default() });
    let little = scene.asked(&source, line[1_999], &[line[1]]).await.unwrap();
    assert!(little.truncated && little.commits.len() < 128, "{}", little.commits.len());
    let most = HistoryQuery { max: 10, ..query(line[1_999], &[line[1_900]]) };
    let newest = scene.fixture.source().history(&most, &CancellationToken::new()).await.unwrap();
    assert_eq!((ids(&newest), newest.truncated), (names(&line[1_990..]), true));
}

#[tokio::test]
async fn the_first_sight_of_a_repository_is_bounded() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 2_000);
    scene.point("main", line[1_999]);
    let history = scene.ask(line[1_999], &[]).await;
    assert_eq!(ids(&history), names(&line[2_000 - 128..]));
    assert!(history.truncated && !history.rewritten);
    assert_eq!(scene.fixture.requests(), 1);
    let small = scene.line(None, 3);
    scene.point("other", small[2]);
    let whole = scene.ask(small[2], &[]).await;
    assert_eq!((ids(&whole), whole.truncated), (names(&small), false));
}

#[tokio::test]
async fn a_forced_push_brings_what_came_since_the_histories_parted() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 30);
    scene.point("main", line[29]);
    scene.ask(line[29], &[line[28]]).await;
    let other = scene.line(Some(line[20]), 4);
    scene.point("main", other[3]);
    let history = scene.ask(other[3], &[line[28], line[29]]).await;
    assert_eq!((ids(&history), history.rewritten, history.truncated), (names(&other), true, false));
    assert!(!history.unrelated);
    // The same for who never saw the history before; the server still has the commits that no branch holds.
    let (_folder, source) = scene.fresh(Limits::default());
    assert_eq!(scene.asked(&source, other[3], &[line[28], line[29]]).await.unwrap(), history);
    // And back: all of it was seen.
    assert_eq!(scene.ask(line[29], &[line[28], line[29], other[3]]).await, History::default());
}

#[tokio::test]
async fn a_known_revision_that_is_gone_bounds_nothing() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 30);
    scene.point("main", line[29]);
    let gone = Oid::from_str("0123456789abcdef0123456789abcdef01234567").unwrap();
    let history = scene.ask(line[29], &[line[25], gone]).await;
    assert_eq!((ids(&history), history.rewritten), (names(&line[26..]), true));
    let requests = scene.fixture.requests();
    assert_eq!(requests, 2, "one of them told that it is gone");
    assert_eq!(scene.ask(line[29], &[line[27], gone]).await.commits.len(), 2);
    assert_eq!(scene.fixture.requests(), requests);
    let alone = scene.ask(line[29], &[gone]).await;
    assert_eq!((alone.commits.len(), alone.rewritten, alone.unrelated), (30, true, true));
    let apart = scene.line(None, 3);
    scene.point("other", apart[2]);
    let other = scene.ask(apart[2], &[line[29]]).await;
    assert_eq!((ids(&other), other.rewritten, other.unrelated), (names(&apart), true, true));
}

#[tokio::test]
async fn a_revision_that_the_server_does_not_have_fails_alone() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 30);
    scene.point("main", line[29]);
    let gone = Oid::from_str("0123456789abcdef0123456789abcdef01234567").unwrap();
    let source = scene.fixture.source();
    let asks = [line[29], gone, line[28], line[27]];
    let answers = join_all(asks.map(|new| {
        let (scene, source, known) = (&scene, &source, line[26]);
        async move { scene.asked(source, new, &[known]).await }
    }))
    .await;
    for (answer, count) in answers.iter().zip([3, 0, 2, 1]) {
        match answer {
            Ok(history) => assert_eq!(history.commits.len(), count),
            Err(GitError::RevisionMissing { revision, .. }) => {
                assert_eq!((revision.as_str(), count), (gone.to_string().as_str(), 0));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    let blob = scene.repository.blob(b"no commit").unwrap();
    for none in [blob, scene.tree] {
        scene.repository.reference("refs/heads/odd", none, true, "").ok();
        let error = scene.asked(&source, none, &[]).await.unwrap_err();
        assert!(matches!(error, GitError::RevisionMissing { .. }), "{error:?}");
    }
    let words = HistoryQuery { new: Revision::new("main"), ..query(gone, &[]) };
    let error = source.history(&words, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, GitError::RevisionMissing { .. }), "{error:?}");
}

#[tokio::test]
async fn an_annotated_tag_is_a_revision() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 10);
    scene.point("main", line[9]);
    let who = git2::Signature::now("T", "t@localhost").unwrap();
    let tag = |name: &str, at: Oid| {
        let object = scene.repository.find_object(at, None).unwrap();
        scene.repository.tag(name, &object, &who, "release", false).unwrap()
    };
    let (first, second) = (tag("v1", line[3]), tag("v2", line[9]));
    let outer = tag("outer", second);
    for (new, known) in [(second, first), (second, line[3]), (line[9], first), (outer, first)] {
        let history = scene.ask(new, &[known]).await;
        assert_eq!((ids(&history), history.rewritten), (names(&line[4..]), false), "{new} over {known}");
        let (_folder, source) = scene.fresh(Limits::default());
        assert_eq!(scene.asked(&source, new, &[known]).await.unwrap(), history);
    }
}

#[tokio::test]
async fn commits_that_no_sane_person_made_are_told_all_the_same() {
    let mut scene = Scene::new().await;
    let root = scene.commit(&[]);
    let past =
        scene.raw(&[root], "C <c@localhost> -5000000000 +0000", b"\xff\xfe odd\nsecond line\n\nbody\n");
    let future = scene.raw(&[past], "C <c@localhost> 31556889864403199 +9999", b"");
    let huge = scene.raw(&[future], "nobody", "é".repeat(1 << 20).as_bytes());
    let twice = scene.raw(&[huge, huge], "C <c@localhost> 99999999999999999999999999 +0000", b"x\n");
    scene.point("main", twice);
    let history = scene.ask(twice, &[root]).await;
    assert_eq!(ids(&history), names(&[past, future, huge, twice]));
    let times: Vec<i64> = history.commits.iter().map(|commit| commit.committed).collect();
    assert_eq!(times, [-5_000_000_000, 31_556_889_864_403_199, 1_600_000_000, i64::MAX]);
    assert_eq!(history.commits[0].subject, "\u{fffd}\u{fffd} odd second line");
    assert!(history.commits[2].subject.chars().count() <= 201);
    let (_folder, source) = scene.fresh(Limits { blob_bytes: 1 << 20, ..Limits::default() });
    let newest = scene.asked(&source, twice, &[root]).await.unwrap();
    assert_eq!(ids(&newest), names(&[twice]), "the one before is too large");
    assert!(newest.truncated && !newest.rewritten);
    let error = scene.asked(&source, huge, &[root]).await.unwrap_err();
    assert!(matches!(error, GitError::LimitExceeded { limit: "blob_bytes", .. }), "{error:?}");
}

#[tokio::test]
async fn a_missing_parent_is_not_followed() {
    let mut scene = Scene::new().await;
    let nowhere = Oid::from_str("0123456789abcdef0123456789abcdef01234567").unwrap();
    let line = scene.line(None, 4);
    let broken = scene.raw(&[line[3], nowhere], "C <c@localhost> 1700000000 +0000", b"x\n");
    scene.point("main", broken);
    // Git itself does not serve it; that is an error, and none that keeps other questions from being answered.
    let error = scene.asked(&scene.fixture.source(), broken, &[line[3]]).await.unwrap_err();
    assert!(!matches!(error, GitError::Cancelled), "{error:?}");
    assert_eq!(ids(&scene.ask(line[3], &[line[2]]).await), names(&line[3..]));
}

#[tokio::test]
async fn servers_without_filters_or_without_v2_answer_the_same() {
    for old in [false, true] {
        let limits = Limits { history_bytes: 20_000, ..Limits::default() };
        let scene = Scene::with(limits, |backend| {
            let backend = if old { backend.without_v2() } else { backend };
            backend.without_filter()
        });
        let mut scene = scene.await;
        // Files that a filter would have left out.
        let big: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
        let first = scene.fixture.commit([Edit::put("big", big)]);
        let first = Oid::from_str(first.as_str()).unwrap();
        let line = scene.line(Some(first), 20);
        scene.point("main", line[19]);
        let history = scene.ask(line[19], &[line[9]]).await;
        assert_eq!((ids(&history), history.rewritten, history.truncated), (names(&line[10..]), false, false));
        let requests = scene.fixture.requests();
        let on = scene.line(Some(line[19]), 3);
        scene.point("main", on[2]);
        assert_eq!(ids(&scene.ask(on[2], &[line[19]]).await), names(&on));
        let each = if old { 2 } else { 1 };
        assert_eq!(scene.fixture.requests() - requests, each);
    }
}

#[tokio::test]
async fn a_server_without_v2_finds_revisions_behind_its_branches() {
    let mut scene = Scene::with(Limits::default(), HttpBackend::without_v2).await;
    let line = scene.line(None, 400);
    scene.point("main", line[399]);
    // Neither is a branch's tip, and the server gives nothing else.
    assert_eq!(ids(&scene.ask(line[390], &[line[388]]).await), names(&line[389..=390]));
    assert_eq!(ids(&scene.ask(line[100], &[line[90]]).await), names(&line[91..=100]));
    let gone = Oid::from_str("0123456789abcdef0123456789abcdef01234567").unwrap();
    let error = scene.asked(&scene.fixture.source(), gone, &[line[1]]).await.unwrap_err();
    assert!(matches!(error, GitError::RevisionMissing { .. }), "{error:?}");
    let (_folder, source) = scene.fresh(Limits::default());
    let far = scene.asked(&source, line[390], &[line[150]]).await.unwrap();
    assert_eq!((ids(&far), far.rewritten, far.truncated), (names(&line[151..=390]), false, false));
}

#[tokio::test]
async fn a_question_that_is_dropped_hands_its_turn_on() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 50);
    scene.point("main", line[49]);
    let source = scene.fixture.source();
    let dropped: Vec<_> = (1..20)
        .map(|at| {
            let (source, query, cancel) =
                (Arc::clone(&source), query(line[at], &[line[at - 1]]), CancellationToken::new());
            let task = tokio::spawn({
                let cancel = cancel.clone();
                async move { source.history(&query, &cancel).await }
            });
            (task, cancel)
        })
        .collect();
    let staying = tokio::spawn({
        let (source, query) = (Arc::clone(&source), query(line[49], &[line[40]]));
        async move { source.history(&query, &CancellationToken::new()).await }
    });
    for (at, (task, cancel)) in dropped.into_iter().enumerate() {
        if at % 2 == 0 { task.abort() } else { cancel.cancel() }
    }
    assert_eq!(ids(&staying.await.unwrap().unwrap()), names(&line[41..]));
}

#[tokio::test]
async fn histories_leave_nothing_on_disk() {
    let mut scene = Scene::new().await;
    let line = scene.line(None, 50);
    scene.point("main", line[49]);
    scene.ask(line[49], &[line[40]]).await;
    scene.asked(&scene.fixture.source(), line[0], &[Oid::from_bytes(&[7; 20]).unwrap()]).await.unwrap();
    let left: Vec<_> = std::fs::read_dir(scene.fixture.folder.path().join("cache")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_failure_is_told_to_everybody_who_waited() {
    let folder = tempfile::tempdir().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let counted = Arc::new(std::sync::Mutex::new(HashMap::<String, usize>::new()));
    let seen = Arc::clone(&counted);
    let router = axum::Router::new().fallback(move |request: axum::http::Request<axum::body::Body>| {
        *seen.lock().unwrap().entry(request.uri().to_string()).or_default() += 1;
        async { axum::http::Response::builder().status(503).body(axum::body::Body::empty()).unwrap() }
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    let git = git(&folder, &origin, Limits::default(), generous());
    let remote = windlass_git::Remote { url: format!("{origin}/a.git"), ..windlass_git::Remote::default() };
    let source = git.remote(remote).unwrap();
    let answers = join_all((0..100_u8).map(|number| {
        let (source, new) = (Arc::clone(&source), Oid::from_bytes(&[number; 20]).unwrap());
        async move { source.history(&query(new, &[]), &CancellationToken::new()).await }
    }))
    .await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(GitError::Unavailable { status: 503, .. }))));
    let requests: usize = counted.lock().unwrap().values().sum();
    assert!(requests <= 3, "{requests} requests");
}

#[tokio::test]
async fn parents_without_number_are_a_limit() {
    let limits = Limits { history_commits: 2_000, ..Limits::default() };
    let mut scene = Scene::with(limits, |backend| backend).await;
    let root = scene.commit(&[]);
    let usual = scene.commit(&[root]);
    let many = scene.commit(&vec![usual; 1_200]);
    let newest = scene.commit(&vec![many; 1_200]);
    scene.point("main", newest);
    let history = scene.ask(newest, &[root]).await;
    assert_eq!((ids(&history), history.truncated), (names(&[newest]), true), "two of them are too many");
    let (_folder, source) = scene.fresh(Limits { history_commits: 2_000, ..Limits::default() });
    let history = scene.asked(&source, many, &[root]).await.unwrap();
    assert_eq!((ids(&history), history.truncated), (names(&[usual, many]), false), "one is not");
    let absurd = scene.commit(&vec![newest; 200_000]);
    scene.point("main", absurd);
    let (_folder, source) = scene.fresh(Limits::default());
    let error = scene.asked(&source, absurd, &[newest]).await.unwrap_err();
    assert!(matches!(error, GitError::LimitExceeded { limit: "history_commits", .. }), "{error:?}");
}

#[tokio::test]
async fn what_an_earlier_process_left_is_not_read() {
    let limits = Limits { history_commits: 30, ..Limits::default() };
    let mut scene = Scene::with(limits, |backend| backend).await;
    let line = scene.line(None, 40);
    scene.point("main", line[39]);
    // A container's first process has the same id each time, and ended here in the middle of its first transfer.
    let left = scene.fixture.folder.path().join(format!("cache/{}-0.incoming/pack", std::process::id()));
    std::fs::create_dir_all(&left).unwrap();
    let mut pack = scene.repository.packbuilder().unwrap();
    for commit in &line {
        pack.insert_object(*commit, None).unwrap();
    }
    pack.write(&left, 0).unwrap();
    assert_eq!(ids(&scene.ask(line[39], &[line[30]]).await), names(&line[31..]));
    assert!(left.exists(), "it may be another process's that still runs");
}

#[tokio::test]
async fn histories_of_many_repositories_are_bounded_together() {
    let limits = Limits { remembered_commits: 100, ..Limits::default() };
    let mut scene = Scene::with(limits, |backend| backend).await;
    let line = scene.line(None, 60);
    scene.point("main", line[59]);
    // Whoever has other credentials has a history of their own.
    let source = |user: &str| {
        let credentials =
            windlass_git::Credentials::Basic { user: user.into(), token: "t".to_owned().into() };
        let remote = windlass_git::Remote {
            url: scene.fixture.url(),
            credentials: Some(credentials),
            ..windlass_git::Remote::default()
        };
        scene.fixture.git.remote(remote).unwrap()
    };
    for (user, requests) in [("a", 1), ("a", 1), ("b", 2), ("b", 2), ("a", 3), ("b", 4)] {
        let history = scene.asked(&source(user), line[59], &[line[10]]).await.unwrap();
        assert_eq!(ids(&history), names(&line[11..]));
        assert_eq!(scene.fixture.requests(), requests, "{user}");
    }
}
