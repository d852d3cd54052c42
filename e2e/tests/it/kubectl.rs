//! kubectl against the embedded server.

use serde_json::{Value, json};
use windlass_e2e::{Operator, Peers, Remote, Server, dashboard, eventually};

const REPOSITORY: &str = r"
apiVersion: provisioning.grafana.app/v0alpha1
kind: Repository
metadata:
  name: team
  labels: {team: search}
spec:
  title: Team
  type: git
  workflows: []
  sync: {enabled: false, target: folder}
  git: {url: 'https://git.invalid/team.git', branch: main}
";

#[tokio::test]
async fn kubectl_creates_reads_changes_and_deletes() {
    if !Peers::present(&["kubectl"]).unwrap() {
        return;
    }
    let server = Server::start(&[]).await.unwrap();
    let resources = server.kubectl(&["api-resources"]).await.unwrap();
    for expected in ["repositories", "repo ", "pjob", "hjob", "folders", "dashboards", "secrets", "leases"] {
        assert!(resources.contains(expected), "{expected:?} is missing in:\n{resources}");
    }
    server.kubectl_with(&["apply", "-f", "-"], REPOSITORY).await.unwrap();
    let again = server.kubectl_with(&["apply", "-f", "-"], REPOSITORY).await.unwrap();
    assert!(again.contains("unchanged"), "{again}");
    let changed = REPOSITORY.replace("title: Team", "title: Team two");
    server.kubectl_with(&["apply", "-f", "-"], &changed).await.unwrap();
    let read = server.get(&["repository", "team"]).await.unwrap();
    assert_eq!(read["spec"]["title"], "Team two");
    assert_eq!(read["metadata"]["generation"], 2);

    server
        .kubectl(&["patch", "repo", "team", "--type=merge", "-p", r#"{"spec":{"description":"merged"}}"#])
        .await
        .unwrap();
    server
        .kubectl(&[
            "patch", "repo", "team", "--type=json", "-p",
            r#"[{"op":"test","path":"/spec/description","value":"merged"},{"op":"replace","path":"/spec/title","value":"T3"}]"#,
        ])
        .await
        .unwrap();
    let read = server.get(&["repository", "team"]).await.unwrap();
    assert_eq!((&read["spec"]["title"], &read["spec"]["description"]), (&json!("T3"), &json!("merged")));

    let table = server.kubectl(&["get", "repositories", "-o", "wide"]).await.unwrap();
    for column in ["NAME", "TYPE", "URL", "BRANCH", "HEALTHY", "SYNC", "LAST REF", "AGE"] {
        assert!(table.contains(column), "{column} is missing in:\n{table}");
    }
    assert!(table.contains("https://git.invalid/team.git"), "{table}");
    let typo = REPOSITORY.replace("title: Team", "titel: Team");
    let refused = server.kubectl_with(&["create", "-f", "-"], &typo).await.unwrap_err().to_string();
    assert!(refused.contains("titel"), "{refused}");

    server.kubectl(&["delete", "repo", "team", "--wait=false"]).await.unwrap();
    // Nobody runs the finalizers here: taking them off lets the object go.
    server
        .kubectl(&["patch", "repo", "team", "--type=merge", "-p", r#"{"metadata":{"finalizers":[]}}"#])
        .await
        .unwrap();
    let gone = server.get(&["repository", "team"]).await.unwrap_err().to_string();
    assert!(gone.contains("not found"), "{gone}");
}

#[tokio::test]
async fn kubectl_tells_who_one_is_and_what_one_may_do() {
    if !Peers::present(&["kubectl"]).unwrap() {
        return;
    }
    let server = Server::start(&[]).await.unwrap();
    let who = server.kubectl(&["auth", "whoami"]).await.unwrap();
    assert!(who.contains("windlass-admin") && who.contains("system:masters"), "{who}");
    for question in [&["create", "jobs"][..], &["*", "*"], &["get", "/version"], &["get", "secrets/a"]] {
        let answer = server.kubectl(&[&["auth", "can-i"], question].concat()).await.unwrap();
        assert_eq!(answer.trim(), "yes", "{question:?}");
    }
    let rules = server.kubectl(&["auth", "can-i", "--list"]).await.unwrap();
    assert!(rules.contains("*.*") && rules.contains("selfsubjectreviews"), "{rules}");
}

#[tokio::test]
async fn kubectl_selects_pages_and_watches() {
    if !Peers::present(&["kubectl"]).unwrap() {
        return;
    }
    let server = Server::start(&[]).await.unwrap();
    let maps: Vec<Value> = (0..25)
        .map(|number| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("map-{number:02}"), "labels": {"part": (number % 5).to_string()}},
                "data": {"number": number.to_string()}})
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": maps});
    server.kubectl_with(&["create", "-f", "-"], &list.to_string()).await.unwrap();
    let count = |text: &str| text.lines().filter(|line| line.starts_with("map-")).count();
    let all = server.kubectl(&["get", "configmaps", "--chunk-size=4"]).await.unwrap();
    assert_eq!(count(&all), 25, "{all}");
    for (selector, expected) in [("part=3", 5), ("part!=3", 20), ("part in (1,2)", 10), ("!part", 0)] {
        let some = server.kubectl(&["get", "configmaps", "-l", selector]).await.unwrap();
        assert_eq!(count(&some), expected, "{selector}: {some}");
    }
    let one = server.kubectl(&["get", "configmaps", "--field-selector=metadata.name=map-07"]).await.unwrap();
    assert_eq!(count(&one), 1, "{one}");
    let refused = server
        .kubectl(&["get", "configmaps", "--field-selector=data.number=7"])
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("data.number"), "{refused}");

    let log = server.folder.path().join("watch.log");
    let config = server.kubeconfig().display().to_string();
    let kubectl = std::path::PathBuf::from("kubectl");
    let mut watch = windlass_e2e::Process::start(
        &kubectl,
        &["get", "configmap", "map-03", "-w", "-o", "jsonpath={.data.number}{\"\\n\"}"],
        &[("KUBECONFIG", config.as_str())],
        &log,
    )
    .unwrap();
    watch.says("3").await.unwrap();
    server
        .kubectl(&[
            "patch",
            "configmap",
            "map-03",
            "--type=merge",
            "-p",
            r#"{"data":{"number":"three hundred"}}"#,
        ])
        .await
        .unwrap();
    watch.says("three hundred").await.unwrap();
}

#[tokio::test]
async fn the_columns_of_a_pulled_repository_tell_the_story() {
    if !Peers::present(&["git", "curl", "jq", "kubectl"]).unwrap() {
        return;
    }
    let files = vec![("team/a.json".into(), dashboard("a", "A")), ("b.json".into(), dashboard("b", "B"))];
    let remote = Remote::new(files).await.unwrap();
    let server = Server::start(&[remote.origin()]).await.unwrap();
    let _repo = Operator::start(&server, "provisioning-repo", &[]).await.unwrap();
    let _jobs = Operator::start(&server, "provisioning-jobs", &[]).await.unwrap();
    server.create_repository("story", &remote.url()).await.unwrap();
    server.healthy("story").await.unwrap();
    server.pull("story", false).await.unwrap();
    let row = eventually("the repository shows its sync", || async {
        let table = server.kubectl(&["get", "repositories", "story"]).await?;
        Ok(table.contains("success").then_some(table))
    })
    .await
    .unwrap();
    assert!(row.contains("true") || row.contains("True"), "{row}");
    let history = server.kubectl(&["get", "historicjobs"]).await.unwrap();
    for expected in ["ACTION", "STATE", "MESSAGE", "pull", "success", "completed successfully"] {
        assert!(history.contains(expected), "{expected:?} is missing in:\n{history}");
    }
    let folders = server.get(&["folders"]).await.unwrap();
    assert_eq!(folders["items"].as_array().unwrap().len(), 2, "the root folder and team/: {folders:#}");
}
