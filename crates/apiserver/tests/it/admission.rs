use http::Method;
use serde_json::{Value, json};
use windlass_auth::{Audiences, Caller, Namespaces};
use windlass_store::{Page, Range, Store};

use crate::common::*;

const BASE: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default";
const RAW: &str = "hunter2-the-token";

async fn stored_text(store: &dyn Store, group: &str, resource: &str) -> String {
    let range = Range::new(group, resource, None).unwrap();
    let page = store.list(&range, Page::default()).await.unwrap();
    page.objects.iter().map(|object| String::from_utf8_lossy(&object.value).into_owned()).collect()
}

#[tokio::test]
async fn secrets_are_sealed_at_rest_and_open_to_readers() {
    let store = memory();
    let server = server_over(store.clone());
    let body = json!({ "metadata": { "name": "s", "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": format!("{{\"stringData\":\"{RAW}\"}}") } },
        "stringData": { "k": RAW } });
    let created = post(&server, SECRETS, &body).await.expect(201);
    assert_eq!(created.get("stringData"), None);
    let at_rest = stored_text(&*store, "", "secrets").await;
    let encoded = created["data"]["k"].as_str().unwrap();
    assert!(!at_rest.contains(RAW) && !at_rest.contains(encoded), "{at_rest}");
    assert_eq!(get(&server, &format!("{SECRETS}/s")).await.expect(200), created);
    assert_eq!(get(&server, SECRETS).await.expect(200)["items"][0]["data"], created["data"]);
    let mut events = raw(Method::GET, &format!("{SECRETS}?watch=true")).watch(&server).await;
    assert_eq!(events.next().await.unwrap()["object"]["data"], created["data"]);
    assert_eq!(
        put(&server, &format!("{SECRETS}/s"), &created).await.expect(200),
        created,
        "sealing anew is no change"
    );
}

#[tokio::test]
async fn secrets_of_core_are_judged() {
    let server = server();
    let bytes =
        post(&server, SECRETS, &json!({ "metadata": { "name": "s" }, "data": { "k": "not base64!" } })).await;
    assert!(bytes.message().ends_with("data must be of type byte"), "{}", bytes.message());
    bytes.expect(400);
    let key = json!({ "metadata": { "name": "s" }, "data": { "not ok": "" } });
    post(&server, SECRETS, &key).await.expect(422);
    post(
        &server,
        SECRETS,
        &json!({ "metadata": { "name": "s" }, "immutable": true, "data": { "k": "dg==" } }),
    )
    .await
    .expect(201);
    let path = format!("{SECRETS}/s");
    patch(&server, &path, MERGE, &json!({ "data": { "k": "dw==" } })).await.expect(422);
    patch(&server, &path, MERGE, &json!({ "type": "other" })).await.expect(422);
    patch(&server, &path, MERGE, &json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
}

fn with_token(name: &str, token: Value) -> Value {
    let mut body = widget(name);
    body["secure"] = json!({ "token": token });
    body
}

#[tokio::test]
async fn a_raw_value_becomes_a_sealed_secret_that_the_object_names() {
    let store = memory();
    let server = server_over(store.clone());
    let mut body = with_token("w", json!({ "create": RAW }));
    body["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": body.to_string() });
    let created = post(&server, WIDGETS, &body).await.expect(201);
    assert!(!created.to_string().contains(RAW), "{created}");
    let name = created["secure"]["token"]["name"].as_str().unwrap();
    assert!(name.starts_with("w-token-"), "{name}");
    assert_eq!(created["secure"], json!({ "token": { "name": name } }));
    let secret = get(&server, &format!("{SECRETS}/{name}")).await.expect(200);
    assert_eq!(secret["metadata"]["ownerReferences"][0]["uid"], created["metadata"]["uid"]);
    assert_eq!(secret["data"]["token"], "aHVudGVyMi10aGUtdG9rZW4=");
    for (group, resource) in [("", "secrets"), ("example.dev", "widgets")] {
        let at_rest = stored_text(&*store, group, resource).await;
        assert!(!at_rest.contains(RAW) && !at_rest.contains("aHVudGVyMi"), "{at_rest}");
    }
}

