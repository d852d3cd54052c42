//! The trace of a job, as a collector gets it. Telemetry is the process's, so that this is a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../it/kit/mod.rs"]
mod kit;

use std::time::Duration;

use windlass_api::annotations;
use windlass_jobs_operator::{PROVISIONING_JOBS, register};
use windlass_otlp_receiver::Receiver;
use windlass_telemetry::{Collector, LogFormat, LogOutput, Telemetry, TelemetryMode, TelemetryOptions};

use crate::kit::{Death, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_one_trace_whose_id_its_record_carries() {
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
    let world = World::new();
    let files = world.create_local("traced").await;
    std::fs::write(files.join("a.json"), crate::kit::dashboard("a", "A")).unwrap();
    let spans = telemetry.spans();
    let _process =
        world.start_with(register, PROVISIONING_JOBS, Death::Never, |context| context.spans = spans);
    let record = world.pull("traced", false).await;
    let id = record.metadata.annotations.unwrap()[annotations::TRACE_ID].clone();
    crate::kit::eventually("the trace is told", || async {
        let phase = "provisioning.sync.full.file_creations";
        let told = collector.look(|received| received.spans_of(phase).any(|span| span.trace_id == id));
        if told { Ok(()) } else { Err("not yet") }
    })
    .await;
    telemetry.shutdown(Duration::from_secs(30)).await;
    collector.look(|received| {
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
    });
}
