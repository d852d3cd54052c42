use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tokio::sync::Semaphore as Gate;
use tokio::task::JoinHandle;

use super::*;
use crate::changes::Commit;
use crate::given;

/// A problem, and when to come back; or a defect.
type Fails = Option<(Problem, Option<Duration>)>;

/// Somebody who answers once the gate lets him, and knows how often he was asked, and about how much at a time.
struct Oracle {
    asked: AtomicUsize,
    most: AtomicUsize,
    at_once: AtomicUsize,
    panics: AtomicUsize,
    gate: Gate,
    fails: Mutex<Option<Fails>>,
}

impl Oracle {
    /// Him, and the one place where he is asked.
    fn new(gate: usize) -> (Arc<Self>, ChangesResolver) {
        let [asked, most, at_once, panics] = std::array::from_fn(|_| AtomicUsize::new(0));
        let (gate, fails) = (Gate::new(gate), Mutex::new(None));
        let oracle = Arc::new(Self { asked, most, at_once, panics, gate, fails });
        let finder: Arc<dyn FindChanges> = oracle.clone();
        let finders = Finders { git: finder.clone(), oci: finder.clone(), metadata: finder };
        (oracle.clone(), ChangesResolver::new(finders, 4, oracle))
    }

    fn answers(&self, fails: Option<Fails>) {
        *self.fails.lock().unwrap() = fails;
    }

