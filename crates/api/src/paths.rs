//! Which paths and branch names are accepted.

/// Longest path, in bytes.
pub const MAX_PATH_LENGTH: usize = 1024;

/// What is wrong with a path that [`folder_path`] refuses, in one sentence for every case.
pub(crate) const FOLDER_MESSAGE: &str = "expected a folder inside the repository: no leading slash, no empty part and \
    none that begins with a dot, no control characters, backslashes and percent signs";
/// What is wrong with a path that [`safe_path`] refuses.
pub(crate) const SAFE_PATH_MESSAGE: &str = "expected a path inside the repository: letters, digits, spaces and \
    / _ . - only, at most 1024 of them, no empty part and none that begins with a dot";
/// What is wrong with a branch that [`branch_name`] refuses.
pub(crate) const BRANCH_MESSAGE: &str = "expected the name of a branch: letters, digits and - _ / . only, no leading \
    dash or slash, no slash or dot at the end, no two dots or slashes in a row, and no part that begins with a dot or \
    ends with .lock";

/// [`safe_path`] in CEL; the schema bounds the length.
macro_rules! path_cel {
    ($($path:literal)+) => {
        concat!("(", $($path,)+ ".matches('^[A-Za-z0-9 /_.-]*$') && !", $($path,)+ ".matches('//|(^|/)[.]'))")
    };
}
pub(crate) use path_cel;

/// [`folder_path`] in CEL.
macro_rules! folder_cel {
    ($path:literal) => {
        concat!("!", $path, ".matches(r'[\\p{Cc}%\\\\]|^/|//|(^|/)[.]')")
    };
}
pub(crate) use folder_cel;

/// [`branch_name`] in CEL, for a name that is not empty.
macro_rules! branch_cel {
    ($($branch:literal)+) => {
        concat!(
            "(", $($branch,)+ ".matches('^[A-Za-z0-9/_.-]+$') && !", $($branch,)+
            ".matches('^[-/]|[/.]$|[.][.]|//|(^|/)[.]|[.][lL][oO][cC][kK](/|$)'))"
        )
    };
}
pub(crate) use branch_cel;

/// Checks a path in a request: relative, plain characters, no way out of the repository.
///
/// The empty path is the root. The error says what is wrong, for a reader.
/// (Grafana: `safepath/safe.go`.)
pub fn safe_path(path: &str) -> Result<(), &'static str> {
    if path.len() > MAX_PATH_LENGTH {
        return Err("path is too long (at most 1024 bytes)");
    }
    if path.contains('%') {
        return Err("path contains percent-encoding, which is not allowed");
    }
    if !path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'/' | b'_' | b'.' | b'-')) {
        return Err("path contains characters other than letters, digits, spaces and / _ . -");
    }
    if path.contains("//") {
        return Err("path contains an empty segment (//)");
    }
    for segment in path.split('/') {
        match segment {
            "." | ".." => return Err("path traversal is not allowed"),
            _ if segment.starts_with('.') => return Err("hidden files and folders are not allowed"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks the folder of a repository: whatever the paths of files in it may be, and a slash at its end. The schema
/// bounds its length.
pub(crate) fn folder_path(path: &str) -> Result<(), &'static str> {
    let unusual = |c: char| c.is_control() || matches!(c, '%' | '\\');
    if path.starts_with('/') {
        return Err("path starts with a slash");
    }
    if path.contains(unusual) {
        return Err("path contains a control character, a backslash or a percent sign");
    }
    if path.contains("//") {
        return Err("path contains an empty segment (//)");
    }
    if path.split('/').any(|segment| segment.starts_with('.')) {
        return Err("path leads out, or to something hidden");
    }
    Ok(())
}

/// Checks a branch's name.
///
/// Stricter than Git where Grafana is (`R/git/branch.go`), and as strict as Git elsewhere, so that a name
/// that passes never fails as a ref.
pub fn branch_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("branch name is empty");
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'/' | b'.')) {
        return Err("branch name contains characters other than letters, digits and - _ / .");
    }
    if name.starts_with('/') || name.ends_with('/') {
        return Err("branch name starts or ends with a slash");
    }
    if name.starts_with('-') {
        return Err("branch name starts with a dash");
    }
    if name.ends_with('.') {
        return Err("branch name ends with a dot");
    }
    if name.contains("..") {
        return Err("branch name contains two dots in a row");
    }
    if name.contains("//") {
        return Err("branch name contains two slashes in a row");
    }
    for segment in name.split('/') {
        if segment.starts_with('.') {
            return Err("branch name has a part that starts with a dot");
        }
        if segment.len() >= 5 && segment[segment.len() - 5..].eq_ignore_ascii_case(".lock") {
            return Err("branch name has a part that ends with .lock");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_paths_are_safe() {
        for path in ["", "a", "grafana/dashboards", "a b/c_d-e.json", "trailing/", "v1.2/x"] {
            assert_eq!(safe_path(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn paths_that_leave_hide_or_disguise_are_refused() {
        let long = "a".repeat(1025);
        for path in [
            "../a",
            "a/../b",
            "a/..",
            "./a",
            ".git/config",
            "a/.hidden",
            "a//b",
            "a%2fb",
            "a\\b",
            "ä",
            "a\0",
            &long,
        ] {
            assert!(safe_path(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_repositorys_folder_may_be_what_its_files_paths_may_be() {
        for path in ["", "a", "a/", "grafana/dashboards/", "Größe & Co/(prod)+1", "日本/ü.d", "a b'c\"d"]
        {
            assert_eq!(folder_path(path), Ok(()), "{path:?}");
        }
        for path in [
            "/a", "/", "a//b", "a//", "../a", "a/..", "./a", ".git", "a/.b", "a%2fb", "a\\b", "a\nb",
            "a\u{85}",
        ] {
            assert!(folder_path(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn ordinary_branches_are_accepted() {
        for name in ["main", "feature/a-b_c", "release-1.2", "user/x/y"] {
            assert_eq!(branch_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn branches_that_git_or_grafana_would_refuse_are_refused() {
        for name in [
            "", "/a", "a/", "a.", "a.lock", "a.LOCK", "a.lock/b", "a..b", "a//b", "a b", "a~1", "-a", ".a",
            "a/.b", "ä", "a\n",
        ] {
            assert!(branch_name(name).is_err(), "{name:?}");
        }
    }
}
