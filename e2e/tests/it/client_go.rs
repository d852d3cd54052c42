//! client-go, the client that Go programs use, against the embedded server.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use windlass_e2e::{DEADLINE, Server};

/// A definition of a user's own.
pub(crate) const WIDGETS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList, shortNames: [wd]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget is what these tests are about.
        properties:
          spec:
            type: object
            description: What the widget should be.
            properties:
              size: {type: integer, description: How large it is.}
              colour: {type: string, default: grey}
              parts:
                type: array
                items: {type: object, properties: {name: {type: string}}}
";

/// Restarts under a write load.
const RESTARTS: usize = 3;

/// The Go program, which may have to be built.
async fn program(server: &Server, arguments: &[&str]) -> Option<Command> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/informers");
    let file = tokio::task::spawn_blocking(move || windlass_cluster::go_program(&module)).await.unwrap();
    let mut command = Command::new(file.unwrap()?);
    command.args(arguments).env("KUBECONFIG", server.kubeconfig()).kill_on_drop(true);
    Some(command)
}

async fn run(server: &Server, arguments: &[&str]) -> Option<String> {
    let output = tokio::time::timeout(DEADLINE, program(server, arguments).await?.output());
    let output = output.await.expect("the program ends in time").unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    Some(said)
}

async fn with_widgets() -> Server {
    let server = Server::start(&[]).await.unwrap();
    server.kubectl_with(&["apply", "-f", "-"], WIDGETS).await.unwrap();
    server
        .kubectl(&["wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=180s"])
        .await
        .unwrap();
    server
}

/// `informers watch`, told what to do line by line.
struct Watching {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    async fn start(server: &Server, resources: &[&str]) -> Option<Self> {
        let mut command = program(server, &[&["watch"], resources].concat()).await?;
        let log = std::fs::File::create(server.folder.path().join("informers.log")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Some(Self { child, input, output: BufReader::new(output).lines() })
    }

    async fn tell(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// The next line; on its end what it complained of.
    async fn says(&mut self, server: &Server) -> String {
        let line = tokio::time::timeout(DEADLINE * 2, self.output.next_line()).await;
        let log = || std::fs::read_to_string(server.folder.path().join("informers.log")).unwrap_or_default();
        match line {
            Ok(Ok(Some(line))) => line,
            other => panic!("instead of a line: {other:?}; it said:\n{}", log()),
        }
    }

    /// Waits until it has written `more` objects than when it was asked first.
    async fn writes(&mut self, server: &Server, more: u64) {
        let mut first = None;
        let until = std::time::Instant::now() + DEADLINE;
        loop {
            self.tell("state").await;
            let line = self.says(server).await;
            let writes: u64 = line.split_whitespace().nth(1).and_then(|count| count.parse().ok()).unwrap();
            if writes >= *first.get_or_insert(writes) + more {
                return;
            }
            assert!(std::time::Instant::now() < until, "nothing is written: {line}");
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn caches_of_client_go_outlive_a_server_that_is_killed_under_load() {
    let mut server = with_widgets().await;
    let resources = [
        "configmaps.v1.",
        "widgets.v1.example.com",
        "repositories.v0alpha1.provisioning.grafana.app",
        "dashboards.v1beta1.dashboard.grafana.app",
    ];
    server.create_repository("watched", "https://git.invalid/x.git").await.unwrap();
    let Some(mut watching) = Watching::start(&server, &resources).await else { return };
    assert_eq!(watching.says(&server).await, "synced");
    let log = std::fs::read_to_string(server.folder.path().join("informers.log")).unwrap();
    assert!(log.contains("Caches populated"), "{log}");
    assert!(!log.contains("Falling back to regular list"), "lists are streamed: {log}");
    for _ in 0..RESTARTS {
        watching.writes(&server, 100).await;
        server.process.kill().await.unwrap();
        server.restart().await.unwrap();
    }
    watching.writes(&server, 100).await;
    watching.tell("settle").await;
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.starts_with("settled")) {
        said.push(watching.says(&server).await);
    }
    assert!(said.iter().any(|line| line == "equal: 1 repositories"), "{said:?}");
    assert_eq!(said.iter().filter(|line| line.starts_with("equal")).count(), resources.len(), "{said:?}");
    assert!(watching.child.wait().await.unwrap().success());
}

#[tokio::test]
async fn typed_clients_speak_protobuf() {
    let server = Server::start(&[]).await.unwrap();
    let Some(said) = run(&server, &["typed"]).await else { return };
    for step in ["config maps", "secrets", "patches", "retry on conflict"] {
        assert!(said.contains(&format!("ok: {step}")), "{said}");
    }
}

#[tokio::test]
async fn candidates_of_client_go_elect_one_leader() {
    let server = Server::start(&[]).await.unwrap();
    let Some(said) = run(&server, &["elect"]).await else { return };
    assert!(said.contains("second leads"), "{said}");
}

#[tokio::test]
async fn a_mapper_of_client_go_finds_users_kinds() {
    let server = with_widgets().await;
    let arguments = ["discover", "configmaps.v1.", "widgets.v1.example.com", "leases.v1.coordination.k8s.io"];
    let Some(said) = run(&server, &arguments).await else { return };
    assert!(said.contains("widgets.v1.example.com is Widget in a namespace"), "{said}");
}

#[tokio::test]
async fn two_managers_of_client_go_share_an_object_by_server_side_apply() {
    let server = Server::start(&[]).await.unwrap();
    let Some(said) = run(&server, &["apply"]).await else { return };
    assert!(said.contains("ok: server-side apply"), "{said}");
}
