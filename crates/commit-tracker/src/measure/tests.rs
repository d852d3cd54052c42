use jiff::ToSpan as _;

use super::*;
use crate::given::second as at;

fn step() -> Step {
    Step {
        seen: Some(at(90)),
        fetched: Some(at(100)),
        applied: Some(at(110)),
        health_checked: true,
        ..crate::given::step("main@sha1:5394", at(150))
    }
}

fn changes(commits: &[i64], exported: Option<i64>) -> Changes {
    Changes {
        commits: commits.iter().map(|merged| Commit::new(merged.to_string(), at(*merged))).collect(),
        exported: exported.map(at),
        ..Changes::default()
    }
}

/// The observations of an instrument.
fn of(measured: &Measured, instrument: Instrument) -> Vec<f64> {
    measured.observations.iter().filter(|(of, _)| *of == instrument).map(|(_, value)| *value).collect()
}

/// Checks how many commits are counted, baseline and skewed, and all that is observed: the values of each instrument, in
/// their order (end to end, export, reconcile; the stages export, source, fetch, apply and health).
#[track_caller]
fn check(step: &Step, changes: &Changes, since: Option<i64>, counts: [u64; 3], observed: &str) {
    let measured = measure(step, changes, since.map(at));
    assert_eq!([measured.counted, measured.baseline, measured.skewed], counts, "{changes:?}");
    let told = Instrument::ALL.map(|instrument| {
        let values = of(&measured, instrument).into_iter();
        values.map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
    });
    assert_eq!(told.join(" | "), observed, "{changes:?}");
    assert_eq!(measured.skewed_stages, 0);
}

#[test]
fn each_commit_and_each_revision_is_observed_as_the_original_did() {
    let (exported, merged) = (changes(&[0, 30], Some(60)), changes(&[0, 30], None));
    // The stages of one commit add up to its way.
    check(&step(), &changes(&[0], Some(60)), None, [1, 0, 0], "150 | 60 | 90 | 60 | 30 | 10 | 10 | 40");
    let nothing = " |  |  |  |  |  |  | ";
    check(&step(), &exported, None, [2, 0, 0], "150 120 | 60 30 | 90 | 60 30 | 30 30 | 10 | 10 | 40");
    // Without an exporter there is no export, and the source sees the merge.
    check(&step(), &merged, None, [2, 0, 0], "150 120 |  |  |  | 90 60 | 10 | 10 | 40");
    // What was merged before we count is baseline; a revision of nothing else is not observed.
    check(&step(), &exported, Some(20), [1, 1, 0], "120 | 30 | 90 | 30 | 30 | 10 | 10 | 40");
    check(&step(), &exported, Some(40), [0, 2, 0], nothing);
    check(&step(), &changes(&[], Some(60)), Some(40), [0, 0, 0], nothing);
    // One without commits is, once we count.
    check(&step(), &changes(&[], Some(60)), None, [0, 0, 0], " |  | 90 |  |  | 10 | 10 | 40");
    // A commit that was merged after its apply, and one with an invented date, are skewed.
    check(&step(), &changes(&[0, 152], None), None, [1, 0, 1], "150 |  |  |  | 90 | 10 | 10 | 40");
    let mut invented = changes(&[0, 1, 2], None);
    (invented.commits[1].merged, invented.commits[2].merged) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
    check(&step(), &invented, None, [1, 0, 2], "150 |  |  |  | 90 | 10 | 10 | 40");
    // Where the source does not say when it had it, or had it made anew after the apply, its stages are absent.
    for seen in [None, Some(at(1000))] {
        let step = Step { seen, ..step() };
        check(&step, &merged, None, [2, 0, 0], "150 120 |  |  |  |  |  | 10 | 40");
    }
    // Less than a second below zero is rounding.
    let fetched = Some(at(90) - 400.milliseconds());
    let rounded = Step { fetched, applied: fetched, ..step() };
    check(&rounded, &merged, None, [2, 0, 0], "150 120 |  |  |  | 90 60 | 0 | 0 | 60.4");
    // A commit of a skipped revision was exported with that.
    let mut skipped = exported;
    skipped.commits[0].exported = Some(at(20));
    check(&step(), &skipped, None, [2, 0, 0], "150 120 | 20 30 | 90 | 20 30 | 70 30 | 10 | 10 | 40");
    // A time from before the newest commit is that of an earlier revision.
    let earlier = Step { latest: at(500), ..step() };
    let measured = measure(&earlier, &changes(&[0, 480], None), None);
    assert_eq!((measured.ready, measured.estimated), (Some(at(500)), true));
    assert_eq!(of(&measured, Instrument::EndToEnd), [500.0, 20.0]);
    assert!(of(&measured, Instrument::StageApply).is_empty());
}

#[test]
fn commits_that_were_cut_off_are_lost_unless_those_before_them_are_not_counted_either() {
    let cut = Changes { truncated: true, ..changes(&[0, 30], None) };
    let lost = |since: Option<i64>| measure(&step(), &cut, since.map(at)).truncated;
    assert_eq!([lost(None), lost(Some(-10)), lost(Some(10))], [true, true, false]);
    assert!(!measure(&step(), &changes(&[0], None), None).truncated);
}

#[test]
fn a_stage_that_took_less_than_no_time_is_left_out_and_the_commit_counted() {
    let measured = measure(&step(), &changes(&[80], Some(70)), None);
    assert_eq!((measured.counted, measured.skewed_stages), (1, 1));
    assert_eq!(of(&measured, Instrument::Export), [0.0; 0]);
    assert_eq!(measured.commits[0].outcome, CommitOutcome::Counted);
}
