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
