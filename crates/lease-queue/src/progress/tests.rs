use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use windlass_api::{JobState, JobStatus};

use super::*;

fn dashboard(path: &str, action: ResourceAction) -> ResourceResult {
    ResourceResult::new(path, "dashboard.grafana.app", "Dashboard", action)
}

#[test]
fn results_are_summed_up_by_kind() {
    let mut recorder = Recorder::new(1);
    recorder.set_total(8);
    for action in [
        ResourceAction::Created,
        ResourceAction::Updated,
        ResourceAction::Deleted,
        ResourceAction::Renamed,
        ResourceAction::Ignored,
    ] {
        recorder.record(&dashboard("a.json", action));
    }
    recorder.record(&ResourceResult::new("f", "folder.grafana.app", "Folder", ResourceAction::Created));
    let status = recorder.status();
    assert!((status.progress - 75.0).abs() < f64::EPSILON);
    let [dashboards, folders] = status.summary.as_slice() else { panic!("{:?}", status.summary) };
    assert_eq!((dashboards.create, dashboards.update, dashboards.delete, dashboards.noop), (2, 1, 2, 1));
    assert_eq!((dashboards.write, dashboards.total_changes, dashboards.total), (3, 5, 5));
    assert_eq!((folders.kind.as_str(), folders.create), ("Folder", 1));
}

#[test]
fn progress_never_passes_a_hundred_percent() {
    let mut recorder = Recorder::new(1);
    recorder.set_total(1);
    for _ in 0..3 {
        recorder.record(&dashboard("a", ResourceAction::Created));
    }
    assert!((recorder.status().progress - 100.0).abs() < f64::EPSILON);
}

#[test]
fn twenty_errors_are_listed_and_all_are_counted() {
    let mut recorder = Recorder::new(1);
    for file in 0..50 {
        let result = dashboard(&format!("{file}.json"), ResourceAction::Updated).named("uid");
        recorder.record(&result.failed(Failure::error("broken")));
    }
    let status = recorder.finish(Ok(()), 2);
    assert_eq!(status.state, JobState::Error);
    assert_eq!(status.message, "completed with errors");
    assert_eq!(status.errors.len(), 20);
    assert_eq!(status.errors[0], "broken (file: 0.json, name: uid, action: update)");
    assert_eq!((status.summary[0].error, status.summary[0].errors.len()), (50, 20));
}

#[test]
fn an_ignored_error_is_shown_but_does_not_fail_the_job() {
    let mut recorder = Recorder::new(1);
    recorder.record(&dashboard("a", ResourceAction::Ignored).failed(Failure::error("odd")));
    assert_eq!(recorder.finish(Ok(()), 2).state, JobState::Success);
    assert_eq!(recorder.status().summary[0].error, 1);
}

#[test]
fn warnings_are_listed_up_to_a_cap_that_says_how_many_are_missing() {
    let mut recorder = Recorder::new(1);
    for (kind, file) in (0..10).flat_map(|kind| (0..30).map(move |file| (kind, file))) {
        let result =
            ResourceResult::new(format!("{file}"), "group", format!("Kind{kind}"), ResourceAction::Created);
        recorder.record(&result.failed(Failure::warning("ResourceInvalid", "x".repeat(100_000))));
    }
    let status = recorder.finish(Ok(()), 2);
    assert_eq!((status.state, status.message.as_str()), (JobState::Warning, "completed with warnings"));
    assert_eq!(status.warnings.len(), 101);
    assert_eq!(status.warnings[100], "and 200 more");
    assert_eq!(recorder.reasons().collect::<Vec<_>>(), ["ResourceInvalid"]);
    let size = serde_json::to_vec(&status).unwrap().len();
    assert!(size < 1_000_000, "{size} bytes would not fit into an API server");
}

#[test]
fn an_error_of_the_worker_is_not_softened_by_warnings() {
    let mut recorder = Recorder::new(1);
    recorder.set_final_message("all is well");
    recorder
        .record(&dashboard("a", ResourceAction::Created).failed(Failure::warning("ResourceInvalid", "w")));
    let status = recorder.finish(Err("the repository is gone".into()), 9);
    assert_eq!((status.state, status.message.as_str()), (JobState::Error, "the repository is gone"));
    assert_eq!((status.started, status.finished, status.warnings.len()), (1, 9, 1));
}

#[test]
fn the_workers_final_message_stands_unless_the_job_failed() {
    let mut recorder = Recorder::new(1);
    assert_eq!(recorder.finish(Ok(()), 2).message, "completed successfully");
    recorder.set_final_message("nothing to do");
    assert_eq!(recorder.finish(Ok(()), 2).message, "nothing to do");
    recorder.record(&dashboard("a", ResourceAction::Created).failed(Failure::error("e")));
    assert_eq!(recorder.finish(Ok(()), 2).message, "completed with errors");
}

#[test]
fn a_new_beginning_forgets_errors_and_keeps_warnings_where_that_is_asked_for() {
    let mut recorder = Recorder::new(1);
    recorder.record(&dashboard("a", ResourceAction::Created).failed(Failure::error("e")));
    recorder.record(&dashboard("b", ResourceAction::Deleted).failed(Failure::warning("R", "w")));
    recorder.reset(true);
    assert_eq!((recorder.error_count(), recorder.warning_count()), (0, 1));
    recorder.reset(false);
    assert_eq!((recorder.warning_count(), recorder.reasons().count()), (0, 0));
}

#[derive(Default)]
struct Written(Mutex<Vec<(Instant, JobStatus)>>);

#[async_trait]
impl Sink for Written {
    async fn write(&self, status: JobStatus) {
        self.0.lock().unwrap().push((Instant::now(), status));
    }
}

fn progress() -> (Progress, Arc<Written>) {
    let written = Arc::new(Written::default());
    (Progress::new(Recorder::new(1), Arc::clone(&written) as Arc<dyn Sink>), written)
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_within_the_first_window_writes_no_progress() {
    let (progress, written) = progress();
    progress.message("start");
    progress.total(1);
    progress.record(&dashboard("a", ResourceAction::Created));
    tokio::time::sleep(Duration::from_millis(499)).await;
    let last = progress.finish(Ok(()), 5);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(written.0.lock().unwrap().len(), 0);
    assert_eq!(last.summary[0].create, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_said_within_a_window_is_written_when_it_ends() {
    let begin = Instant::now();
    let (progress, written) = progress();
    progress.message("one");
    progress.message("two");
    tokio::time::sleep(Duration::from_secs(1)).await;
    progress.message("three");
    tokio::time::sleep(Duration::from_millis(100)).await;
    progress.message("four");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let written = written.0.lock().unwrap();
    let seen: Vec<_> = written
        .iter()
        .map(|(at, status)| ((*at - begin).as_millis() / 100, status.message.as_str()))
        .collect();
    assert_eq!(seen, [(5, "two"), (10, "three"), (15, "four")]);
}

#[tokio::test(start_paused = true)]
async fn results_are_written_less_often_than_messages() {
    let (progress, written) = progress();
    progress.total(200);
    for file in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        progress.record(&dashboard(&file.to_string(), ResourceAction::Created));
    }
    tokio::time::sleep(Duration::from_mins(1)).await;
    let written = written.0.lock().unwrap();
    assert!((3..=4).contains(&written.len()), "{} writes in 10 s", written.len());
    assert!(
        (written.last().unwrap().1.progress - 50.0).abs() < f64::EPSILON,
        "the last result is written too"
    );
}
