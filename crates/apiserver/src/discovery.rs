//! What is served, for clients that ask: groups, versions, resources, the server's version, `OpenAPI`.
//!
//! Answers that clients keep carry an `ETag`; a request that has seen it is answered 304.

mod groups;
mod openapi;
mod openapi_v2;
mod types;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::{Value, json};

pub(crate) use openapi::OpenApi;

use self::openapi::Document;
use crate::catalog::Snapshot;
use crate::failure::{Failure, Result};
use crate::request::Route;

/// The Kubernetes version whose API machinery this server follows. Clients compare it with their own.
const KUBERNETES: (&str, &str) = ("1", "36");

/// The oldest minor version that the API machinery goes with.
const COMPATIBLE: &str = "35";

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a path that is no resource.
pub(crate) fn answer(registry: &Snapshot, route: &Route, uri: &Uri, headers: &HeaderMap) -> Result<Response> {
    match route {
        Route::Root => Ok(json_response(&json!({ "paths": groups::paths(registry) }))),
        Route::Health => Ok(plain_text("ok")),
        Route::Version => Ok(json_response(&version())),
        Route::CoreVersions | Route::Groups => {
            let core = matches!(route, Route::CoreVersions);
            if wants_aggregated(headers)? {
                return Ok(tagged(AGGREGATED, &groups::aggregated(registry, core), headers));
            }
            if core {
                return Ok(json_response(&json!({
                    "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })));
            }
            Ok(json_response(&groups::list(registry)))
        }
        Route::Group(name) => {
            groups::one(registry, name).map(|group| json_response(&group)).ok_or_else(Failure::unknown_path)
        }
        Route::GroupVersion { group, version } => groups::resources(registry, group, version)
            .map(|resources| json_response(&resources))
            .ok_or_else(Failure::unknown_path),
        Route::OpenApiIndex => Ok(tagged(JSON, &registry.openapi().index(registry), headers)),
        Route::OpenApi { group, version } => {
            let document =
                registry.openapi().document(registry, group, version).ok_or_else(Failure::unknown_path)?;
            Ok(openapi_response(document, uri, headers))
        }
        Route::OpenApiV2 => {
            let (kind, document) = registry.openapi().second(registry, headers);
            Ok(tagged_response(kind, document, headers))
        }
        Route::Resource(_) => Err(Failure::unknown_path()),
    }
}

fn json_response(value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn plain_text(text: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn tagged(kind: &'static str, value: &Value, headers: &HeaderMap) -> Response {
    tagged_response(kind, &Document::new(Bytes::from(value.to_string())), headers)
}

/// An answer that the client may have already.
fn tagged_response(kind: &'static str, document: &Document, seen: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", document.hash);
    let known = seen
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|one| one.trim().trim_start_matches("W/") == tag);
    let body = if known { Body::empty() } else { Body::from(document.json.clone()) };
    let mut response = Response::new(body);
    if known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// A document whose hash is in its address never changes under it; who asks with an old hash is sent on.
fn openapi_response(document: &Document, uri: &Uri, headers: &HeaderMap) -> Response {
    let asked = uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("hash="));
    match asked {
        Some(hash) if !hash.is_empty() && hash != document.hash => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
            if let Ok(target) = HeaderValue::from_str(&format!("{}?hash={}", uri.path(), document.hash)) {
                response.headers_mut().insert(header::LOCATION, target);
            }
            response
        }
        asked => {
            let mut response = tagged_response(JSON, document, headers);
            let caching = if asked.is_some() { "public, immutable" } else { "no-cache, private" };
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
            response
        }
    }
}

fn version() -> Value {
    let (major, minor) = KUBERNETES;
    // In Go's words, which clients compare with their own.
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": COMPATIBLE,
        "gitVersion": format!("v{major}.{minor}.0+windlass-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, architecture),
    })
}

/// Whether the first form in the Accept header that can be given is the aggregated one.
fn wants_aggregated(headers: &HeaderMap) -> Result<bool> {
    let mut any = false;
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for clause in values.flat_map(|text| text.split(',')).filter(|clause| !clause.trim().is_empty()) {
        any = true;
        let mut parts = clause.split(';').map(str::trim);
        if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
            continue;
        }
        let parts: Vec<&str> = parts.collect();
        let asks = |name: &str| parts.iter().find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        match asks("as") {
            None => return Ok(false),
            Some("APIGroupDiscoveryList")
                if asks("g") == Some("apidiscovery.k8s.io") && asks("v") == Some("v2") =>
            {
                return Ok(true);
            }
            Some(_) => {}
        }
    }
    if any { Err(Failure::not_acceptable()) } else { Ok(false) }
}
