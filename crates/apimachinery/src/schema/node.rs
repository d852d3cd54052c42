//! A schema that stands alone: judging a default by the schema that has it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::Value;

use super::Schema;
use crate::field_error::FieldError;

impl Schema {
    /// The schema of any value.
    pub fn node(document: &JSONSchemaProps) -> Result<Self, String> {
        Self::compile(document, "")
    }

    /// Whether pruning would take anything from this value.
    pub fn drops_of(&self, value: &Value) -> bool {
        let mut unknown = Vec::new();
        self.prune_value(&mut value.clone(), &mut String::new(), &mut unknown);
        !unknown.is_empty()
    }

    /// Everything that is wrong with this value; paths start at the value.
    pub fn judge(&self, value: &Value) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check(value, None, &mut String::new(), &mut errors);
        errors
    }
}
