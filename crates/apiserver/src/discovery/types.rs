//! The schemas of the types that every API group uses, and of the core kinds, as `k8s-openapi` knows them.
//!
//! What it does not know, how lists merge, is added here: `kubectl` and server-side apply's clients go by it.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SelfSubjectRulesReview};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta, Status};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::kinds::{Builtin, Review, ServedKind};

/// `io.k8s.apimachinery.pkg.apis.meta.v1.`: where the types of every group stand.
pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// A reference to a schema of the document.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Collects schemas with all that they refer to.
pub(super) struct Types(SchemaGenerator);

impl Types {
    /// With the types that every document has.
    pub(super) fn new() -> Self {
        let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
        generator.subschema_for::<ObjectMeta>();
        generator.subschema_for::<ListMeta>();
        generator.subschema_for::<Status>();
        generator.subschema_for::<DeleteOptions>();
        Self(generator)
    }

    /// Adds a core kind. Returns the name of its schema; `None` for any other kind.
    pub(super) fn core(&mut self, entry: &ServedKind) -> Option<String> {
        let generator = &mut self.0;
        let schema = match entry.kind.builtin? {
            Builtin::Secret => generator.subschema_for::<Secret>(),
            Builtin::ConfigMap => generator.subschema_for::<ConfigMap>(),
            Builtin::Event if entry.served().group.is_empty() => generator.subschema_for::<CoreEvent>(),
            Builtin::Event => generator.subschema_for::<Event>(),
            Builtin::Namespace => generator.subschema_for::<Namespace>(),
            Builtin::Lease => generator.subschema_for::<Lease>(),
            Builtin::Definition => generator.subschema_for::<CustomResourceDefinition>(),
            Builtin::Scale => generator.subschema_for::<Scale>(),
            Builtin::Review(Review::Subject) => generator.subschema_for::<SelfSubjectReview>(),
            Builtin::Review(Review::Access) => generator.subschema_for::<SelfSubjectAccessReview>(),
            Builtin::Review(Review::Rules) => generator.subschema_for::<SelfSubjectRulesReview>(),
        };
        let name = schema.as_value()["$ref"].as_str()?;
        Some(name.trim_start_matches("#/components/schemas/").to_owned())
    }

    /// The schemas by name.
    pub(super) fn schemas(mut self, group: &str, version: &str) -> Map<String, Value> {
        let mut schemas = self.0.take_definitions(true);
        for (name, field, extension) in merging() {
            if let Some(Value::Object(property)) =
                schemas.get_mut(&name).and_then(|schema| schema.pointer_mut(&format!("/properties/{field}")))
                && let Value::Object(extension) = extension
            {
                property.extend(extension);
            }
        }
        schemas.insert(
            format!("{META}Patch"),
            json!({ "type": "object", "description": "The body of a PATCH request." }),
        );
        let kinds = [("Status", vec![("", "v1")]), ("DeleteOptions", vec![("", "v1"), (group, version)])];
        for (name, mut groups) in kinds {
            groups.dedup();
            let gvk = |(group, version)| json!({ "group": group, "version": version, "kind": name });
            if let Some(schema) = schemas.get_mut(&format!("{META}{name}")) {
                schema["x-kubernetes-group-version-kind"] = groups.into_iter().map(gvk).collect();
            }
        }
        schemas
    }
}

/// How the lists and maps of these types merge: type, field, what its schema says.
fn merging() -> Vec<(String, &'static str, Value)> {
    const CRD: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    const NAMESPACE: &str = "io.k8s.api.core.v1.Namespace";
    let merge = "x-kubernetes-patch-strategy";
    let map = |key: &str| json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] });
    let keyed = |key: &str| {
        let mut map = map(key);
        map[merge] = json!("merge");
        map["x-kubernetes-patch-merge-key"] = json!(key);
        map
    };
    let atomic = || json!({ "x-kubernetes-list-type": "atomic" });
    vec![
        (format!("{META}ObjectMeta"), "ownerReferences", keyed("uid")),
        (
            format!("{META}ObjectMeta"),
            "finalizers",
            json!({ "x-kubernetes-list-type": "set", merge: "merge" }),
        ),
        (format!("{META}ObjectMeta"), "managedFields", atomic()),
        (format!("{NAMESPACE}Spec"), "finalizers", atomic()),
        (format!("{NAMESPACE}Status"), "conditions", keyed("type")),
        (format!("{CRD}Spec"), "versions", atomic()),
        (format!("{CRD}Status"), "conditions", map("type")),
    ]
}
