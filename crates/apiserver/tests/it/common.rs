//! A server over a store in memory with a kind of its own, and raw requests to it.

use std::sync::Arc;

use axum::body::Body;
use futures::StreamExt as _;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::ApiServer;
use windlass_auth::Caller;
use windlass_store::{self as store, Store, StoreOptions};

pub(crate) const WIDGETS: &str = "/apis/example.dev/v1/namespaces/default/widgets";
pub(crate) const GADGETS: &str = "/apis/example.dev/v1/namespaces/default/gadgets";
pub(crate) const SECRETS: &str = "/api/v1/namespaces/default/secrets";
pub(crate) const MERGE: &str = "application/merge-patch+json";

/// Widgets have a status sub-resource and a second version; gadgets have neither.
pub(crate) fn crds() -> Vec<CustomResourceDefinition> {
    let spec = json!({ "type": "object", "required": ["size"], "properties": {
        "size": { "type": "integer", "minimum": 1, "maximum": 10 },
        "color": { "type": "string", "enum": ["red", "blue"], "default": "red" },
        "name": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 5 },
        "tags": { "type": "array", "items": { "type": "string" } },
        "parts": { "type": "array", "items": { "type": "object", "properties": {
            "id": { "type": "string" }, "count": { "type": "integer", "default": 1 } } } },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } });
    let status = json!({ "type": "object", "properties": {
        "phase": { "type": "string" },
        "conditions": { "type": "array", "items": { "type": "object", "properties": {
            "type": { "type": "string" }, "status": { "type": "string" } } } } } });
    let schema = json!({ "openAPIV3Schema": { "type": "object",
        "properties": { "spec": spec, "status": status,
            "secure": { "type": "object", "properties": { "token": { "type": "object", "properties": {
                "create": { "type": "string" }, "name": { "type": "string" }, "remove": { "type": "boolean" } } } } } } } });
    let version = |name: &str, storage: bool, status: bool| {
        let mut version = json!({ "name": name, "served": true, "storage": storage, "schema": schema,
            "selectableFields": [{ "jsonPath": ".spec.color" }],
            "additionalPrinterColumns": [
                { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
                { "name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status" },
                { "name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1 },
                { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }] });
        if status {
            version["subresources"] = json!({ "status": {} });
        }
        version
    };
    let crd = |plural: &str, singular: &str, kind: &str, versions: Value| {
        let document = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{plural}.example.dev") },
            "spec": { "group": "example.dev", "scope": "Namespaced", "versions": versions,
                "names": { "plural": plural, "singular": singular, "kind": kind, "shortNames": [&singular[..2]],
                    "categories": ["all"] } } });
        serde_json::from_value(document).unwrap()
    };
    vec![
        crd(
            "widgets",
            "widget",
            "Widget",
            json!([version("v1", true, true), version("v1beta1", false, true)]),
        ),
        crd("gadgets", "gadget", "Gadget", json!([version("v1", true, false)])),
    ]
}

pub(crate) fn memory() -> Arc<dyn Store> {
    store::in_memory(&StoreOptions::default()).unwrap()
}

pub(crate) fn server_over(store: Arc<dyn Store>) -> ApiServer {
    let mut kinds = crds();
    kinds.extend(windlass_api::crds::all());
    ApiServer::builder(store)
        .crds(kinds)
        .admission(windlass_admission::Provisioning::default())
        .build()
        .unwrap()
}

pub(crate) fn server() -> ApiServer {
    server_over(memory())
}

pub(crate) fn widget(name: &str) -> Value {
    json!({ "apiVersion": "example.dev/v1", "kind": "Widget", "metadata": { "name": name }, "spec": { "size": 3 } })
}

pub(crate) fn gadget(name: &str) -> Value {
    json!({ "apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": { "name": name }, "spec": { "size": 3 } })
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The body, if the status is this one.
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{:#}", self.body);
        self.body
    }

    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

/// A raw request, as text would arrive at a socket.
pub(crate) struct Raw {
    request: http::request::Builder,
    body: Body,
    caller: Caller,
}

pub(crate) fn raw(method: Method, path: &str) -> Raw {
    Raw {
        request: Request::builder().method(method).uri(path),
        body: Body::empty(),
        caller: Caller::system("tests"),
    }
}

impl Raw {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    pub(crate) fn accept(self, value: &str) -> Self {
        self.header("accept", value)
    }

    pub(crate) fn json(mut self, body: &Value) -> Self {
        self.body = Body::from(body.to_string());
        self
    }

    pub(crate) fn text(mut self, body: impl Into<String>) -> Self {
        self.body = Body::from(body.into());
        self
    }

    pub(crate) fn caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    pub(crate) async fn response(self, server: &ApiServer) -> http::Response<Body> {
        let mut request = self.request.body(self.body).unwrap();
        request.extensions_mut().insert(self.caller);
        server.router().oneshot(request).await.unwrap()
    }

    pub(crate) async fn send(self, server: &ApiServer) -> Answer {
        let response = self.response(server).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// The answer as a stream of watch events.
    pub(crate) async fn watch(self, server: &ApiServer) -> Events {
        let response = self.response(server).await;
        assert_eq!(response.status(), StatusCode::OK);
        Events::of(response)
    }
}

pub(crate) async fn get(server: &ApiServer, path: &str) -> Answer {
    raw(Method::GET, path).send(server).await
}

pub(crate) async fn post(server: &ApiServer, path: &str, body: &Value) -> Answer {
    raw(Method::POST, path).json(body).send(server).await
}

pub(crate) async fn put(server: &ApiServer, path: &str, body: &Value) -> Answer {
    raw(Method::PUT, path).json(body).send(server).await
}

pub(crate) async fn patch(server: &ApiServer, path: &str, kind: &str, body: &Value) -> Answer {
    raw(Method::PATCH, path).header("content-type", kind).json(body).send(server).await
}

pub(crate) async fn delete(server: &ApiServer, path: &str) -> Answer {
    raw(Method::DELETE, path).send(server).await
}

/// The lines of a watch.
pub(crate) struct Events {
    body: axum::body::BodyDataStream,
    buffer: Vec<u8>,
}

impl Events {
    /// What an answer goes on to say.
    pub(crate) fn of(response: http::Response<Body>) -> Self {
        Self { body: response.into_body().into_data_stream(), buffer: Vec::new() }
    }

    /// The next event; `None` when the server has ended the watch.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.buffer.extend_from_slice(&self.body.next().await?.unwrap());
        }
    }

    /// The next event as its type and its object's name.
    pub(crate) async fn brief(&mut self) -> String {
        let event = self.next().await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
        format!("{} {name}", event["type"].as_str().unwrap())
    }
}

/// The resourceVersion of an object or list.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}
