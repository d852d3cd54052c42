//! Questions of a caller about itself.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_auth::{Audiences, Caller, Namespaces};

use crate::common::*;

const SUBJECT: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";

/// Somebody whose token opens one group in one namespace.
fn tenant() -> Caller {
    Caller {
        name: "tenant".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
        audiences: Audiences::Some(["example.dev".to_owned()].into()),
        namespaces: Namespaces::One("default".to_owned()),
        ..Caller::system("tenant")
    }
}

async fn ask(server: &ApiServer, caller: &Caller, path: &str, question: Value) -> Value {
    let answer = raw(Method::POST, path).caller(caller.clone()).json(&question).send(server).await;
    answer.expect(201)["status"].clone()
}

async fn may(server: &ApiServer, caller: &Caller, attributes: Value) -> bool {
    let question = json!({"spec": {"resourceAttributes": attributes}});
    ask(server, caller, ACCESS, question).await["allowed"].as_bool().unwrap()
}

#[tokio::test]
async fn a_caller_is_told_who_it_is_and_what_its_token_opens() {
    let server = server();
    let status = ask(&server, &tenant(), SUBJECT, json!({})).await;
    assert_eq!(
        status["userInfo"],
        json!({"username": "tenant", "uid": "tenant", "groups": ["system:authenticated"], "extra": {
            "windlass.dev/audiences": ["example.dev"], "windlass.dev/namespace": ["default"]}})
    );
    let admin = ask(&server, &Caller::system("admin"), SUBJECT, json!({})).await;
    assert_eq!(admin["userInfo"]["groups"], json!(["system:masters", "system:authenticated"]));
    assert_eq!(admin["userInfo"]["extra"], Value::Null);
}

#[tokio::test]
async fn what_a_caller_may_is_what_its_requests_are_let_through_for() {
    let server = server();
    let (tenant, admin) = (tenant(), Caller::system("admin"));
    for (attributes, path) in [
        (
            json!({"verb": "list", "group": "example.dev", "resource": "widgets", "namespace": "default"}),
            WIDGETS,
        ),
        (
            json!({"verb": "list", "group": "example.dev", "resource": "widgets"}),
            "/apis/example.dev/v1/widgets",
        ),
        (json!({"verb": "list", "resource": "secrets", "namespace": "default"}), SECRETS),
        (json!({"verb": "get", "resource": "namespaces", "name": "default"}), "/api/v1/namespaces/default"),
    ] {
        let code = raw(Method::GET, path).caller(tenant.clone()).send(&server).await.status;
        assert_eq!(may(&server, &tenant, attributes.clone()).await, code != 403, "{path} is answered {code}");
        assert!(may(&server, &admin, attributes).await, "{path}");
    }
    assert!(!may(&server, &tenant, json!({"verb": "*", "group": "*", "resource": "*"})).await);
    assert!(may(&server, &admin, json!({"verb": "*", "group": "*", "resource": "*"})).await);
    let own =
        json!({"verb": "create", "group": "authorization.k8s.io", "resource": "selfsubjectaccessreviews"});
    assert!(may(&server, &tenant, own).await);
    for (path, allowed) in [("/version", true), ("/apis/example.dev", true), (SECRETS, false)] {
        let question = json!({"spec": {"nonResourceAttributes": {"path": path, "verb": "get"}}});
        assert_eq!(ask(&server, &tenant, ACCESS, question).await["allowed"], allowed, "{path}");
    }
}

#[tokio::test]
async fn the_rules_of_a_caller_are_those_of_the_namespace_that_it_asks_for() {
    let server = server();
    let groups = |status: &Value| {
        let rules = status["resourceRules"].as_array().unwrap();
        let all = rules.iter().filter(|rule| rule["resources"] == json!(["*"]));
        all.map(|rule| rule["apiGroups"].clone()).collect::<Vec<_>>()
    };
    let rules = |caller: Caller, namespace: &'static str| {
        let server = &server;
        async move { ask(server, &caller, RULES, json!({"spec": {"namespace": namespace}})).await }
    };
    assert_eq!(groups(&rules(tenant(), "default").await), [json!(["example.dev"])]);
    assert_eq!(groups(&rules(tenant(), "other").await), Vec::<Value>::new());
    assert_eq!(groups(&rules(Caller::system("admin"), "other").await), [json!(["*"])]);
}
