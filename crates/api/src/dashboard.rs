//! Dashboards, of which only the envelope is ours.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::consts::DASHBOARD_GROUP;

/// A dashboard. What is in it belongs to Grafana: the spec is any JSON object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dashboard {
    /// Standard object metadata; the folder and the manager are in the annotations.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// The dashboard itself; `title` is its name for people.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::dashboard_spec")]
    pub spec: Map<String, Value>,
    /// What the server found out about the dashboard.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(schema_with = "crate::schema::free_object")]
    pub status: Map<String, Value>,
}

impl Dashboard {
    /// The version that is stored.
    pub const VERSION: &'static str = "v1beta1";
    /// Every version that is served; all have the same shape here.
    pub const VERSIONS: [&'static str; 2] = ["v0alpha1", Self::VERSION];

    /// The title, or `""`.
    pub fn title(&self) -> &str {
        self.spec.get("title").and_then(Value::as_str).unwrap_or_default()
    }
}

root_object!(Dashboard {
    group: DASHBOARD_GROUP,
    version: Dashboard::VERSION,
    plural: "dashboards",
    always: [spec],
    unless_zero: [status]
});
