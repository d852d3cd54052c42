//! A repository for tests: files in memory, named by a hash of their content.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use windlass_git::{Entry, EntryKind, Limits, ObjectId, Revision, Tree};
use windlass_repository::{ReadError, Reader};

pub(crate) type Files = BTreeMap<String, Vec<u8>>;

pub(crate) fn id(content: &[u8]) -> ObjectId {
    let mut bytes = [0; 20];
    bytes.copy_from_slice(&Sha256::digest(content)[..20]);
    ObjectId::from_bytes(bytes)
}

pub(crate) fn tree(files: &Files) -> Tree {
    let entries = files.iter().map(|(path, content)| Entry {
        path: path.clone(),
        id: id(content),
        kind: EntryKind::File,
        size: content.len() as u64,
    });
    Tree { root: Some(id(b"")), entries: entries.collect(), rejected: Vec::new() }
}

pub(crate) fn reader(files: &Files, limits: Limits) -> Arc<dyn Reader> {
    let blobs = files.values().map(|content| (id(content), Bytes::from(content.clone()))).collect();
    Arc::new(Memory { blobs, limits })
}

struct Memory {
    blobs: BTreeMap<ObjectId, Bytes>,
    limits: Limits,
}

#[async_trait]
impl Reader for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn resolve(&self, _: &str, _: &CancellationToken) -> Result<Revision, ReadError> {
        Ok(Revision::new("tip"))
    }

    async fn tree(&self, _: &Revision, _: &str, _: &CancellationToken) -> Result<Tree, ReadError> {
        Ok(Tree::default())
    }

    async fn blobs(&self, ids: &[ObjectId], _: &CancellationToken) -> Result<Vec<Bytes>, ReadError> {
        ids.iter().map(|id| self.blobs.get(id).cloned().ok_or_else(|| ReadError::missing(*id))).collect()
    }
}
