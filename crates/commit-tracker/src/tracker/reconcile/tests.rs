use super::*;
use crate::SourceKind;
use crate::changes::Commit;

const KEY: &str = "main@sha1:5394cb7f48332b2de7c17dd8b8384bbc84b7e738";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_772_000_000 + seconds).unwrap()
}

fn revision(number: usize) -> Revision {
    format!("main@sha1:{number:040x}").parse().unwrap()
}

fn source() -> SourceKey {
    SourceKey { kind: SourceKind::GitRepository, namespace: "apps".into(), name: "fleet".into() }
}

/// A Kustomization that applied these revisions, a minute each.
fn view(revisions: &[usize]) -> View {
    let steps: Vec<Step> = (0..).zip(revisions).map(|(minute, number)| step(*number, minute * 60)).collect();
    View {
        standing: Standing {
            key: ObjectKey::new("apps", "shop"),
            uid: "1".to_owned(),
            created: Some(at(0)),
            source: Some(source()),
            applied: steps.last().map(|step| step.revision.clone()),
            attempted: None,
            failing: None,
            suspended: false,
            deleted: false,
            whole: true,
            steps,
        },
        source: None,
    }
}

fn step(number: usize, ready: i64) -> Step {
    Step {
        revision: revision(number),
        origin: None,
        seen: None,
        fetched: None,
        applied: None,
        ready: at(ready),
        latest: at(ready),
        health_checked: false,
        estimated: false,
        replaced: false,
    }
}

fn entry(accounted: &[usize]) -> Entry {
    Entry {
        namespace: "apps".into(),
        name: "shop".into(),
        source_kind: SourceKind::GitRepository,
        began: at(-1000),
        accounted: accounted
            .iter()
            .map(|number| Accounted { revision: revision(*number), origin: None })
            .collect(),
        older: Vec::new(),
        pending: Vec::new(),
        last: None,
        histograms: Vec::new(),
        commits: CommitCounts::default(),
        revisions: Vec::new(),
    }
}

fn commit(merged: Timestamp) -> Commit {
    Commit::new(KEY, merged)
}

#[test]
fn commits_of_a_history_with_nothing_in_common_count_from_what_was_applied_last_on() {
    let related = Changes::default();
    let unrelated = Changes { unrelated: true, ..Changes::default() };
    let last =
        |applied| Some(Box::new(LastApplied { commit: "a".into(), merged: at(0), applied: at(applied) }));
    let (first_sight, nothing) = (at(-5), entry(&[]));
    // Until something is accounted for, first sight alone counts.
    assert_eq!(floor(first_sight, None, &unrelated), Some(first_sight));
    assert_eq!(floor(first_sight, Some(&nothing), &unrelated), Some(first_sight));
    let known = entry(&[1]);
    assert_eq!(floor(first_sight, Some(&known), &related), None);
    assert_eq!(floor(first_sight, Some(&known), &unrelated), Some(known.began));
    let applied = Entry { last: last(70), ..entry(&[1]) };
    assert_eq!(floor(first_sight, Some(&applied), &unrelated), Some(at(70)));
    let before = Entry { last: last(-2000), ..entry(&[1]) };
    assert_eq!(
        floor(first_sight, Some(&before), &unrelated),
        Some(known.began),
        "which is when series began"
    );
    let older = Changes { older: true, ..Changes::default() };
    assert_eq!(
        floor(first_sight, Some(&applied), &older),
        Some(first_sight),
        "it may have been there before"
    );
}

#[test]
fn what_came_of_a_revision_is_one_outcome_and_loss_is_told_before_all_else() {
    let view = view(&[1, 2]);
    let entry = entry(&[1]);
    let outcome = |changes: &Changes, since: Option<i64>| {
        let step = &view.standing.steps[1];
        let measured = measure(step, changes, since.map(at));
        counted(nothing(&view, &source(), Some(&entry)), step, changes, &measured).outcome
    };
    let brought = |seconds: &[i64]| Changes {
        commits: seconds.iter().map(|merged| commit(at(*merged))).collect(),
        ..Changes::default()
    };
    let all = Changes { truncated: true, rewritten: true, incomplete: true, ..brought(&[0]) };
    for (changes, since, expected) in [
        (brought(&[0, 10]), None, Outcome::Measured),
        (brought(&[900]), None, Outcome::Measured),
        (brought(&[]), None, Outcome::Empty),
        (brought(&[0]), Some(5), Outcome::Baseline),
        (brought(&[0, 10]), Some(5), Outcome::Measured),
        (Changes { truncated: true, ..brought(&[0, 10]) }, Some(5), Outcome::Measured),
        (Changes { incomplete: true, ..brought(&[]) }, None, Outcome::Incomplete),
        (Changes { truncated: false, ..all.clone() }, None, Outcome::Rewritten),
        (all, None, Outcome::Truncated),
    ] {
        assert_eq!(outcome(&changes, since), Some(expected), "{changes:?}");
    }
}

#[test]
fn the_last_applied_commit_is_the_newest_with_a_date_that_can_be_one() {
    let view = view(&[1, 2]);
    let last = |merged: &[Timestamp]| {
        let changes =
            Changes { commits: merged.iter().map(|merged| commit(*merged)).collect(), ..Changes::default() };
        let step = &view.standing.steps[1];
        let measured = measure(step, &changes, None);
        let record = counted(nothing(&view, &source(), None), step, &changes, &measured);
        record.last.map(|last| (last.merged, last.applied))
    };
    let ready = at(60);
    assert_eq!(last(&[at(0), at(10)]), Some((at(10), ready)));
    assert_eq!(last(&[at(10), at(60 + 3601)]), Some((at(10), ready)), "nobody merges in the future");
    assert_eq!(last(&[Timestamp::UNIX_EPOCH]), None);
    assert_eq!(last(&[]), None);
}
