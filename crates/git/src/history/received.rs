//! What one transfer of history brings.

use super::commit::Commit;
use crate::ObjectId;
use crate::protocol::Shallow;

/// What came.
#[derive(Default)]
pub(super) struct ReceivedHistory {
    pub(super) commits: Vec<Commit>,
    /// Annotated tags, and what each is a tag of.
    pub(super) tags: Vec<(ObjectId, ObjectId)>,
    /// Commits whose parents were left out because of the depth.
    pub(super) shallow: Shallow,
    /// Whether it is what was asked for, and not the server's branches in its place.
    pub(super) exact: bool,
}
