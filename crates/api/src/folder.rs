//! Folders, which hold dashboards and folders.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{consts::FOLDER_GROUP, wire::is_zero};

/// A folder. Its parent is in the annotation `grafana.app/folder`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Folder {
    /// Standard object metadata; the parent folder and the manager are in the annotations.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// What the folder should be.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::folder_spec")]
    pub spec: FolderSpec,
}

impl Folder {
    /// The version that is served and stored.
    pub const VERSION: &'static str = "v1beta1";
}

root_object!(Folder {
    group: FOLDER_GROUP,
    version: Folder::VERSION,
    plural: "folders",
    always: [spec],
    unless_zero: []
});

/// What a folder should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FolderSpec {
    /// Name that people read.
    #[serde(default)]
    pub title: String,
    /// What the folder is for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub description: String,
    /// Fields that are not ours; kept as they came.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
