//! Whether two repositories cover the same files.

use crate::repository::RepositorySpec;

/// How two repositories cover the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// The same path.
    Same,
    /// One path lies inside the other.
    Nested,
}

/// How two repositories cover the same files of one remote; `None` when they do not.
///
/// Paths are compared segment by segment (`a` does not contain `ab`), and the root contains every path.
/// Branches are compared as written: which branch an empty one stands for, only the remote knows.
pub fn overlap(one: &RepositorySpec, other: &RepositorySpec) -> Option<Overlap> {
    let (one_url, other_url) = (one.url()?, other.url()?);
    if comparable(one_url) != comparable(other_url) || one.branch() != other.branch() {
        return None;
    }
    let mut one_path = one.path().split('/').filter(|segment| !segment.is_empty());
    let mut other_path = other.path().split('/').filter(|segment| !segment.is_empty());
    loop {
        match (one_path.next(), other_path.next()) {
            (None, None) => return Some(Overlap::Same),
            (None, Some(_)) | (Some(_), None) => return Some(Overlap::Nested),
            (Some(a), Some(b)) if a == b => {}
            (Some(_), Some(_)) => return None,
        }
    }
}

/// A URL without what makes no difference: the case of scheme and host, and what servers take or leave.
fn comparable(url: &str) -> String {
    let trimmed = url.trim_end_matches('/').trim_end_matches(".git");
    url::Url::parse(trimmed).map_or_else(|_| trimmed.to_owned(), |url| url.to_string())
}
