//! Checks that no compiler makes: layers, file headers, one place for versions, links in documents.

mod circles;
mod deny;
mod unused;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::shell::root;

/// The layer of every workspace package; a package may import its own layer's packages and lower ones only.
///
/// `docs/architecture.md` draws this table.
const LAYERS: &[(&str, u8)] = &[
    ("windlass-api", 0),
    ("windlass-http-client", 0),
    ("windlass-settings", 0),
    ("windlass-telemetry", 0),
    ("windlass-apimachinery", 1),
    ("windlass-auth", 1),
    ("windlass-git", 1),
    ("windlass-git-server", 1),
    ("windlass-github", 1),
    ("windlass-lease-queue", 1),
    ("windlass-loki", 1),
    ("windlass-oci", 1),
    ("windlass-runtime", 1),
    ("windlass-store", 1),
    ("windlass-apiserver", 2),
    ("windlass-provisioner", 2),
    ("windlass-artifact", 2),
    ("windlass-repository", 2),
    ("windlass-resources", 2),
    ("windlass-admission", 3),
    ("windlass-launch", 3),
    ("windlass-repository-api", 3),
    ("windlass-commit-tracker", 4),
    ("windlass-jobs-operator", 4),
    ("windlass-repository-operator", 4),
    ("windlass-source-operator", 4),
    ("flux-commit-tracker", 5),
    ("jobs-controller", 5),
    ("repository-controller", 5),
    ("source-controller", 5),
    ("windlass", 5),
    ("windlass-cluster", 6),
    ("windlass-conformance", 6),
    ("windlass-counted-heap", 6),
    ("windlass-e2e", 6),
    ("windlass-github-stand-in", 6),
    ("windlass-otlp-receiver", 6),
    ("xtask", 6),
];

/// Imports that no layer number forbids and that must not exist all the same, with the reason.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("windlass-repository-api", "windlass-apiserver", "the API of repositories runs beside any API server"),
    ("windlass-apiserver", "windlass-repository-api", "`windlass` mounts one on the other"),
    ("windlass-apiserver", "windlass-admission", "the program passes the rules of its kinds in"),
    ("windlass-apiserver", "git2", "only the git crate names git2"),
    ("windlass-apimachinery", "tokio", "what the API does to documents needs no input or output"),
    ("windlass-apimachinery", "kube", "it does to documents what others do over a connection"),
    ("windlass-store", "windlass-apimachinery", "a store keeps bytes, whatever they mean"),
    ("windlass-lease-queue", "windlass-runtime", "the queue is driven, it drives nothing"),
    ("windlass-settings", "tokio", "settings do no input or output but reading files"),
    ("windlass-api", "tokio", "wire types do no input or output"),
    ("windlass-git-server", "windlass-git", "it is the other side, which Git's own programs speak for"),
];

/// Crates that only one package may name, with that package.
const OWNED: &[(&str, &str)] = &[
    ("config", "windlass-settings"),
    ("git2", "windlass-git"),
    ("octocrab", "windlass-github"),
    ("opentelemetry-otlp", "windlass-telemetry"),
    ("redb", "windlass-store"),
    ("russh", "windlass-git"),
];

/// Lines after which a source file wants to be two.
const MAX_LINES: usize = 700;

pub(crate) fn run() -> Result<()> {
    let mut findings = Vec::new();
    findings.extend(layers()?);
    findings.extend(manifests()?);
    let packages = metadata()?.packages;
    findings.extend(unused::dependencies(&packages)?);
    findings.extend(circles::findings(&packages)?);
    findings.extend(sources()?);
    findings.extend(mod_files(&tracked(".rs")?));
    findings.extend(links()?);
    findings.extend(deny::findings()?);
    if findings.is_empty() {
        return Ok(());
    }
    bail!("{} finding(s):\n  {}", findings.len(), findings.join("\n  "))
}

/// Imports that run upward, or that [`FORBIDDEN`] or [`OWNED`] names.
pub(crate) fn layers() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let layers: BTreeMap<&str, u8> = LAYERS.iter().copied().collect();
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(layer) = layers.get(name) else {
            findings.push(format!("{name} has no layer: give it one in xtask/src/tidy.rs"));
            continue;
        };
        for dependency in &package.dependencies {
            let is_dev = dependency.kind == cargo_metadata::DependencyKind::Development;
            let import = dependency.name.as_str();
            if let Some(other) = layers.get(import)
                && other > layer
                && !is_dev
            {
                findings.push(format!("{name} (layer {layer}) imports {import} (layer {other})"));
            }
            if let Some((_, _, reason)) =
                FORBIDDEN.iter().find(|(from, to, _)| *from == name && *to == import)
                && !is_dev
            {
                findings.push(format!("{name} must not import {import}: {reason}"));
            }
            if let Some((_, owner)) = OWNED.iter().find(|(owned, _)| *owned == import)
                && *owner != name
            {
                findings.push(format!("{name} names {import}, which is {owner}'s alone"));
            }
        }
    }
    Ok(findings)
}

fn metadata() -> Result<cargo_metadata::Metadata> {
    cargo_metadata::MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("failed to read the workspace's metadata")
}

