//! `POST`, `PUT` and `DELETE …/files`.

use serde_json::json;
use windlass_auth::{Audiences, Caller};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::Edit;

use crate::desk::{Desk, ask, healthy, json_of, open, refused, yaml};
use crate::kit::{GitServer, World};

#[tokio::test]
async fn a_yaml_file_that_is_sent_json_stays_yaml_with_its_comments() {
    let desk = Desk::new().await;
    desk.ok(200, "POST", "files/c.yaml", yaml("c", "C")).await;
    let json = [("content-type", "application/json; charset=utf-8")];
    let send = async |method: &str, path: &str, body: String| {
        let answer =
            ask(&desk.world, Caller::system("ann"), (method, &format!("r/files/{path}")), &json, body).await;
        assert_eq!(answer.code, 200, "{}", answer.body);
        answer.body
    };
    // As an API server has it.
    let object = json!({
        "apiVersion": "dashboard.grafana.app/v1beta1", "kind": "Dashboard",
        "metadata": {"name": "c", "namespace": "default", "resourceVersion": "9", "generation": 2},
        "spec": {"title": "Changed", "tags": ["x"]}, "status": {},
    });
    let body = send("PUT", "c.yaml", object.to_string()).await;
    let expected = yaml("c", "Changed") + "  tags:\n  - x";
    assert_eq!(desk.file("main", "c.yaml").unwrap(), expected);
    assert_eq!(body["hash"], desk.git.git(&["rev-parse", "main:grafana/c.yaml"]));
    assert_eq!(desk.world.dashboards().await["c.yaml"], "Changed");
    // The same again is no commit.
    let commits = desk.commits("main");
    send("PUT", "c.yaml", object.to_string()).await;
    assert_eq!(desk.commits("main"), commits);
    send("POST", "d.yml", json_of("d", "D")).await;
    let new =
        "apiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata:\n  name: d\nspec:\n  title: D";
    assert_eq!(desk.file("main", "d.yml").unwrap(), new);
}

