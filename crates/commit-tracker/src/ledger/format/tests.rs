use super::*;
use crate::changes::Problem;
use crate::given::{self, histogram};
use crate::ledger::{Accounted, CommitCounts, FRONTIER, Outcome, Pending};
use crate::{Instrument, SourceKind, Step};

fn pending(problem: Problem) -> Pending {
    let ready = "2026-11-21T16:07:00.5Z".parse().unwrap();
    let step = Step { applied: Some(ready), estimated: true, ..given::step("main@sha1:0", ready) };
    Pending { step, problem: Some(problem) }
}

#[test]
fn whatever_can_be_in_an_entry_is_read_as_it_was_written_and_what_is_cut_off_is_damaged() {
    for kind in SourceKind::ALL {
        let times = (1..).zip(Instrument::ALL).map(|(count, instrument)| {
            (instrument, histogram((0..count * 40).map(|number| f64::from(number * number) * 0.7)))
        });
        let entry = Entry {
            source_kind: kind,
            pending: Problem::ALL.map(pending).into(),
            histograms: times.collect(),
            revisions: Outcome::all().zip(1..).collect(),
            ..example()
        };
        let text = entry_text(&entry);
        assert_eq!(entry_of("uid", &text), Ok(entry));
        for cut in (0..text.len()).step_by(97) {
            let read = entry_of("uid", &text[..cut]);
            assert!(matches!(read, Err(Unreadable::Damaged(key, _)) if key == "uid"));
        }
    }
}

/// Format 2 as it is in clusters: this text must be readable for as long as the number is 2.
const EXAMPLE: &str = include_str!("entry.json");

fn example() -> Entry {
    entry_of("uid", EXAMPLE.trim_end()).unwrap()
}

#[test]
fn format_2_stays_as_it_is() {
    let entry = example();
    assert_eq!(entry_text(&entry), EXAMPLE.trim_end());
    assert_eq!((&*entry.key.namespace, &*entry.key.name, &*entry.older), ("flux-system", "apps", &[7][..]));
    assert_eq!(entry.newest().unwrap().as_str(), "main@sha1:77ab");
    assert_eq!(entry.accounted[1].origin.as_deref(), Some("main@sha1:c0de"));
    assert_eq!(entry.pending, [pending(Problem::NotFound)]);
    assert_eq!(entry.last.as_ref().unwrap().applied, "2026-11-21T16:07:00Z".parse().unwrap());
    assert_eq!(entry.commits, CommitCounts { counted: 3, ..CommitCounts::default() });
    assert_eq!(entry.revisions, [(Outcome::Measured, 1), (Outcome::Baseline, 1)]);
    assert_eq!(entry.histograms, [(Instrument::EndToEnd, histogram([41.0, 43.5, 300.0]))]);
}

#[test]
fn numbers_that_do_not_belong_together_are_damage() {
    for (from, to, expected) in [
        ("\"count\":3", "\"count\":4", "the count is 4"),
        ("[0,0,2,", "[0,0,1,", "the buckets hold others"),
        ("[1,0,0,1", "[1,0,0,2", "the buckets hold others"),
        ("[1,0,0,1", "[0,0,0,2", "the last are not empty"),
        ("[1,0,0,1", "[-1,0,0,1", "invalid value"),
        ("\"scale\":5", "\"scale\":21", "21 is no scale"),
        ("e2e.export-time", "e2e.import-time", "unknown variant"),
        ("\"measured\"", "\"weighed\"", "did not match any variant"),
        ("GitRepository", "SvnRepository", "unknown variant"),
        ("\"name\"", "\"nickname\":\"shop\",\"name\"", "unknown field"),
    ] {
        let text = EXAMPLE.replace(from, to);
        let Err(Unreadable::Damaged(key, what)) = entry_of("0b7c", &text) else { panic!("{to}") };
        assert!(key == "0b7c" && what.contains(expected), "{to}: {what}");
    }
}

#[test]
fn a_later_format_is_told_apart_from_damage() {
    let head = Head { identity: "a".to_owned(), began: Timestamp::UNIX_EPOCH };
    let header = Header::new(&head, "w".to_owned());
    let with = |key: &str, value: &str| {
        let mut data = head.data();
        data.extend([(HEADER.to_owned(), header.text()), (key.to_owned(), value.to_owned())]);
        (Head::of(&data), Header::of(&data))
    };
    assert_eq!(with("further", "key"), (Ok(head.clone()), Ok(header.clone())));
    assert_eq!(with("format", "3").0, Err(Unreadable::Later("3".to_owned())));
    let later = with(HEADER, r#"{"format":3,"anything":1}"#);
    assert_eq!(later, (Ok(head.clone()), Err(Unreadable::Later("3".to_owned()))));
    for (key, value) in
        [("format", "one"), ("format", "0"), ("shards", "64"), ("began", "yesterday"), (HEADER, "{")]
    {
        let (head, header) = with(key, value);
        let error = head.err().or(header.err());
        assert!(matches!(&error, Some(Unreadable::Damaged(blamed, _)) if blamed == key), "{error:?}");
    }
}

#[test]
fn the_busiest_entries_of_ten_thousand_fit_into_the_shards() {
    let busy = |number| Accounted {
        revision: format!("production@sha256:{number:064x}").parse().unwrap(),
        origin: Some(format!("main@sha1:{number:040x}").into()),
    };
    let times = histogram((0..40_000).map(|number| 1.0 + f64::from(number) / 10.0));
    let entry = Entry {
        accounted: (0..FRONTIER).map(busy).collect(),
        histograms: Instrument::ALL.map(|instrument| (instrument, times.clone())).into(),
        older: (0..240_u32).map(|number| u32::MAX - number).collect(),
        ..example()
    };
    let (most, limit) = (entry_text(&entry).len(), super::super::shard::LIMIT);
    assert!(most < 12 << 10 && most * 10_000 / usize::from(SHARDS) < limit, "{most} bytes");
}
