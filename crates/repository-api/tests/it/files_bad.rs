//! Bad input: each mistake has its own answer, and nothing is written.

use crate::desk::{Desk, json_of, refused};

#[tokio::test]
async fn paths_that_lead_out_of_the_repository_are_refused_however_they_are_written() {
    let desk = Desk::new().await;
    let long = format!("{}.json", "a".repeat(1_100));
    for (path, why) in [
        ("../a.json", "\"..\""),
        ("%2e%2e/a.json", "\"..\""),
        ("%2E%2E%2Fa.json", "\"..\""),
        ("team/../../a.json", "\"..\""),
        ("%252e%252e/a.json", "not allowed"),
        ("/etc/passwd.json", "absolute"),
        ("%2Fetc/passwd.json", "absolute"),
        ("a//b.json", "empty"),
        ("a%00.json", "control character"),
        ("a%0Ab.json", "control character"),
        ("a%1b%5b31m.json", "control character"),
        (".git/config.json", ".git"),
        (".GIT/config.json", ".git"),
        ("git~1/config.json", ".git"),
        ("%2Egit/hooks/x.json", ".git"),
        (".git%20/x.json", ".git"),
        ("%EF%BB%BF.git/x.json", ".git"),
        ("a%5C.git%5Cx.json", ".git"),
        (".hidden.json", "hidden"),
        ("1/2/3/4/5/6/7/8/9.json", "deeper"),
        (long.as_str(), "at most 1024"),
        ("%ff.json", "decoded"),
    ] {
        for (method, body) in [("GET", String::new()), ("POST", json_of("x", "X")), ("DELETE", String::new())]
        {
            let message = refused(&desk.send(method, &format!("files/{path}"), body).await, 400);
            assert!(message.contains(why), "{method} {path}: {message}");
            assert!(message.len() < 400 && !message.contains(char::is_control), "{message:?}");
        }
        if !path.contains("%ff") {
            let moving = format!("files/ok.json?originalPath={}", path.replace('&', "%26"));
            refused(&desk.send("POST", &moving, "").await, 400);
        }
    }
    assert_eq!((desk.commits("main"), desk.world.dashboards().await.len()), (1, 0));
}

#[tokio::test]
async fn what_cannot_be_a_request_is_named() {
    let desk = Desk::new().await;
    let huge = vec![b' '; windlass_repository_api::FILE_LIMIT + 1];
    assert!(refused(&desk.send("POST", "files/c.json", huge.clone()).await, 413).contains("5242880"));
    refused(&desk.send("PUT", "files/a.json", huge).await, 413);
    for (method, path, body, why) in [
        ("POST", "files/c.json?message=a%00b", "{}", "control character"),
        ("POST", "files/c.json?message=%1b%5b2J", "{}", "control character"),
        ("POST", "files/c.json?message=%20", "{}", "blank"),
        ("POST", "files/c.json?ref=a..b", "{}", "two dots"),
        ("POST", "files/c.json?ref=-x", "{}", "dash"),
        ("POST", "files/c.json?ref=a%00", "{}", "characters"),
        ("PUT", "files/a.json?ref=0123456789012345678901234567890123456789", "{}", "commit"),
        ("POST", "files/c.json?skipDryRun=maybe", "{}", "true or false"),
        ("POST", "files/c.json", "", "empty"),
        ("POST", "files/c.json", "{", "parse"),
        ("POST", "files/c.json", "[]", "no resource"),
        ("POST", "files/c.yaml", "a: &a [*a]", "c.yaml"),
        ("POST", "files/c.json", "\u{0}", "parse"),
        ("POST", "files/c.md", "text", "only .json"),
        ("POST", "files/c.sh", "text", "only .json"),
        ("POST", "files/a.json/c.json", "{}", "is a file"),
        ("POST", "files/team", "{}", "only .json"),
        ("PUT", "files/c.json?originalPath=a.json", "{}", "POST"),
        ("POST", "files/a.json?originalPath=a.json", "", "itself"),
    ] {
        let message = refused(&desk.send(method, path, body).await, 400);
        assert!(message.contains(why), "{method} {path} {body:?}: {message}");
    }
    let long = format!("files/c.json?message={}", "x".repeat(5_000));
    refused(&desk.send("POST", &long, "{}").await, 400);
    assert_eq!(desk.commits("main"), 1);
    assert_eq!(desk.git.git(&["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
}

#[tokio::test]
async fn a_hook_that_refuses_is_heard() {
    let desk = Desk::new().await;
    desk.git.hook("pre-receive", "echo 'no dashboards on Fridays' >&2\nexit 1");
    let message = refused(&desk.send("PUT", "files/a.json", json_of("a", "A2")).await, 403);
    assert!(message.contains("no dashboards on Fridays"), "{message}");
    assert_eq!((desk.commits("main"), desk.world.dashboards().await.len()), (1, 0));
}

#[tokio::test]
async fn more_files_than_a_job_may_name_are_refused_by_field() {
    let desk = Desk::new().await;
    let resources: Vec<_> = (0..101)
        .map(|number| serde_json::json!({"name": format!("d{number}"), "kind": "Dashboard", "group": "dashboard.grafana.app"}))
        .collect();
    let spec = serde_json::json!({"action": "delete", "delete": {"resources": resources}});
    let message = refused(&desk.send("POST", "jobs", spec.to_string()).await, 422);
    assert!(message.contains("spec.delete.resources") && message.contains("100"), "{message}");
    assert!(desk.world.jobs().await.is_empty());
}
