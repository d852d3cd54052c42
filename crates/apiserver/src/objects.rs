//! Stored objects in the clear, and Secrets as they are stored.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::kinds::Kind;
use crate::seal::{self, SealError};
use crate::state::Inner;
use windlass_apimachinery::document;
use windlass_store::Object;

impl Inner {
    /// The stored bytes of an object in the clear.
    pub(crate) fn plain<'a>(&self, kind: &Kind, value: &'a Bytes) -> Result<Cow<'a, [u8]>> {
        if !kind.sealed() {
            return Ok(Cow::Borrowed(value));
        }
        self.opened(kind, value, |error| Err(Failure::internal(&error)))
    }

    /// As [`Self::plain`], to be read: of a Secret that cannot be opened, what is not secret.
    pub(crate) fn shown<'a>(&self, kind: &Kind, value: &'a Bytes) -> Result<Cow<'a, [u8]>> {
        if !kind.sealed() {
            return Ok(Cow::Borrowed(value));
        }
        self.opened(kind, value, |_| Ok(()))
    }

    fn opened(
        &self,
        kind: &Kind,
        value: &Bytes,
        unopened: impl FnOnce(SealError) -> Result<()>,
    ) -> Result<Cow<'static, [u8]>> {
        let (value, managed) = document::split(value);
        let mut object = parse(&value)?;
        if let Err(error) = self.sealer.open(&mut object) {
            unopened(error)?;
            seal::show_unopened(&mut object);
        }
        Ok(Cow::Owned(document::encode(&kind.stored().head, &object, managed)))
    }

    /// As [`Self::load`]; what is secret of a Secret that cannot be opened stays sealed.
    pub(crate) fn load_unopened(&self, kind: &Kind, object: &Object) -> Result<Map<String, Value>> {
        let mut map = parse(&document::split(&object.value).0)?;
        if kind.sealed() {
            // It stays as it is stored.
            let _ = self.sealer.open(&mut map);
        }
        Ok(map)
    }

    /// A stored object, parsed and in the clear, in its stored version and without its `managedFields`.
    pub(crate) fn load(&self, kind: &Kind, object: &Object) -> Result<Map<String, Value>> {
        let mut map = parse(&document::split(&object.value).0)?;
        if kind.sealed() {
            self.sealer.open(&mut map).map_err(|error| Failure::internal(&error))?;
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
        self.sealer.seal(&mut object).map_err(|error| Failure::internal(&error))?;
        Ok(document::encode(&kind.stored().head, &object, managed))
    }
}

fn parse(value: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(value).map_err(|error| Failure::internal(&error))
}
