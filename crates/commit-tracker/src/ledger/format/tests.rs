use super::*;
use crate::changes::Problem;
use crate::histogram::Histogram;
use crate::ledger::{Accounted, CommitCounts, FRONTIER, LastApplied, Outcome, Pending};
use crate::{Instrument, SourceKind, Step, given};

fn pending(problem: Option<Problem>) -> Pending {
    let ready = "2026-11-21T16:07:00.5Z".parse().unwrap();
    let step = Step { applied: Some(ready), estimated: true, ..given::step("main@sha1:0", ready) };
    Pending { step, problem }
}

#[test]
fn whatever_can_be_in_an_entry_is_read_as_it_was_written_and_what_is_cut_off_is_damaged() {
    for kind in SourceKind::ALL {
        let times = (1..).zip(Instrument::ALL).map(|(count, instrument)| {
            let mut times = Histogram::default();
            (0..count * 40).for_each(|number| times.add(f64::from(number * number) * 0.7).unwrap());
            (instrument, times)
        });
        let entry = Entry {
            source_kind: kind,
            pending: Problem::ALL.map(|problem| pending(Some(problem))).into(),
            histograms: times.collect(),
            revisions: Outcome::all().zip(1..).collect(),
            ..example()
        };
        let text = entry_text(&entry);
        assert_eq!(entry_of("uid", &text), Ok(entry));
        for cut in (0..text.len()).step_by(97) {
            assert!(
                matches!(entry_of("uid", &text[..cut]), Err(Unreadable::Damaged(key, _)) if key == "uid")
            );
        }
    }
}

fn example() -> Entry {
    let mut times = Histogram::default();
    for seconds in [41.0, 43.5, 300.0] {
        times.add(seconds).unwrap();
    }
    Entry {
        namespace: "flux-system".into(),
        name: "apps".into(),
        source_kind: SourceKind::GitRepository,
        began: "2026-11-21T16:00:00Z".parse().unwrap(),
        accounted: vec![
            Accounted { revision: "main@sha1:1f6c".parse().unwrap(), origin: None },
            Accounted { revision: "main@sha1:77ab".parse().unwrap(), origin: Some("main@sha1:c0de".into()) },
        ],
        older: vec![7],
        pending: vec![pending(Some(Problem::NotFound))],
        last: Some(Box::new(LastApplied {
            commit: "77ab".into(),
            merged: "2026-11-21T16:02:00Z".parse().unwrap(),
            applied: "2026-11-21T16:07:00Z".parse().unwrap(),
        })),
        histograms: vec![(Instrument::EndToEnd, times)],
        commits: CommitCounts { counted: 3, ..CommitCounts::default() },
        revisions: vec![(Outcome::Measured, 1), (Outcome::Baseline, 1)],
    }
}

/// Format 2 as it is in clusters: this text must be readable for as long as the number is 2.
const EXAMPLE: &str = concat!(
    r#"{"namespace":"flux-system","name":"apps","source":"GitRepository","began":"2026-11-21T16:00:00Z","#,
    r#""accounted":[{"revision":"main@sha1:1f6c"},{"revision":"main@sha1:77ab","origin":"main@sha1:c0de"}],"#,
    r#""older":[7],"#,
    r#""pending":[{"step":{"revision":"main@sha1:0","applied":"2026-11-21T16:07:00.5Z","#,
    r#""ready":"2026-11-21T16:07:00.5Z","latest":"2026-11-21T16:07:00.5Z","health_checked":false,"#,
    r#""estimated":true,"replaced":false},"problem":"not_found"}],"#,
    r#""last":{"commit":"77ab","merged":"2026-11-21T16:02:00Z","applied":"2026-11-21T16:07:00Z"},"#,
    r#""times":[["e2e.export-time",{"count":3,"sum_us":384500000,"classic":[0,0,2,0,0,1,0,0,0,0,0,0],"#,
    r#""zero":0,"scale":5,"offset":171,"buckets":[1,0,0,1"#,
    "ZEROS",
    r#",1]}]],"#,
    r#""commits":{"counted":3,"baseline":0,"skewed":0},"revisions":[["measured",1],["baseline",1]]}"#,
);

fn example_text() -> String {
    EXAMPLE.replace("ZEROS", &",0".repeat(88))
}

