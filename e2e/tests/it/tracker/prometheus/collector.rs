//! OpenTelemetry's own collector with the compose stack's configuration.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::process::Command;
use windlass_cluster::Program;
use windlass_e2e::{Process, free_port, page};
use windlass_otlp_receiver::Receiver;

const CONFIG: &str = "deploy/compose/collector.yaml";
const STACK: &str = "deploy/compose/compose.yaml";
/// What it says once it takes something.
const READY: &str = "Everything is ready.";

/// A running collector.
pub(super) struct Collector {
    /// Where it takes OTLP over gRPC.
    pub(super) address: String,
    process: Process,
    _folder: tempfile::TempDir,
}

impl Collector {
    /// Starts one that hands on to `receiver` whatever the stack's hands on to Prometheus, Tempo and Loki. None: there is
    /// no Go to build it with, and that was said.
    pub(super) async fn start(receiver: &Receiver) -> Result<Option<Self>> {
        let Some(program) = program().await? else { return Ok(None) };
        let folder = tempfile::tempdir()?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let (over_http, over_grpc) =
            (json!({"endpoint": receiver.url()}), json!({"endpoint": receiver.address()}));
        let elsewhere = json!({
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": address}}}},
            "exporters": {
                "otlp_http/prometheus": over_http,
                "otlp_grpc/tempo": over_grpc,
                "otlp_http/loki": over_http,
            },
            // Its own would be on a fixed port.
            "service": {"telemetry": {"metrics": {"level": "none"}}},
        });
        let moved = folder.path().join("elsewhere.yaml");
        std::fs::write(&moved, elsewhere.to_string())?;
        let configs = [config(&page::root().join(CONFIG)), config(&moved)];
        let arguments = configs.each_ref().map(String::as_str);
        let mut process = Process::start(&program, &arguments, &[], &folder.path().join("log"))?;
        process.says(READY).await?;
        Ok(Some(Self { address, process, _folder: folder }))
    }

    /// What it has said.
    pub(super) fn said(&self) -> String {
        self.process.output()
    }
}

async fn program() -> Result<Option<PathBuf>> {
    tokio::task::spawn_blocking(|| Program::Collector.find_or_build()).await?
}

fn config(file: &Path) -> String {
    format!("--config={}", file.display())
}

/// Has the collector judge a configuration; answers what is wrong with it.
async fn refusal(program: &Path, configuration: &str) -> Result<Option<String>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("collector.yaml");
    std::fs::write(&file, configuration)?;
    let judged = Command::new(program).arg("validate").arg(config(&file)).output().await;
    let judged = judged.context("failed to start the collector")?;
    Ok((!judged.status.success()).then(|| String::from_utf8_lossy(&judged.stderr).into_owned()))
}

#[tokio::test]
async fn the_compose_stacks_collector_takes_its_configuration_and_would_refuse_another() {
    let Some(program) = program().await.unwrap() else { return };
    let read = |file: &str| std::fs::read_to_string(page::root().join(file)).unwrap();
    let version = Program::Collector.version().unwrap();
    let image = format!("opentelemetry-collector-contrib:{}\n", version.trim_start_matches('v'));
    assert!(read(STACK).contains(&image), "the stack's collector is another one than {version}");

    let shipped = read(CONFIG);
    assert_eq!(refusal(&program, &shipped).await.unwrap(), None);
    for (good, bad, why) in [
        ("batch: {}", "batch: {size: 1}", "invalid keys: size"),
        ("otlp_grpc/tempo:", "tempo:", "unknown type: \"tempo\""),
        ("exporters: [otlp_http/loki]", "exporters: [otlp_http/loke]", "otlp_http/loke"),
    ] {
        assert!(shipped.contains(good), "{good}");
        let refused = refusal(&program, &shipped.replace(good, bad)).await.unwrap();
        assert!(refused.as_deref().is_some_and(|said| said.contains(why)), "{bad}: {refused:?}");
    }
}
