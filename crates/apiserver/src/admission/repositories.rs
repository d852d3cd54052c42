//! Admission of Repositories.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::Value;
use windlass_api::repositories::{self, RepositoryRules};
use windlass_api::{FieldError, Repository, secret_use};

use super::{Object, secrets};
use crate::failure::{Failure, Result};
use crate::verbs::Context;
use windlass_store::{Key, Page};

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
    let mut errors = repositories::offered(&new, old.as_ref(), &others, &inner.rules.repositories);
    errors.extend(foreign_secrets(context, &new, old.as_ref()).await?);
    Ok(errors)
}

/// Refuses Secrets that a repository names and may not use. One that is not there yet is judged when it is read.
async fn foreign_secrets(
    context: &Context,
    new: &Repository,
    old: Option<&Repository>,
) -> Result<Vec<FieldError>> {
    let namespace = new.metadata.namespace.as_deref().unwrap_or_default();
    let unmoved = old.is_some_and(|old| old.spec.url() == new.spec.url());
    let named = new.secure.named();
    let before = old.map(|old| old.secure.named());
    let mut errors = Vec::new();
    for (index, (field, name)) in named.into_iter().enumerate() {
        let unchanged = unmoved && before.is_some_and(|before| before[index].1 == name);
        if name.is_empty() || name == secrets::TAKEN || unchanged {
            continue;
        }
        let Ok(key) = Key::new("", "secrets", namespace, name) else { continue };
        let Some(found) = context.inner.store.get(&key).await? else { continue };
        let secret: SecretHead =
            serde_json::from_slice(&found.value).map_err(|error| Failure::internal(&error))?;
        if let Err(refusal) = secret_use::check(&secret.metadata, secret.kind.as_deref(), new) {
            let message = format!("secret {name:?} may not be used: {refusal}");
            errors.push(FieldError::forbidden(&format!("secure.{field}.name"), message));
        }
    }
    Ok(errors)
}

/// What says whom a Secret serves.
#[derive(serde::Deserialize)]
struct SecretHead {
    metadata: ObjectMeta,
    #[serde(rename = "type")]
    kind: Option<String>,
}

fn typed(object: &Object) -> Result<Repository, serde_json::Error> {
    Repository::deserialize(&Value::Object(object.clone()))
}
