//! What a record does, what is refused, and what it costs.

use super::*;

#[tokio::test(start_paused = true)]
async fn ten_thousand_first_sights_take_one_write_a_shard_and_a_thousand_records_no_more() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    let uid = |number: usize| format!("uid-{number}");
    let before = line.writes();
    record_all(&ledger, (0..10_000).map(|number| first(&uid(number)))).await;
    assert_eq!(line.writes() - before, 128);
    assert_eq!((ledger.len(), world.open().await.len()), (10_000, 10_000));
    let before = line.writes();
    record_all(&ledger, (0..1000).map(|number| step(&uid(number), 2))).await;
    assert!(line.writes() - before <= 128);
    let data = world.data().await;
    let largest = data.values().map(|data| data.values().map(String::len).sum::<usize>()).max();
    assert!(largest.unwrap() < 40_000, "{largest:?}");
    // Two steps of fifty in one shard, the second of which is made from the first.
    let (before, uids) = (line.writes(), neighbours(200).split_off(150));
    record_all(&ledger, uids.iter().flat_map(|uid| [step(uid, 1), step(uid, 2)])).await;
    assert_eq!(line.writes() - before, 1);
    assert!(uids.iter().all(|uid| steps(&ledger, uid) == 2));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_out_of_date_or_makes_no_sense_is_refused_alone() {
    let world = World::new();
    let ledger = world.open().await;
    ledger.record(step("a", 1)).await.unwrap();
    let negative = Record { observations: vec![(Instrument::Export, -1.0)], ..step("c", 1) };
    let records = [step("a", 1), step("a", 3), step("a", 2), step("b", 2), step("b", 1), negative];
    let answers = join_all(records.map(|record| ledger.record(record))).await;
    let refusals = answers.into_iter().map(|answer| match answer {
        Ok(()) => String::new(),
        Err(LedgerError::Refused { reason, .. }) => reason.to_string(),
        Err(error) => panic!("{error:?}"),
    });
    let (one, two) = (revision(1), revision(2));
    let expected = [
        format!("it was worked out from nothing, and {one} is accounted for"),
        format!("it was worked out from {two}, and {one} is accounted for"),
        String::new(),
        format!("it was worked out from {one}, and nothing is accounted for"),
        String::new(),
        "-1 s is no duration: expected a number from 0 to 9e12".to_owned(),
    ];
    assert_eq!(refusals.collect::<Vec<_>>(), expected);
    assert_eq!((steps(&ledger, "a"), steps(&ledger, "b"), world.open().await.len()), (2, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn what_is_pending_goes_in_one_write_with_what_follows_at_once() {
    let world = World::new();
    let line = world.line();
    let ledger = world.open_over(&line).await.unwrap();
    ledger.record(step("a", 1)).await.unwrap();
    let at = "2026-11-21T16:07:00.5Z";
    let waits = json!({"step": {"revision": revision(2), "ready": at, "latest": at, "health_checked": false,
        "estimated": false, "replaced": false}});
    let pending: Vec<Pending> = vec![serde_json::from_value(waits).unwrap()];
    let waits = Record { from: Some(revision(1)), to: None, outcome: None, pending, ..first("a") };
    let writes = line.writes();
    ledger.record(waits.clone()).await.unwrap();
    ledger.record(waits.clone()).await.unwrap();
    assert_eq!(line.writes(), writes + 1, "the second says nothing new");
    ledger.note(Record { pending: Vec::new(), ..waits });
    ledger.record(step("a", 2)).await.unwrap();
    assert_eq!((line.writes(), steps(&world.open().await, "a")), (writes + 2, 2));
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
    record_all(&ledger, uids.iter().map(|uid| step(uid, 1))).await;
    let writes = line.writes();
    for gone in [&uids[0], &uids[1], "never-seen"] {
        ledger.forget(gone);
    }
    let deleted = || ledger.deleted().into_iter().map(|(uid, _)| uid).collect::<Vec<_>>();
    assert_eq!((ledger.len(), deleted()), (1, uids[..2].iter().map(|uid| uid.as_str().into()).collect()));
    // A write of others does not take along what nobody took: whoever leads next shows it again.
    ledger.record(step(&uids[2], 2)).await.unwrap();
    world.written().await;
    assert_eq!((line.writes(), world.open().await.len()), (writes + 1, 3));

    ledger.taken(&deleted());
    assert_eq!((deleted().len(), line.writes()), (0, writes + 1));
    world.written().await;
    assert_eq!(line.writes(), writes + 2, "both in one write");
    let next = world.open().await;
    assert_eq!((next.len(), steps(&next, &uids[2])), (1, 2));
    // Of the same name there may be another one; of the same UID there is none.
    let late = ledger.record(step(&uids[0], 2)).await;
    assert!(matches!(late, Err(LedgerError::Refused { .. })), "{late:?}");
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