/// Versions outside the workspace's table, and packages that leave the workspace's lints.
fn manifests() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for manifest in tracked("Cargo.toml")? {
        if manifest == Path::new("Cargo.toml") {
            continue;
        }
        let text = std::fs::read_to_string(root().join(&manifest))?;
        let shown = manifest.display();
        if !text.contains("[lints]\nworkspace = true") {
            findings.push(format!("{shown} does not take the workspace's lints"));
        }
        let mut in_dependencies = false;
        for line in text.lines() {
            if line.starts_with('[') {
                in_dependencies = line.contains("dependencies");
            } else if in_dependencies && line.contains('=') && !line.contains("workspace = true") {
                findings.push(format!("{shown}: `{line}` belongs into [workspace.dependencies]"));
            }
        }
    }
    Ok(findings)
}

/// Source files without a first sentence, too long, or with what must not be committed.
fn sources() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tracked(".rs")? {
        let text = std::fs::read_to_string(root().join(&file)).unwrap_or_default();
        let shown = file.display();
        // A file of tests is named for what it tests; every other one says what it is.
        let is_test = file.file_name().is_some_and(|name| name == "tests.rs")
            || file.iter().any(|part| part == "tests");
        if !is_test && !text.trim_start().starts_with("//!") {
            findings.push(format!("{shown} does not say what it is in a first `//!` line"));
        }
        let lines = text.lines().count();
        if lines > MAX_LINES {
            findings.push(format!("{shown} has {lines} lines, over {MAX_LINES}: split it by concept"));
        }
        for (number, line) in text.lines().enumerate() {
            let at = number + 1;
            if line.ends_with(' ') {
                findings.push(format!("{shown}:{at} ends with a space"));
            }
            if line.trim_start().starts_with("fn test_") || line.trim_start().starts_with("async fn test_") {
                findings.push(format!("{shown}:{at} names a test `test_…`: say what it shows"));
            }
            let starts = line.trim_start();
            let attribute =
                text.lines().skip(number).take(6).take_while(|line| !line.ends_with(")]")).count();
            let attribute = text.lines().skip(number).take(attribute + 1).collect::<String>();
            if (starts.starts_with("#[allow(") || starts.starts_with("#![allow("))
                && !attribute.contains("reason")
            {
                findings.push(format!("{shown}:{at} allows a lint without a reason"));
            }
        }
    }
    Ok(findings)
}

/// Files called `mod.rs`: a module is in a file of its own name, and what is in it in a folder beside that.
fn mod_files(files: &[PathBuf]) -> Vec<String> {
    let named = files.iter().filter(|file| file.ends_with("mod.rs"));
    let folders = named.filter_map(|file| Some((file.display(), file.parent()?.display())));
    folders.map(|(file, name)| format!("{file} is called mod.rs: use {name}.rs and {name}/")).collect()
}

/// Links in Markdown that name a file which is not there.
fn links() -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in tracked(".md")? {
        let text = std::fs::read_to_string(root().join(&file)).unwrap_or_default();
        let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            if !root().join(&folder).join(path).exists() {
                findings.push(format!("{} links to {path}, which does not exist", file.display()));
            }
        }
    }
    // Test names in the architecture document are promises: each must exist in the code.
    let document = root().join("docs/architecture.md");
    if let Ok(text) = std::fs::read_to_string(&document) {
        let sources: String = tracked(".rs")?
            .iter()
            .map(|file| std::fs::read_to_string(root().join(file)).unwrap_or_default())
            .collect();
        for name in text.lines().flat_map(named_tests) {
            if !sources.contains(&format!("fn {name}(")) {
                findings.push(format!("docs/architecture.md names the test {name}, which does not exist"));
            }
        }
    }
    Ok(findings)
}

/// The tests that a line names: whatever is back-quoted after `Test:`.
fn named_tests(line: &str) -> impl Iterator<Item = &str> {
    let tests = line.split_once("Test:").map_or("", |(_, tests)| tests);
    tests.split('`').skip(1).step_by(2)
}

/// Files that Git tracks or would track, by how their name ends.
fn tracked(ending: &str) -> Result<Vec<PathBuf>> {
    let output = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("failed to ask git for the files")?;
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.ends_with(ending))
        .map(PathBuf::from)
        .filter(|file| root().join(file).is_file())
        .collect())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    #[test]
    fn imports_run_downward_only() {
        let findings = super::layers();
        assert!(matches!(&findings, Ok(none) if none.is_empty()), "{findings:?}");
    }

    #[test]
    fn no_circle_of_modules_is_larger_than_three_files() {
        let findings = super::metadata().and_then(|metadata| super::circles::findings(&metadata.packages));
        assert!(matches!(&findings, Ok(none) if none.is_empty()), "{findings:?}");
    }

    #[test]
    fn a_file_that_is_called_mod_is_named() {
        let files = ["a/src/kit/mod.rs", "a/src/kit.rs", "a/src/my_mod.rs"].map(PathBuf::from);
        assert_eq!(
            super::mod_files(&files),
            ["a/src/kit/mod.rs is called mod.rs: use a/src/kit.rs and a/src/kit/"]
        );
    }

    #[test]
    fn every_test_that_a_line_of_a_document_names_is_looked_for() {
        let line = "- **A `kind` is served.** Test: `a`, `b` and `c`; as processes, `d`";
        assert_eq!(super::named_tests(line).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(super::named_tests("- **A `kind` is served.**").next(), None);
    }
}
