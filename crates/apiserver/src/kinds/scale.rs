//! How many there are of what a custom object stands for, as `autoscaling/v1` has it.

use std::sync::Arc;

use serde_json::json;

use super::core::{kind, served};
use super::kind::{Builtin, KindError, ServedKind};
use windlass_apimachinery::table::Column;

/// The kind `Scale`, which is a view of other objects and never stored.
pub(super) fn scale() -> Result<ServedKind, KindError> {
    let number = || json!({ "type": "integer", "format": "int32" });
    let properties = json!({
        "spec": { "type": "object", "properties": { "replicas": number() } },
        "status": { "type": "object", "properties": { "replicas": number(), "selector": { "type": "string" } } },
    });
    let mut v1 = served("autoscaling", "v1", "Scale", &properties)?;
    let count = |name: &str, path: &str| {
        let problem = |problem: String| KindError::ReadDefinition { crd: "Scale".to_owned(), problem };
        Column::json_path(name, "integer", path).map_err(problem)
    };
    v1.columns = vec![
        Column::name(),
        count("Desired", ".spec.replicas")?,
        count("Available", ".status.replicas")?,
        Column::custom_age(),
    ];
    let kind = kind(Builtin::Scale, "Scale", "scales", "scale", &[], true, vec![v1]);
    Ok(ServedKind { kind: Arc::new(kind), version: 0 })
}
