use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn revision() -> impl Strategy<Value = String> {
    "[a-z]{1,8}@sha1:[0-9a-f]{40}"
}

fn accounted() -> impl Strategy<Value = Accounted> {
    (revision(), proptest::option::of(revision())).prop_map(|(revision, origin)| Accounted {
        revision: revision.parse().unwrap(),
        origin: origin.map(Into::into),
    })
}

fn times() -> impl Strategy<Value = Histogram> {
    let durations = vec(prop_oneof![0.0..4000.0_f64, Just(0.0), 0.0..1e8_f64], 1..200);
    durations.prop_map(|durations| {
        let mut histogram = Histogram::default();
        for seconds in durations {
            histogram.add(seconds).unwrap();
        }
        histogram
    })
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_i64, 0..1000_i32)
        .prop_map(|(seconds, millis)| Timestamp::new(seconds, millis * 1_000_000).unwrap())
}

fn stuck(problem: Problem) -> Stuck {
    Stuck { revision: "main@sha1:0".parse().unwrap(), problem }
}

prop_compose! {
    fn entries()(
        began in time(),
        kind in proptest::sample::select(SourceKind::ALL.to_vec()),
        accounted in vec(accounted(), 0..=FRONTIER),
        last in proptest::option::of((revision(), time(), time())),
        problems in vec(proptest::sample::select(Problem::ALL.to_vec()), 0..4),
        (counted, baseline, skewed) in (0..9_u64, 0..9_u64, 0..9_u64),
        outcomes in proptest::sample::subsequence(Outcome::all().collect::<Vec<_>>(), 0..6),
        instruments in proptest::sample::subsequence(Instrument::ALL.to_vec(), 0..=8),
        all in vec(times(), 8),
    ) -> Entry {
        Entry {
            namespace: "flux-system".into(),
            name: "apps".into(),
            source_kind: kind,
            began,
            accounted,
            stuck: problems.into_iter().map(stuck).collect(),
            last: last.map(|(commit, merged, applied)| Box::new(LastApplied { commit: commit.into(), merged, applied })),
            histograms: instruments.into_iter().zip(all).collect(),
            commits: CommitCounts { counted, baseline, skewed },
            revisions: outcomes.into_iter().zip(1..).collect(),
        }
    }
}

proptest! {
    #[test]
    fn an_entry_is_read_as_it_was_written(entry in entries()) {
        prop_assert_eq!(entry_of("uid", &entry_text(&entry)), Ok(entry));
    }

    #[test]
    fn a_text_that_was_cut_off_is_damaged(entry in entries(), share in 0.0..1.0_f64) {
        let text = entry_text(&entry);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in a short text")]
        let cut = (text.len() as f64 * share) as usize;
        prop_assert!(matches!(entry_of("uid", &text[..cut]), Err(Unreadable::Damaged(key, _)) if key == "uid"));
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
        stuck: vec![stuck(Problem::NotFound)],
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

/// Format 1 as it is in clusters: this text must be readable for as long as the number is 1.
const EXAMPLE: &str = concat!(
    r#"{"namespace":"flux-system","name":"apps","source":"GitRepository","began":"2026-11-21T16:00:00Z","#,
    r#""accounted":["main@sha1:1f6c",["main@sha1:77ab","main@sha1:c0de"]],"#,
    r#""last":{"commit":"77ab","merged":"2026-11-21T16:02:00Z","applied":"2026-11-21T16:07:00Z"},"#,
    r#""stuck":[{"revision":"main@sha1:0","problem":"not_found"}],"#,
    r#""commits":{"counted":3},"revisions":{"baseline":1,"measured":1},"#,
    r#""times":{"e2e.export-time":{"count":3,"sum_us":384500000,"classic":[0,0,2,0,0,1,0,0,0,0,0,0],"#,
    r#""scale":5,"buckets":[[171,1,0,0,1],[263,1]]}}}"#,
);

#[test]
fn format_1_stays_as_it_is() {
    assert_eq!(entry_text(&example()), EXAMPLE);
    assert_eq!(entry_of("uid", EXAMPLE), Ok(example()));
}

#[test]
fn numbers_that_do_not_belong_together_are_damage() {
    let damaged = |from: &str, to: &str| {
        let text = EXAMPLE.replace(from, to);
        assert_ne!(text, EXAMPLE);
        match entry_of("0b7c", &text) {
            Err(Unreadable::Damaged(key, what)) if key == "0b7c" => what,
            other => panic!("{other:?}"),
        }
    };
    let cases = [
        ("\"count\":3", "\"count\":4", "the count is 4"),
        ("[0,0,2,", "[0,0,1,", "the exponential buckets hold"),
        ("[263,1]", "[163,1]", "out of order"),
        ("[263,1]", "[99263,1]", "too far off"),
        ("[263,1]", "[263,-1]", "-1 is no count"),
        ("[263,1]", "[263]", "is no run"),
        ("\"scale\":5", "\"scale\":21", "21 is no scale"),
        ("e2e.export-time", "e2e.import-time", "is no metric"),
        ("\"measured\"", "\"weighed\"", "is no outcome"),
        ("GitRepository", "SvnRepository", "is no kind of source"),
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
    assert_eq!(with("format", "2"), Err(Unreadable::Later("2".to_owned())));
    assert!(matches!(with("format", "one"), Err(Unreadable::Damaged(..))));
    assert!(matches!(with("format", "0"), Err(Unreadable::Damaged(..))));
    assert!(matches!(with("shards", "64"), Err(Unreadable::Damaged(..))));
    assert!(matches!(with("began", "yesterday"), Err(Unreadable::Damaged(..))));
    let shard = |text: &str| Header::of(&[(HEADER.to_owned(), text.to_owned())].into());
    assert_eq!(shard(r#"{"format":2,"anything":1}"#), Err(Unreadable::Later("2".to_owned())));
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
    let most = entry_text(&entry).len();
    assert!(most < 8 << 10, "{most} bytes");
    assert!(most * 10_000 / usize::from(SHARDS) < super::super::shard::LIMIT, "{most} bytes");
}
