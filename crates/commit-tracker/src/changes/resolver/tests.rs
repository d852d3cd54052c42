use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Semaphore as Gate;

use super::*;
use crate::changes::{Commit, given};

/// Somebody who answers once the gate lets him, and knows how often he was asked, and about how much at a time.
struct Oracle {
    asked: AtomicUsize,
    at_once: AtomicUsize,
    most: AtomicUsize,
    gate: Gate,
    problem: Mutex<Option<(Problem, Option<Duration>)>>,
}

impl Oracle {
    fn new(gate: usize) -> Arc<Self> {
        Arc::new(Self {
            asked: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            gate: Gate::new(gate),
            problem: Mutex::new(None),
        })
    }

    fn fails(&self, problem: Option<(Problem, Option<Duration>)>) {
        *self.problem.lock().unwrap() = problem;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl FindChanges for Oracle {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        if let Some((problem, retry_after)) = *self.problem.lock().unwrap() {
            let text = format!("it did not work: {}", problem.name());
            return Err(ChangesError { retry_after, ..ChangesError::new(problem, text) });
        }
        let commit = Commit::new(question.to.as_str(), jiff::Timestamp::UNIX_EPOCH);
        Ok(Changes { commits: vec![commit], ..Changes::default() })
    }
}

impl ResolverObserver for () {
    fn asked(&self, _: SourceKind, _: Option<Problem>) {}
    fn panicked(&self, _: SourceKind) {}
}

/// Who asks a finder with a defect.
#[derive(Default)]
struct Panics(AtomicUsize);

impl ResolverObserver for Panics {
    fn asked(&self, _: SourceKind, _: Option<Problem>) {}
    fn panicked(&self, _: SourceKind) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Defect;

#[async_trait]
impl FindChanges for Defect {
    async fn find(&self, _: &ChangesQuery) -> Result<Changes, ChangesError> {
        panic!("a defect")
    }
}

#[tokio::test]
async fn a_question_that_panics_is_told_and_can_be_asked_again() {
    let finder: Arc<dyn FindChanges> = Arc::new(Defect);
    let panics = Arc::new(Panics::default());
    let finders = Finders { git: finder.clone(), oci: finder.clone(), metadata: finder };
    let resolver = ChangesResolver::new(finders, 4, Arc::<Panics>::clone(&panics));
    let no = resolver.ask(&question("apps", &[], "a")).await.unwrap_err();
    assert_eq!((no.error.problem, panics.0.load(Ordering::SeqCst)), (Problem::Unavailable, 1));
}

fn ask(oracle: &Arc<Oracle>) -> ChangesResolver {
    let finder: Arc<dyn FindChanges> = oracle.clone();
    ChangesResolver::new(
        Finders { git: finder.clone(), oci: finder.clone(), metadata: finder },
        4,
        Arc::new(()),
    )
}

fn question(source: &str, known: &[&str], to: &str) -> ChangesQuery {
    let mut question = given::question(SourceKind::GitRepository, "https://git.example.org/apps", to, known);
    question.source.name = source.to_owned();
    question
}

#[tokio::test(start_paused = true)]
async fn the_same_question_is_asked_once_however_many_want_to_know() {
    let oracle = Oracle::new(0);
    let ask = ask(&oracle);
    let many = (0..100).map(|index| {
        let (ask, question) = (ask.clone(), question(&format!("source-{}", index % 3), &["a"], "b"));
        async move { ask.ask(&question).await.unwrap().commits.len() }
    });
    let many = tokio::spawn(futures::future::join_all(many));
    tokio::task::yield_now().await;
    oracle.gate.add_permits(1);
    assert_eq!(many.await.unwrap(), [1; 100]);
    ask.ask(&question("later", &["a"], "b")).await.unwrap();
    assert_eq!(oracle.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn questions_about_one_revision_go_one_after_the_other_and_others_side_by_side() {
    let oracle = Oracle::new(0);
    let ask = ask(&oracle);
    let run = |questions: Vec<ChangesQuery>| {
        let ask = ask.clone();
        tokio::spawn(
            async move { futures::future::join_all(questions.iter().map(|q| ask.ask(q))).await.len() },
        )
    };
    let one = run(vec![question("s", &["a"], "z"), question("s", &["b"], "z"), question("s", &["c"], "z")]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    oracle.gate.add_permits(3);
    one.await.unwrap();
    assert_eq!((oracle.asked(), oracle.most.load(Ordering::SeqCst)), (3, 1));

    let others = run((0..9).map(|index| question("s", &["a"], &format!("r{index}"))).collect());
    tokio::time::sleep(Duration::from_millis(1)).await;
    oracle.gate.add_permits(9);
    others.await.unwrap();
    assert_eq!(oracle.most.load(Ordering::SeqCst), 4, "as many as are allowed at a time");
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_asked_again_after_its_back_off_and_not_before() {
    let oracle = Oracle::new(100);
    let ask = ask(&oracle);
    let question = question("s", &["a"], "b");
    oracle.fails(Some((Problem::Unavailable, None)));
    let first = ask.ask(&question).await.unwrap_err();
    assert!(first.is_new && first.again <= Duration::from_secs(1), "{first:?}");
    let second = ask.ask(&question).await.unwrap_err();
    assert!(!second.is_new, "{second:?}");
    assert_eq!(oracle.asked(), 1);
    tokio::time::sleep(second.again).await;
    let third = ask.ask(&question).await.unwrap_err();
    assert!(!third.is_new && third.again > Duration::from_secs(1), "{third:?}");
    oracle.fails(None);
    tokio::time::sleep(third.again).await;
    ask.ask(&question).await.unwrap();
    assert_eq!(oracle.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_when_to_come_back_is_believed() {
    let oracle = Oracle::new(100);
    let ask = ask(&oracle);
    oracle.fails(Some((Problem::RateLimited, Some(Duration::from_mins(20)))));
    let failed = ask.ask(&question("s", &["a"], "b")).await.unwrap_err();
    assert_eq!(failed.again, Duration::from_mins(20));
    oracle.fails(Some((Problem::RateLimited, Some(Duration::MAX))));
    let failed = ask.ask(&question("s", &["a"], "c")).await.unwrap_err();
    assert_eq!(failed.again, Duration::from_hours(1), "and not for ever");
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_asker_went_away_is_answered_to_the_next() {
    let oracle = Oracle::new(0);
    let ask = ask(&oracle);
    let question = question("s", &["a"], "b");
    let gone = tokio::time::timeout(Duration::from_secs(1), ask.ask(&question)).await;
    assert!(gone.is_err());
    oracle.gate.add_permits(1);
    ask.ask(&question).await.unwrap();
    assert_eq!(oracle.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_news_once_until_it_is_another_one() {
    let oracle = Oracle::new(100);
    let ask = ask(&oracle);
    let question = question("s", &["a"], "b");
    let failed = async |problem: Problem| {
        oracle.fails(Some((problem, None)));
        let failed = ask.ask(&question).await.unwrap_err();
        tokio::time::sleep(failed.again).await;
        (failed.is_new, failed.error.problem)
    };
    assert_eq!(failed(Problem::Unavailable).await, (true, Problem::Unavailable));
    assert_eq!(failed(Problem::Unavailable).await, (false, Problem::Unavailable));
    assert_eq!(failed(Problem::RateLimited).await, (true, Problem::RateLimited));
    assert_eq!(failed(Problem::Unavailable).await, (true, Problem::Unavailable));
    assert_eq!(oracle.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_lasts_is_asked_again_seldom_and_at_once_where_its_source_was_changed() {
    let oracle = Oracle::new(100);
    let ask = ask(&oracle);
    let question = question("s", &["a"], "b");
    oracle.fails(Some((Problem::NotFound, Some(Duration::from_hours(1)))));
    let failed = ask.ask(&question).await.unwrap_err();
    assert_eq!(failed.again, Duration::from_secs(30), "whatever the server says");
    tokio::time::sleep(Duration::from_secs(29)).await;
    ask.ask(&question).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = ask.ask(&question).await.unwrap_err();
    assert_eq!((again.again, again.is_new, oracle.asked()), (Duration::from_mins(1), false, 2));
    oracle.fails(None);
    ask.ask(&question).await.unwrap_err();
    ask.ask(&ChangesQuery { generation: 2, ..question.clone() }).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    ask.ask(&question).await.unwrap();
    assert_eq!(oracle.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn whatever_may_change_the_answer_makes_another_question() {
    let oracle = Oracle::new(100);
    let ask = ask(&oracle);
    let plain = question("s", &["a"], "b");
    let known = vec![given::accounted("a", Some("main@sha1:1"))];
    let with_secret = |namespace: &str| {
        let mut asked = question("s", &["a"], "b");
        asked.source.namespace = namespace.to_owned();
        ChangesQuery { secret: Some("login".to_owned()), ..asked }
    };
    let without_url = |name: &str| ChangesQuery { url: String::new(), ..question(name, &["a"], "b") };
    let mut oci = plain.clone();
    oci.source.kind = SourceKind::OciRepository;
    let others = [
        ChangesQuery { insecure: true, ..plain.clone() },
        ChangesQuery { url: "https://git.example.org/other".to_owned(), ..plain.clone() },
        ChangesQuery { origin: Some("main@sha1:2".to_owned()), ..plain.clone() },
        ChangesQuery { known, ..plain.clone() },
        question("s", &["a", "c"], "b"),
        question("s", &["a"], "c"),
        with_secret("apps"),
        with_secret("other"),
        without_url("s"),
        without_url("t"),
        oci,
        ChangesQuery { generation: 2, ..plain.clone() },
        ChangesQuery { metadata: [("created".to_owned(), "now".to_owned())].into(), ..plain.clone() },
    ];
    ask.ask(&plain).await.unwrap();
    for (place, other) in others.iter().enumerate() {
        ask.ask(other).await.unwrap();
        assert_eq!(oracle.asked(), place + 2, "{other:?}");
    }
    // Which object names the source makes none.
    ask.ask(&question("t", &["a"], "b")).await.unwrap();
    assert_eq!(oracle.asked(), others.len() + 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let oracle = Oracle::new(10_000);
    let ask = ask(&oracle);
    // Sixteen that are known make eighteen of what is remembered with an answer, and seventeen with a failure.
    let known: Vec<String> = (0..16).map(|number| format!("k{number}")).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    for fails in [None, Some((Problem::RateLimited, Some(Duration::from_hours(1))))] {
        oracle.fails(fails);
        let before = oracle.asked();
        for number in 0..2_000 {
            let _ = ask.ask(&question("s", &known, &format!("{}-{number}", fails.is_none()))).await;
        }
        assert_eq!(oracle.asked(), before + 2_000);
        let _ = ask.ask(&question("s", &known, &format!("{}-1999", fails.is_none()))).await;
        assert_eq!(oracle.asked(), before + 2_000, "the newest is remembered: {fails:?}");
        let _ = ask.ask(&question("s", &known, &format!("{}-0", fails.is_none()))).await;
        assert_eq!(oracle.asked(), before + 2_001, "the oldest is not: {fails:?}");
    }
}
