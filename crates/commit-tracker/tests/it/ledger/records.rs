//! What a record does, what is refused, and what it costs.

use futures::future::join_all;
use http::Method;
use windlass_commit_tracker::changes::Problem;
use windlass_commit_tracker::histogram::Histogram;
use windlass_commit_tracker::ledger::{
    Accounted, CommitCounts, Ledger, LedgerError, Outcome, Pending, Record, Refusal, mark_of,
};
use windlass_commit_tracker::{Instrument, Revision, SourceKind, Step};

use super::line::Fate;
use super::{World, neighbours, revision, step, steps};

#[tokio::test(start_paused = true)]
async fn records_that_wait_together_go_in_one_write() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    let before = line.writes();
    let uids = neighbours(50);
    // Two steps each, the second of which is made from the first.
    let all = uids.iter().flat_map(|uid| [ledger.record(step(uid, 1)), ledger.record(step(uid, 2))]);
    assert!(join_all(all).await.into_iter().all(|answer| answer.is_ok()));
    assert_eq!(line.writes() - before, 1);
    assert!(uids.iter().all(|uid| steps(&ledger, uid) == 2));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_first_sights_take_one_write_a_shard_and_a_thousand_records_no_more() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    let first = |number: usize| Record {
        outcome: Some(Outcome::Baseline),
        observations: Vec::new(),
        commits: CommitCounts::default(),
        ..step(&format!("uid-{number}"), 1)
    };
    let before = line.writes();
    let all = join_all((0..10_000).map(|number| ledger.record(first(number)))).await;
    assert!(all.into_iter().all(|answer| answer.is_ok()));
    assert_eq!(line.writes() - before, 128);
    assert_eq!((ledger.len(), world.open().await.len()), (10_000, 10_000));

    let before = line.writes();
    let next = |number: usize| step(&format!("uid-{number}"), 2);
    let all = join_all((0..1000).map(|number| ledger.record(next(number)))).await;
    assert!(all.into_iter().all(|answer| answer.is_ok()));
    assert!(line.writes() - before <= 128);
    let data = world.data().await;
    let largest = data.values().map(|data| data.values().map(String::len).sum::<usize>()).max();
    assert!(largest.unwrap() < 40_000, "{largest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_record_that_was_not_made_from_the_newest_revision_is_refused_alone() {
    let world = World::new();
    let ledger = world.open().await;
    ledger.record(step("a", 1)).await.unwrap();
    let uids = [step("a", 1), step("a", 3), step("a", 2), step("b", 2), step("b", 1)];
    let answers = join_all(uids.map(|record| ledger.record(record))).await;
    let refusals: Vec<Option<String>> = answers
        .into_iter()
        .map(|answer| match answer {
            Ok(()) => None,
            Err(LedgerError::Refused { reason, .. }) => Some(reason.to_string()),
            Err(error) => panic!("{error:?}"),
        })
        .collect();
    let (one, two) = (revision(1), revision(2));
    let expected = [
        Some(format!("it was worked out from nothing, and {one} is accounted for")),
        Some(format!("it was worked out from {two}, and {one} is accounted for")),
        None,
        Some(format!("it was worked out from {one}, and nothing is accounted for")),
        None,
    ];
    assert_eq!(refusals, expected);
    assert_eq!((steps(&ledger, "a"), steps(&ledger, "b")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_negative_duration_is_refused_with_all_of_its_record() {
    let world = World::new();
    let ledger = world.open().await;
    let record = Record { observations: vec![(Instrument::Export, -1.0)], ..step("a", 1) };
    let error = ledger.record(record).await.unwrap_err();
    assert!(
        matches!(&error, LedgerError::Refused { reason, .. } if matches!(**reason, Refusal::Observation(_))),
        "{error:?}"
    );
    assert!(ledger.entry("a").is_none() && world.open().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn going_back_and_forth_moves_a_revision_and_forgets_none() {
    let world = World::new();
    let ledger = world.open().await;
    ledger.record(step("a", 1)).await.unwrap();
    ledger.record(step("a", 2)).await.unwrap();
    let back = Record { from: Some(revision(2)), ..step("a", 1) };
    ledger.record(back).await.unwrap();
    let entry = world.open().await.entry("a").unwrap();
    let accounted: Vec<_> = entry.accounted.iter().map(|accounted| accounted.revision.clone()).collect();
    assert_eq!(accounted, [revision(2), revision(1)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_pending_is_written_down_and_goes_in_one_write_with_what_follows_at_once() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    ledger.record(step("a", 1)).await.unwrap();
    let ready = "2026-11-21T16:07:00.5Z".parse().unwrap();
    let waits = Step {
        revision: revision(2),
        origin: None,
        seen: None,
        fetched: None,
        applied: None,
        ready,
        latest: ready,
        health_checked: false,
        estimated: false,
        replaced: false,
    };
    let pending = |problem| Record {
        from: Some(revision(1)),
        to: None,
        observations: Vec::new(),
        commits: CommitCounts::default(),
        outcome: None,
        pending: vec![Pending { step: waits.clone(), problem }],
        ..step("a", 2)
    };
    ledger.record(pending(None)).await.unwrap();
    let writes = line.writes();
    ledger.record(pending(None)).await.unwrap();
    assert_eq!(line.writes(), writes, "it says nothing new");
    let entry = world.open().await.entry("a").unwrap();
    assert_eq!((&entry.pending, entry.newest()), (&pending(None).pending, Some(&revision(1))));
    ledger.note(pending(Some(Problem::NotFound)));
    ledger.record(step("a", 2)).await.unwrap();
    assert_eq!(line.writes(), writes + 1);
    assert_eq!(ledger.entry("a").unwrap().pending, []);
}

#[tokio::test(start_paused = true)]
async fn what_was_counted_under_another_kind_is_shown_until_it_was_taken_by_whoever_leads() {
    let world = World::new();
    let ledger = world.open().await;
    ledger.record(step("a", 1)).await.unwrap();
    let moved = Record { source_kind: SourceKind::OciRepository, ..step("a", 2) };
    ledger.record(moved).await.unwrap();
    let told = |ledger: &Ledger| {
        let deleted = ledger.deleted().into_iter();
        deleted.map(|(_, entry)| (entry.source_kind, entry.commits.counted)).collect::<Vec<_>>()
    };
    let after = ledger.entry("a").unwrap();
    let count = after.histogram(Instrument::EndToEnd).map(Histogram::count);
    assert_eq!((after.source_kind, after.commits.counted, count), (SourceKind::OciRepository, 1, Some(1)));
    assert_eq!(after.accounted.len(), 2, "what is accounted for stays so");
    let former = [(SourceKind::GitRepository, 1)];
    assert_eq!((told(&ledger).as_slice(), ledger.len()), (&former[..], 1));
    let next = world.open().await;
    assert_eq!((told(&next).as_slice(), next.len()), (&former[..], 1));
    let all: Vec<_> = next.deleted().into_iter().map(|(key, _)| key).collect();
    next.taken(&all);
    world.written().await;
    assert_eq!(told(&world.open().await), []);
}

#[tokio::test(start_paused = true)]
async fn artifacts_that_were_accounted_for_long_ago_are_known_by_their_marks() {
    let world = World::new();
    let ledger = world.open().await;
    let artifact = |number: usize| format!("latest@sha256:{number:064}").parse::<Revision>().unwrap();
    for number in 1..=40 {
        let to = Some(Accounted { revision: artifact(number), origin: None });
        let from = (number > 1).then(|| artifact(number - 1));
        let skipped = vec![mark_of(&format!("{:064}", 1000 + number))];
        ledger.record(Record { from, to, skipped, ..step("a", number) }).await.unwrap();
    }
    let entry = world.open().await.entry("a").unwrap();
    assert!((1..=40).all(|number| entry.accounts_for(&artifact(number))));
    assert!((1001..=1040).all(|number| entry.accounts_for(&artifact(number))));
    assert!(!entry.accounts_for(&artifact(41)));
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_is_shown_until_it_was_taken_and_leaves_the_cluster_soon_after() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    let uids = neighbours(3);
    join_all(uids.iter().map(|uid| ledger.record(step(uid, 1)))).await;
    let writes = line.writes();
    ledger.forget(&uids[0]);
    ledger.forget(&uids[1]);
    ledger.forget("never-seen");
    let deleted = |ledger: &Ledger| {
        let deleted = ledger.deleted().into_iter().map(|(uid, entry)| (uid.into(), entry.commits.counted));
        deleted.collect::<Vec<(String, u64)>>()
    };
    let both = [(uids[0].clone(), 1), (uids[1].clone(), 1)];
    assert_eq!((ledger.len(), deleted(&ledger)), (1, both.into()));
    // A write of others does not take along what nobody took: whoever leads next shows it again.
    ledger.record(step(&uids[2], 2)).await.unwrap();
    world.written().await;
    assert_eq!((line.writes(), world.open().await.len()), (writes + 1, 3));

    ledger.taken(&[uids[0].as_str().into(), uids[1].as_str().into()]);
    assert_eq!((deleted(&ledger), line.writes()), (Vec::new(), writes + 1));
    world.written().await;
    assert_eq!(line.writes(), writes + 2, "both in one write");
    let next = world.open().await;
    assert_eq!((next.len(), steps(&next, &uids[2])), (1, 2));
    // Of the same name there may be another one; of the same UID there is none.
    let late = ledger.record(step(&uids[0], 2)).await;
    assert!(matches!(late, Err(LedgerError::Refused { .. })), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_takes_is_not_shown_for_ever() {
    let world = World::new();
    let ledger = world.open().await;
    let uids = neighbours(2);
    join_all(uids.iter().map(|uid| ledger.record(step(uid, 1)))).await;
    ledger.forget(&uids[0]);
    let config = world.config();
    tokio::time::sleep(config.show_deleted_for / 2).await;
    ledger.forget(&uids[1]);
    let deleted = || ledger.deleted().into_iter().map(|(uid, _)| uid.into()).collect::<Vec<String>>();
    assert_eq!(deleted(), uids);
    tokio::time::sleep(config.show_deleted_for / 2).await;
    assert_eq!(deleted(), uids[1..]);
    tokio::time::sleep(config.show_deleted_for / 2).await;
    assert_eq!(deleted(), [""; 0]);
    world.written().await;
    assert!(world.open().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_changes_nothing_and_can_be_sent_again() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    ledger.record(step("a", 1)).await.unwrap();
    line.decide(|_, method| if *method == Method::GET { Fate::Passes } else { Fate::IsForbidden });
    let uids = neighbours(2);
    let all = [step("a", 2), step(&uids[0], 1), step(&uids[1], 1)].map(|record| ledger.record(record));
    for answer in join_all(all).await {
        assert!(matches!(answer, Err(LedgerError::Write { .. })), "{answer:?}");
    }
    assert_eq!((steps(&ledger, "a"), ledger.len(), ledger.is_lost()), (1, 1, false));
    line.decide(|_, _| Fate::Passes);
    ledger.record(step("a", 2)).await.unwrap();
    assert_eq!(steps(&world.open().await, "a"), 2);
}

#[tokio::test(start_paused = true)]
async fn when_somebody_else_wrote_everybody_is_told_and_nothing_changes() {
    let world = World::new();
    let (one, other) = (world.open().await, world.open().await);
    let uids = neighbours(4);
    one.record(step(&uids[0], 1)).await.unwrap();
    // The other one knows of no shard yet; it would create it.
    let all = join_all(uids.iter().map(|uid| other.record(step(uid, 1)))).await;
    assert!(all.iter().all(|answer| answer.as_ref().is_err_and(LedgerError::is_lost)), "{all:?}");
    let why = other.lost().await.to_string();
    assert!(why.contains("somebody else wrote ConfigMap default/flux-commit-tracker-ledger-"), "{why}");
    assert!(other.is_empty() && other.record(step("elsewhere", 1)).await.unwrap_err().is_lost());
    assert_eq!(world.open().await.len(), 1);
    // Who was first goes on.
    one.record(step(&uids[0], 2)).await.unwrap();
    assert!(!one.is_lost());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_sent_since_the_term_is_over_is_not_recorded() {
    let world = World::new();
    let (election, leadership) = world.election();
    let term = leadership.term().await;
    let line = world.line();
    let client = term.guard(&line.client());
    let ledger =
        windlass_commit_tracker::ledger::Ledger::open(client, "default", world.config()).await.unwrap();
    ledger.record(step("a", 1)).await.unwrap();
    election.cancel();
    term.ended().await;
    let error = ledger.record(step("a", 2)).await.unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("does not lead any more"), "{error}");
    assert_eq!(steps(&world.open().await, "a"), 1);
}
