//! What waiting jobs cost in memory. The heap is the process's, so that this is a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../it/kit.rs"]
mod kit;

use kube::api::PostParams;
use windlass_api::Job;
use windlass_counted_heap::CountedHeap;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{World, eventually};

#[global_allocator]
static HEAP: CountedHeap = CountedHeap::new();

/// Jobs that wait: few enough to be created in a moment, many enough that what else the operator has does not count.
const WAITING: usize = 2_000;
/// What one of them may cost the operator, beside the server that is in this process too. 10,000 of them have to fit into
/// 60 MB with all else that the operator needs.
const MOST: usize = 1_000;

#[tokio::test]
async fn a_job_that_waits_costs_little_memory() {
    let world = World::new().set("operator.concurrent_drivers", "1");
    let _files = world.create_local("a-repository-with-a-name").await;
    queue(&world, 0, 1).await;
    let alone = cost_of_an_operator(&world, 0).await;
    queue(&world, 1, WAITING).await;
    let with_all = cost_of_an_operator(&world, WAITING).await;
    let each = with_all.saturating_sub(alone) / WAITING;
    assert!(each < MOST, "{each} bytes a job, beside {alone} bytes without any");
}

/// Creates so many jobs, the first with this number.
async fn queue(world: &World, first: usize, count: usize) {
    let jobs = world.api::<Job>();
    for number in first..first + count {
        let job = serde_json::json!({
            "metadata": {
                "name": format!("a-repository-with-a-name-test-{number:05}"),
                "labels": {"provisioning.grafana.app/repository": "a-repository-with-a-name"},
                "annotations": {"provisioning.grafana.app/author": "user:u000000001"},
            },
            "spec": {
                "action": "test", "repository": "a-repository-with-a-name", "message": "m".repeat(200),
                "test": {"duration": "10m"},
            },
        });
        jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    }
}

/// What an operator takes up that runs one job and knows of so many others.
async fn cost_of_an_operator(world: &World, waiting: usize) -> usize {
    let before = HEAP.in_use();
    let process = world.start(register, PROVISIONING_JOBS);
    let of_tests = |said: &str, metric: &str| {
        let count = said.lines().find(|line| line.starts_with(metric) && line.contains("action=\"test\""));
        count.and_then(|line| line.rsplit(' ').next()?.parse::<usize>().ok())
    };
    eventually("the operator knows all jobs, and runs one", || async {
        let said = process.context.metrics.render().unwrap();
        let found = ["queue_size", "in_flight"]
            .map(|metric| of_tests(&said, &format!("grafana_provisioning_jobs_{metric}{{")));
        if found == [Some(waiting), Some(1)] { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    let cost = HEAP.in_use().saturating_sub(before);
    process.stop().await;
    cost
}
