//! libgit2's process-wide options.

use std::sync::Once;

use git2::ConfigLevel;

use crate::GitError;

/// Sets libgit2's process-wide options. Call it first in `main`, before any thread uses this crate; calls after
/// the first do nothing.
///
/// - The host's system, global, XDG and programme configuration is not read: what a repository does here must
///   not depend on whose machine it is.
/// - Every object is hashed again when it is read, with the SHA-1 that detects collision attacks, and a
///   repository that belongs to another user is not opened.
/// - Memory is bounded: 8 MiB windows of pack files, at most 64 MiB mapped by all of them and 128 files open, and
///   a cache of at most 8 MiB of parsed objects.
pub fn init_process() -> Result<(), GitError> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| result = set_options());
    result.map_err(|error| GitError::SetUp { action: "set libgit2's options", detail: error.to_string() })
}

#[expect(
    unsafe_code,
    reason = "libgit2's options are process globals; `Once` and the contract above order them"
)]
fn set_options() -> Result<(), git2::Error> {
    git2::opts::strict_hash_verification(true);
    git2::opts::strict_object_creation(true);
    git2::opts::enable_caching(true);
    // SAFETY: these write globals without a lock. They run once, and the documented contract is that no other
    // thread uses libgit2 yet.
    unsafe {
        for level in [ConfigLevel::ProgramData, ConfigLevel::System, ConfigLevel::XDG, ConfigLevel::Global] {
            git2::opts::set_search_path(level, "")?;
        }
        git2::opts::set_verify_owner_validation(true)?;
        git2::opts::set_mwindow_size(8 << 20)?;
        git2::opts::set_mwindow_mapped_limit(64 << 20)?;
        git2::opts::set_mwindow_file_limit(128)?;
        git2::opts::set_cache_max_size(8 << 20)?;
    }
    Ok(())
}
