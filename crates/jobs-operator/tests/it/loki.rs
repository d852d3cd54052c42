//! History in Loki, as far as a stand-in for it tells.

use http::Request;
use serde_json::Value;
use windlass_api::{Job, JobSpec};
use windlass_apiserver::client_of;
use windlass_auth::Caller;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};

use crate::kit::{World, eventually};

#[path = "../../../loki/tests/it/stand_in.rs"]
mod stand_in;

use stand_in::{Behaviour, LokiStandIn};

async fn read(world: &World, path: &str) -> Value {
    let client = client_of(world.router.clone(), Caller::system("reader"));
    let base = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/test6";
    let request = Request::get(format!("{base}/{path}")).body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

async fn gone(world: &World, job: &Job) {
    eventually("the job leaves the queue", || async {
        let jobs = world.jobs().await;
        if jobs.iter().any(|other| other.metadata.uid == job.metadata.uid) { Err(jobs) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn a_finished_job_is_in_loki_and_is_read_over_the_api() {
    let loki = LokiStandIn::start().await;
    let world = World::with_loki(&loki.url());
    world.create_local("test6").await;
    let _process = world.start(register, PROVISIONING_JOBS);
    let mut uids = Vec::new();
    for count in 1..=3 {
        let job = world.queue(JobSpec::pull("test6", false)).await;
        gone(&world, &job).await;
        eventually("it is in Loki", || async {
            let lines = loki.lines();
            if lines.len() == count { Ok(()) } else { Err(lines) }
        })
        .await;
        uids.insert(0, job.metadata.uid.unwrap());
    }
    assert!(world.history().await.is_empty(), "there is no object");
    let shown = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        items.iter().map(|job| job["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    };
    let all = read(&world, "jobs").await;
    assert_eq!(shown(&all), uids, "the newest first");
    assert_eq!(all["items"][0]["status"]["state"], "success");
    let first = read(&world, "jobs?limit=2").await;
    assert_eq!(shown(&first), uids[..2]);
    let next = first["metadata"]["continue"].as_str().unwrap();
    assert_eq!(shown(&read(&world, &format!("jobs?limit=2&continue={next}")).await), uids[2..]);
    let one = read(&world, &format!("jobs/{}", uids[1])).await;
    assert_eq!((&one["kind"], &one["metadata"]["uid"]), (&"Job".into(), &Value::from(uids[1].as_str())));
    loki.assert_well_spoken();
}

#[tokio::test]
async fn a_loki_that_hangs_delays_no_job() {
    let loki = LokiStandIn::start().await;
    loki.behave(Behaviour::Hang);
    let world = World::with_loki(&loki.url());
    world.create_local("test6").await;
    let process = world.start(register, PROVISIONING_JOBS);
    for _ in 0..5 {
        let job = world.queue(JobSpec::pull("test6", false)).await;
        gone(&world, &job).await;
    }
    let metrics = process.context.metrics.render().unwrap();
    let waiting = "grafana_provisioning_jobs_history_queue_length 5";
    assert!(metrics.lines().any(|line| line == waiting), "{metrics}");
}
