//! What the programs say of themselves, and where: the five modes, and a collector that is not there.

use tempfile::TempDir;
use windlass_e2e::{DEADLINE, Process, Programs, free_port};
use windlass_otlp_receiver::{Behaviour, Received, Receiver};

/// Every program that runs an operator: its arguments, and the operator it runs.
const PROGRAMS: [(&str, &[&str], &str); 4] = [
    ("windlass", &["server", "target"], "provisioning-repo"),
    ("jobs-controller", &[], "provisioning-jobs"),
    ("repository-controller", &[], "provisioning-repo"),
    ("flux-commit-tracker", &[], "flux-commit-tracker"),
];

/// Each mode with whether it logs to the output, writes traces and metrics there, and sends all to a collector; and the
/// protocol that it is tried with.
const MODES: [(&str, bool, bool, bool, &str); 5] = [
    ("stdout-logs", true, false, false, "grpc"),
    ("stdout-all", true, true, false, "http/protobuf"),
    ("stdout-logs+otlp", true, false, true, "http/protobuf"),
    ("stdout-all+otlp", true, true, true, "grpc"),
    ("otlp", false, false, true, "http/protobuf"),
];

/// A program beside an API server that nobody answers for: enough to hear it.
struct Lonely {
    process: Process,
    _folder: TempDir,
}

impl Lonely {
    fn start((program, arguments, operator): (&str, &[&str], &str), environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, lonely_kubeconfig(free_port().unwrap())).unwrap();
        let flag = format!("--kubeconfig={}", kubeconfig.display());
        let arguments: Vec<&str> = arguments.iter().copied().chain([flag.as_str()]).collect();
        let (metrics, health) = (free_address(), free_address());
        let cache = folder.path().join("git").display().to_string();
        let mut all = vec![
            ("GF_DEFAULT_TARGET", "operator"),
            ("GF_OPERATOR_NAME", operator),
            ("GF_OPERATOR_GIT_CACHE_DIR", &cache),
            ("GF_OPERATOR_METRICS_ADDRESS", &metrics),
        ];
        if program == "flux-commit-tracker" {
            all.extend([("METRICS_ADDR", metrics.as_str()), ("HEALTH_ADDR", health.as_str())]);
        }
        all.extend(environment);
        let path = Programs::path(program).unwrap();
        let process = Process::start(&path, &arguments, &all, &folder.path().join("log")).unwrap();
        Self { process, _folder: folder }
    }

    /// Ends it by signal, and answers what it said.
    async fn end(mut self) -> String {
        self.process.signal("TERM").await.unwrap();
        self.process.end(DEADLINE).await.unwrap();
        self.process.output()
    }
}

fn free_address() -> String {
    format!("127.0.0.1:{}", free_port().unwrap())
}

fn lonely_kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: c}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: c, user: {{}}}}]\n"
    )
}

/// Whether a line of its log says this.
fn has(output: &str, key: &str, value: &str) -> bool {
    let mut lines = output.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    lines.any(|line| line[key] == value)
}

async fn speaks_in_every_mode(program: (&str, &[&str], &str)) {
    let operator = program.2;
    for (mode, logs, signals, otlp, protocol) in MODES {
        let collector = Receiver::start().unwrap();
        let environment = [
            ("GF_OPERATOR_TELEMETRY_MODE", mode),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "200"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ];
        let mut lonely = Lonely::start(program, &environment);
        if logs {
            lonely.process.says("\"starting\"").await.unwrap();
        }
        if signals {
            lonely.process.says("\"metric\"").await.unwrap();
        }
        if otlp {
            let came = |received: &Received| {
                let logs = received.logs_of("starting").next();
                logs.is_some().then_some(()).filter(|()| !received.metric_requests.is_empty())
            };
            let came = collector.until(DEADLINE, came).await;
            assert!(came.is_some(), "{mode}: it did not reach the collector: {}", lonely.process.output());
        }
        let output = lonely.end().await;
        assert_eq!(has(&output, "msg", "starting"), logs, "{mode}: {output}");
        assert_eq!(has(&output, "msg", "metric"), signals, "{mode}: {output}");
        assert!(logs || output.is_empty(), "{mode}: {output}");
        collector.look(|received| {
            assert_eq!(received.logs_of("starting").next().is_some(), otlp, "{mode}");
            assert_eq!(!received.metric_requests.is_empty(), otlp, "{mode}");
            for request in &received.metric_requests {
                assert_eq!(request.headers["x-tenant"], "a b");
                let encoding = if protocol == "grpc" { "grpc-encoding" } else { "content-encoding" };
                assert_eq!(request.headers[encoding], "gzip");
                for resource in &request.resources {
                    assert_eq!(resource["service.name"], operator);
                    assert_eq!(resource["deployment.environment.name"], "test");
                }
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_program_speaks_as_each_mode_says() {
    let programs = PROGRAMS.map(|program| tokio::spawn(speaks_in_every_mode(program)));
    for program in programs {
        program.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_holds_no_program_up_for_long_at_its_end() {
    let collector = Receiver::start().unwrap();
    collector.behave(Behaviour::Hang);
    let (url, mode) = (collector.url(), "stdout-logs+otlp");
    let environment =
        [("GF_OPERATOR_TELEMETRY_MODE", mode), ("GF_OPERATOR_TELEMETRY_ENDPOINT", url.as_str())];
    let mut lonely = Lonely::start(PROGRAMS[1], &environment);
    lonely.process.says("\"starting\"").await.unwrap();
    let output = lonely.end().await;
    assert!(output.contains("telemetry was not sent to its end within 5s"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_is_said_once_and_counted() {
    let nobody = free_address();
    let environment = [
        ("GF_OPERATOR_TELEMETRY_MODE", "stdout-logs+otlp"),
        ("GF_OPERATOR_TELEMETRY_ENDPOINT", nobody.as_str()),
        ("GF_OPERATOR_LOG_LEVEL", "TRACE"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "100"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
    ];
    let mut lonely = Lonely::start(PROGRAMS[3], &environment);
    lonely.process.says("failed to reach the collector").await.unwrap();
    // More exports fail meanwhile; the last, at the end, is behind us when it has ended.
    let output = lonely.end().await;
    assert_eq!(output.matches("failed to reach the collector").count(), 1, "{output}");
    assert!(!output.contains("ExportError"), "the libraries' own lines, one a failure: {output}");
    assert!(has(&output, "level", "trace"), "trace is a level: {output}");
    assert!(output.contains(&nobody), "{output}");
}
