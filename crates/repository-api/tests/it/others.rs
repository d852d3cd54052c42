//! `refs`, `history`, `filetree`, `reftree`, `settings`, `stats`, `render`, and jobs that have not ended.

use http::Request;
use secrecy::SecretString;
use serde_json::{Value, json};
use windlass_api::JobSpec;
use windlass_auth::Caller;
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};
use windlass_github_stand_in::{Fault, Protection, StandIn};

use crate::desk::{Desk, paths, refused};
use crate::kit::World;

/// A namespace's own sub-resource.
async fn of_namespace(desk: &Desk, name: &str) -> Value {
    read(desk, &format!("/v0alpha1/namespaces/default/{name}")).await
}

/// Something of the group.
async fn read(desk: &Desk, path: &str) -> Value {
    let uri = format!("/apis/provisioning.grafana.app{path}");
    let mut request = Request::get(uri).body(axum::body::Body::empty()).unwrap();
    request.extensions_mut().insert(Caller::system("ann"));
    let response = tower::ServiceExt::oneshot(desk.world.router.clone(), request).await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn branches_are_listed_with_their_commits() {
    let desk = Desk::new().await;
    desk.git.git(&["branch", "feature/x"]);
    desk.git.git(&["tag", "v1"]);
    let list = desk.ok(200, "GET", "refs", "").await.body;
    let main = desk.git.git(&["rev-parse", "main"]);
    assert_eq!(list["kind"], "RefList");
    assert_eq!(list["items"], json!([{"name": "feature/x", "hash": main}, {"name": "main", "hash": main}]));
}

#[tokio::test]
async fn branches_of_github_say_whether_they_are_protected() {
    let folder = tempfile::tempdir().unwrap();
    windlass_git::init_process().unwrap();
    let files = folder.path().join("grafana/dash");
    seed::commit(&files, "main", [Edit::put("a.json", "{}")], "first").unwrap();
    seed::commit(&files, "other", [Edit::put("a.json", "{}")], "first").unwrap();
    let github = StandIn::start_beside(HttpBackend::new(folder.path()).router()).await.unwrap();
    github.allow_token(&SecretString::from("a-t0ken"));
    let upstream = github.repository("grafana/dash");
    upstream.push("first", "2026-03-04T09:15:00Z".parse().unwrap(), &[("a", Some(b"a"))]);
    upstream.protect(Some(Protection::default()));
    let world = World::with_origins(&[github.api().to_owned()]);
    let enterprise = json!({"serverUrl": github.api(), "url": github.url_of(&upstream), "branch": "main"});
    let document = json!({
        "spec": {"type": "githubEnterprise", "workflows": ["write"], "githubEnterprise": enterprise},
        "secure": {"token": {"create": "a-t0ken"}},
    });
    world.create_repository("r", document).await;
    let said = async || {
        let (code, list) = world.send("GET", "r/refs", "").await;
        assert_eq!(code, 200, "{list}");
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| (item["name"].as_str().unwrap().to_owned(), item["protected"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(said().await, [("main".to_owned(), json!(true)), ("other".to_owned(), json!(false))]);
    github.fail("/branches", 10, Fault::Status(403));
    assert_eq!(said().await, [("main".to_owned(), Value::Null), ("other".to_owned(), Value::Null)]);
}

#[tokio::test]
async fn history_is_walked_page_by_page() {
    let desk = Desk::new().await;
    for number in 1..7 {
        desk.git.put(&[("grafana/a.json", "a", &format!("A{number}"))]);
    }
    let log = desk.git.git(&["log", "--format=%H", "main"]);
    let expected: Vec<&str> = log.lines().collect();
    let (mut seen, mut sizes, mut next) = (Vec::new(), Vec::new(), String::new());
    loop {
        let page = desk.ok(200, "GET", &format!("history?limit=3&continue={next}"), "").await.body;
        let items = page["items"].as_array().unwrap();
        sizes.push(items.len());
        seen.extend(items.iter().map(|item| item["ref"].as_str().unwrap().to_owned()));
        // What is pushed between two pages does not move them.
        desk.git.put(&[("grafana/z.json", "z", &format!("{}", seen.len()))]);
        match page["metadata"]["continue"].as_str() {
            Some(more) => next = more.to_owned(),
            None => break,
        }
    }
    assert_eq!((sizes, seen.iter().map(String::as_str).collect::<Vec<_>>()), (vec![3, 3, 1], expected));
    let item = desk.ok(200, "GET", "history?limit=1", "").await.body["items"][0].clone();
    assert_eq!((&item["message"], &item["authors"][0]["name"]), (&json!("change"), &json!("Windlass")));
    assert!(item["createdAt"].as_i64().unwrap() > 1_600_000_000_000);
    for query in ["limit=x", "continue=x", "continue=zz.3", "ref=a..b"] {
        refused(&desk.send("GET", &format!("history?{query}"), "").await, 400);
    }
    refused(&desk.send("GET", "history?ref=nope", "").await, 404);
}

#[tokio::test]
async fn the_history_of_a_file_has_the_commits_that_changed_it() {
    let desk = Desk::new().await;
    for number in 0..4 {
        desk.git.put(&[("grafana/a.json", "a", &format!("A{number}"))]);
        desk.git.put(&[("grafana/team/b.json", "b", &format!("B{number}"))]);
    }
    for (asked, path) in
        [("a.json", "grafana/a.json"), ("team/b.json", "grafana/team/b.json"), ("team/", "grafana/team")]
    {
        let log = desk.git.git(&["log", "--format=%H", "main", "--", path]);
        let expected: Vec<&str> = log.lines().collect();
        assert_eq!(expected.len(), 5);
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let page =
                desk.ok(200, "GET", &format!("history/{asked}?limit=2&continue={next}"), "").await.body;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            seen.extend(items.iter().map(|item| item["ref"].as_str().unwrap().to_owned()));
            match page["metadata"]["continue"].as_str() {
                Some(more) => next = more.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen, expected, "{asked}");
    }
    assert_eq!(desk.ok(200, "GET", "history/nope.json", "").await.body["items"], json!([]));
    refused(&desk.send("GET", "history/%2e%2e/a.json", "").await, 400);
}

#[tokio::test]
async fn a_repository_that_is_not_stored_is_looked_into() {
    let desk = Desk::new().await;
    desk.git.git(&["branch", "other"]);
    let proposal = json!({"spec": {
        "title": "New", "type": "git", "workflows": [],
        "sync": {"enabled": false, "target": "folder", "intervalSeconds": 60},
        "git": {"url": desk.git.url(), "branch": "main"},
    }});
    let (code, tree) = desk.world.send("POST", "new/filetree", proposal.to_string()).await;
    assert_eq!(
        (code, paths(&tree)),
        (200, vec!["grafana/", "grafana/a.json", "grafana/team/", "grafana/team/b.json"]),
        "{tree}"
    );
    let (code, refs) = desk.world.send("POST", "new/reftree", proposal.to_string()).await;
    assert_eq!((code, refs["items"].as_array().unwrap().len()), (200, 2), "{refs}");
    assert_eq!(paths(&desk.ok(200, "POST", "filetree", "").await.body), ["a.json", "team/", "team/b.json"]);
    let (code, _) =
        desk.world.send("POST", "new/filetree", json!({"spec": {"type": "git"}}).to_string()).await;
    assert_eq!(code, 422);
    let (code, _) = desk.world.send("POST", "nope/filetree", "").await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn settings_say_what_is_offered_and_which_repositories_there_are() {
    let desk = Desk::new().await;
    let settings = of_namespace(&desk, "settings").await;
    assert_eq!(settings["kind"], "RepositoryViewList");
    assert_eq!(
        settings["items"],
        json!([{
            "name": "r", "title": "r", "type": "git", "target": "folder", "branch": "main",
            "url": desk.git.url(), "path": "grafana/", "workflows": ["write", "branch"],
        }])
    );
    assert_eq!(settings["allowedTargets"], json!(["instance", "folder", "folderless"]));
    let kinds: Vec<&str> = settings["availableResources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["Folder", "Dashboard"]);
}

#[tokio::test]
async fn stats_count_objects_by_who_manages_them() {
    let desk = Desk::new().await;
    desk.world.create_dashboard("by-hand").await;
    for name in ["c", "d"] {
        desk.ok(200, "POST", &format!("files/x/{name}.json"), crate::desk::json_of(name, "T")).await;
    }
    let stats = of_namespace(&desk, "stats").await;
    let count = |group: &str, resource: &str, count: i64| json!({"group": group, "resource": resource, "count": count});
    let (dashboards, folders) = ("dashboard.grafana.app", "folder.grafana.app");
    assert_eq!(stats["instance"], json!([count(dashboards, "dashboards", 3), count(folders, "folders", 2)]));
    assert_eq!(stats["unmanaged"], json!([count(dashboards, "dashboards", 1)]));
    let managed = json!([{"kind": "repo", "id": "r", "stats": [count(dashboards, "dashboards", 2), count(folders, "folders", 2)]}]);
    assert_eq!(stats["managed"], managed);
}

#[tokio::test]
async fn there_is_no_renderer() {
    let desk = Desk::new().await;
    assert!(refused(&desk.send("GET", "render/abc", "").await, 501).contains("no renderer"));
}

#[tokio::test]
async fn a_job_is_found_while_it_is_queued() {
    let desk = Desk::new().await;
    let job = desk.world.queue(JobSpec::pull("r", true)).await;
    let uid = job.metadata.uid.unwrap();
    let found = desk.ok(200, "GET", &format!("jobs/{uid}"), "").await.body;
    assert_eq!(
        (&found["metadata"]["name"], &found["status"]["state"]),
        (&json!("r-sync"), &json!("pending"))
    );
    let list = desk.ok(200, "GET", "jobs", "").await.body;
    assert_eq!(list["items"][0]["metadata"]["uid"], uid);
}

#[tokio::test]
async fn the_next_version_is_served_with_the_same_types() {
    let desk = Desk::new().await;
    let group = read(&desk, "").await;
    let versions: Vec<&str> =
        group["versions"].as_array().unwrap().iter().map(|it| it["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["v1beta1", "v0alpha1"]);
    let served = read(&desk, "/v1beta1").await;
    let served: Vec<&str> =
        served["resources"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(
        served.contains(&"repositories") && served.contains(&"jobs") && served.contains(&"historicjobs"),
        "{served:?}"
    );
    let (old, new) = (
        read(&desk, "/v0alpha1/namespaces/default/repositories/r").await,
        read(&desk, "/v1beta1/namespaces/default/repositories/r").await,
    );
    assert_eq!(new["apiVersion"], "provisioning.grafana.app/v1beta1");
    assert_eq!(
        (&old["spec"], &old["status"], &old["secure"]),
        (&new["spec"], &new["status"], &new["secure"])
    );
    let files = read(&desk, "/v1beta1/namespaces/default/repositories/r/files/").await;
    assert_eq!((&files["apiVersion"], paths(&files).len()), (&json!("provisioning.grafana.app/v1beta1"), 2));
}