#[tokio::test]
async fn a_file_is_the_first_commit_of_a_repository_without_any() {
    let git = GitServer::with(HttpBackend::writable).await;
    git.make_empty();
    let world = World::with_git(&git);
    open(&world, &git, json!({})).await;
    // As the operator says of it.
    let ready = json!({"type": "Ready", "status": "False", "reason": "RepositoryEmpty", "message": "it is empty",
        "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let health = json!({"healthy": false, "checked": 1, "error": "health", "message": ["it is empty"]});
    world.patch_status("r", json!({"status": {"health": health, "conditions": [ready]}})).await;
    let desk = Desk { world, git };
    let refused = refused(&desk.send("GET", "files/", "").await, 400);
    assert!(refused.contains("is empty"), "{refused}");
    desk.ok(200, "POST", "files/first.json", json_of("first", "First")).await;
    assert_eq!((desk.commits("main"), desk.git.files("main")), (1, vec!["grafana/first.json".to_owned()]));
    assert_eq!(desk.world.dashboards().await.into_keys().collect::<Vec<_>>(), ["first.json"]);
    desk.ok(200, "POST", "files/second.json", json_of("second", "Second")).await;
    assert_eq!(desk.commits("main"), 2);
}

#[tokio::test]
async fn a_new_file_is_a_commit_of_its_author_and_an_object_at_once() {
    let desk = Desk::new().await;
    let body = desk
        .ok(200, "POST", "files/new/deep/c.yaml?message=Add%20it%0A%0Abecause", yaml("c", "C"))
        .await
        .body;
    assert_eq!(desk.file("main", "new/deep/c.yaml").unwrap(), yaml("c", "C").trim_end(), "byte for byte");
    assert_eq!(
        desk.git.git(&["log", "-1", "--format=%an <%ae>|%B", "main"]),
        "ann <noreply@windlass.dev>|Add it\n\nbecause"
    );
    assert_eq!(desk.commits("main"), 2);
    let resource = &body["resource"];
    assert_eq!((&resource["action"], &resource["upsert"]["spec"]["title"]), (&json!("create"), &json!("C")));
    assert!(resource["upsert"]["metadata"]["resourceVersion"].is_string());
    assert_eq!(resource["dryRun"]["spec"]["title"], "C");
    assert_eq!(body["hash"], desk.git.git(&["rev-parse", "main:grafana/new/deep/c.yaml"]));
    assert_eq!(desk.world.dashboards().await["new/deep/c.yaml"], "C");
    assert_eq!(desk.world.folders().await, ["", "new", "new/deep"]);
}

#[tokio::test]
async fn a_file_is_changed_moved_and_deleted_and_its_object_follows() {
    let desk = Desk::new().await;
    desk.ok(200, "PUT", "files/a.json", json_of("a", "A2")).await;
    let uid = desk.world.uid_of_dashboard("a").await;
    let body = desk.ok(200, "PUT", "files/a.json", json_of("a", "A3")).await.body;
    assert_eq!(
        (&body["resource"]["action"], &body["resource"]["existing"]["spec"]["title"]),
        (&json!("update"), &json!("A2"))
    );
    assert_eq!(body["resource"]["upsert"]["spec"]["title"], "A3");

    let body = desk.ok(200, "POST", "files/team/moved.json?originalPath=a.json", "").await.body;
    assert_eq!(body["resource"]["action"], "move");
    assert_eq!(
        (desk.file("main", "a.json"), desk.file("main", "team/moved.json")),
        (None, Some(json_of("a", "A3")))
    );
    assert_eq!(desk.world.dashboards().await["team/moved.json"], "A3");
    assert_eq!(desk.world.uid_of_dashboard("a").await, uid, "the object is the same");

    desk.ok(200, "POST", "files/again.json?originalPath=team/moved.json", json_of("a", "A4")).await;
    assert_eq!(
        (desk.world.dashboards().await["again.json"].as_str(), desk.world.uid_of_dashboard("a").await),
        ("A4", uid)
    );

    let body = desk.ok(200, "DELETE", "files/again.json", "").await.body;
    assert_eq!(
        (&body["resource"]["action"], &body["resource"]["existing"]["spec"]["title"]),
        (&json!("delete"), &json!("A4"))
    );
    assert_eq!(desk.file("main", "again.json"), None);
    assert!(!desk.world.dashboards().await.contains_key("again.json"));
    let subjects = desk.git.git(&["log", "--format=%s", "main"]);
    let expected = "Delete again.json\nMove team/moved.json to again.json\nMove a.json to team/moved.json\nUpdate a.json\nUpdate a.json\nchange";
    assert_eq!(subjects, expected);
}

#[tokio::test]
async fn a_write_costs_three_git_requests() {
    let desk = Desk::new().await;
    desk.ok(200, "PUT", "files/a.json", json_of("a", "A2")).await;
    let before = desk.git.requests();
    desk.ok(200, "PUT", "files/a.json", json_of("a", "A3")).await;
    assert_eq!(desk.git.requests() - before, 3, "where the branch is, and a push");
}

#[tokio::test]
async fn what_changes_nothing_is_no_commit() {
    let desk = Desk::new().await;
    desk.ok(200, "PUT", "files/a.json", json_of("a", "A")).await;
    assert_eq!(desk.commits("main"), 1);
}

#[tokio::test]
async fn what_is_there_is_not_overwritten_unknowingly() {
    let desk = Desk::new().await;
    assert!(
        refused(&desk.send("POST", "files/a.json", json_of("a", "X")).await, 409).contains("there already")
    );
    assert!(refused(&desk.send("PUT", "files/x.json", json_of("x", "X")).await, 404).contains("POST"));
    assert!(refused(&desk.send("DELETE", "files/x.json", "").await, 404).contains("x.json"));
    refused(&desk.send("POST", "files/a.json?originalPath=team/b.json", "").await, 409);
    refused(&desk.send("POST", "files/y.json?originalPath=x.json", "").await, 404);
    let hash = desk.git.git(&["rev-parse", "main:grafana/a.json"]);
    let put = |hash: String, title: &'static str| {
        let world = &desk.world;
        async move {
            let headers = [("if-match", hash.as_str())];
            ask(world, Caller::system("bob"), ("PUT", "r/files/a.json"), &headers, json_of("a", title)).await
        }
    };
    assert_eq!(put(format!("\"{hash}\""), "mine").await.code, 200);
    let message = refused(&put(format!("\"{hash}\""), "too late").await, 412);
    assert!(message.contains(&hash), "{message}");
    assert_eq!(desk.file("main", "a.json").unwrap(), json_of("a", "mine"));
    refused(&put("nonsense".to_owned(), "x").await, 400);
}

#[tokio::test]
async fn another_branch_is_made_for_a_change_and_touches_no_object() {
    let desk = Desk::new().await;
    let main = desk.git.git(&["rev-parse", "main"]);
    let body = desk.ok(200, "PUT", "files/a.json?ref=feature/x", json_of("a", "X")).await.body;
    assert_eq!((&body["ref"], &body["resource"]["upsert"]), (&json!("feature/x"), &json!(null)));
    assert_eq!(desk.git.git(&["rev-parse", "feature/x^"]), main);
    desk.ok(200, "POST", "files/c.json?ref=feature/x", json_of("c", "C")).await;
    desk.ok(200, "DELETE", "files/team/?ref=feature/x", "").await;
    assert_eq!(
        (desk.file("feature/x", "c.json"), desk.file("feature/x", "team/b.json")),
        (Some(json_of("c", "C")), None)
    );
    assert_eq!((desk.git.git(&["rev-parse", "main"]), desk.world.dashboards().await.len()), (main, 0));
    desk.ok(200, "POST", "files/moved/?originalPath=team/&ref=other", "").await;
    assert_eq!(desk.file("other", "moved/b.json").unwrap(), json_of("b", "B"));
}

#[tokio::test]
async fn workflows_say_which_branches_are_written_to() {
    for (workflows, own, other) in
        [(json!([]), 403, 403), (json!(["write"]), 200, 403), (json!(["branch"]), 403, 200)]
    {
        let desk = Desk::with(json!({"spec": {"workflows": workflows}})).await;
        assert_eq!(
            desk.send("PUT", "files/a.json?ref=x", json_of("a", "2")).await.code,
            other,
            "{workflows}"
        );
        assert_eq!(
            desk.send("PUT", "files/a.json?ref=main", json_of("a", "2")).await.code,
            own,
            "{workflows}"
        );
        assert_eq!(desk.send("DELETE", "files/a.json", "").await.code, own, "{workflows}");
    }
}

#[tokio::test]
async fn folders_are_made_and_changed_as_a_whole_by_jobs() {
    let desk = Desk::new().await;
    let body = desk.ok(200, "POST", "files/empty/", "").await.body;
    assert_eq!(
        (&body["resource"]["type"]["kind"], &body["resource"]["action"]),
        (&json!("Folder"), &json!("create"))
    );
    assert_eq!(desk.file("main", "empty/.keep").unwrap(), "");
    assert_eq!(desk.world.folders().await, ["", "empty"]);
    refused(&desk.send("POST", "files/empty/", "").await, 409);
    refused(&desk.send("POST", "files/x/", "content").await, 400);
    assert!(refused(&desk.send("DELETE", "files/team/", "").await, 405).contains("\"delete\""));
    assert!(refused(&desk.send("POST", "files/x/?originalPath=team/", "").await, 405).contains("\"move\""));
    refused(&desk.send("PUT", "files/team/", "x").await, 405);
    assert!(desk.file("main", "team/b.json").is_some());
}

#[tokio::test]
async fn the_name_of_a_folder_is_followed_by_a_pull() {
    let desk = Desk::new().await;
    let folder = json!({"apiVersion": "folder.grafana.app/v1beta1", "kind": "Folder", "metadata": {"name": "team-x"}, "spec": {"title": "X"}});
    desk.ok(200, "POST", "files/team/_folder.json", folder.to_string()).await;
    let jobs = desk.world.jobs().await;
    assert_eq!((jobs.len(), jobs[0].spec.pull.as_ref().unwrap().incremental), (1, false));
    refused(&desk.send("PUT", "files/team/_folder.json", "{}").await, 400);
    desk.ok(200, "GET", "files/team/_folder.json", "").await;
}

#[tokio::test]
async fn what_the_api_would_refuse_is_not_written() {
    let desk = Desk::new().await;
    desk.world.create_dashboard("taken").await;
    let commits = desk.commits("main");
    let message = refused(&desk.send("POST", "files/c.json", json_of("taken", "T")).await, 400);
    assert!(message.contains("not managed by a repository"), "{message}");
    let twice = refused(&desk.send("POST", "files/c.json", json_of("Not A Name!", "T")).await, 422);
    assert!(twice.contains("Not A Name!"), "{twice}");
    desk.ok(200, "PUT", "files/a.json", json_of("a", "A2")).await;
    let message = refused(&desk.send("POST", "files/c.json", json_of("a", "T")).await, 400);
    assert!(message.contains("duplicate resource name"), "{message}");
    let other = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}"#;
    assert!(refused(&desk.send("POST", "files/c.json", other).await, 400).contains("Pod"));
    assert_eq!((desk.commits("main"), desk.file("main", "c.json")), (commits + 1, None));
    // Without the dry run it is written, and what went wrong is told.
    let body = desk.ok(206, "POST", "files/c.json?skipDryRun=true", json_of("taken", "T")).await.body;
    assert!(body["errors"][0].as_str().unwrap().contains("not managed by a repository"), "{body}");
    assert!(desk.file("main", "c.json").is_some());
}

