use jiff::ToSpan as _;

use super::*;

fn at(seconds: i64) -> Timestamp {
    "2026-03-04T09:00:00Z".parse::<Timestamp>().unwrap() + seconds.seconds()
}

fn step() -> Step {
    Step {
        seen: Some(at(90)),
        fetched: Some(at(100)),
        applied: Some(at(110)),
        health_checked: true,
        ..crate::given::step("main@sha1:5394", at(150))
    }
}

fn commit(id: &str, merged: i64) -> Commit {
    Commit::new(id, at(merged))
}

fn changes(commits: &[i64], exported: Option<i64>) -> Changes {
    Changes {
        commits: commits.iter().map(|merged| commit(&merged.to_string(), *merged)).collect(),
        exported: exported.map(at),
        ..Changes::default()
    }
}

/// The observations of an instrument.
fn of(measured: &Measured, instrument: Instrument) -> Vec<f64> {
    measured.observations.iter().filter(|(of, _)| *of == instrument).map(|(_, value)| *value).collect()
}

fn counts(measured: &Measured) -> (u64, u64, u64) {
    (measured.counted, measured.baseline, measured.skewed)
}

#[test]
fn each_commit_and_each_revision_is_observed_as_the_original_did() {
    let measured = measure(&step(), &changes(&[0, 30], Some(60)), None);
    assert_eq!(of(&measured, Instrument::EndToEnd), [150.0, 120.0]);
    assert_eq!(of(&measured, Instrument::Export), [60.0, 30.0]);
    assert_eq!(of(&measured, Instrument::Reconcile), [90.0]);
    assert_eq!(of(&measured, Instrument::StageExport), [60.0, 30.0]);
    assert_eq!(of(&measured, Instrument::StageSource), [30.0, 30.0]);
    assert_eq!(of(&measured, Instrument::StageFetch), [10.0]);
    assert_eq!(of(&measured, Instrument::StageApply), [10.0]);
    assert_eq!(of(&measured, Instrument::StageHealth), [40.0]);
    assert_eq!(counts(&measured), (2, 0, 0));
    assert_eq!(measured.skewed_stages, 0);
}

#[test]
fn commits_that_were_cut_off_are_lost_unless_those_before_them_are_not_counted_either() {
    let cut = Changes { truncated: true, ..changes(&[0, 30], None) };
    let lost = |since: Option<i64>| measure(&step(), &cut, since.map(at)).truncated;
    assert_eq!([lost(None), lost(Some(-10)), lost(Some(10))], [true, true, false]);
    assert!(!measure(&step(), &changes(&[0], None), None).truncated);
}

#[test]
fn without_an_exporter_there_is_no_export_and_the_source_sees_the_merge() {
    let measured = measure(&step(), &changes(&[0, 30], None), None);
    assert_eq!(of(&measured, Instrument::StageSource), [90.0, 60.0]);
    for none in [Instrument::Export, Instrument::Reconcile, Instrument::StageExport] {
        assert!(of(&measured, none).is_empty(), "{none:?}");
    }
}

#[test]
fn the_stages_of_one_commit_add_up_to_its_way() {
    for exported in [None, Some(60)] {
        let measured = measure(&step(), &changes(&[7], exported), None);
        let stages = [
            Instrument::StageExport,
            Instrument::StageSource,
            Instrument::StageFetch,
            Instrument::StageApply,
            Instrument::StageHealth,
        ];
        let sum: f64 = stages.iter().flat_map(|stage| of(&measured, *stage)).sum();
        assert_eq!(of(&measured, Instrument::EndToEnd), [sum]);
    }
}

#[test]
fn what_was_merged_before_we_count_is_the_baseline() {
    let measured = measure(&step(), &changes(&[0, 30], Some(60)), Some(at(20)));
    assert_eq!(counts(&measured), (1, 1, 0));
    assert_eq!(of(&measured, Instrument::EndToEnd), [120.0]);
    assert_eq!(of(&measured, Instrument::Reconcile).len(), 1);
    assert_eq!(measured.commits[0].outcome, CommitOutcome::Baseline);
    assert_eq!(measured.commits[1].outcome, CommitOutcome::Counted);
}

