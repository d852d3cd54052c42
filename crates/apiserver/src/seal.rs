//! Secrets at rest: what a Secret holds is stored only encrypted.
//!
//! AES-256-GCM under the server's sealing key, with a random nonce for each write. The object's place and UID are
//! authenticated with it, so that one Secret's ciphertext cannot be put under another name.
//! Sealed are the data and `kubectl apply`'s last-applied annotation, which repeats them.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use windlass_apimachinery::metadata::{self, LAST_APPLIED};

/// Where the ciphertext stands in a stored Secret.
const SEALED: &str = "sealed";
/// What is sealed of the object, with the annotation.
const DATA: &str = "data";
/// Says of a Secret that its content cannot be shown.
const UNOPENED: &str = "windlass.dev/unopened";

/// Seals and opens Secrets.
#[derive(Debug)]
pub(crate) struct Sealer {
    key: RandomizedNonceKey,
}

/// A Secret that could not be sealed or opened. Says nothing of its content.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    #[error("failed to use the sealing key")]
    Key,
    #[error("failed to seal a Secret")]
    Seal,
    #[error("failed to open a Secret: it was sealed with another key, or its stored form is damaged")]
    Open,
}

impl Sealer {
    pub(crate) fn new(key: &[u8; 32]) -> Result<Self, SealError> {
        RandomizedNonceKey::new(&AES_256_GCM, key).map(|key| Self { key }).map_err(|_| SealError::Key)
    }

    /// With a key that nobody knows.
    pub(crate) fn random() -> Result<Self, SealError> {
        let mut key = [0; 32];
        aws_lc_rs::rand::fill(&mut key).map_err(|_| SealError::Key)?;
        Self::new(&key)
    }

    /// Moves what is secret out of the object into its sealed form. What could not be opened stays as it is.
    pub(crate) fn seal(&self, object: &mut Map<String, Value>) -> Result<(), SealError> {
        if object.contains_key(SEALED) {
            return Ok(());
        }
        let aad = associated(object);
        let mut secret = Map::new();
        if let Some(data) = object.remove(DATA) {
            secret.insert(DATA.to_owned(), data);
        }
        if let Some(annotations) = annotations(object)
            && let Some(applied) = annotations.remove(LAST_APPLIED)
        {
            secret.insert(LAST_APPLIED.to_owned(), applied);
        }
        let mut bytes = serde_json::to_vec(&secret).map_err(|_| SealError::Seal)?;
        let nonce =
            self.key.seal_in_place_append_tag(Aad::from(aad), &mut bytes).map_err(|_| SealError::Seal)?;
        let mut sealed = nonce.as_ref().to_vec();
        sealed.append(&mut bytes);
        object.insert(SEALED.to_owned(), json!(STANDARD.encode(sealed)));
        Ok(())
    }

    /// Undoes [`Self::seal`]. An object that cannot be opened is left as it is.
    pub(crate) fn open(&self, object: &mut Map<String, Value>) -> Result<(), SealError> {
        let Some(Value::String(sealed)) = object.get(SEALED) else { return Ok(()) };
        let mut bytes = STANDARD.decode(sealed).map_err(|_| SealError::Open)?;
        if bytes.len() < NONCE_LEN {
            return Err(SealError::Open);
        }
        let mut text = bytes.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).map_err(|_| SealError::Open)?;
        let aad = associated(object);
        let plain = self.key.open_in_place(nonce, Aad::from(aad), &mut text).map_err(|_| SealError::Open)?;
        let mut secret: Map<String, Value> = serde_json::from_slice(plain).map_err(|_| SealError::Open)?;
        object.remove(SEALED);
        if let Some(applied) = secret.remove(LAST_APPLIED)
            && let Some(annotations) = annotations(object)
        {
            annotations.insert(LAST_APPLIED.to_owned(), applied);
        }
        object.extend(secret);
        Ok(())
    }
}

/// Takes off what could not be opened, and says so in its place.
pub(crate) fn show_unopened(object: &mut Map<String, Value>) {
    if object.remove(SEALED).is_some()
        && let Value::Object(annotations) =
            metadata::of(object).entry("annotations").or_insert_with(|| json!({}))
    {
        annotations.insert(UNOPENED.to_owned(), json!("sealed with a key that this server does not have"));
    }
}

/// What is authenticated beside the ciphertext: namespace, name and UID.
fn associated(object: &Map<String, Value>) -> Vec<u8> {
    ["namespace", "name", "uid"].map(|field| metadata::text(object, field)).join("\0").into_bytes()
}

fn annotations(object: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str) -> Map<String, Value> {
        let object = json!({ "metadata": { "namespace": "d", "name": name, "uid": "u",
            "annotations": { LAST_APPLIED: "hunter2", "other": "kept" } },
            "data": { "token": "aHVudGVyMg==" }, "type": "Opaque" });
        object.as_object().cloned().unwrap()
    }

    #[test]
    fn a_secret_survives_sealing_and_its_values_do_not_show() {
        let sealer = Sealer::new(&[7; 32]).unwrap();
        let mut object = secret("a");
        sealer.seal(&mut object).unwrap();
        let stored = Value::Object(object.clone()).to_string();
        assert!(!stored.contains("hunter2") && !stored.contains("aHVudGVyMg"), "{stored}");
        assert!(stored.contains("Opaque") && stored.contains("kept"));
        sealer.open(&mut object).unwrap();
        assert_eq!(object, secret("a"));
    }

    #[test]
    fn a_sealed_value_opens_under_no_other_name_or_key() {
        let sealer = Sealer::new(&[7; 32]).unwrap();
        let mut object = secret("a");
        sealer.seal(&mut object).unwrap();
        assert!(Sealer::new(&[8; 32]).unwrap().open(&mut object.clone()).is_err());
        object["metadata"]["name"] = json!("b");
        assert!(sealer.open(&mut object).is_err());
    }
}
