//! The Secrets that an object's secure values are kept in: made, replaced and removed with it, in one commit.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use windlass_api::secret_use::SEALED_SECRET;

use super::Writer;
use crate::failure::{Failure, Result};
use crate::kinds::Builtin;
use crate::secure::{Secrets, name_of};
use windlass_apimachinery::metadata;
use windlass_apimachinery::names;
use windlass_store::{Key, Write};

type Object = Map<String, Value>;

impl Writer {
    /// The writes that make the new Secrets and remove the dropped ones; the object then names the new ones.
    pub(super) async fn secret_writes(
        &self,
        secrets: &Secrets,
        object: &mut Object,
        old: Option<&Object>,
    ) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for (field, value) in &secrets.taken {
            let (name, write) = self.make_secret(object, field, value)?;
            writes.push(write);
            if let Some(Value::Object(fields)) = object.get_mut("secure") {
                fields.insert(field.clone(), json!({ "name": name }));
            }
        }
        if let Some(old) = old {
            writes.extend(self.remove_secrets(old, &secrets.dropped).await?);
        }
        Ok(writes)
    }

    /// The writes that remove the Secrets which were made for an object, for when it is removed itself.
    pub(super) async fn removals(&self, object: &Object) -> Result<Vec<Write>> {
        if self.kind().builtin.is_some() {
            return Ok(Vec::new());
        }
        let fields = object.get("secure").and_then(Value::as_object);
        let names: Vec<String> = fields
            .into_iter()
            .flat_map(|fields| fields.values())
            .filter_map(|value| name_of(Some(value)).map(str::to_owned))
            .collect();
        self.remove_secrets(object, &names).await
    }

    /// Removes those of the Secrets that the object owns; a user's own Secret stays.
    async fn remove_secrets(&self, object: &Object, names: &[String]) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for name in names {
            let key = secret_key(metadata::text(object, "namespace"), name)?;
            let Some(secret) = self.inner.store.get(&key).await? else { continue };
            let document: Value = serde_json::from_slice(&secret.value)?;
            let owners = document["metadata"]["ownerReferences"].as_array();
            let owned =
                owners.into_iter().flatten().any(|owner| owner["uid"] == metadata::text(object, "uid"));
            if owned && document["type"] == SEALED_SECRET {
                writes.push(Write::delete(key, secret.revision));
            }
        }
        Ok(writes)
    }

    fn make_secret(&self, owner: &Object, field: &str, value: &SecretString) -> Result<(String, Write)> {
        let (inner, kind) = (&self.inner, self.kind());
        let (namespace, owner_name) = (metadata::text(owner, "namespace"), metadata::text(owner, "name"));
        let name = names::generate(&format!("{owner_name}-{}-", field.to_lowercase()));
        let secret = json!({
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": Uuid::new_v4().to_string(),
                "creationTimestamp": inner.now_text(),
                "ownerReferences": [{
                    "apiVersion": kind.stored().api_version,
                    "kind": kind.kind,
                    "name": owner_name,
                    "uid": metadata::text(owner, "uid"),
                    "controller": true,
                }],
            },
            "type": SEALED_SECRET,
            "data": { field: STANDARD.encode(value.expose_secret()) },
        });
        let registry = inner.catalog.current();
        let secret_kind = registry.builtin(Builtin::Secret)?;
        let Value::Object(secret) = secret else { return Err(Failure::unknown_path()) };
        let stored = inner.seal(secret_kind, secret, b"")?;
        Ok((name.clone(), Write::create(secret_key(namespace, &name)?, Bytes::from(stored))))
    }
}

fn secret_key(namespace: &str, name: &str) -> Result<Key> {
    Ok(Key::new("", "secrets", namespace, name)?)
}
