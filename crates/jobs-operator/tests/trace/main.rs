//! The trace of a job, as a collector gets it. Telemetry is the process's, so that this is a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../it/kit.rs"]
mod kit;

use std::time::Duration;

use aws_lc_rs::hmac;
use serde_json::json;
use windlass_api::{HistoricJob, JobSpec, annotations};
use windlass_jobs_operator::{PROVISIONING_JOBS, register};
use windlass_launch::Context;
use windlass_otlp_receiver::Receiver;
use windlass_telemetry::{Collector, LogFormat, LogOutput, Telemetry, TelemetryMode, TelemetryOptions};

use crate::kit::{Death, GitServer, World, eventually};

const DELIVERY: &str = "f3a5-of-gitea";

fn trace_of(record: &HistoricJob) -> String {
    record.metadata.annotations.as_ref().unwrap()[annotations::TRACE_ID].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_one_trace_that_begins_at_its_delivery_and_whose_id_its_record_carries() {
    let collector = Receiver::start().unwrap();
    let telemetry = Telemetry::start(&TelemetryOptions {
        mode: TelemetryMode::StdoutLogsOtlp,
        format: LogFormat::Json,
        filter: "info".to_owned(),
        output: LogOutput::Stdout,
        collector: Collector { endpoint: collector.url(), insecure: true },
        service: "windlass-test".to_owned(),
        version: "1",
        exponential: &[],
    })
    .unwrap();
    let git = GitServer::new().await;
    git.put(&[("b.json", "b", "B")]);
    let world = World::traced(&[git.origin()], telemetry.spans());
    let files = world.create_local("traced").await;
    std::fs::write(files.join("a.json"), crate::kit::dashboard("a", "A")).unwrap();
    let spans = telemetry.spans();
    let traced = |context: &mut Context| context.spans = spans.clone();
    let _process = world.start_with(register, PROVISIONING_JOBS, Death::Never, traced);
    let id = trace_of(&world.pull("traced", false).await);
    world.patch_repository("traced", json!({"spec": {"workflows": ["write"]}})).await;
    let delete = json!({"action": "delete", "repository": "traced", "delete": {"paths": ["a.json"]}});
    let written = trace_of(&world.run(serde_json::from_value(delete).unwrap()).await);

    // A job whose worker vanishes, and that nobody may run again.
    let forsaken = World::new()
        .set("operator.max_attempts", "1")
        .set("operator.lease_expiry", "1s")
        .set("operator.lease_renewal_interval", "250ms")
        .set("operator.cleanup_interval", "1s");
    forsaken.create_local("traced").await;
    let mortal = forsaken.start_with(register, PROVISIONING_JOBS, Death::After(1), |_context| {});
    let job = forsaken.queue(JobSpec::pull("traced", false)).await;
    mortal.dead().await;
    mortal.kill().await;
    let _heir = forsaken.start_with(register, PROVISIONING_JOBS, Death::Never, traced);
    let reaped = trace_of(&forsaken.ended(&job).await);

    let delivered = delivered(&world, &git).await;

    // A job's record is there before its last spans have ended.
    eventually("the traces are told", || async {
        let ends = [
            (&id, "provisioning.sync.full.file_creations"),
            (&id, "provisioning.jobs.process_job"),
            (&id, "provisioning.jobs.job"),
            (&written, "provisioning.write.pull"),
            (&written, "provisioning.jobs.process_job"),
            (&reaped, "provisioning.jobs.job"),
            (&delivered, "provisioning.webhook.delivery"),
            (&delivered, "provisioning.sync.full"),
            (&delivered, "provisioning.jobs.job"),
        ];
        let missing = ends.into_iter().find(|(id, name)| {
            collector.look(|received| received.spans_of(name).all(|span| span.trace_id != **id))
        });
        missing.map_or(Ok(()), |(_, name)| Err(name))
    })
    .await;
    telemetry.shutdown(Duration::from_secs(30)).await;
    collector.look(|received| {
        for name in ["stage", "commit", "push", "pull"] {
            let name = format!("provisioning.write.{name}");
            let found: Vec<_> = received.spans_of(&name).filter(|span| span.trace_id == written).collect();
            assert_eq!(found.len(), 1, "{name}");
            let attempt = received.spans.iter().find(|span| span.span_id == found[0].parent_span_id);
            assert_eq!(attempt.map(|span| &*span.name), Some("provisioning.jobs.process_job"));
        }
        for (line, id) in [
            ("job started", &id),
            ("job finished", &id),
            ("failed a job whose worker vanished too often", &reaped),
        ] {
            assert!(received.logs_of(line).any(|log| log.trace_id == **id), "{line}");
        }
        for name in [
            "provisioning.jobs.job",
            "provisioning.jobs.wait",
            "provisioning.jobs.process_job",
            "provisioning.jobs.complete",
            "provisioning.sync.full",
            "provisioning.sync.full.compare",
        ] {
            let found = received.spans_of(name).filter(|span| span.trace_id == id).count();
            assert_eq!(found, 1, "{name}");
        }
        let trace = |name| {
            let mut spans = received.spans_of(name).filter(|span| span.trace_id == delivered);
            spans.next().unwrap_or_else(|| panic!("no {name} in the trace of the delivery"))
        };
        let delivery = trace("provisioning.webhook.delivery");
        assert_eq!((delivery.kind, &*delivery.parent_span_id), ("server", ""));
        assert_eq!(delivery.attributes["delivery"], DELIVERY);
        assert_eq!(trace("provisioning.jobs.job").parent_span_id, delivery.span_id);
        assert_eq!(trace("provisioning.sync.full").trace_id, delivered);
    });
}

/// Has a repository pulled by a push that its server tells of, and answers the trace that the job's record names.
async fn delivered(world: &World, git: &GitServer) -> String {
    let document = json!({
        "spec": {"sync": {"enabled": true}, "git": {"url": git.url(), "branch": "main"}},
        "secure": {"webhookSecret": {"create": "s3cret"}},
    });
    world.create_repository("told", document).await;
    world.patch_status("told", json!({"status": {"health": {"healthy": true, "checked": 1}}})).await;
    let body = json!({"ref": "refs/heads/main", "repository": {"full_name": "sample"}}).to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"s3cret");
    let path = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/told/webhook";
    let request = http::Request::post(path)
        .header("x-gitea-event", "push")
        .header("x-gitea-delivery", DELIVERY)
        .header("x-gitea-signature", hex::encode(hmac::sign(&key, body.as_bytes())))
        .body(axum::body::Body::from(body))
        .unwrap();
    let response = tower::ServiceExt::oneshot(world.router.clone(), request).await.unwrap();
    assert_eq!(response.status(), 202);
    let record = crate::kit::eventually("the pull ends", || async {
        let all = world.history().await;
        all.into_iter().find(|record| record.spec.repository == "told").ok_or("not yet")
    })
    .await;
    let marks = record.metadata.annotations.unwrap();
    assert_eq!(marks[annotations::DELIVERY], DELIVERY);
    marks[annotations::TRACE_ID].clone()
}
