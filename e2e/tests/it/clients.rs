//! Clients that others write programs with, each driven by a small program of ours, against the embedded server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;
use windlass_cluster::{Script, go_program};
use windlass_e2e::Server;

/// How long one program may take; each has a shorter deadline of its own for what it waits for.
const DEADLINE: Duration = Duration::from_mins(2);

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name)
}

/// Runs a program against a server of its own; it says these parts, in this order.
async fn drive(command: &[PathBuf], parts: &[&str]) {
    let server = Server::start(&[]).await.unwrap();
    let (program, arguments) = command.split_first().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", server.kubeconfig())
        .env("DEFINITION", folder("gizmos.yaml"))
        // Where Helm would keep what it fetches.
        .env("HOME", server.folder.path())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(DEADLINE, output).await.expect("the program ends in time").unwrap();
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    let done: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("ok: ")).collect();
    assert_eq!(done, parts, "{complained}");
}

async fn go(which: &str, parts: &[&str]) {
    let built = tokio::task::spawn_blocking(|| go_program(&folder("drivers"))).await.unwrap();
    let Some(program) = built.unwrap() else { return };
    drive(&[program, which.into()], parts).await;
}

async fn script(kind: Script, name: &'static str, parts: &[&str]) {
    let ready = tokio::task::spawn_blocking(move || kind.ready(&folder(name))).await.unwrap();
    let Some(command) = ready.unwrap() else { return };
    drive(&command, parts).await;
}

#[tokio::test]
async fn client_go_drives_the_server() {
    let parts = [
        "definition in protobuf",
        "discovery",
        "create, get and list with selectors",
        "watch",
        "patches of each kind",
        "apply",
        "status",
        "scale",
        "delete",
    ];
    go("client-go", &parts).await;
}

#[tokio::test]
async fn a_manager_of_controller_runtime_drives_the_server() {
    let parts = [
        "definitions of tests",
        "a controller reconciles",
        "a controller repairs what it owns",
        "apply and lists",
        "finalizers and garbage collection",
    ];
    go("controller-runtime", &parts).await;
}

#[tokio::test]
async fn helm_lives_through_a_release() {
    go("helm", &["install", "upgrade", "rollback", "list", "uninstall"]).await;
}

#[tokio::test]
async fn the_python_client_drives_the_server() {
    let parts = ["definition", "discovery", "lists", "watches", "patches", "apply", "status", "delete"];
    script(Script::Python, "python", &parts).await;
}

#[tokio::test]
async fn the_javascript_client_drives_the_server() {
    let parts =
        ["definition", "discovery", "lists", "watches", "informer", "patches", "apply", "status", "deletes"];
    script(Script::Node, "node", &parts).await;
}
