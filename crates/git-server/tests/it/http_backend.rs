//! The smart HTTP server, with Git's own client.

use tokio::process::Command;
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};

async fn git(folder: &std::path::Path, arguments: &[&str]) -> std::process::Output {
    Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .await
        .unwrap()
}

#[tokio::test]
async fn git_itself_clones_and_fetches_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let bare = folder.path().join("a b.git");
    seed::commit(&bare, "main", [Edit::put("d/a", "1"), Edit::put("b", "2")], "first").unwrap();
    let server = HttpBackend::new(folder.path()).start().await.unwrap();
    let url = format!("{}/a%20b.git", server.origin());
    let cloned = git(folder.path(), &["clone", "-q", &url, "work"]).await;
    assert!(cloned.status.success(), "{cloned:?}");
    let work = folder.path().join("work");
    assert_eq!(std::fs::read_to_string(work.join("d/a")).unwrap(), "1");
    // Enough commits that Git compresses its request.
    for n in 0..60 {
        seed::commit(&bare, "main", [Edit::put("b", format!("{n}"))], "next").unwrap();
        if n % 20 == 0 {
            assert!(git(&work, &["pull", "-q"]).await.status.success());
        }
    }
    let last = seed::commit(&bare, "main", [Edit::delete("d/a")], "last").unwrap();
    assert!(git(&work, &["pull", "-q"]).await.status.success());
    let head = git(&work, &["rev-parse", "HEAD"]).await;
    assert_eq!(String::from_utf8_lossy(&head.stdout).trim(), last);
    assert!(!work.join("d").exists());
    assert!(git(&work, &["fsck", "--strict"]).await.status.success());
    assert_eq!(server.log().lines().len() as u64, server.log().count());
}

#[tokio::test]
async fn what_is_not_under_its_folder_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    seed::commit(&folder.path().join("secret.git"), "main", [Edit::put("a", "1")], "first").unwrap();
    std::fs::create_dir(folder.path().join("public")).unwrap();
    let server = HttpBackend::new(folder.path().join("public")).start().await.unwrap();
    for path in ["%2e%2e/secret.git", "a/..%2f../secret.git", "..%2fsecret.git"] {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("{}/{path}/info/refs?service=git-upload-pack", server.origin());
        let status = client.get(&url).send().await.unwrap().status();
        assert!(!status.is_success(), "{url}: {status}");
    }
}

/// Whether a process of Git serves this folder.
#[cfg(target_os = "linux")]
fn is_served(folder: &std::path::Path) -> bool {
    let folder = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut environments = processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
    let wanted = format!("GIT_PROJECT_ROOT={folder}\0");
    environments.any(|environment| environment.windows(wanted.len()).any(|part| part == wanted.as_bytes()))
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_request_that_breaks_off_leaves_no_process_behind() {
    use tokio::io::AsyncWriteExt as _;

    let folder = tempfile::tempdir().unwrap();
    seed::commit(&folder.path().join("a.git"), "main", [Edit::put("a", "1")], "first").unwrap();
    let server = HttpBackend::new(folder.path()).start().await.unwrap();
    let mut client = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /a.git/git-upload-pack HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\
                Content-Type: application/x-git-upload-pack-request\r\n\r\n0000";
    client.write_all(head.as_bytes()).await.unwrap();
    let until = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    let mut look = tokio::time::interval(std::time::Duration::from_millis(20));
    while !is_served(folder.path()) {
        look.tick().await;
        assert!(tokio::time::Instant::now() < until, "Git was not started");
    }
    drop(client);
    while is_served(folder.path()) {
        look.tick().await;
        assert!(tokio::time::Instant::now() < until, "Git goes on");
    }
}
