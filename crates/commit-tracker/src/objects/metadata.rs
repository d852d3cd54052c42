//! What is kept of an object's metadata.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

use super::lenient::{lenient, object};

/// The fields that are read; all others stay behind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kept {
    #[serde(deserialize_with = "lenient")]
    name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    namespace: Option<String>,
    #[serde(deserialize_with = "lenient")]
    uid: Option<String>,
    #[serde(deserialize_with = "lenient")]
    resource_version: Option<String>,
    #[serde(deserialize_with = "lenient")]
    generation: u64,
    #[serde(deserialize_with = "lenient")]
    creation_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "lenient")]
    deletion_timestamp: Option<Timestamp>,
}

object!(Kept);

/// Reads `metadata`, for `#[serde(deserialize_with)]`: where it is, which one it is, since when, how often it was changed.
pub(super) fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let kept: Kept = lenient(deserializer)?;
    Ok(ObjectMeta {
        name: kept.name,
        namespace: kept.namespace,
        uid: kept.uid,
        resource_version: kept.resource_version,
        generation: i64::try_from(kept.generation).ok().filter(|generation| *generation > 0),
        creation_timestamp: kept.creation_timestamp.map(Time),
        deletion_timestamp: kept.deletion_timestamp.map(Time),
        ..ObjectMeta::default()
    })
}