    fn fails(&self, problem: Problem, retry_after: Option<Duration>) {
        self.answers(Some(Some((problem, retry_after))));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl FindChanges for Oracle {
    async fn find(&self, question: &ChangesQuery) -> Result<Changes, ChangesError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(self.at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        let fails = *self.fails.lock().unwrap();
        let Some(failure) = fails else {
            let commit = Commit::new(question.to.as_str(), jiff::Timestamp::UNIX_EPOCH);
            return Ok(Changes { commits: vec![commit], ..Changes::default() });
        };
        let (problem, retry_after) = failure.expect("no defect");
        let text = format!("it did not work: {}", problem.name());
        Err(ChangesError { retry_after, ..ChangesError::new(problem, text) })
    }
}

impl ResolverObserver for Oracle {
    fn asked(&self, _: SourceKind, _: Option<Problem>) {}
    fn panicked(&self, _: SourceKind) {
        self.panics.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whether `to` brings anything new over what is `known`.
fn question(known: &[&str], to: &str) -> ChangesQuery {
    given::question(SourceKind::GitRepository, "https://git.example.org/apps", to, known)
}

/// All of these at once.
fn run(ask: &ChangesResolver, questions: impl IntoIterator<Item = ChangesQuery>) -> JoinHandle<usize> {
    let questions = questions.into_iter().map(|question| (ask.clone(), question));
    let answers = questions.map(async |(ask, question)| ask.ask(&question).await.unwrap().commits.len());
    let answers = futures::future::join_all(answers.collect::<Vec<_>>());
    tokio::spawn(async move { answers.await.len() })
}

#[tokio::test(start_paused = true)]
async fn a_question_that_panics_is_told_and_can_be_asked_again() {
    let (oracle, ask) = Oracle::new(100);
    oracle.answers(Some(None));
    let question = question(&[], "a");
    let no = ask.ask(&question).await.unwrap_err();
    assert_eq!((no.error.problem, oracle.panics.load(Ordering::SeqCst)), (Problem::Unavailable, 1));
    oracle.answers(None);
    tokio::time::sleep(no.again).await;
    ask.ask(&question).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_same_question_is_asked_once_however_many_want_to_know_and_whoever_goes_away() {
    let (oracle, ask) = Oracle::new(0);
    let named = |index: usize| {
        let mut question = question(&["a"], "b");
        question.source.name = format!("source-{}", index % 3).into();
        question
    };
    let gone = tokio::time::timeout(Duration::from_secs(1), ask.ask(&named(0))).await;
    assert!(gone.is_err());
    let many = run(&ask, (0..100).map(named));
    tokio::task::yield_now().await;
    oracle.gate.add_permits(1);
    assert_eq!(many.await.unwrap(), 100);
    ask.ask(&named(1)).await.unwrap();
    assert_eq!(oracle.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn questions_about_one_revision_go_one_after_the_other_and_others_side_by_side() {
    let (oracle, ask) = Oracle::new(0);
    let one = run(&ask, ["a", "b", "c"].map(|known| question(&[known], "z")));
    tokio::time::sleep(Duration::from_millis(1)).await;
    oracle.gate.add_permits(3);
    one.await.unwrap();
    assert_eq!((oracle.asked(), oracle.most.load(Ordering::SeqCst)), (3, 1));

    let others = run(&ask, (0..9).map(|index| question(&["a"], &format!("r{index}"))));
    tokio::time::sleep(Duration::from_millis(1)).await;
    oracle.gate.add_permits(9);
    others.await.unwrap();
    assert_eq!(oracle.most.load(Ordering::SeqCst), 4, "as many as are allowed at a time");
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_asked_again_after_its_back_off_and_is_news_once_until_it_is_another_failure() {
    let (oracle, ask) = Oracle::new(100);
    let question = question(&["a"], "b");
    let second = Duration::from_secs(1);
    for (problem, retry_after, is_new, least, most) in [
        (Problem::Unavailable, None, true, Duration::ZERO, second),
        (Problem::Unavailable, None, false, second, second * 3),
        (Problem::RateLimited, None, true, second, second * 6),
        (Problem::Unavailable, None, true, second * 2, second * 12),
        // A server that says when to come back is believed, and not for ever.
        (Problem::RateLimited, Some(second * 1200), true, second * 1200, second * 1200),
        (Problem::RateLimited, Some(Duration::MAX), false, second * 3600, second * 3600),
    ] {
        oracle.fails(problem, retry_after);
        let failed = ask.ask(&question).await.unwrap_err();
        assert_eq!((failed.is_new, failed.error.problem), (is_new, problem));
        assert!((least..=most).contains(&failed.again), "{failed:?}");
        // Not before.
        let early = ask.ask(&question).await.unwrap_err();
        assert_eq!((early.is_new, early.again), (false, failed.again));
        tokio::time::sleep(early.again).await;
    }
    oracle.answers(None);
    ask.ask(&question).await.unwrap();
    assert_eq!(oracle.asked(), 7);
}

#[tokio::test(start_paused = true)]
async fn what_lasts_is_asked_again_seldom_and_at_once_where_its_source_was_changed() {
    let (oracle, ask) = Oracle::new(100);
    let question = question(&["a"], "b");
    oracle.fails(Problem::NotFound, Some(Duration::from_hours(1)));
    let failed = ask.ask(&question).await.unwrap_err();
    assert_eq!(failed.again, Duration::from_secs(30), "whatever the server says");
    tokio::time::sleep(Duration::from_secs(29)).await;
    ask.ask(&question).await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let again = ask.ask(&question).await.unwrap_err();
    assert_eq!((again.again, again.is_new, oracle.asked()), (Duration::from_mins(1), false, 2));
    oracle.answers(None);
    ask.ask(&question).await.unwrap_err();
    ask.ask(&ChangesQuery { generation: 2, ..question.clone() }).await.unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    ask.ask(&question).await.unwrap();
    assert_eq!(oracle.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn whatever_may_change_the_answer_makes_another_question() {
    let (oracle, ask) = Oracle::new(100);
    let plain = question(&["a"], "b");
    ask.ask(&plain).await.unwrap();
    let changes: [fn(&mut ChangesQuery); 12] = [
        |other| other.insecure = true,
        |other| other.url = "https://git.example.org/other".to_owned(),
        |other| other.origin = Some("main@sha1:2".to_owned()),
        |other| other.known = vec![given::accounted("a", Some("main@sha1:1"))],
        |other| other.known.push(given::accounted("c", None)),
        |other| other.to = "c".parse().unwrap(),
        |other| other.source.kind = SourceKind::OciRepository,
        |other| other.generation = 2,
        |other| other.metadata = [("created".to_owned(), "now".to_owned())].into(),
        |other| other.secret = Some("login".to_owned()),
        |other| (other.secret, other.source.namespace) = (Some("login".to_owned()), "other".into()),
        |other| (other.url, other.source.name) = (String::new(), "t".into()),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        let mut other = plain.clone();
        change(&mut other);
        ask.ask(&other).await.unwrap();
        assert_eq!(oracle.asked(), place + 2, "{other:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    // Sixteen that are known make eighteen of what is remembered with an answer, and seventeen with a failure.
    let known: Vec<String> = (0..16).map(|number| format!("k{number}")).collect();
    let question = question(&known.iter().map(String::as_str).collect::<Vec<_>>(), "z");
    for fails in [false, true] {
        let (oracle, ask) = Oracle::new(10_000);
        if fails {
            oracle.fails(Problem::RateLimited, Some(Duration::from_hours(1)));
        }
        // The newest is remembered, and the oldest is not.
        for (number, asked) in (0..2_000).zip(1..).chain([(1_999, 2_000), (0, 2_001)]) {
            let to = number.to_string().parse().unwrap();
            let _ = ask.ask(&ChangesQuery { to, ..question.clone() }).await;
            assert_eq!(oracle.asked(), asked, "{number}");
        }
    }
}
