//! The adapter against a simulated API server that speaks the wire: what is sent, and what the answers are taken for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use windlass_api::{JobSpec, JobState, JobStatus, TestOptions, annotations, labels};
use windlass_lease_queue::kube::{InsertError, KubeStore, insert, job};
use windlass_lease_queue::{
    Change, Event, Key, NewRecord, Precondition, Queue, QueueConfig, Store, StoreError,
};

const BASE: &str = "/apis/provisioning.grafana.app/v0alpha1";

/// As much of an API server as the queue needs.
#[derive(Clone, Default)]
struct Api(Arc<Mutex<Objects>>);

#[derive(Default)]
struct Objects {
    by_path: BTreeMap<String, Value>,
    version: u64,
    requests: Vec<(String, Value)>,
    /// Answers every request with this instead.
    broken: Option<u16>,
    silent: bool,
}

impl Api {
    fn client(&self) -> Client {
        let router = Router::new().fallback(serve).with_state(self.clone());
        let service = ServiceBuilder::new()
            .map_request(|request: http::Request<kube::client::Body>| request.map(Body::new))
            .service(router);
        Client::new(service, "default")
    }

    fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.iter().map(|(request, _)| request.clone()).collect()
    }

    fn sent(&self, request: usize) -> Value {
        self.0.lock().unwrap().requests[request].1.clone()
    }
}

async fn serve(State(api): State<Api>, method: Method, uri: Uri, body: Bytes) -> Response {
    if api.0.lock().unwrap().silent {
        std::future::pending::<()>().await;
    }
    let mut state = api.0.lock().unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = uri.path().strip_prefix(BASE).unwrap().to_owned();
    state.requests.push((format!("{method} {path}"), body.clone()));
    if let Some(code) = state.broken {
        return failed(code, "Broken", "as the test wants it");
    }
    state.version += 1;
    let version = state.version.to_string();
    let conflicts = |expected: &Value, object: &Value| {
        ["uid", "resourceVersion"].iter().any(|field| {
            let expected = &expected[field];
            !expected.is_null() && *expected != object["metadata"][field]
        })
    };
    match method {
        Method::POST => {
            let name = body["metadata"]["name"].as_str().unwrap().to_owned();
            let path = format!("{path}/{name}");
            if state.by_path.contains_key(&path) {
                return failed(409, "AlreadyExists", "it exists");
            }
            let mut object = body;
            object["metadata"]["uid"] = json!(format!("uid-{version}"));
            object["metadata"]["resourceVersion"] = json!(version);
            object["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
            object["metadata"]["namespace"] = json!(path.split('/').nth(2).unwrap());
            state.by_path.insert(path, object.clone());
            ok(&object)
        }
        Method::GET if path.ends_with("jobs") => {
            // One to a page, so that paging is seen to.
            let claimed = uri.query().is_some_and(|query| query.contains("labelSelector=provisioning"));
            let listed = |object: &Value| !claimed || object["metadata"]["labels"][labels::CLAIM].is_string();
            let all: Vec<_> = state
                .by_path
                .iter()
                .filter(|(at, object)| at.contains(&format!("{path}/")) && listed(object))
                .collect();
            let skip: usize = uri
                .query()
                .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("continue=")))
                .map_or(0, |token| token.parse().unwrap());
            let page: Vec<_> = all.iter().skip(skip).take(1).map(|(_, object)| (*object).clone()).collect();
            let more = if skip + 1 < all.len() { (skip + 1).to_string() } else { String::new() };
            ok(&json!({"kind": "List", "apiVersion": "v1", "metadata": {"continue": more}, "items": page}))
        }
        _ => {
            let Some(mut object) = state.by_path.get(&path).cloned() else {
                return failed(404, "NotFound", "it does not exist");
            };
            match method {
                Method::GET => {}
                Method::PATCH => {
                    if conflicts(&body["metadata"], &object) {
                        return failed(409, "Conflict", "it was modified");
                    }
                    json_patch(&mut object, &body);
                    object["metadata"]["resourceVersion"] = json!(version);
                    state.by_path.insert(path, object.clone());
                }
                Method::DELETE => {
                    if conflicts(&body["preconditions"], &object) {
                        return failed(409, "Conflict", "the precondition failed");
                    }
                    state.by_path.remove(&path);
                }
                other => panic!("{other}"),
            }
            ok(&object)
        }
    }
}

