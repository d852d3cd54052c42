use axum::Router;
use axum::body::Body;
use axum::routing::get as route;
use http::{Method, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PostParams};
use serde_json::json;
use tower::ServiceExt as _;
use windlass_auth::{Audiences, Caller, Namespaces};

use crate::common::*;

fn caller(audience: &str, namespaces: Namespaces) -> Caller {
    Caller {
        audiences: Audiences::Some([audience.to_owned()].into()),
        namespaces,
        ..Caller::system("someone")
    }
}

#[tokio::test]
async fn a_request_without_a_caller_is_unauthorized() {
    let request = Request::builder().uri(WIDGETS).body(Body::empty()).unwrap();
    let response = server().router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), 401);
}

#[tokio::test]
async fn a_token_opens_its_group_and_namespace_only() {
    let server = server();
    let mine = caller("example.dev", Namespaces::One("default".into()));
    raw(Method::GET, WIDGETS).caller(mine.clone()).send(&server).await.expect(200);
    for path in [
        WIDGETS.replace("default", "other"),
        "/apis/example.dev/v1/widgets".to_owned(),
        SECRETS.to_owned(),
        "/api/v1/namespaces/default".to_owned(),
    ] {
        let answer = raw(Method::GET, &path).caller(mine.clone()).send(&server).await;
        assert!(answer.message().contains("is forbidden"), "{path}: {}", answer.message());
        assert_eq!(answer.expect(403)["reason"], "Forbidden");
    }
    let core = caller("core.windlass.dev", Namespaces::All);
    raw(Method::GET, SECRETS).caller(core.clone()).send(&server).await.expect(200);
    raw(Method::GET, "/apis/coordination.k8s.io/v1/leases")
        .caller(core.clone())
        .send(&server)
        .await
        .expect(200);
    raw(Method::GET, WIDGETS).caller(core).send(&server).await.expect(403);
    raw(Method::GET, "/apis").caller(mine).send(&server).await.expect(200);
}

#[tokio::test]
async fn a_kube_client_reads_our_errors() {
    let server = server();
    let client = server.client(caller("example.dev", Namespaces::All));
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let denied = api.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&denied, kube::Error::Api(status) if status.is_forbidden()), "{denied:?}");
    let api: Api<ConfigMap> = Api::namespaced(server.client_for_tests(), "default");
    let invalid = ConfigMap {
        metadata: ObjectMeta { name: Some("A".into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let refused = api.create(&PostParams::default(), &invalid).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.is_invalid()), "{refused:?}");
}

#[tokio::test]
async fn a_merged_router_wins_on_its_paths() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let more = Router::new()
        .route("/apis/example.dev/v1/namespaces/{ns}/widgets/{name}/jobs", route(|| async { "merged" }));
    let router = server.router().merge(more);
    let ask = async |path: &str| {
        let mut request = Request::builder().uri(path).body(Body::empty()).unwrap();
        request.extensions_mut().insert(Caller::system("tests"));
        router.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(ask(&format!("{WIDGETS}/a/jobs")).await, 200);
    assert_eq!(ask(&format!("{WIDGETS}/a")).await, 200);
    assert_eq!(ask(&format!("{WIDGETS}/a/other")).await, 404);
    let client = windlass_apiserver::client_of(router.clone(), Caller::system("tests"));
    let request = Request::get(format!("{WIDGETS}/a/jobs")).body(Vec::new()).unwrap();
    assert_eq!(client.request_text(request).await.unwrap(), "merged");
    assert_eq!(json!(client.default_namespace()), "default");
}

#[tokio::test]
async fn no_way_of_writing_a_path_opens_another_namespace() {
    let server = server();
    post(&server, &WIDGETS.replace("default", "other"), &widget("a")).await.expect(201);
    let mine = caller("example.dev", Namespaces::One("default".into()));
    for path in [
        "/apis%2Fexample.dev/v1/namespaces/other/widgets",
        "/apis/example.dev%2Fv1/namespaces/other/widgets",
        "/apis/example.dev/v1%2Fnamespaces/other/widgets",
        "/apis/example.dev/v1/namespaces%2Fother/widgets",
        "/apis/example.dev/v1/namespaces%2Fother%2Fwidgets",
        "/apis/example.dev/v1/namespaces/other%2Fwidgets",
        "/apis/example.dev/v1/namespaces/default%2F..%2Fother/widgets",
        "/apis/example.dev/v1/namespaces/%6fther/widgets",
    ] {
        let answer = raw(Method::GET, path).caller(mine.clone()).send(&server).await;
        assert!(matches!(answer.status.as_u16(), 403 | 404), "{path}: {answer:?}");
        // Nor is it another way to what is allowed: what judges a path in front reads it segment by segment as well.
        let everything = get(&server, path).await;
        let found = everything.body["items"].as_array().map_or(0, Vec::len);
        assert_eq!(found > 0, path.contains("%6f"), "{path}: {everything:?}");
    }
}

#[tokio::test]
async fn the_name_of_an_object_without_a_namespace_is_no_namespace() {
    let server = server();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.dev";
    let caller = caller("apiextensions.k8s.io", Namespaces::One("widgets.example.dev".into()));
    raw(Method::GET, path).caller(caller).send(&server).await.expect(403);
}

