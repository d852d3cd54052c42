//! Which paths become objects, which only keep their directories, and which are refused.

use serde::Serialize;
use windlass_git::EntryKind;

/// Deepest path, in segments, the file's name included (Grafana: resources path rules).
pub const MAX_DEPTH: usize = 8;
/// Longest path, in bytes (Grafana: safepath).
pub const MAX_LENGTH: usize = 1024;
/// Name of the file that describes its directory's folder.
pub const FOLDER_METADATA: &str = "_folder.json";

/// What a path of a tree is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Class<'a> {
    /// A file that becomes an object.
    Resource,
    /// A `_folder.json`.
    FolderMetadata,
    /// A file that is no object; its directory still becomes a folder.
    Other,
    /// Left out. The directories above the offending segment, `safe` (may be empty), still become folders.
    Skipped {
        /// Why.
        reason: SkipReason,
        /// The deepest directory that is fine.
        safe: &'a str,
    },
}

/// Why a path is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SkipReason {
    /// A segment starts with a dot. Usual, and therefore not reported.
    Hidden,
    /// More than [`MAX_DEPTH`] segments.
    TooDeep,
    /// More than [`MAX_LENGTH`] bytes.
    TooLong,
    /// Control characters, backslashes, percent signs, empty segments, or `..`.
    Unsafe,
    /// A symbolic link with the name of a resource: links are never followed.
    Symlink,
}

impl SkipReason {
    /// A sentence about it, or nothing where a user does not want to be told.
    pub fn message(self) -> Option<String> {
        match self {
            Self::Hidden => None,
            Self::TooDeep => Some(format!(
                "the path is nested deeper than {MAX_DEPTH} levels; move the file up to have it synced"
            )),
            Self::TooLong => Some(format!("the path is longer than {MAX_LENGTH} bytes; shorten it")),
            Self::Unsafe => Some(
                "the path contains characters that are not allowed (control characters, '\\', '%', '..'); rename the file"
                    .to_owned(),
            ),
            Self::Symlink => {
                Some("symbolic links are not followed; replace the link by the file itself".to_owned())
            }
        }
    }
}

/// What to do with a path.
pub fn classify(path: &str, kind: EntryKind) -> Class<'_> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let supported = is_supported(name);
    let mut safe = "";
    let mut start = 0;
    let segments = path.split('/').count();
    if path.len() > MAX_LENGTH {
        return Class::Skipped { reason: SkipReason::TooLong, safe };
    }
    for (index, segment) in path.split('/').enumerate() {
        let is_name = index + 1 == segments;
        let reason = if is_name && segment == ".keep" {
            None
        } else if !is_safe_segment(segment) {
            Some(SkipReason::Unsafe)
        } else if segment.starts_with('.') {
            Some(SkipReason::Hidden)
        } else if index >= MAX_DEPTH {
            Some(SkipReason::TooDeep)
        } else {
            None
        };
        if let Some(reason) = reason {
            return Class::Skipped { reason, safe };
        }
        if !is_name {
            start += segment.len() + usize::from(index > 0);
            safe = &path[..start];
        }
    }
    match kind {
        EntryKind::File | EntryKind::Executable if name == FOLDER_METADATA => Class::FolderMetadata,
        EntryKind::File | EntryKind::Executable if supported => Class::Resource,
        EntryKind::Symlink if supported => Class::Skipped { reason: SkipReason::Symlink, safe },
        _ => Class::Other,
    }
}

/// The directory of a path; empty at the top.
pub fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| &path[..slash])
}

/// A directory and those above it, deepest first, without the top.
pub(crate) fn ancestors(directory: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(directory), |directory| Some(parent(directory)))
        .take_while(|directory| !directory.is_empty())
}

/// Whether `path` lies below the directory `above`; everything lies below the top.
pub(crate) fn is_below(path: &str, above: &str) -> bool {
    above.is_empty() || path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Levels of a path.
pub(crate) fn depth(path: &str) -> usize {
    if path.is_empty() { 0 } else { path.split('/').count() }
}

fn is_supported(name: &str) -> bool {
    format_of(name).is_some()
}

/// How a file is written, by its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Whether the file at `path` is YAML.
pub fn is_yaml(path: &str) -> bool {
    format_of(path) == Some(Format::Yaml)
}

pub(crate) fn format_of(path: &str) -> Option<Format> {
    let (_, extension) = path.rsplit_once('.')?;
    if extension.eq_ignore_ascii_case("json") {
        Some(Format::Json)
    } else if extension.eq_ignore_ascii_case("yaml") || extension.eq_ignore_ascii_case("yml") {
        Some(Format::Yaml)
    } else {
        None
    }
}

fn is_safe_segment(segment: &str) -> bool {
    !segment.is_empty()
        && segment != "."
        && segment != ".."
        && !segment.chars().any(|c| c.is_control() || matches!(c, '\\' | '%'))
}

#[cfg(test)]
mod tests;
