//! Admission of Repositories.

use serde::Deserialize as _;
use serde_json::Value;
use windlass_api::repositories::{self, RepositoryRules};
use windlass_api::{FieldError, Repository};

use super::Object;
use crate::failure::{Failure, Result};
use crate::store::Page;
use crate::verbs::Context;

/// Fills in finalizers, the interval and trimmed URLs.
pub(super) fn admit(rules: &RepositoryRules, old: Option<&Object>, new: &mut Object) {
    let old = old.and_then(|old| typed(old).ok());
    let mut value = Value::Object(std::mem::take(new));
    // What is no Repository is refused by the schema.
    if let Err(error) = repositories::mutate_value(&mut value, old.as_ref(), rules) {
        tracing::debug!(%error, "a repository was not filled in");
    }
    if let Value::Object(value) = value {
        *new = value;
    }
}

/// Judges a repository by itself and beside the others of its namespace.
pub(super) async fn validate(
    context: &Context,
    old: Option<&Object>,
    new: &Object,
) -> Result<Vec<FieldError>> {
    let read = |object: &Object| typed(object).map_err(|error| Failure::bad_request(error.to_string()));
    let (new, old) = (read(new)?, old.map(read).transpose()?);
    let inner = &context.inner;
    let range = context.target.range()?;
    let page = inner.store.list(&range, Page::default()).await?;
    let others: Vec<Repository> = page
        .objects
        .iter()
        .filter(|object| Some(object.key.name()) != new.metadata.name.as_deref())
        .filter_map(|object| serde_json::from_slice(&object.value).ok())
        .collect();
    Ok(repositories::offered(&new, old.as_ref(), &others, &inner.rules.repositories))
}

fn typed(object: &Object) -> Result<Repository, serde_json::Error> {
    Repository::deserialize(&Value::Object(object.clone()))
}