#[tokio::test]
async fn a_secure_value_of_a_wrong_type_is_refused_and_not_shown() {
    let server = server();
    let repositories = format!("{BASE}/repositories");
    let repository = json!({ "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
        "metadata": { "name": "w" }, "spec": { "title": "w", "type": "git", "workflows": [],
            "git": { "url": "https://example.com/r.git", "branch": "main" },
            "sync": { "enabled": true, "target": "folder" } } });
    let wrong = [
        (json!({ "token": { "create": [RAW] } }), "secure.token.create"),
        (json!({ "token": { "create": { RAW: RAW } } }), "secure.token.create"),
        (json!({ "token": { "create": 5 } }), "secure.token.create"),
        (json!({ "token": { "create": true } }), "secure.token.create"),
        (json!({ "token": { "name": [RAW] } }), "secure.token.name"),
        (json!({ "token": { "remove": RAW } }), "secure.token.remove"),
        (json!({ "token": [RAW] }), "secure.token"),
        (json!({ "token": RAW }), "secure.token"),
        (json!(RAW), "secure"),
        (json!([{ "token": RAW }]), "secure"),
    ];
    for (collection, mut good) in [(WIDGETS, widget("w")), (&*repositories, repository)] {
        good["secure"] = json!({ "token": { "create": "kept" } });
        let path = format!("{collection}/w");
        let stored = post(&server, collection, &good).await.expect(201);
        for (secure, field) in &wrong {
            let mut bad = stored.clone();
            bad["secure"] = secure.clone();
            let mut new = good.clone();
            new["metadata"]["name"] = json!("new");
            new["secure"] = secure.clone();
            let operations = json!([{ "op": "replace", "path": "/secure", "value": secure }]);
            for answer in [
                post(&server, collection, &new).await,
                post(&server, &format!("{collection}?fieldValidation=Strict"), &new).await,
                put(&server, &path, &bad).await,
                patch(&server, &path, MERGE, &json!({ "secure": secure })).await,
                patch(&server, &path, "application/json-patch+json", &operations).await,
            ] {
                assert!(!answer.body.to_string().contains(RAW), "{}", answer.body);
                let headers = format!("{:?}", answer.headers);
                assert!(!headers.contains(RAW), "{headers}");
                let body = answer.expect(422);
                assert_eq!(body["reason"], "Invalid");
                let causes = body["details"]["causes"].as_array().unwrap();
                assert!(causes.iter().any(|cause| cause["field"] == *field), "{secure}: {body:#}");
            }
        }
        assert_eq!(get(&server, &path).await.expect(200), stored, "what is refused changes nothing");
    }
}

