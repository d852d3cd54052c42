//! A file that cannot grow, and one that is gone: what requests and probes are told, and that it ends with the cause.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Method;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use windlass_apiserver::ApiServer;
use windlass_auth::Caller;
use windlass_store::{StoreOptions, open_file};

use crate::common::*;

const CHILD: &str = "WINDLASS_TEST_FULL_DISK";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Lets no file of this process become longer than this; `None`: than the process was started with.
fn limit_files(length: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: length.or(maximum), maximum }).unwrap();
}

/// Text that takes its full size in the store.
fn incompressible(seed: u64) -> String {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}", state >> 32)
    };
    (0..1 << 17).map(|_| next()).collect()
}

/// Writes objects of 1 MiB until one is refused, and what is said then.
async fn refusal(server: &ApiServer, seed: u64) -> String {
    for index in 0..64 {
        let name = format!("m{seed}-{index}");
        let map = json!({ "metadata": { "name": name }, "data": { "a": incompressible(seed * 64 + index) } });
        let answer = post(server, MAPS, &map).await;
        if answer.status != 201 {
            let message = answer.message().to_owned();
            answer.expect(500);
            return message;
        }
    }
    panic!("64 MiB were written");
}

/// What an administrator is told by `/readyz`, and by then anybody.
async fn not_ready(server: &ApiServer) -> String {
    let anybody = raw(Method::GET, "/readyz").caller(Caller::anonymous()).send(server).await.expect(500);
    assert_eq!(anybody, "[-]store failed: reason withheld\nreadyz check failed\n");
    get(server, "/livez").await.expect(200);
    get(server, "/readyz").await.expect(500).as_str().unwrap().to_owned()
}

async fn run_out_of_space(path: &Path) {
    let server = server_over(open_file(path, &StoreOptions::default()).unwrap());
    let small = |name: &str| json!({ "metadata": { "name": name }, "data": { "a": "b" } });
    post(&server, MAPS, &small("first")).await.expect(201);
    assert_eq!(get(&server, "/readyz").await.expect(200), "ok");
    let now = || std::fs::metadata(path).unwrap().len();

    limit_files(Some(now()));
    let refusal_text = refusal(&server, 1).await;
    assert!(
        refusal_text.contains("failed to commit") && refusal_text.contains("File too large"),
        "{refusal_text}"
    );
    let told = not_ready(&server).await;
    assert!(told.contains("the last commit failed") && told.contains("File too large"), "{told}");
    get(&server, &format!("{MAPS}/first")).await.expect(200);
    get(&server, MAPS).await.expect(200);
    limit_files(None);
    post(&server, MAPS, &small("second")).await.expect(201);
    assert_eq!(get(&server, "/readyz").await.expect(200), "ok");

    // The commit fails, and the file cannot be opened again.
    let away = path.with_extension("away");
    std::fs::rename(path, &away).unwrap();
    limit_files(Some(std::fs::metadata(&away).unwrap().len()));
    refusal(&server, 2).await;
    let told = not_ready(&server).await;
    assert!(told.contains("it is closed"), "{told}");
    get(&server, &format!("{MAPS}/first")).await.expect(503);
    std::fs::rename(&away, path).unwrap();
    limit_files(None);
    get(&server, &format!("{MAPS}/first")).await.expect(200);
    post(&server, MAPS, &small("third")).await.expect(201);
    assert_eq!(get(&server, "/readyz").await.expect(200), "ok");
    server.close().await;
}

/// In a process of its own: the limit is of all its files. What is over it is an error only where the signal is ignored.
#[tokio::test]
async fn a_server_that_cannot_write_says_so_and_is_ready_again_once_it_can() {
    if let Some(path) = env::var_os(CHILD) {
        return run_out_of_space(&PathBuf::from(path)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(env::current_exe().unwrap())
        .args(["--exact", "full_disk::a_server_that_cannot_write_says_so_and_is_ready_again_once_it_can"])
        .arg("--nocapture")
        .env(CHILD, folder.path().join("store"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
