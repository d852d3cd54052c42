use kube::Api;
use serde_json::json;
use windlass_api::finalizers;
use windlass_runtime::{BackoffPolicy, SystemClock, Watch, WatchConfig};
use windlass_telemetry::metrics_differences;

use super::table::{OWN, TABLE};
use super::*;

/// Everything that is ever told, once; gauges of repositories are another test's.
#[tokio::test]
async fn every_metric_of_the_table_is_told_with_its_labels_and_no_other_is() {
    let metrics = Metrics::new().unwrap();
    let service = tower::service_fn(|_request: http::Request<kube::client::Body>| async {
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::empty()))
    });
    let api: Api<Repository> = Api::all(kube::Client::new(service, "default"));
    let store = Watch::new(api, WatchConfig::new("repositories")).store();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (events, _writer) = EventRecorder::new("test", "test", Arc::clone(&clock));
    let current = TermQueue::default();
    let told = RepositoryMetrics::new(&metrics, &store, &current, &events, clock);
    assert!(!metrics.render().unwrap().contains("worker_queue_size"), "there is no queue");
    let _work = current.begin(BackoffPolicy::OBJECT, || []);

    let second = Duration::from_secs(1);
    told.taken(second);
    told.checked(None, second);
    told.checked(Some(reasons::RATE_LIMITED), second);
    told.hook_failed(reasons::PERMISSION_DENIED);
    told.token_wanted(TokenWanted::Ending);
    told.token(None, second);
    told.token(Some(reasons::PERMISSION_DENIED), second);
    told.finalized(finalizers::CLEANUP, 12, second);
    told.deleted();
    told.deletion_failed(&FinalizeError {
        finalizer: finalizers::CLEANUP,
        obstacle: Obstacle::Tree(String::new()),
    });
    told.rotation_overdue(reasons::SERVICE_UNAVAILABLE);
    let repository = json!({
        "metadata": {"name": "dash", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"title": "D", "type": "github", "workflows": [], "sync": {"enabled": true}, "connection": {"name": "app"}},
        "status": {"token": {"lastUpdated": 1, "expiration": 2}},
    });
    told.begun(&serde_json::from_value(repository).unwrap());
    told.panicked();

    let text = metrics.render().unwrap();
    let of_each = ["repository_info", "repository_health", "last_sync_timestamp", "managed_resources"];
    let rows = TABLE.iter().chain(OWN).filter(|row| !of_each.iter().any(|gauge| row.name.contains(gauge)));
    assert_eq!(metrics_differences(rows, &text), Vec::<String>::new(), "{text}");
    for line in [
        r#"repository_reconcile_errors_total{cause="system",phase="health"} 1"#,
        r#"repository_reconcile_errors_total{cause="user",phase="hook"} 1"#,
        r#"finalizers_duration_seconds_count{finalizer_type="cleanup",resource_count_bucket="11-50"} 1"#,
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}
