//! Stored objects in the clear, and Secrets as they are stored.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::failure::Result;
use crate::kinds::Kind;
use crate::request::Target;
use crate::seal;
use crate::state::Inner;
use windlass_apimachinery::document;
use windlass_store::Object;

impl Inner {
    /// The stored object of this name in the target's namespace.
    pub(crate) async fn find(&self, target: &Target, name: &str) -> Result<Option<Object>> {
        // A name that cannot be stored names nothing.
        let Ok(key) = target.key(name) else { return Ok(None) };
        Ok(self.store.get(&key).await?)
    }

    /// The stored bytes of an object in the clear.
    pub(crate) fn plain<'a>(&self, kind: &Kind, value: &'a Bytes) -> Result<Cow<'a, [u8]>> {
        self.opened(kind, value, false)
    }

    /// As [`Self::plain`], to be read: of a Secret that cannot be opened, what is not secret.
    pub(crate) fn shown<'a>(&self, kind: &Kind, value: &'a Bytes) -> Result<Cow<'a, [u8]>> {
        self.opened(kind, value, true)
    }

    fn opened<'a>(&self, kind: &Kind, value: &'a Bytes, unopened: bool) -> Result<Cow<'a, [u8]>> {
        if !kind.sealed() {
            return Ok(Cow::Borrowed(value));
        }
        let (value, managed) = document::split(value);
        let mut object = serde_json::from_slice(&value)?;
        match self.sealer.open(&mut object) {
            Err(_) if unopened => seal::show_unopened(&mut object),
            opened => opened?,
        }
        Ok(Cow::Owned(document::encode(&kind.stored().head, &object, managed)))
    }

    /// As [`Self::load`]; what is secret of a Secret that cannot be opened stays sealed.
    pub(crate) fn load_unopened(&self, kind: &Kind, object: &Object) -> Result<Map<String, Value>> {
        let mut map = serde_json::from_slice(&document::split(&object.value).0)?;
        if kind.sealed() {
            // It stays as it is stored.
            let _ = self.sealer.open(&mut map);
        }
        Ok(map)
    }

    /// A stored object, parsed and in the clear, in its stored version and without its `managedFields`.
    pub(crate) fn load(&self, kind: &Kind, object: &Object) -> Result<Map<String, Value>> {
        let mut map = serde_json::from_slice(&document::split(&object.value).0)?;
        if kind.sealed() {
            self.sealer.open(&mut map)?;
        }
        if object.revision < kind.stored().since {
            kind.stored().read(&mut map, object.revision);
        }
        Ok(map)
    }

    /// What is stored of a Secret.
    pub(crate) fn seal(
        &self,
        kind: &Kind,
        mut object: Map<String, Value>,
        managed: &[u8],
    ) -> Result<Vec<u8>> {
        self.sealer.seal(&mut object)?;
        Ok(document::encode(&kind.stored().head, &object, managed))
    }
}
