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
pub(in crate::tracker) fn view(revisions: &[usize]) -> View {
    let steps: Vec<Step> = (0..).zip(revisions).map(|(minute, number)| step(*number, minute * 60)).collect();
    let kustomization = serde_json::from_value(serde_json::json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "shop", "namespace": "apps", "uid": "1", "generation": 1}, "spec": {},
    }));
    View {
        kustomization: Arc::new(kustomization.unwrap()),
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
        source_version: Some(Version::default()),
    }
}

fn step(number: usize, ready: i64) -> Step {
    Step {
        revision: revision(number),
        origin: None,
        fetched: None,
        applied: None,
        ready: at(ready),
        latest: at(ready),
        health_checked: false,
        estimated: false,
        replaced: false,
    }
}

fn entry(accounted: &[usize], stuck: &[usize]) -> Entry {
    Entry {
        namespace: "apps".into(),
        name: "shop".into(),
        source_kind: SourceKind::GitRepository,
        began: at(-1000),
        accounted: accounted
            .iter()
            .map(|number| Accounted { revision: revision(*number), origin: None })
            .collect(),
        stuck: stuck.iter().map(|number| failed(*number)).collect(),
        last: None,
        histograms: Vec::new(),
        commits: CommitCounts::default(),
        revisions: Vec::new(),
    }
}

fn failed(number: usize) -> Stuck {
    Stuck { revision: revision(number), problem: Problem::NotFound }
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
    let (first_sight, nothing) = (Some(at(-5)), entry(&[], &[]));
    // Until something is accounted for, first sight alone counts.
    assert_eq!(floor(first_sight, None, &unrelated), first_sight);
    assert_eq!(floor(first_sight, Some(&nothing), &unrelated), first_sight);
    let known = entry(&[1], &[]);
    assert_eq!(floor(None, Some(&known), &related), None);
    assert_eq!(floor(None, Some(&known), &unrelated), Some(known.began));
    let applied = Entry { last: last(70), ..entry(&[1], &[]) };
    assert_eq!(floor(None, Some(&applied), &unrelated), Some(at(70)));
    let before = Entry { last: last(-2000), ..entry(&[1], &[]) };
    assert_eq!(floor(None, Some(&before), &unrelated), Some(known.began), "which is when series began");
}

#[test]
fn what_came_of_a_revision_is_one_outcome_and_loss_is_told_before_all_else() {
    let view = view(&[1, 2]);
    let entry = entry(&[1], &[]);
    let outcome = |changes: &Changes, since: Option<i64>| {
        let step = &view.standing.steps[1];
        let measured = measure(step, changes, None, since.map(at));
        counted(&view, &source(), Some(&entry), step, changes, &measured).outcome
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
        let measured = measure(step, &changes, None, None);
        let record = counted(&view, &source(), None, step, &changes, &measured);
        record.last.map(|last| (last.merged, last.applied))
    };
    let ready = at(60);
    assert_eq!(last(&[at(0), at(10)]), Some((at(10), ready)));
    assert_eq!(last(&[at(10), at(60 + 3601)]), Some((at(10), ready)), "nobody merges in the future");
    assert_eq!(last(&[Timestamp::UNIX_EPOCH]), None);
    assert_eq!(last(&[]), None);
}

#[test]
fn a_record_keeps_what_is_stuck_and_still_due_and_drops_what_it_is_behind() {
    let stuck_after = |applied: &[usize], accounted: &[usize], stuck: &[usize], place: usize| {
        let (view, entry) = (view(applied), entry(accounted, stuck));
        let step = &view.standing.steps[place];
        let changes = Changes::default();
        let measured = measure(step, &changes, None, None);
        let record = counted(&view, &source(), Some(&entry), step, &changes, &measured);
        assert_eq!(record.from, accounted.last().map(|number| revision(*number)));
        record.stuck
    };
    assert_eq!(stuck_after(&[1, 2, 3], &[1], &[2, 3], 1), [failed(3)]);
    assert_eq!(stuck_after(&[1, 2, 3], &[1], &[2], 2), []);
    assert_eq!(stuck_after(&[1, 2, 3], &[1], &[3], 2), [], "it was looked into after all");
    assert_eq!(
        stuck_after(&[2, 3], &[1], &[9, 3], 0),
        [failed(3)],
        "nobody asks again about what is forgotten"
    );
}
