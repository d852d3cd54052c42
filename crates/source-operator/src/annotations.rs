//! What annotations of a source ask for.

use windlass_api::flux::{GitRepository, REQUESTED_AT, SEMVER_FILTER};

/// The expression of the tags that a range chooses from.
pub(crate) fn semver_filter(object: &GitRepository) -> Option<&str> {
    object.metadata.annotations.as_ref()?.get(SEMVER_FILTER).map(String::as_str)
}

/// The last that somebody asked for.
pub(crate) fn requested_at(object: &GitRepository) -> Option<&str> {
    object.metadata.annotations.as_ref()?.get(REQUESTED_AT).map(String::as_str)
}
