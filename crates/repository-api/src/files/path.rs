//! Paths of files in requests.

use windlass_api::status;
use windlass_git::EntryKind;
use windlass_resources::paths::{self, Class};

use crate::answer::Refusal;

/// Characters of a refused path that are repeated.
const SHOWN: usize = 200;

/// A path in a repository that a request may name: what Git takes, and what a pull would not leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePath {
    /// Without a slash at either end.
    pub(crate) text: String,
    /// Whether a folder is meant: the path ended in a slash.
    pub(crate) is_folder: bool,
}

/// What a file is good for, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileClass {
    /// It stands for an object.
    Resource,
    /// It describes its folder.
    FolderMetadata,
    /// It is text for people.
    Markdown,
    /// It is not for us.
    Other,
}

impl FilePath {
    /// Judges a path that was decoded once. The refusal says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        let (name, is_folder) = match text.strip_suffix('/') {
            Some(folder) => (folder, true),
            None => (text, false),
        };
        judge(name, is_folder)?;
        Ok(Self { text: name.to_owned(), is_folder })
    }

    /// The file that is there for a folder to be there: Git knows no empty ones.
    pub(crate) fn keep(&self) -> String {
        format!("{}/.keep", self.text)
    }

    pub(crate) fn class(&self) -> FileClass {
        match paths::classify(&self.text, EntryKind::File) {
            Class::Resource => FileClass::Resource,
            Class::FolderMetadata => FileClass::FolderMetadata,
            Class::Other if has_extension(&self.text, "md") => FileClass::Markdown,
            Class::Other | Class::Skipped { .. } => FileClass::Other,
        }
    }
}

/// Refuses a path that leads out of the repository or that no pull would look at. The rules are those of Git's trees
/// and of pulls, and no others.
pub(crate) fn judge(path: &str, is_folder: bool) -> Result<(), Refusal> {
    if path.len() > paths::MAX_LENGTH {
        let message = format!("the path has {} bytes; at most {} are allowed", path.len(), paths::MAX_LENGTH);
        return Err(status::bad_request(message).into());
    }
    let refuse = |why: &str| {
        let shown: String = windlass_git::printable_path(path.as_bytes()).chars().take(SHOWN).collect();
        Err(status::bad_request(format!("the path \"{shown}\" is refused: {why}")).into())
    };
    if path.starts_with('/') {
        return refuse("it is absolute; paths are relative to the repository's folder");
    }
    if let Some(reason) = path.split('/').find_map(|name| windlass_git::refuse_name(name.as_bytes())) {
        return refuse(reason);
    }
    let keep = format!("{path}/.keep");
    match paths::classify(if is_folder { &keep } else { path }, EntryKind::File) {
        Class::Skipped { reason, .. } => match reason.message() {
            Some(message) => refuse(&message),
            None => refuse("files and folders whose names begin with a dot are hidden, and not for objects"),
        },
        Class::Resource | Class::FolderMetadata | Class::Other => Ok(()),
    }
}

fn has_extension(path: &str, wanted: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_taken() {
        for (text, is_folder, class) in [
            ("a.json", false, FileClass::Resource),
            ("team a/größe.YAML", false, FileClass::Resource),
            ("a/b/", true, FileClass::Other),
            ("a/_folder.json", false, FileClass::FolderMetadata),
            ("README.md", false, FileClass::Markdown),
            ("a.png", false, FileClass::Other),
        ] {
            let path = FilePath::parse(text).unwrap();
            assert_eq!((path.is_folder, path.class()), (is_folder, class), "{text}");
        }
    }

    #[test]
    fn paths_that_lead_out_or_into_git_are_refused_with_the_reason() {
        let long = "a/".repeat(600);
        for (text, why) in [
            ("../a.json", "\"..\""),
            ("a/../../b.json", "\"..\""),
            ("/etc/passwd.json", "absolute"),
            ("a//b.json", "empty"),
            ("", "empty"),
            ("/", "empty"),
            ("a\0.json", "control character"),
            ("a\n.json", "control character"),
            (".git/config.json", ".git"),
            ("a/.GIT/x.json", ".git"),
            ("GIT~1/x.json", ".git"),
            (".g\u{200c}it/x.json", ".git"),
            ("a\\.git\\x.json", ".git"),
            ("a\\b.json", "not allowed"),
            ("%2e%2e/a.json", "not allowed"),
            (".hidden/a.json", "hidden"),
            ("1/2/3/4/5/6/7/8/9.json", "deeper"),
            (long.as_str(), "at most 1024"),
        ] {
            let refused = FilePath::parse(text).unwrap_err();
            let message = refused.0.message.unwrap();
            assert!(message.contains(why) && !message.contains(['\0', '\n']), "{text:?}: {message}");
            assert_eq!(refused.0.code, Some(400));
        }
    }
}
