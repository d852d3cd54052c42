//! Dependencies that a manifest names and no source file of its package does.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{Dependency, DependencyKind, Package};

use super::tracked;
use crate::shell::root;

/// Dependencies without a use: a normal one has to be named in `src`, any other in `src` or `tests`.
///
/// A text search: a crate that only a macro's expansion names is used by somebody's import of that macro.
pub(super) fn dependencies(packages: &[Package]) -> Result<Vec<String>> {
    let files = tracked(".rs")?;
    let mut findings = Vec::new();
    for package in packages {
        let folder = package.manifest_path.parent().context("a manifest has a folder")?;
        let folder = folder.strip_prefix(root()).unwrap_or(folder);
        let read = |below: &Path| -> String {
            files
                .iter()
                .filter(|file| file.starts_with(below))
                .map(|file| std::fs::read_to_string(root().join(file)).unwrap_or_default())
                .collect()
        };
        let sources = read(&folder.as_std_path().join("src"));
        let mut tests = read(&folder.as_std_path().join("tests"));
        for borrowed in borrowed_modules(&tests) {
            tests.push_str(&read(&borrowed));
        }
        for dependency in &package.dependencies {
            let name = import_name(dependency);
            let shown = &dependency.name;
            let manifest = folder.join("Cargo.toml");
            match (dependency.kind, names(&sources, &name), names(&tests, &name)) {
                (DependencyKind::Normal, false, true) => {
                    findings.push(format!("{manifest}: only tests name {shown}: make it a dev-dependency"));
                }
                (DependencyKind::Normal | DependencyKind::Development, false, false) => {
                    findings.push(format!("{manifest}: nothing names {shown}: remove it"));
                }
                _ => {}
            }
        }
    }
    Ok(findings)
}

/// Modules that tests take from another package's tests (`#[path = "../../../other/tests/it/kit.rs"]`): the file, and the
/// folder of what is in it.
fn borrowed_modules(tests: &str) -> Vec<PathBuf> {
    let paths = tests.split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next());
    let files = paths.filter_map(|path| Some(Path::new("crates").join(path.rsplit_once("../")?.1)));
    files.flat_map(|file| [file.with_extension(""), file]).collect()
}

fn import_name(dependency: &Dependency) -> String {
    dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_")
}

/// Whether a path in `text` starts with `name`.
fn names(text: &str, name: &str) -> bool {
    let part_of_a_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = &text[at + name.len()..];
        let is_whole = !before.is_some_and(|c| part_of_a_word(c) || c == '.' || c == '"');
        let is_path =
            after.starts_with("::") || (text[..at].ends_with("use ") && after.starts_with([';', ' ']));
        is_whole && is_path
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{borrowed_modules, names};

    #[test]
    fn a_module_of_another_package_is_its_file_and_its_folder() {
        let tests = r#"#[path = "../../../other/tests/it/kit.rs"] mod kit; #[path = "kit/git.rs"] mod git;"#;
        let modules = ["crates/other/tests/it/kit", "crates/other/tests/it/kit.rs"].map(PathBuf::from);
        assert_eq!(borrowed_modules(tests), modules);
    }

    #[test]
    fn a_crate_is_used_where_a_path_starts_with_its_name() {
        assert!(names("use http::Method;", "http"));
        assert!(names("let method = http::Method::GET;", "http"));
        assert!(names("use rustls as tls;", "rustls"));
    }

    #[test]
    fn a_part_of_another_name_is_no_use() {
        assert!(!names("use tokio_util::sync::CancellationToken;", "tokio"));
        assert!(!names("use my_http::Method;", "http"));
        assert!(!names("\"http://127.0.0.1\"; let http = 1;", "http"));
    }
}