#[tokio::test]
async fn what_a_caller_may_not_do_to_an_object_they_may_not_do_to_its_file() {
    let desk = Desk::new().await;
    let audience = |names: &[&str]| Caller {
        audiences: Audiences::Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..Caller::system("bob")
    };
    let few = audience(&["provisioning.grafana.app"]);
    for (method, path, body) in [
        ("POST", "r/files/c.json", json_of("c", "C")),
        ("PUT", "r/files/a.json", json_of("a", "A2")),
        ("DELETE", "r/files/a.json", String::new()),
        ("POST", "r/files/z.json?originalPath=a.json", String::new()),
        ("GET", "r/files/a.json", String::new()),
        ("GET", "r/files/a.json?raw=true", String::new()),
        ("POST", "r/files/folder/", String::new()),
    ] {
        let message = refused(&ask(&desk.world, few.clone(), (method, path), &[], body).await, 403);
        assert!(
            message.contains("dashboard.grafana.app") || message.contains("folder.grafana.app"),
            "{message}"
        );
    }
    assert_eq!(desk.commits("main"), 1);
    let enough = audience(&["provisioning.grafana.app", "dashboard.grafana.app"]);
    let put = ask(&desk.world, enough, ("PUT", "r/files/a.json"), &[], json_of("a", "A2")).await;
    assert_eq!(put.code, 200, "{}", put.body);
    let list = ask(&desk.world, few, ("GET", "r/files/"), &[], "").await;
    assert_eq!(list.code, 200, "a list has no objects: {}", list.body);
}

