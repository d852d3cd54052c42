//! The rules that definitions state in CEL.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Writer;
use crate::failure::{Failure, FieldError, Result};

/// How long the rules of a definition may take over one object.
const EVALUATED_WITHIN: Duration = Duration::from_secs(2);

impl Writer {
    /// Adds what the rules of the kind's definition refuse to what its schema has refused, as kube-apiserver does: after an
    /// error that leaves the rules nothing to look at, it says so instead. They run on a thread that may be blocked.
    pub(super) async fn check_rules(
        &self,
        old: Option<&Map<String, Value>>,
        new: &Map<String, Value>,
        errors: &mut Vec<FieldError>,
    ) -> Result<()> {
        let served = self.attributes.target.served.clone();
        if served.kind.builtin.is_some() || !served.served().schema.has_rules() {
            return Ok(());
        }
        if errors.iter().any(FieldError::blocks_rules) {
            errors.push(FieldError::rules_not_checked());
            return Ok(());
        }
        let (new, old) = (Value::Object(new.clone()), old.map(|old| Value::Object(old.clone())));
        if !served.served().schema.has_due_rules(&new, old.as_ref()) {
            return Ok(());
        }
        let _turn = self.inner.evaluating.acquire().await;
        let check = move || served.served().schema.check_rules(&new, old.as_ref(), EVALUATED_WITHIN);
        let broken = tokio::task::spawn_blocking(check).await;
        errors.extend(broken.map_err(|error| Failure::internal(&error))?);
        Ok(())
    }
}
