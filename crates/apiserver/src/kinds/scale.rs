//! How many there are of what a custom object stands for, as `autoscaling/v1` has it.

use std::sync::Arc;

use super::core::{kind, problem, schemas, served};
use super::kind::{Builtin, KindError, ServedKind};
use windlass_apimachinery::table::Column;

/// The kind `Scale`, which is a view of other objects and never stored.
pub(super) fn scale() -> Result<ServedKind, KindError> {
    let mut v1 = served("autoscaling", "Scale", &schemas()?["Scale"])?;
    let count = |name: &str, path: &str| {
        Column::json_path(name, "integer", path).map_err(|error| problem(name, &error))
    };
    v1.columns = vec![
        Column::name(),
        count("Desired", ".spec.replicas")?,
        count("Available", ".status.replicas")?,
        Column::custom_age(),
    ];
    let kind = kind(Builtin::Scale, "Scale", &[], true, vec![v1]);
    Ok(ServedKind { kind: Arc::new(kind), version: 0 })
}
