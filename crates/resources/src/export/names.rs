//! How directories and files are called, by the titles of what is in them, and objects that get new names.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

/// A name that is always the same for this text and old name, and that nothing else has.
pub fn renamed(seed: &str, name: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(format!("{seed}/{name}").as_bytes()).into();
    let half = digest.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    format!("w{half:016x}")
}

pub(super) fn joined(directory: &str, name: &str) -> String {
    let directory = directory.trim_matches('/');
    if directory.is_empty() || name.is_empty() {
        format!("{directory}{name}")
    } else {
        format!("{directory}/{name}")
    }
}

/// A directory for a folder of this title; a second one of the same title has its name in it.
pub(super) fn unique(taken: &mut BTreeSet<String>, above: &str, title: &str, name: &str) -> String {
    let segment = segment(title);
    let segment = if segment.is_empty() { slug(name) } else { segment };
    let path = joined(above, &segment);
    if taken.insert(path.clone()) {
        return path;
    }
    let path = joined(above, &format!("{segment}-{}", slug(name)));
    taken.insert(path.clone());
    path
}

/// A title as a directory: what no path may have becomes a hyphen.
fn segment(title: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, ' ' | '_' | '.' | '-') { c } else { '-' };
    let text: String = title.chars().map(plain).collect();
    text.trim_matches(|c| matches!(c, ' ' | '.' | '-')).to_owned()
}

/// A title as the name of a file: lower case, digits and hyphens.
pub(super) fn slug(title: &str) -> String {
    let mut text = String::with_capacity(title.len());
    for c in title.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => text.push(c.to_ascii_lowercase()),
            _ if text.ends_with('-') || text.is_empty() => {}
            _ => text.push('-'),
        }
    }
    text.truncate(80);
    text.trim_end_matches('-').to_owned()
}
