//! Names of objects.

use std::fmt;
use std::str::FromStr;

use git2::Oid;
use serde::{Deserialize, Serialize};

use crate::GitError;

/// The name of an object: for a remote Git's SHA-1 of it, for a local folder the SHA-1 of a file's raw bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId([u8; 20]);

impl ObjectId {
    /// The id with these 20 bytes.
    pub const fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The name that Git gives to a file of this content.
    pub fn of_blob(content: &[u8]) -> Self {
        // It fails for what does not fit into memory, which this does.
        let hashed = git2::Oid::hash_object(git2::ObjectType::Blob, content);
        hashed.map_or(Self([0; 20]), object_id)
    }

    /// Its 20 bytes.
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not 40 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an object id: 40 hexadecimal digits are needed")]
pub struct ParseObjectIdError;

impl FromStr for ObjectId {
    type Err = ParseObjectIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 20];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseObjectIdError)?;
        Ok(Self(bytes))
    }
}

impl Serialize for ObjectId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

pub(crate) fn oid(id: ObjectId) -> Result<Oid, GitError> {
    Oid::from_bytes(id.as_bytes()).map_err(|error| GitError::cache("name an object", error))
}

pub(crate) fn object_id(oid: Oid) -> ObjectId {
    let mut bytes = [0; 20];
    let source = oid.as_bytes();
    bytes.copy_from_slice(&source[..20]);
    ObjectId::from_bytes(bytes)
}
