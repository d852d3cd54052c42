//! Names that are computed: folder identifiers, names of unnamed files, label values.
//!
//! Folder identifiers are part of the wire: another algorithm makes every folder of every repository anew.
//! (Grafana: resources/folders.go and its naming rules.)

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use sha2::{Digest, Sha256};

/// Longest name of a folder or dashboard.
pub(crate) const MAX_NAME: usize = 40;
/// Characters of the hash that are always kept.
const MIN_HASH: usize = 8;
/// Longest label value (Kubernetes).
const MAX_LABEL: usize = 63;

/// Identifier of the folder that stands for a directory, for example `team-a-0lq2xw3…` for `apps/Team A`.
pub(crate) fn folder_id(repository: &str, directory: &str) -> String {
    let directory = directory.trim_end_matches('/');
    with_hash(repository, directory, &sanitise(base(directory)))
}

/// Name of the object of a file that gives none, the same at every sync. The extension does not count, so that
/// turning JSON into YAML keeps the object.
pub(crate) fn unnamed_file(repository: &str, path: &str) -> String {
    let stem = stem(path);
    with_hash(repository, stem, base(stem))
}

/// A name for a document that gives a prefix instead of a name (`metadata.generateName`), the same at every sync.
pub(crate) fn generated(repository: &str, path: &str, prefix: &str) -> String {
    with_hash(repository, stem(path), prefix.trim_end_matches('-'))
}

/// The label value that stands for a repository: its name, or a hash of it where the name is too long.
pub(crate) fn label_value(repository: &str) -> String {
    if repository.len() <= MAX_LABEL {
        return repository.to_owned();
    }
    let digest: [u8; 32] = Sha256::digest(repository.as_bytes()).into();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    let hash = format!("{:032x}", u128::from_be_bytes(half));
    let kept = truncate(repository, MAX_LABEL - hash.len() - 1).trim_end_matches(['-', '.']);
    format!("{kept}-{hash}")
}

/// The last segment of a path.
pub(crate) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn stem(path: &str) -> &str {
    match path.rfind('.') {
        Some(dot) if !path[dot..].contains('/') => &path[..dot],
        _ => path,
    }
}

fn with_hash(repository: &str, key: &str, name: &str) -> String {
    let mut hasher = Sha256::new();
    for part in [repository, "/", key, name] {
        hasher.update(part.as_bytes());
    }
    let hash = sanitise(&URL_SAFE.encode(hasher.finalize()));
    let kept = name.len().min(MAX_NAME - MIN_HASH - 1);
    let room = MAX_NAME - kept - 1;
    let joined = sanitise(&format!("{}-{}", truncate(name, kept), truncate(&hash, room)));
    // Differs from the rule above only where that would leave what no server accepts, such as `-x` of `.-x`.
    joined.trim_matches(['-', '.']).to_owned()
}

/// Lower case, only `[a-z0-9.-]`, `_` and `/` as hyphens, no two hyphens in a row, at most 40 characters, no hyphen
/// or dot at either end (in that order: hyphens first).
fn sanitise(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_NAME));
    let mut after_hyphen = false;
    for character in text.chars().flat_map(char::to_lowercase) {
        match character {
            'a'..='z' | '0'..='9' | '.' => {
                after_hyphen = false;
                out.push(character);
            }
            '-' | '_' | '/' if !after_hyphen => {
                after_hyphen = true;
                out.push('-');
            }
            _ => {}
        }
        if out.len() == MAX_NAME {
            break;
        }
    }
    out.trim_matches('-').trim_matches('.').to_owned()
}

/// At most `max` bytes, cut between characters.
fn truncate(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

#[cfg(test)]
mod tests;