#[tokio::test]
async fn messages_are_made_by_the_repositorys_template() {
    let commit = json!({"singleResourceMessageTemplate": "{{action}}: {{title}} by {{userName}}", "enforceTemplate": true});
    let desk = Desk::with(json!({"spec": {"commit": commit}})).await;
    desk.ok(200, "PUT", "files/a.json", json_of("a", "Title")).await;
    assert_eq!(desk.git.git(&["log", "-1", "--format=%B", "main"]), "update: Title by ann");
    let message = refused(&desk.send("PUT", "files/a.json?message=mine", json_of("a", "T2")).await, 400);
    assert!(message.contains("enforceTemplate"), "{message}");
}

#[tokio::test]
async fn what_is_ignored_is_written_and_said_to_be() {
    let desk = Desk::new().await;
    desk.git.commit([Edit::put("grafana/.windlassignore", "drafts/\n")]);
    let body = desk.ok(206, "POST", "files/drafts/c.json", json_of("c", "C")).await.body;
    assert!(body["errors"][0].as_str().unwrap().contains(".windlassignore"), "{body}");
    assert!(desk.world.dashboards().await.is_empty());
}

#[tokio::test]
async fn a_folder_of_this_machine_is_written_in_place() {
    let world = World::new();
    let files = world.create_local("r").await;
    healthy(&world, "r").await;
    let send = |method: &'static str, path: &'static str, body: String| {
        let world = &world;
        async move { ask(world, Caller::system("ann"), (method, path), &[], body).await }
    };
    refused(&send("POST", "r/files/a.json", json_of("a", "A")).await, 403);
    world.patch_repository("r", json!({"spec": {"workflows": ["write"]}})).await;
    let answer = send("POST", "r/files/x/a.json", json_of("a", "A")).await;
    assert_eq!(
        (answer.code, &answer.body["resource"]["upsert"]["spec"]["title"]),
        (200, &json!("A")),
        "{}",
        answer.body
    );
    assert_eq!(std::fs::read_to_string(files.join("x/a.json")).unwrap(), json_of("a", "A"));
    assert_eq!(send("PUT", "r/files/x/a.json", json_of("a", "A2")).await.code, 200);
    assert_eq!(send("POST", "r/files/b.json?originalPath=x/a.json", String::new()).await.code, 200);
    assert_eq!(world.dashboards().await["b.json"], "A2");
    assert!(refused(&send("PUT", "r/files/b.json?ref=x", json_of("a", "A")).await, 400).contains("ref"));
    refused(&send("GET", "r/files/?ref=x", String::new()).await, 400);
    assert_eq!(send("DELETE", "r/files/b.json", String::new()).await.code, 200);
    assert!(!files.join("b.json").exists() && world.dashboards().await.is_empty());
    refused(&send("GET", "r/refs", String::new()).await, 501);
    refused(&send("GET", "r/history", String::new()).await, 501);
}
