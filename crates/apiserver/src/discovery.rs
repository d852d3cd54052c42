//! What is served, for clients that ask: groups, versions, resources, the server's version, `OpenAPI`.
//!
//! Answers that clients keep carry an `ETag`; a request that has seen it is answered 304.

mod groups;
mod openapi;
mod openapi_v2;
mod types;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::{Value, json};

pub(crate) use openapi::OpenApi;

use self::openapi::Document;
use crate::catalog::Snapshot;
use crate::failure::{Failure, Result};
use crate::request::{Accept, Route};

/// The Kubernetes version whose API machinery this server follows. Clients compare it with their own.
const KUBERNETES: (&str, &str) = ("1", "36");

/// The oldest minor version that the API machinery goes with.
const COMPATIBLE: &str = "35";

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a path that is no resource.
pub(crate) fn answer(registry: &Snapshot, route: &Route, uri: &Uri, headers: &HeaderMap) -> Result<Response> {
    let found = match route {
        Route::Root => Some(json!({ "paths": groups::paths(registry) })),
        Route::Health => return Ok("ok".into_response()),
        Route::Version => Some(version()),
        Route::CoreVersions | Route::Groups => {
            let core = matches!(route, Route::CoreVersions);
            if Accept::wants_aggregated(headers)? {
                return Ok(tagged(AGGREGATED, &groups::aggregated(registry, core), headers));
            }
            Some(if core {
                json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })
            } else {
                groups::list(registry)
            })
        }
        Route::Group(name) => groups::one(registry, name),
        Route::GroupVersion { group, version } => groups::resources(registry, group, version),
        Route::OpenApiIndex => return Ok(tagged(JSON, &registry.openapi().index(), headers)),
        Route::OpenApi(path) => {
            let document = registry.openapi().document(path).ok_or_else(Failure::unknown_path)?;
            return Ok(openapi_response(document, uri, headers));
        }
        Route::OpenApiV2 => {
            let (kind, document) = registry.openapi().second(headers);
            return Ok(tagged_response(kind, document, headers));
        }
        Route::Resource(_) => None,
    };
    found.map(|found| Json(found).into_response()).ok_or_else(Failure::unknown_path)
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
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "public"),
        (header::VARY, "Accept"),
        (header::ETAG, &tag),
    ];
    if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else {
        (headers, document.json.clone()).into_response()
    }
}

/// A document whose hash is in its address never changes under it; who asks with an old hash is sent on.
fn openapi_response(document: &Document, uri: &Uri, headers: &HeaderMap) -> Response {
    let asked = uri.query().unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("hash="));
    match asked {
        Some(hash) if !hash.is_empty() && hash != document.hash => {
            let target = format!("{}?hash={}", uri.path(), document.hash);
            (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, target)]).into_response()
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