fn json_patch(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    for (field, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(field);
        } else {
            json_patch(&mut target[field], value);
        }
    }
}

fn ok(object: &Value) -> Response {
    (StatusCode::OK, object.to_string()).into_response()
}

fn failed(code: u16, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    (StatusCode::from_u16(code).unwrap(), status.to_string()).into_response()
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_from_insert_to_history_with_four_writes() {
    let api = Api::default();
    let client = api.client();
    let note = BTreeMap::from([("provisioning.grafana.app/author".to_owned(), "ada".to_owned())]);
    let inserted = insert(&client, "default", "repo", JobSpec::pull("", false), note).await.unwrap();
    assert_eq!(inserted.metadata.name.as_deref(), Some("repo-sync"));
    assert_eq!(inserted.status.state, JobState::Pending);

    let queue =
        Queue::new(Arc::new(KubeStore::new(client)), Arc::new(jiff::Timestamp::now), QueueConfig::new("one"))
            .unwrap();
    queue.observe(Event::applied(&inserted));
    let claimed = queue.next(0, &CancellationToken::new()).await.unwrap();
    let read = job(claimed.record()).unwrap();
    assert_eq!(read.spec, inserted.spec);
    assert_eq!(read.status.state, JobState::Working);
    let uid = inserted.metadata.uid.clone().unwrap();
    let status = JobStatus { state: JobState::Success, ..JobStatus::default() };
    claimed.into_parts().1.complete(status).await.unwrap();

    let namespace = "/namespaces/default";
    assert_eq!(
        api.requests(),
        [
            format!("POST {namespace}/jobs"),
            format!("PATCH {namespace}/jobs/repo-sync"),
            format!("GET {namespace}/jobs"),
            format!("POST {namespace}/historicjobs"),
            format!("DELETE {namespace}/jobs/repo-sync"),
        ]
    );
    let claim = api.sent(1);
    assert_eq!(claim["metadata"]["uid"], uid);
    assert_eq!(claim["metadata"]["resourceVersion"], *inserted.metadata.resource_version.as_ref().unwrap());
    assert_eq!(claim["status"]["state"], "working");
    assert_eq!(claim["spec"], Value::Null, "only what changes is sent");
    let filed = api.sent(3);
    assert_eq!(filed["kind"], "HistoricJob");
    assert_eq!(filed["metadata"]["name"], format!("repo-sync-{uid}"));
    assert_eq!(filed["metadata"]["annotations"]["provisioning.grafana.app/author"], "ada");
    assert_eq!(
        filed["spec"],
        json!({"action": "pull", "repository": "repo", "pull": {"incremental": false}})
    );
    let delete = api.sent(4);
    assert_eq!(delete["preconditions"]["uid"], uid);
    assert!(delete["preconditions"]["resourceVersion"].is_string());
}

#[tokio::test]
async fn a_second_job_of_a_kind_is_refused_by_its_name_and_test_jobs_are_not() {
    let api = Api::default();
    let client = api.client();
    let none = BTreeMap::new;
    insert(&client, "default", "repo", JobSpec::pull("repo", true), none()).await.unwrap();
    let again = insert(&client, "default", "repo", JobSpec::pull("repo", false), none()).await.unwrap_err();
    assert!(matches!(&again, InsertError::AlreadyExists(name) if name == "repo-sync"), "{again}");
    let mut names = Vec::new();
    for _ in 0..2 {
        let test = TestOptions { duration: "1s".parse().unwrap(), ..TestOptions::default() };
        let test = insert(&client, "default", "repo", JobSpec::test("repo", test), none()).await.unwrap();
        names.push(test.metadata.name.unwrap());
    }
    assert!(names[0] != names[1] && names[0].starts_with("repo-test-"), "{names:?}");
}

#[tokio::test]
async fn an_invalid_job_is_refused_before_it_is_sent() {
    let api = Api::default();
    let error =
        insert(&api.client(), "default", "repo", JobSpec::default(), BTreeMap::new()).await.unwrap_err();
    assert!(matches!(&error, InsertError::Invalid(errors) if errors[0].field == "spec.action"), "{error}");
    assert_eq!(api.requests(), Vec::<String>::new());
}

fn key() -> Key {
    Key::new("default", "repo-sync")
}

#[tokio::test]
async fn guarded_writes_are_refused_once_the_record_has_changed() {
    let api = Api::default();
    let store = KubeStore::new(api.client());
    insert(&api.client(), "default", "repo", JobSpec::pull("repo", true), BTreeMap::new()).await.unwrap();
    let first = store.get(&key()).await.unwrap();
    let change = Change::default().set("windlass.dev/attempt", "1");
    let second = store.patch(&key(), &first.precondition(), &change).await.unwrap();
    assert_eq!(second.labels["windlass.dev/attempt"], "1");
    let refused = store.patch(&key(), &first.precondition(), &change).await;
    assert!(matches!(refused, Err(StoreError::Conflict)));
    assert!(matches!(store.delete(&key(), &first.precondition()).await, Err(StoreError::Conflict)));
    let namesake = Precondition { uid: "another".into(), ..second.precondition() };
    assert!(matches!(store.delete(&key(), &namesake).await, Err(StoreError::Conflict)));
    let change = Change::default().remove("windlass.dev/attempt");
    let third = store.patch(&key(), &second.precondition(), &change).await.unwrap();
    assert!(!third.labels.contains_key("windlass.dev/attempt"));
    store.delete(&key(), &third.precondition()).await.unwrap();
    assert!(matches!(store.get(&key()).await, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn lists_are_read_to_their_last_page() {
    let api = Api::default();
    let store = KubeStore::new(api.client());
    for repository in ["a", "b", "c"] {
        let spec = JobSpec::pull(repository, true);
        insert(&api.client(), "default", repository, spec, BTreeMap::new()).await.unwrap();
        let record = NewRecord {
            key: Key::new("default", format!("{repository}-sync-uid")),
            labels: BTreeMap::from([
                (labels::REPOSITORY.into(), repository.into()),
                (labels::ORIGINAL_UID.into(), "uid".into()),
            ]),
            annotations: BTreeMap::from([(annotations::BYTES.into(), "70".into())]),
            spec: json!({}),
            status: json!({}),
        };
        store.history_create(record.clone()).await.unwrap();
        assert!(matches!(store.history_create(record).await, Err(StoreError::AlreadyExists)));
    }
    let jobs: Vec<_> = store.list().await.unwrap().into_iter().map(|record| record.key.name).collect();
    assert_eq!(jobs, ["a-sync", "b-sync", "c-sync"]);
    let mut history = Vec::new();
    let mut next = None;
    loop {
        let page = store.history_page(next).await.unwrap();
        history.extend(page.entries);
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(history.iter().map(|entry| &*entry.repository).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((&*history[0].job_uid, history[0].bytes), ("uid", Some(70)));
    assert!(store.list_claimed("default").await.unwrap().is_empty());
    let jobs = store.list().await.unwrap();
    for job in &jobs[..2] {
        let change = Change::default().set(labels::CLAIM, "1");
        store.patch(&job.key, &job.precondition(), &change).await.unwrap();
    }
    let claimed: Vec<_> =
        store.list_claimed("default").await.unwrap().into_iter().map(|record| record.key.name).collect();
    assert_eq!(claimed, ["a-sync", "b-sync"]);
    assert!(store.list_claimed("elsewhere").await.unwrap().is_empty());
    assert!(matches!(store.history_delete(&history[0].key, "another").await, Err(StoreError::Conflict)));
    store.history_delete(&history[0].key, &history[0].uid).await.unwrap();
    assert!(!store.history_contains(&history[0].key).await.unwrap());
    assert!(store.history_contains(&history[1].key).await.unwrap());
}

#[tokio::test]
async fn what_may_pass_is_told_apart_from_what_will_not() {
    let api = Api::default();
    let store = KubeStore::new(api.client());
    for (code, transient) in
        [(401, true), (403, false), (422, false), (413, false), (429, true), (500, true), (503, true)]
    {
        api.0.lock().unwrap().broken = Some(code);
        let error = store.get(&key()).await.unwrap_err();
        assert_eq!(error.transient(), transient, "{code}: {error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up_at_the_deadline() {
    let api = Api::default();
    api.0.lock().unwrap().silent = true;
    let store = KubeStore::new(api.client()).with_deadline(Duration::from_secs(3));
    let answer = timeout(Duration::from_secs(4), store.get(&key())).await.expect("an answer");
    assert!(matches!(answer, Err(StoreError::Timeout(_))));
}
