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
    if one.branch() != other.branch() {
        return None;
    }
    // Before the URLs, which cost more: many repositories of one URL have paths of their own.
    let found = of_paths(one.path(), other.path())?;
    let is_same =
        one_url == other_url || (!differ(one_url, other_url) && comparable(one_url) == comparable(other_url));
    is_same.then_some(found)
}

fn of_paths(one: &str, other: &str) -> Option<Overlap> {
    let mut one = one.split('/').filter(|segment| !segment.is_empty());
    let mut other = other.split('/').filter(|segment| !segment.is_empty());
    loop {
        match (one.next(), other.next()) {
            (None, None) => return Some(Overlap::Same),
            (None, Some(_)) | (Some(_), None) => return Some(Overlap::Nested),
            (Some(a), Some(b)) if a == b => {}
            (Some(_), Some(_)) => return None,
        }
    }
}

/// Whether the ends of two URLs tell already that they lead to different places: among many repositories nearly all do,
/// and parsing each pair would be what comparing them costs.
fn differ(one: &str, other: &str) -> bool {
    let end = |url: &str| {
        let trimmed = url.trim_end_matches('/').trim_end_matches(".git");
        trimmed.as_bytes().last_chunk::<4>().copied()
    };
    match (end(one), end(other)) {
        // What is plain in a path stands for itself, however the rest is written.
        (Some(one), Some(other)) => {
            let plain = |end: &[u8; 4]| end.iter().all(u8::is_ascii_alphanumeric);
            plain(&one) && plain(&other) && !one.eq_ignore_ascii_case(&other)
        }
        _ => false,
    }
}

/// A URL without what makes no difference: the case of scheme and host, and what servers take or leave.
fn comparable(url: &str) -> String {
    let trimmed = url.trim_end_matches('/').trim_end_matches(".git");
    url::Url::parse(trimmed).map_or_else(|_| trimmed.to_owned(), |url| url.to_string())
}
