//! One pack in place of many.

use std::collections::HashSet;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::{Cache, State};
use crate::blob;
use crate::object_id::oid;
use crate::pack::open;
use crate::tree;
use crate::{GitError, Limits, ObjectId, private};

/// Packs beyond which a cache is consolidated.
pub(super) const MAX_PACKS: usize = 32;

/// Packs to replace by one, and the commits that it must hold.
pub(crate) struct Consolidation {
    packs: Vec<PathBuf>,
    tips: Vec<ObjectId>,
}

impl Cache {
    /// What there is to consolidate, if there are many packs.
    pub(super) fn crowded(&self, state: &State) -> Result<Option<Consolidation>, GitError> {
        let packs = self.packs()?;
        let tips = state.tips.iter().chain(&state.unpushed).copied().collect();
        Ok((packs.len() > MAX_PACKS).then_some(Consolidation { packs, tips }))
    }

    /// Consolidates, unless somebody does it already. Blocking.
    pub(crate) fn consolidate(&self, consolidation: &Consolidation) -> Result<(), GitError> {
        let Ok(_turn) = self.consolidating.try_lock() else {
            return Ok(());
        };
        self.repack(consolidation)
    }

    fn packs(&self) -> Result<Vec<PathBuf>, GitError> {
        let failed = |error| GitError::cache("list the packs", error);
        let mut packs = Vec::new();
        for entry in std::fs::read_dir(self.store.join("objects/pack")).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|it| it == "pack") {
                packs.push(path);
            }
        }
        Ok(packs)
    }

    fn repack(&self, Consolidation { packs: old, tips }: &Consolidation) -> Result<(), GitError> {
        let failed = |error: git2::Error| GitError::cache("consolidate the packs", error.message());
        let repository = open(&self.store)?;
        let odb = repository.odb().map_err(failed)?;
        let limits = &Limits { tree_bytes: u64::MAX, ..Limits::default() };
        let generation = self.generation();
        let mut large = HashSet::new();
        let mut builder = repository.packbuilder().map_err(failed)?;
        builder.set_threads(1);
        for tip in tips {
            builder.insert_object(oid(*tip)?, None).map_err(failed)?;
            let commit = tree::commit(&odb, *tip)?;
            builder.insert_object(oid(commit.id)?, None).map_err(failed)?;
            let never = CancellationToken::new();
            // What is no tree or file where one should be is kept as it is, and rejected when it is read. libgit2 has each
            // object in memory to write it: what is too large for that stays in the pack where it is.
            tree::changed(&odb, commit.tree, None, limits, &never, |odb, id, _| {
                if tree::header(odb, id)?.0 > limits.delta_bytes {
                    large.insert(id);
                    return Ok(());
                }
                builder.insert_object(oid(id)?, None).map_err(failed)
            })?;
        }
        let of_large = |id: &ObjectId| old.iter().find(|pack| blob::is_in(&pack.with_extension("idx"), *id));
        let kept: HashSet<&PathBuf> = large.iter().filter_map(of_large).collect();
        builder.write(&self.store.join("objects/pack"), private::FILE).map_err(failed)?;
        let new = builder.name().ok().flatten().map(|name| format!("pack-{name}.pack")).unwrap_or_default();
        let _alone = self.files.blocking_write();
        if self.generation() != generation {
            // It was made anew meanwhile: a pack of an old name may be a new one.
            return Ok(());
        }
        self.state().idle.clear();
        let goes =
            |pack: &&PathBuf| !kept.contains(pack) && pack.file_name().is_none_or(|name| *name != *new);
        for pack in old.iter().filter(goes) {
            for extension in ["idx", "pack", "rev"] {
                let _ = std::fs::remove_file(pack.with_extension(extension));
            }
        }
        tracing::debug!(store = %self.store.display(), packs = old.len(), "consolidated a git cache");
        Ok(())
    }
}
