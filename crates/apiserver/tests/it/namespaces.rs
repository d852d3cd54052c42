//! Namespaces: which there are, and what may be created in those that there are not.

use serde_json::json;
use windlass_apiserver::ApiServer;

use crate::common::*;

const NAMESPACES: &str = "/api/v1/namespaces";

#[tokio::test]
async fn default_and_kube_system_are_there_from_the_first_moment() {
    let store = memory();
    let first = get(&server_over(store.clone()), NAMESPACES).await.expect(200);
    assert_eq!(names(&first), ["default", "kube-system"]);
    assert_eq!(first["items"][0]["status"]["phase"], "Active");
    assert_eq!(first["items"][0]["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(first["items"][0]["metadata"]["labels"], json!({ "kubernetes.io/metadata.name": "default" }));
    let again = get(&server_over(store), NAMESPACES).await.expect(200);
    assert_eq!(again["items"], first["items"], "they are made once");
}

#[tokio::test]
async fn creating_in_a_namespace_that_is_not_there_is_404_where_that_is_asked_for() {
    let server = ApiServer::builder(memory()).crds(crds()).namespaces_must_exist(true).build().unwrap();
    let widgets = WIDGETS.replace("default", "team");
    for query in ["", "?dryRun=All"] {
        let refused = post(&server, &format!("{widgets}{query}"), &widget("a")).await.expect(404);
        assert_eq!(refused["message"], "namespaces \"team\" not found");
        assert_eq!(refused["details"]["kind"], "namespaces");
    }
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    post(&server, NAMESPACES, &json!({ "metadata": { "name": "team" } })).await.expect(201);
    post(&server, &widgets, &widget("a")).await.expect(201);
    // By default it is enough that something is in it.
    let lenient = crate::common::server();
    post(&lenient, &widgets, &widget("a")).await.expect(201);
}
