//! What happens to an object between our look and our write.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use windlass_apiserver::client_of;
use windlass_auth::Caller;
use windlass_provisioner::{Cluster, DeletionPolicy, Provisioner as _, Reason, Scope};
use windlass_runtime::CallOptions;

use crate::server::{Server, map};

/// A client that hands what each request of this method says to `at`, before the server gets it.
fn before_each<F>(
    server: &Server,
    method: Method,
    at: impl Fn(Value) -> F + Send + Sync + Clone + 'static,
) -> Client
where
    F: Future<Output = ()> + Send,
{
    let router = server.api.router().layer(from_fn(move |request: Request, next: Next| {
        let (at, method) = (at.clone(), method.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            if head.method == method {
                at(serde_json::from_slice(&body).unwrap()).await;
            }
            next.run(Request::from_parts(head, Body::from(body))).await
        }
    }));
    client_of(router, Caller::system("provisioner"))
}

fn through(client: Client, scope: &Scope) -> Scope {
    scope.on(Cluster::local(client, CallOptions::new(Duration::from_secs(10))))
}

#[tokio::test]
async fn an_object_is_deleted_by_its_uid_and_its_dependants_as_the_policy_says() {
    let server = Server::new();
    let said = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&said);
    let client = before_each(&server, Method::DELETE, move |options| {
        told.lock().unwrap().push(options);
        std::future::ready(())
    });
    let scope = through(client, &server.scope("owner"));
    for (policy, word) in
        [(DeletionPolicy::Foreground, "Foreground"), (DeletionPolicy::Background, "Background")]
    {
        assert!(map("a", "one").provision(&scope).await.unwrap().is_ready());
        let uid = server.maps().get("a").await.unwrap().uid().unwrap();
        while !map("a", "one").deprovision(&scope.deleting(policy)).await.unwrap().is_ready() {}
        let options = std::mem::take(&mut *said.lock().unwrap()).remove(0);
        assert_eq!(
            (&options["propagationPolicy"], &options["preconditions"]["uid"]),
            (&word.into(), &uid.into())
        );
    }
}

#[tokio::test]
async fn what_was_made_anew_between_our_look_and_the_delete_stays() {
    let server = Server::new();
    let maps = server.maps();
    let client = before_each(&server, Method::DELETE, move |_options| {
        let maps = maps.clone();
        async move {
            let ConfigMap { metadata, data, .. } = maps.get("a").await.unwrap();
            maps.delete("a", &DeleteParams::default()).await.unwrap();
            let mut anew = ConfigMap { data, ..ConfigMap::default() };
            (anew.metadata.name, anew.metadata.annotations) = (metadata.name, metadata.annotations);
            maps.create(&PostParams::default(), &anew).await.unwrap();
        }
    });
    let scope = server.scope("owner");
    assert!(map("a", "one").provision(&scope).await.unwrap().is_ready());
    let first = server.maps().get("a").await.unwrap().uid();
    let visited = map("a", "one").deprovision(&through(client, &scope)).await;
    assert!(!visited.is_ok_and(|outcome| outcome.is_ready()), "it is there, under another UID");
    assert_ne!(server.maps().get("a").await.unwrap().uid(), first);
}

#[tokio::test]
async fn what_somebody_makes_between_our_look_and_our_apply_keeps_what_it_says() {
    let server = Server::new();
    let maps = server.maps();
    let client = before_each(&server, Method::PATCH, move |_applied| {
        let maps = maps.clone();
        async move {
            let theirs = json!({"metadata": {"name": "a"}, "data": {"key": "theirs"}});
            let _ = maps.create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await;
        }
    });
    let scope = through(client, &server.scope("owner"));
    assert!(map("a", "ours").provision(&scope).await.is_err());
    assert_eq!(map("a", "ours").provision(&scope).await.unwrap_err().reason, Reason::NotOurs);
    assert_eq!(server.maps().get("a").await.unwrap().data.unwrap()["key"], "theirs");
    server.maps().delete("a", &DeleteParams::default()).await.unwrap();
    assert!(map("a", "ours").adopt().provision(&scope).await.unwrap().is_ready());
    assert_eq!(server.maps().get("a").await.unwrap().data.unwrap()["key"], "ours");
}
