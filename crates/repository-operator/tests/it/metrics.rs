//! What `/metrics` says of repositories.

use serde_json::json;
use windlass_repository_operator::{PROVISIONING_REPO, register};

use crate::kit::{Process, World, eventually};

/// The series of gauges of repositories, in order.
fn series(process: &Process) -> Vec<String> {
    let text = process.context.metrics.render().unwrap();
    let of_repositories = |line: &&str| {
        ["health", "last_sync_timestamp_seconds", "managed_resources"]
            .iter()
            .any(|gauge| line.starts_with(&format!("grafana_provisioning_repository_{gauge}{{")))
    };
    let mut found: Vec<String> = text.lines().filter(of_repositories).map(str::to_owned).collect();
    found.sort();
    found
}

async fn says(process: &Process, what: &str, expected: &[&str]) {
    eventually(what, || async {
        let found = series(process);
        if found == expected { Ok(()) } else { Err(found) }
    })
    .await;
}

#[tokio::test]
async fn the_series_of_a_deleted_repository_vanish() {
    let world = World::new();
    world.create_local("gone").await;
    world.create_local("kept").await;
    let status = |dashboards| {
        json!({"status": {
            "sync": {"state": "success", "finished": 1_500},
            "stats": [{"group": "dashboard.grafana.app", "resource": "dashboards", "count": dashboards}],
        }})
    };
    let process = world.start(register, PROVISIONING_REPO);
    for name in ["gone", "kept"] {
        world.repository_when("it is healthy", name, |found| found.status.health.healthy).await;
        world.patch_status(name, status(3)).await;
    }
    let last_sync = "grafana_provisioning_repository_last_sync_timestamp_seconds";
    let managed = "grafana_provisioning_repository_managed_resources{group=\"dashboard.grafana.app\"";
    let of = |name: &str, count: u64| {
        [
            format!("grafana_provisioning_repository_health{{name=\"{name}\",namespace=\"default\"}} 1"),
            format!("{last_sync}{{name=\"{name}\",namespace=\"default\"}} 1.5"),
            format!("{managed},name=\"{name}\",namespace=\"default\",resource=\"dashboards\"}} {count}"),
        ]
    };
    let (gone, kept) = (of("gone", 3), of("kept", 3));
    let both: Vec<&str> = gone.iter().zip(&kept).flat_map(|(gone, kept)| [&**gone, &**kept]).collect();
    says(&process, "both are told of", &both).await;

    world.delete_repository("gone").await;
    says(&process, "only the other is told of", &kept.each_ref().map(|line| &**line)).await;
    // Rendering again neither brings it back nor loses the other.
    assert_eq!(series(&process), kept);

    world.patch_status("kept", json!({"status": {"stats": []}})).await;
    says(&process, "a kind that it manages no more is gone", &[&kept[0], &kept[1]]).await;
    process.stop().await;
}