#[test]
fn format_2_stays_as_it_is() {
    assert_eq!(entry_text(&example()), example_text());
    assert_eq!(entry_of("uid", &example_text()), Ok(example()));
}

#[test]
fn numbers_that_do_not_belong_together_are_damage() {
    let damaged = |from: &str, to: &str| {
        let text = example_text().replace(from, to);
        assert_ne!(text, example_text());
        match entry_of("0b7c", &text) {
            Err(Unreadable::Damaged(key, what)) if key == "0b7c" => what,
            other => panic!("{other:?}"),
        }
    };
    let cases = [
        ("\"count\":3", "\"count\":4", "the count is 4"),
        ("[0,0,2,", "[0,0,1,", "the buckets hold others"),
        ("[1,0,0,1", "[1,0,0,2", "the buckets hold others"),
        ("[1,0,0,1", "[0,0,0,2", "the last are not empty"),
        ("[1,0,0,1", "[-1,0,0,1", "invalid value"),
        ("\"scale\":5", "\"scale\":21", "21 is no scale"),
        ("e2e.export-time", "e2e.import-time", "is no metric"),
        ("\"measured\"", "\"weighed\"", "is no outcome"),
        ("GitRepository", "SvnRepository", "unknown variant"),
        ("\"name\"", "\"nickname\"", "unknown field"),
    ];
    for (from, to, expected) in cases {
        let what = damaged(from, to);
        assert!(what.contains(expected), "{to}: {what}");
    }
}

#[test]
fn a_later_format_is_told_apart_from_damage() {
    let head = Head { identity: "a".to_owned(), began: Timestamp::UNIX_EPOCH };
    let with = |key: &str, value: &str| {
        let mut data = head.data();
        data.insert(key.to_owned(), value.to_owned());
        Head::of(&data)
    };
    assert_eq!(with("further", "key"), Ok(head.clone()));
    assert_eq!(with("format", "3"), Err(Unreadable::Later("3".to_owned())));
    assert!(matches!(with("format", "one"), Err(Unreadable::Damaged(..))));
    assert!(matches!(with("format", "0"), Err(Unreadable::Damaged(..))));
    assert!(matches!(with("shards", "64"), Err(Unreadable::Damaged(..))));
    assert!(matches!(with("began", "yesterday"), Err(Unreadable::Damaged(..))));
    let shard = |text: &str| Header::of(&[(HEADER.to_owned(), text.to_owned())].into());
    assert_eq!(shard(r#"{"format":3,"anything":1}"#), Err(Unreadable::Later("3".to_owned())));
    assert!(matches!(shard("{"), Err(Unreadable::Damaged(..))));
    let header = Header::new(&head, "w".to_owned());
    assert_eq!(shard(&header.text()), Ok(header));
}

#[test]
fn uids_are_spread_evenly_over_the_shards() {
    let mut counts = [0_u32; SHARDS as usize];
    for number in 0..10_000_u32 {
        let tail = number.wrapping_mul(2_654_435_761);
        counts[usize::from(shard_of(&format!("{number:08x}-0000-4000-8000-{tail:012x}")))] += 1;
    }
    assert!(counts.iter().all(|count| (40..130).contains(count)), "{counts:?}");
    assert_eq!(shard_of(""), 0xc5 % SHARDS, "FNV-1a's own beginning");
}

#[test]
fn the_busiest_entries_of_ten_thousand_fit_into_the_shards() {
    let mut entry = example();
    let origin = format!("main@sha1:{}", "a".repeat(40));
    entry.accounted = (0..FRONTIER)
        .map(|number| Accounted {
            revision: format!("production@sha256:{number:064x}").parse().unwrap(),
            origin: Some(origin.as_str().into()),
        })
        .collect();
    let mut times = Histogram::default();
    for number in 0..40_000_u32 {
        times.add(1.0 + f64::from(number) / 10.0).unwrap();
    }
    entry.histograms = Instrument::ALL.map(|instrument| (instrument, times.clone())).into();
    entry.older = (0..240_u32).map(|number| u32::MAX - number).collect();
    let most = entry_text(&entry).len();
    assert!(most < 12 << 10, "{most} bytes");
    assert!(most * 10_000 / usize::from(SHARDS) < super::super::shard::LIMIT, "{most} bytes");
}