#[test]
fn a_revision_of_nothing_but_baseline_is_not_observed() {
    for changes in [changes(&[0, 30], Some(60)), changes(&[], Some(60))] {
        let measured = measure(&step(), &changes, Some(at(40)));
        assert_eq!(measured.observations, [], "{changes:?}");
    }
}

#[test]
fn a_revision_without_commits_is_observed_once_we_count() {
    let measured = measure(&step(), &changes(&[], Some(60)), None);
    assert_eq!(of(&measured, Instrument::Reconcile), [90.0]);
    assert_eq!(counts(&measured), (0, 0, 0));
}

#[test]
fn a_commit_that_was_merged_after_its_apply_is_skewed_and_not_recorded() {
    let measured = measure(&step(), &changes(&[0, 152], None), None);
    assert_eq!(counts(&measured), (1, 0, 1));
    assert_eq!(of(&measured, Instrument::EndToEnd), [150.0]);
    assert_eq!(measured.commits[1].outcome, CommitOutcome::Skewed);
    assert!(measured.commits[1].end_to_end < 0.0);
}

#[test]
fn a_stage_that_took_less_than_no_time_is_left_out_and_the_commit_counted() {
    let measured = measure(&step(), &changes(&[80], Some(70)), None);
    assert_eq!(counts(&measured), (1, 0, 0));
    assert_eq!(of(&measured, Instrument::Export), [0.0; 0]);
    assert_eq!(measured.skewed_stages, 1);
}

#[test]
fn less_than_a_second_below_zero_is_rounding() {
    let mut step = step();
    step.fetched = Some(at(90) - 400.milliseconds());
    let measured = measure(&step, &changes(&[0], None), None);
    assert_eq!(of(&measured, Instrument::StageFetch), [0.0]);
    assert_eq!(measured.skewed_stages, 0);
}

#[test]
fn without_the_time_at_which_the_source_had_it_its_stages_are_absent() {
    let step = Step { seen: None, ..step() };
    let measured = measure(&step, &changes(&[0], None), None);
    assert!(of(&measured, Instrument::StageSource).is_empty());
    assert!(of(&measured, Instrument::StageFetch).is_empty());
    assert_eq!(of(&measured, Instrument::StageApply), [10.0]);
}

#[test]
fn an_artifact_that_was_made_anew_after_the_apply_says_nothing() {
    let step = Step { seen: Some(at(1000)), ..step() };
    let measured = measure(&step, &changes(&[0], None), None);
    assert!(of(&measured, Instrument::StageSource).is_empty());
    assert_eq!(measured.skewed_stages, 0);
}

#[test]
fn a_time_from_before_the_newest_commit_is_that_of_an_earlier_revision() {
    let step = Step { latest: at(500), ..step() };
    let measured = measure(&step, &changes(&[0, 480], None), None);
    assert_eq!(of(&measured, Instrument::EndToEnd), [500.0, 20.0]);
    assert_eq!((measured.ready, measured.estimated), (Some(at(500)), true));
    assert!(of(&measured, Instrument::StageApply).is_empty());
}

#[test]
fn a_commit_of_a_skipped_revision_was_exported_with_that() {
    let mut changes = changes(&[0, 30], Some(60));
    changes.commits[0].exported = Some(at(20));
    let measured = measure(&step(), &changes, None);
    assert_eq!(of(&measured, Instrument::Export), [20.0, 30.0]);
    assert_eq!(of(&measured, Instrument::StageExport), [20.0, 30.0]);
    assert_eq!(of(&measured, Instrument::StageSource), [70.0, 30.0]);
}

#[test]
fn an_invented_date_is_skewed() {
    let mut changes = changes(&[0, 1, 2], None);
    changes.commits[0].merged = Timestamp::UNIX_EPOCH;
    changes.commits[1].merged = Timestamp::MAX;
    let measured = measure(&step(), &changes, None);
    assert_eq!(counts(&measured), (1, 0, 2));
    assert_eq!(of(&measured, Instrument::EndToEnd), [148.0]);
}
