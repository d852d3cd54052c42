//! Reading a request's body.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::protobuf;
use crate::failure::{Failure, Result};
use crate::json::{self, Parsed};

/// The largest body that is read, as on a real server.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

pub(crate) async fn read_bytes(body: Body) -> Result<Bytes> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::too_large(BODY_LIMIT)),
        Err(error) => Err(Failure::bad_request(format!("failed to read the request body: {error}"))),
    }
}

/// A document from JSON or YAML (or a core kind from protobuf), as the content type says; JSON when it says
/// nothing.
pub(crate) fn read_document(headers: &HeaderMap, bytes: &[u8]) -> Result<Parsed> {
    let kind = headers.get(header::CONTENT_TYPE).map_or(Ok(""), |value| value.to_str()).unwrap_or("?");
    match kind.split(';').next().unwrap_or_default().trim() {
        "" | "application/json" => json::parse(bytes).map_err(|error| {
            Failure::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
        }),
        "application/yaml" | "text/yaml" | "application/x-yaml" => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Failure::bad_request("error converting YAML to JSON: yaml: invalid UTF-8"))?;
            let value = windlass_api::yaml::parse(text)
                .map_err(|error| Failure::bad_request(format!("error converting YAML to JSON: {error}")))?;
            Ok(Parsed { value, duplicates: Vec::new() })
        }
        "application/vnd.kubernetes.protobuf" => {
            let value = protobuf::decode(bytes)
                .ok_or_else(|| Failure::unsupported_media_type(&["application/json", "application/yaml"]))?;
            Ok(Parsed { value, duplicates: Vec::new() })
        }
        _ => Err(Failure::unsupported_media_type(&["application/json", "application/yaml"])),
    }
}
