use windlass_api::JobState;
use windlass_api::conditions::new;

use super::*;

fn condition(kind: &str, holds: bool) -> Condition {
    let reason = match (kind, holds) {
        (types::PULL_STATUS, true) => reasons::SUCCESS,
        (types::PULL_STATUS, false) => reasons::FAILURE,
        (types::PATH_CONFLICT, _) => reasons::NO_PATH_CONFLICT,
        (_, true) => reasons::AVAILABLE,
        (_, false) => reasons::UNAVAILABLE,
    };
    new(kind, holds, reason, "", Some(1), Timestamp::UNIX_EPOCH)
}

fn status() -> RepositoryStatus {
    let conditions = vec![condition(types::PULL_STATUS, true), condition(types::READY, true)];
    let mut status = RepositoryStatus { conditions, ..RepositoryStatus::default() };
    status.sync.state = JobState::Success;
    status.health.healthy = true;
    status
}

#[test]
fn a_write_names_only_what_changed_and_tests_what_it_replaces() {
    let before = status();
    let mut after = before.clone();
    after.observed_generation = 2;
    after.sync.state = JobState::Pending;
    after.health.message = vec!["no".to_owned()];
    conditions::set(&mut after.conditions, condition(types::READY, false));
    conditions::set(&mut after.conditions, condition(types::PATH_CONFLICT, true));
    let described: Vec<String> = operations(&before, &after)
        .iter()
        .map(|operation| {
            format!("{} {}", operation["op"].as_str().unwrap(), operation["path"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        described,
        [
            "add /status/observedGeneration",
            "add /status/health",
            "test /status/sync/state",
            "add /status/sync/state",
            "test /status/conditions/1/type",
            "replace /status/conditions/1",
            "add /status/conditions/-",
        ]
    );
    assert!(operations(&before, &before).is_empty());
    let shorter = RepositoryStatus { quota: None, ..after.clone() };
    let longer = RepositoryStatus { quota: Some(windlass_api::QuotaStatus::default()), ..after };
    assert_eq!(operations(&longer, &shorter), [serde_json::json!({"op": "remove", "path": "/status/quota"})]);
}

#[test]
fn what_a_pull_wrote_meanwhile_survives_and_a_pull_that_began_is_not_pending_again() {
    let before = status();
    let mut wanted = before.clone();
    wanted.health.healthy = false;
    wanted.sync.state = JobState::Pending;
    conditions::set(&mut wanted.conditions, condition(types::READY, false));
    let mut fresh = before.clone();
    fresh.sync.state = JobState::Working;
    fresh.sync.job = "a-sync".to_owned();
    conditions::set(&mut fresh.conditions, condition(types::PULL_STATUS, false));
    let merged = merged(&fresh, &before, &wanted);
    assert_eq!((merged.sync.state, &*merged.sync.job), (JobState::Working, "a-sync"));
    assert!(!merged.health.healthy && !conditions::is_true(&merged.conditions, types::READY));
    assert!(!conditions::is_true(&merged.conditions, types::PULL_STATUS), "{merged:#?}");
}

#[test]
fn events_tell_of_health_and_of_a_webhook_that_fails_and_works_again() {
    let healthy = |healthy: bool| {
        let mut status = status();
        (status.health.healthy, status.health.checked) = (healthy, 1);
        conditions::set(&mut status.conditions, condition(types::READY, healthy));
        status
    };
    let webhook = |holds: bool, reason: &str| {
        let mut status = healthy(true);
        let said = new(types::WEBHOOK, holds, reason, "why", Some(1), Timestamp::UNIX_EPOCH);
        conditions::set(&mut status.conditions, said);
        status
    };
    let told = |before: &RepositoryStatus, after: &RepositoryStatus| -> Vec<(EventType, String, String)> {
        notes(before, after).into_iter().map(|note| (note.kind, note.reason, note.text)).collect()
    };
    let warning = |reason: &str, text: &str| vec![(EventType::Warning, reason.to_owned(), text.to_owned())];
    let normal = |reason: &str, text: &str| vec![(EventType::Normal, reason.to_owned(), text.to_owned())];

    let unhealthy = "the repository is not healthy (Unavailable): ";
    assert_eq!(told(&healthy(true), &healthy(false)), warning("Unhealthy", unhealthy));
    assert!(told(&healthy(false), &healthy(false)).is_empty());
    let again = normal("Healthy", "the repository is healthy again");
    assert_eq!(told(&healthy(false), &healthy(true)), again);

    let good = webhook(true, reasons::WEBHOOK_CONFIGURED);
    let refused = webhook(false, reasons::PERMISSION_DENIED);
    let silent = webhook(false, reasons::SERVICE_UNAVAILABLE);
    let none = webhook(false, reasons::NO_PUBLIC_URL);
    let failed = warning("WebhookFailed", "the webhook fails (PermissionDenied): why");
    for before in [&healthy(true), &good, &silent, &none] {
        assert_eq!(told(before, &refused), failed);
    }
    assert_eq!(told(&refused, &good), normal("WebhookRestored", "the webhook works again"));
    for (before, after) in
        [(&refused, &refused), (&healthy(true), &good), (&none, &good), (&good, &none), (&refused, &none)]
    {
        assert!(told(before, after).is_empty(), "{before:#?} {after:#?}");
    }
}
