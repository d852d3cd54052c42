//! An API server in process, and a record of what is asked of it.

use std::sync::{Arc, Mutex};

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::{Value, json};
use std::time::Duration;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::Caller;
use windlass_provisioner::{Cluster, Owner, Resource, Scope};
use windlass_runtime::CallOptions;

pub(crate) struct Server {
    pub(crate) api: ApiServer,
    /// Of the trees under test.
    pub(crate) client: Client,
    requests: Arc<Mutex<Vec<String>>>,
}

/// A kind with any spec and status.
pub(crate) fn define(group: &str, version: &str, kind: &str, plural: &str) -> CustomResourceDefinition {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    }))
    .unwrap()
}

pub(crate) fn kind_of(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        let own = |kind, plural| define("example.com", "v1", kind, plural);
        Self::with(vec![own("Site", "sites"), own("Thing", "things")])
    }

    pub(crate) fn with(definitions: Vec<CustomResourceDefinition>) -> Self {
        let store = in_memory(&StoreOptions::default()).unwrap();
        let server = ApiServer::builder(store).crds(definitions).build().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&requests);
        let router = server.router().layer(from_fn(move |request: Request, next: Next| {
            let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            let accept = request.headers().get("accept").and_then(|accept| accept.to_str().ok());
            let is_metadata = accept.is_some_and(|accept| accept.contains("as=PartialObjectMetadata"));
            let form = if is_metadata { " (metadata)" } else { "" };
            record.lock().unwrap().push(format!("{} {name}{form}", request.method()));
            next.run(request)
        }));
        Self { client: client_of(router, Caller::system("provisioner")), api: server, requests }
    }

    pub(crate) fn observer(&self) -> Client {
        self.api.client_for_tests()
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.observer(), "default")
    }

    pub(crate) fn scope(&self, uid: &str) -> Scope {
        let owner = Owner { uid: uid.to_owned(), ..Owner::default() };
        Scope::new(Cluster::local(self.client.clone(), CallOptions::new(Duration::from_secs(10))), owner)
    }

    /// What was asked since the last time.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

/// A `ConfigMap` with one value.
pub(crate) fn map(name: &str, value: &str) -> Resource {
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"key": value}});
    Resource::new(name, &ApiResource::erase::<ConfigMap>(&()), object)
}

/// A `Thing`, which is ready when its status says so.
pub(crate) fn thing(name: &str, spec: Value) -> Resource {
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    Resource::new(name, &kind_of("Thing", "things"), object)
}