#[tokio::test]
async fn secure_values_are_kept_replaced_and_removed() {
    let server = server();
    let created = post(&server, WIDGETS, &with_token("w", json!({ "create": RAW }))).await.expect(201);
    let path = format!("{WIDGETS}/w");
    let first = created["secure"]["token"]["name"].as_str().unwrap().to_owned();
    let mut without = created.clone();
    without.as_object_mut().unwrap().remove("secure");
    let kept = put(&server, &path, &without).await.expect(200);
    assert_eq!(kept["secure"], created["secure"], "what an update leaves out stays");
    let replaced = patch(&server, &path, MERGE, &json!({ "secure": { "token": { "create": "second" } } }))
        .await
        .expect(200);
    let second = replaced["secure"]["token"]["name"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    assert_eq!(replaced["metadata"]["generation"], 2, "a new value is a change of the desired state");
    get(&server, &format!("{SECRETS}/{first}")).await.expect(404);
    get(&server, &format!("{SECRETS}/{second}")).await.expect(200);
    let removed =
        patch(&server, &path, MERGE, &json!({ "secure": { "token": { "remove": true } } })).await.expect(200);
    assert_eq!(removed.get("secure"), None);
    get(&server, &format!("{SECRETS}/{second}")).await.expect(404);
    patch(&server, &path, MERGE, &json!({ "secure": { "token": { "create": "third" } } })).await.expect(200);
    delete(&server, &path).await.expect(200);
    assert!(names(&get(&server, SECRETS).await.expect(200)).is_empty(), "they go with their object");
}

#[tokio::test]
async fn a_users_own_secret_is_never_touched() {
    let server = server();
    post(&server, SECRETS, &json!({ "metadata": { "name": "mine" }, "stringData": { "token": "x" } }))
        .await
        .expect(201);
    post(&server, WIDGETS, &with_token("w", json!({ "name": "mine" }))).await.expect(201);
    patch(&server, &format!("{WIDGETS}/w"), MERGE, &json!({ "secure": { "token": { "create": "y" } } }))
        .await
        .expect(200);
    delete(&server, &format!("{WIDGETS}/w")).await.expect(200);
    assert_eq!(names(&get(&server, SECRETS).await.expect(200)), ["mine"]);
    let both = post(&server, WIDGETS, &with_token("w", json!({ "name": "mine", "create": RAW }))).await;
    assert!(!both.body.to_string().contains(RAW), "{}", both.body);
    both.expect(422);
    let long = post(&server, WIDGETS, &with_token("w", json!({ "create": "x".repeat(25_000) }))).await;
    assert!(long.message().contains("secure.token.create: Too long"), "{}", long.message());
    long.expect(422);
    let before = server.revision();
    post(&server, &format!("{WIDGETS}?dryRun=All"), &with_token("w", json!({ "create": RAW })))
        .await
        .expect(201);
    assert_eq!(server.revision(), before);
}

fn job(spec: Value) -> Value {
    json!({ "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Job",
        "metadata": { "name": "j" }, "spec": spec })
}

#[tokio::test]
async fn jobs_are_admitted_by_their_rules() {
    let server = server();
    let jobs = format!("{BASE}/jobs");
    let created = post(&server, &jobs, &job(json!({ "repository": "r", "pull": { "incremental": true } })))
        .await
        .expect(201);
    assert_eq!(created["spec"]["action"], "pull", "inferred from the options");
    for (spec, field) in [
        (json!({ "repository": "r" }), "spec.action"),
        (json!({ "action": "pull", "pull": { "incremental": true } }), "spec.repository"),
        (json!({ "repository": "r", "action": "fly" }), "spec.action"),
        (json!({ "repository": "r", "action": "push", "pull": { "incremental": true } }), "spec.pu"),
    ] {
        let answer = post(&server, &jobs, &job(spec.clone())).await;
        assert!(answer.message().contains(field), "{spec}: {}", answer.message());
        answer.expect(422);
    }
    let claimed = json!({ "metadata": { "labels": { "provisioning.grafana.app/claim": "1" } }, "status": { "state": "working" } });
    patch(&server, &format!("{jobs}/j"), MERGE, &claimed).await.expect(200);
}

#[tokio::test]
async fn only_a_service_names_the_author_of_a_job() {
    let server = server();
    let jobs = format!("{BASE}/jobs");
    let mut body = job(json!({ "repository": "r", "pull": { "incremental": true } }));
    body["metadata"]["annotations"] = json!({ "provisioning.grafana.app/author": "me", "other": "kept" });
    let kept = post(&server, &jobs, &body).await.expect(201);
    assert_eq!(kept["metadata"]["annotations"]["provisioning.grafana.app/author"], "me");
    let other = json!({ "metadata": { "annotations": { "provisioning.grafana.app/author": "you" } } });
    let patched = patch(&server, &format!("{jobs}/j"), MERGE, &other).await.expect(200);
    assert_eq!(
        patched["metadata"]["annotations"]["provisioning.grafana.app/author"], "me",
        "it never changes"
    );
    let tenant = Caller {
        audiences: Audiences::Some(["provisioning.grafana.app".to_owned()].into()),
        namespaces: Namespaces::One("default".into()),
        ..Caller::system("tenant")
    };
    body["metadata"]["name"] = json!("k");
    let cleared = raw(Method::POST, &jobs).json(&body).caller(tenant).send(&server).await.expect(201);
    assert_eq!(cleared["metadata"]["annotations"], json!({ "other": "kept" }));
}

#[tokio::test]
async fn repositories_are_admitted_by_their_rules() {
    let server = server();
    let repositories = format!("{BASE}/repositories");
    let body = |name: &str, path: &str| {
        json!({ "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
            "metadata": { "name": name }, "spec": { "title": name, "type": "git", "workflows": [],
                "git": { "url": "https://example.com/r.git", "branch": "main", "path": path },
                "sync": { "enabled": true, "target": "folder" } },
            "secure": { "token": { "create": RAW } } })
    };
    let created = post(&server, &repositories, &body("one", "a")).await.expect(201);
    assert!(created["spec"]["sync"]["intervalSeconds"].as_i64().unwrap() > 0, "{created}");
    assert!(!created["metadata"]["finalizers"].as_array().unwrap().is_empty(), "finalizers are seeded");
    let nested = post(&server, &repositories, &body("two", "a/b")).await;
    assert!(nested.message().contains("one") && !nested.body.to_string().contains(RAW), "{}", nested.body);
    nested.expect(422);
    let reserved = post(&server, &repositories, &body("new", "b")).await;
    reserved.expect(422);
    let path = format!("{repositories}/one");
    let moved =
        patch(&server, &path, MERGE, &json!({ "spec": { "git": { "url": "https://example.org/r.git" } } }))
            .await;
    assert!(moved.message().contains("secure.token"), "{}", moved.message());
    moved.expect(422);
    let status = json!({ "status": { "health": { "healthy": true, "checked": 1 } } });
    let healthy = patch(&server, &format!("{path}/status"), MERGE, &status).await.expect(200);
    assert_eq!(healthy["metadata"]["generation"], 1);
}

fn repository(name: &str, url: &str, token: Value) -> Value {
    json!({ "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
        "metadata": { "name": name }, "spec": { "title": name, "type": "git", "workflows": [],
            "git": { "url": url, "branch": "main" }, "sync": { "enabled": true, "target": "folder" } },
        "secure": { "token": token } })
}

#[tokio::test]
async fn a_repository_cannot_name_the_token_of_another_beside_a_url_of_its_own() {
    let server = server();
    let repositories = format!("{BASE}/repositories");
    let ours = repository("ours", "https://git.example.com/a", json!({ "create": RAW }));
    let created = post(&server, &repositories, &ours).await.expect(201);
    let sealed = created["secure"]["token"]["name"].as_str().unwrap().to_owned();
    post(&server, SECRETS, &json!({ "metadata": { "name": "shared" }, "stringData": { "token": RAW } }))
        .await
        .expect(201);
    for name in [sealed.as_str(), "shared"] {
        let thief = repository("thief", "https://thief.example.com/a", json!({ "name": name }));
        let refused = post(&server, &repositories, &thief).await;
        assert!(refused.message().contains("secure.token.name"), "{}", refused.message());
        assert!(
            refused.message().contains(name) && !refused.body.to_string().contains(RAW),
            "{}",
            refused.body
        );
        refused.expect(422);
    }
    // A repository that is there already gains it no more than a new one.
    post(&server, &repositories, &repository("other", "https://thief.example.com/b", json!({})))
        .await
        .expect(201);
    let named = json!({ "secure": { "token": { "name": sealed } } });
    patch(&server, &format!("{repositories}/other"), MERGE, &named).await.expect(422);
    patch(&server, &format!("{repositories}/ours"), MERGE, &json!({ "spec": { "title": "New" } }))
        .await
        .expect(200);
    let mark = |url: &str| json!({ "metadata": { "annotations": { "windlass.dev/urls": url } } });
    patch(&server, &format!("{SECRETS}/shared"), MERGE, &mark("https://git.example.com")).await.expect(200);
    let thief = repository("thief", "https://thief.example.com/a", json!({ "name": "shared" }));
    post(&server, &repositories, &thief).await.expect(422);
    let second = repository("second", "https://git.example.com/b", json!({ "name": "shared" }));
    post(&server, &repositories, &second).await.expect(201);
    // One that is not there yet is judged when it is read.
    let early = repository("early", "https://git.example.com/c", json!({ "name": "later" }));
    post(&server, &repositories, &early).await.expect(201);
}

#[tokio::test]
async fn a_token_that_is_taken_away_leaves_no_name_behind() {
    let server = server();
    let repositories = format!("{BASE}/repositories");
    let one = repository("one", "https://git.example.com/a", json!({ "create": RAW }));
    let path = format!("{repositories}/one");
    let gone = |answer: Value, secret: String| {
        let server = &server;
        async move {
            assert_eq!(answer.get("secure"), None, "{answer}");
            get(server, &format!("{SECRETS}/{secret}")).await.expect(404);
        }
    };
    let name = |object: &Value| object["secure"]["token"]["name"].as_str().unwrap().to_owned();
    post(&server, &repositories, &one).await.expect(201);
    for taken in [
        json!({ "secure": { "token": { "remove": true } } }),
        json!({ "secure": { "token": null } }),
        json!({ "secure": null }),
    ] {
        let before = name(&get(&server, &path).await.expect(200));
        gone(patch(&server, &path, MERGE, &taken).await.expect(200), before).await;
        let again = json!({ "secure": { "token": { "create": RAW } } });
        patch(&server, &path, MERGE, &again).await.expect(200);
    }
    let mut removed = get(&server, &path).await.expect(200);
    let before = name(&removed);
    removed["secure"] = json!({ "token": { "remove": true } });
    gone(put(&server, &path, &removed).await.expect(200), before).await;
}

#[tokio::test]
async fn an_apply_that_drops_its_token_takes_it_away() {
    let server = server();
    let path = format!("{BASE}/repositories/one");
    let mut one = repository("one", "https://git.example.com/a", json!({ "create": RAW }));
    let apply = |document: Value| {
        let applied = raw(Method::PATCH, &format!("{path}?fieldManager=me"));
        applied.header("content-type", "application/apply-patch+yaml").json(&document).send(&server)
    };
    let created = apply(one.clone()).await.expect(201);
    let name = created["secure"]["token"]["name"].as_str().unwrap().to_owned();
    one.as_object_mut().unwrap().remove("secure");
    let dropped = apply(one).await.expect(200);
    assert_eq!(dropped.get("secure"), None, "{dropped}");
    get(&server, &format!("{SECRETS}/{name}")).await.expect(404);
}