#[tokio::test]
async fn a_request_as_somebody_else_is_refused() {
    let server = server();
    for header in ["Impersonate-User", "impersonate-group", "Impersonate-Extra-scopes"] {
        let answer = raw(Method::GET, WIDGETS).header(header, "nobody").send(&server).await;
        assert!(answer.message().contains("impersonation is not supported"), "{answer:?}");
        assert_eq!(answer.expect(403)["reason"], "Forbidden");
    }
}

#[tokio::test]
async fn a_token_that_is_limited_to_verbs_and_resources_does_nothing_else() {
    let server = server();
    post(
        &server,
        WIDGETS,
        &json!({ "apiVersion": "example.dev/v1", "kind": "Widget", "metadata": { "name": "a" } }),
    )
    .await;
    let mut reader = caller("example.dev", Namespaces::All);
    reader.rights =
        serde_json::from_value(json!({ "verbs": ["get", "list"], "resources": ["widgets.example.dev"] }))
            .unwrap();
    let ask = async |method: http::Method, path: &str| {
        raw(method, path).json(&json!({})).caller(reader.clone()).send(&server).await.status.as_u16()
    };
    assert_eq!(ask(http::Method::GET, WIDGETS).await, 200);
    assert_eq!(ask(http::Method::GET, &format!("{WIDGETS}?watch=true&timeoutSeconds=1")).await, 403);
    assert_eq!(ask(http::Method::POST, WIDGETS).await, 403);
    assert_eq!(ask(http::Method::DELETE, &format!("{WIDGETS}/a")).await, 403);
    assert_eq!(ask(http::Method::DELETE, WIDGETS).await, 403);
    assert_eq!(ask(http::Method::PATCH, &format!("{WIDGETS}/a/status")).await, 403);
    assert_eq!(ask(http::Method::GET, GADGETS).await, 403);
    assert_eq!(ask(http::Method::GET, "/store/backup").await, 403);
}

#[tokio::test]
async fn who_may_not_read_secrets_sees_nothing_of_them_in_any_form() {
    const RAW: &str = "hunter2";
    const ENCODED: &str = "aHVudGVyMg";
    let server = server();
    let applied = format!("{{\"stringData\":{{\"k\":\"{RAW}\"}}}}");
    let secret = json!({ "metadata": { "name": "s", "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": applied } }, "stringData": { "k": RAW } });
    post(&server, SECRETS, &secret).await.expect(201);
    let widgets = caller("example.dev", Namespaces::All);
    let elsewhere = caller(windlass_api::audience::CORE, Namespaces::One("other".to_owned()));
    let forms = [
        "application/json",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
    ];
    let paths = [
        SECRETS.to_owned(),
        format!("{SECRETS}/s"),
        format!("{SECRETS}?watch=true&timeoutSeconds=1"),
        format!("{SECRETS}?fieldSelector=metadata.name%3Ds"),
        "/api/v1/secrets".to_owned(),
        "/api/v1/namespaces/other/../default/secrets".to_owned(),
        "/api%2Fv1/namespaces/default/secrets".to_owned(),
    ];
    for somebody in [&widgets, &elsewhere] {
        for (path, form) in paths.iter().flat_map(|path| forms.iter().map(move |form| (path, form))) {
            let answer =
                raw(http::Method::GET, path).accept(form).caller(somebody.clone()).send(&server).await;
            assert!(matches!(answer.status.as_u16(), 403 | 404), "{path} {form}: {answer:?}");
            let told = answer.body.to_string();
            assert!(!told.contains(RAW) && !told.contains(ENCODED), "{path} {form}: {told}");
        }
        // Nor by writing: neither what is there nor how a change of it would look.
        for (method, path, kind) in [
            (http::Method::PATCH, format!("{SECRETS}/s?dryRun=All"), MERGE),
            (http::Method::PUT, format!("{SECRETS}/s?dryRun=All"), "application/json"),
            (http::Method::POST, SECRETS.to_owned(), "application/json"),
            (http::Method::DELETE, format!("{SECRETS}/s?dryRun=All"), "application/json"),
        ] {
            let request = raw(method, &path).json(&json!({ "metadata": { "name": "s" } }));
            let answer = request.header("content-type", kind).caller(somebody.clone()).send(&server).await;
            assert_eq!(answer.status, 403, "{path}: {answer:?}");
            assert!(!answer.body.to_string().contains(ENCODED), "{path}: {answer:?}");
        }
    }
    // Whoever may read it is not shown twice what it holds.
    let reader = caller(windlass_api::audience::CORE, Namespaces::One("default".to_owned()));
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let read = raw(http::Method::GET, &format!("{SECRETS}/s"))
        .caller(reader.clone())
        .send(&server)
        .await
        .expect(200);
    assert!(read["data"]["k"].as_str().unwrap().starts_with(ENCODED));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    for form in [metadata, table] {
        let request = raw(http::Method::GET, &format!("{SECRETS}/s")).accept(form).caller(reader.clone());
        assert!(!request.send(&server).await.expect(200).to_string().contains(ENCODED), "{form}");
    }
}
