//! Which names in a tree are safe to hand on: what Git refuses to check out is refused here, on every system
//! (Git: `verify_path` with `core.protectHFS` and `core.protectNTFS`), and text that would disturb a terminal or
//! a log besides.

use std::fmt::Write as _;

/// Says why a name of one path segment is refused; nothing if it is fine.
pub fn refuse(name: &[u8]) -> Option<&'static str> {
    let Ok(name) = std::str::from_utf8(name) else {
        return Some("its name is not UTF-8");
    };
    if name.is_empty() {
        return Some("its name is empty");
    }
    if name.contains('/') {
        return Some("its name contains a slash");
    }
    if name == "." || name == ".." {
        return Some("its name is \".\" or \"..\"");
    }
    if name.chars().any(char::is_control) {
        return Some("its name contains a control character");
    }
    if is_hfs_dot_git(name) || is_ntfs_dot_git(name) {
        return Some("its name is \".git\" in disguise");
    }
    None
}

/// `.git` on a file system that ignores case and these characters (Git: `is_hfs_dotgit`).
fn is_hfs_dot_git(name: &str) -> bool {
    let ignored = |c: char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    name.chars().filter(|c| !ignored(*c)).map(|c| c.to_ascii_lowercase()).eq(".git".chars())
}

/// `.git` or its short name on a file system that ignores case, trailing dots and spaces, has streams behind a
/// colon, and separates by backslashes (Git: `is_ntfs_dotgit`).
fn is_ntfs_dot_git(name: &str) -> bool {
    name.split('\\').any(|part| {
        let part = part.split(':').next().unwrap_or_default();
        let part = part.trim_end_matches(['.', ' ']);
        part.eq_ignore_ascii_case(".git") || part.eq_ignore_ascii_case("git~1")
    })
}

/// A path as it may be shown and logged: control characters and broken UTF-8 escaped.
pub fn shown(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() { text.extend(c.escape_default()) } else { text.push(c) }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_fine() {
        for name in
            ["a.json", ".gitignore", ".github", "git~2", "..a", "a..", "héllo wörld", "日本", ".gitx", "a:b"]
        {
            assert_eq!(refuse(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn names_that_git_refuses_are_refused() {
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "/etc",
            ".git",
            ".GIT",
            ".Git",
            "git~1",
            "GIT~1",
            ".git.",
            ".git ",
            ".git . .",
            ".git::$INDEX_ALLOCATION",
            "git~1:x",
            "a\\.git",
            ".git\\config",
            "a\\git~1\\b",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{200f}",
            "a\nb",
            "\u{1b}[31m",
            "\u{7f}",
            "\u{85}",
        ] {
            assert!(refuse(name.as_bytes()).is_some(), "{name:?}");
        }
        assert_eq!(refuse(b"a\xff"), Some("its name is not UTF-8"));
    }

    #[test]
    fn names_are_shown_without_what_disturbs_a_terminal() {
        assert_eq!(shown(b"a/\x1b[31m\xff\xc3\xa4"), "a/\\u{1b}[31m\\xff\u{e4}");
    }
}
