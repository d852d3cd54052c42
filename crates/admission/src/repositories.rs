//! Admission of Repositories.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::Value;
use windlass_api::repositories::{self, RepositoryRules};
use windlass_api::{FieldError, GROUP, Repository, secret_use};
use windlass_apiserver::store::{Key, Page, Range, Store};
use windlass_apiserver::{AdmissionError, RAW_VALUE};

use crate::object::Object;

/// Fills in finalizers, the interval and trimmed URLs.
pub(crate) fn fill_in(rules: &RepositoryRules, old: Option<&Object>, new: &mut Object) {
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
pub(crate) async fn judge(
    rules: &RepositoryRules,
    old: Option<&Object>,
    new: &Object,
    store: &dyn Store,
) -> Result<Vec<FieldError>, AdmissionError> {
    let read = |object: &Object| typed(object).map_err(|error| AdmissionError::Unreadable(error.to_string()));
    let (new, old) = (read(new)?, old.map(read).transpose()?);
    let range = Range::new(GROUP, "repositories", new.metadata.namespace.as_deref())?;
    let page = store.list(&range, Page::default()).await?;
    let others: Vec<Repository> = page
        .objects
        .iter()
        .filter(|object| Some(object.key.name()) != new.metadata.name.as_deref())
        .filter_map(|object| serde_json::from_slice(&object.value).ok())
        .collect();
    let mut errors = repositories::offered(&new, old.as_ref(), &others, rules);
    errors.extend(foreign_secrets(store, &new, old.as_ref()).await?);
    Ok(errors)
}

/// Refuses Secrets that a repository names and may not use. One that is not there yet is judged when it is read.
async fn foreign_secrets(
    store: &dyn Store,
    new: &Repository,
    old: Option<&Repository>,
) -> Result<Vec<FieldError>, AdmissionError> {
    let namespace = new.metadata.namespace.as_deref().unwrap_or_default();
    let unmoved = old.is_some_and(|old| old.spec.url() == new.spec.url());
    let named = new.secure.named();
    let before = old.map(|old| old.secure.named());
    let mut errors = Vec::new();
    for (index, (field, name)) in named.into_iter().enumerate() {
        let unchanged = unmoved && before.is_some_and(|before| before[index].1 == name);
        if name.is_empty() || name == RAW_VALUE || unchanged {
            continue;
        }
        let Ok(key) = Key::new("", "secrets", namespace, name) else { continue };
        let Some(found) = store.get(&key).await? else { continue };
        let secret: SecretHead = serde_json::from_slice(&found.value).map_err(AdmissionError::Parse)?;
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
