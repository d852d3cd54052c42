//! `deny.toml` held over what is really built: by cargo-deny where it is installed, else by `cargo tree`.
//!
//! `cargo tree` resolves features as a build does. `cargo metadata` also lists optional crates that nothing enables,
//! so that it would report crates which are in no binary.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::shell::{cargo, root};

/// As much of `deny.toml` as is held here; cargo-deny reads the rest.
#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
    #[serde(default)]
    features: Vec<FeatureBan>,
    #[serde(default)]
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
struct FeatureBan {
    #[serde(rename = "crate")]
    name: String,
    deny: BTreeSet<String>,
    reason: String,
}

#[derive(Deserialize)]
struct Skip {
    /// `name` or `name@version`, the version as long as it has to be.
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// One package of the tree.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: String,
    features: Vec<String>,
}

/// Whatever in the tree breaks a rule of `deny.toml`.
pub(super) fn findings() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(root().join("deny.toml")).context("failed to read deny.toml")?;
    if Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return cargo_deny();
    }
    let rules: Rules = toml::from_str(&text).context("failed to parse deny.toml")?;
    Ok(judge(&rules, &packages()?))
}

/// What cargo-deny says, which needs no index for these checks.
fn cargo_deny() -> Result<Vec<String>> {
    let output = cargo()
        .args(["deny", "--offline", "check", "bans", "licenses", "sources"])
        .output()
        .context("failed to run cargo-deny")?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    Ok(vec![format!("cargo deny check failed:\n{}", String::from_utf8_lossy(&output.stderr))])
}

/// Every package of others that a build of this workspace or its tests holds, on this platform.
fn packages() -> Result<BTreeSet<Package>> {
    let output = cargo()
        .args(["tree", "--workspace", "--locked", "--edges", "normal,build,dev", "--prefix", "none"])
        .args(["--format", "{p}\t{l}\t{f}"])
        .output()
        .context("failed to run cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(package).collect())
}

/// A line of `cargo tree`; nothing for a package of this workspace, whose folder is named after its version.
fn package(line: &str) -> Option<Package> {
    let mut columns = line.split('\t');
    let mut words = columns.next()?.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    if words.any(|word| word.starts_with("(/")) {
        return None;
    }
    let license = columns.next().unwrap_or_default().to_owned();
    let features = columns.next().unwrap_or_default().trim_end_matches(" (*)");
    let features = features.split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect();
    Some(Package { name: name.to_owned(), version: version.to_owned(), license, features })
}

fn judge(rules: &Rules, packages: &BTreeSet<Package>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, license, features } = package;
        versions.entry(name).or_default().insert(version);
        if !is_allowed(&rules.licenses, name, license) {
            findings.push(format!("{name} {version} is under {license:?}, which deny.toml does not allow"));
        }
        if let Some(ban) = rules.bans.deny.iter().find(|ban| ban.name == *name) {
            findings.push(format!("{name} {version} is in the tree: {}", ban.reason));
        }
        for ban in rules.bans.features.iter().filter(|ban| ban.name == *name) {
            for feature in features.iter().filter(|feature| ban.deny.contains(*feature)) {
                findings.push(format!("{name} {version} has the feature {feature}: {}", ban.reason));
            }
        }
    }
    let skipped = |name: &str, version: &str| {
        rules.bans.skip.iter().find(|skip| match skip.name.split_once('@') {
            Some((skipped, start)) => skipped == name && has_prefix(version, start),
            None => skip.name == name,
        })
    };
    for (name, versions) in &versions {
        let counted = versions.iter().filter(|version| skipped(name, version).is_none()).count();
        if counted > 1 {
            let versions = versions.iter().copied().collect::<Vec<_>>().join(" and ");
            findings.push(format!(
                "{name} is in the tree as {versions}: agree on one, or give a reason in deny.toml"
            ));
        }
    }
    for skip in &rules.bans.skip {
        let (name, start) = skip.name.split_once('@').unwrap_or((&skip.name, ""));
        let needed = versions.get(name).is_some_and(|versions| {
            versions.len() > 1 && versions.iter().any(|version| has_prefix(version, start))
        });
        if !needed || skip.reason.is_empty() {
            findings
                .push(format!("deny.toml skips {}, which is not there twice: remove the line", skip.name));
        }
    }
    findings
}

/// Whether `version` starts with all of `start`'s numbers.
fn has_prefix(version: &str, start: &str) -> bool {
    version
        .strip_prefix(start)
        .is_some_and(|rest| start.is_empty() || rest.is_empty() || rest.starts_with('.'))
}

/// Whether a licence expression can be met with the licences that are allowed: `AND` of `OR`s, as crates write them.
fn is_allowed(rules: &Licenses, name: &str, expression: &str) -> bool {
    let exception = rules.exceptions.iter().find(|exception| exception.name == name);
    let allowed = |license: &str| {
        rules.allow.contains(license) || exception.is_some_and(|exception| exception.allow.contains(license))
    };
    // An older spelling of OR.
    let expression = expression.replace(" / ", " OR ").replace('/', " OR ");
    all_of(&expression).iter().all(|part| {
        let part = part.trim().trim_start_matches('(').trim_end_matches(')');
        part.split(" OR ").any(|license| allowed(license.trim()))
    })
}

/// The parts of an expression between the `AND`s that are outside parentheses.
fn all_of(expression: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_usize);
    for word in expression.split(' ') {
        if word == "AND" && depth == 0 {
            parts.push(String::new());
            continue;
        }
        depth = (depth + word.matches('(').count()).saturating_sub(word.matches(')').count());
        if let Some(part) = parts.last_mut() {
            part.push_str(word);
            part.push(' ');
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0", "Unicode-3.0"]
        exceptions = [{ crate = "roots", allow = ["CDLA-Permissive-2.0"] }]
        [bans]
        deny = [{ crate = "ring", reason = "one provider" }]
        features = [{ crate = "git2", deny = ["ssh"], reason = "no libssh2" }]
        skip = [{ crate = "syn@2", reason = "derives of others" }]
    "#;

    fn judged(lines: &[&str]) -> Vec<String> {
        let packages = lines.iter().filter_map(|line| package(line)).collect();
        match toml::from_str::<Rules>(RULES) {
            Ok(rules) => judge(&rules, &packages),
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn a_tree_that_keeps_the_rules_has_no_findings() {
        let tree = [
            "windlass-api v0.1.0 (/somewhere/crates/api)\tUnlicensed\t",
            "syn v2.0.1\tMIT OR Apache-2.0\tdefault",
            "syn v3.0.9 (proc-macro)\t(MIT OR GPL-3.0) AND Unicode-3.0\t",
            "git2 v0.21.0\tMIT/Apache-2.0\tvendored-libgit2 (*)",
            "roots v1.0.0\tCDLA-Permissive-2.0\t",
        ];
        assert_eq!(judged(&tree), [""; 0]);
    }

    #[test]
    fn each_broken_rule_is_named() {
        let tree = [
            "ring v0.17.14\tMIT AND GPL-3.0\t",
            "git2 v0.21.0\tMIT\tdefault,ssh",
            "rand v0.8.1\tMIT\t",
            "rand v0.9.1\tMIT\t",
        ];
        assert_eq!(
            judged(&tree),
            [
                "git2 0.21.0 has the feature ssh: no libssh2",
                "ring 0.17.14 is under \"MIT AND GPL-3.0\", which deny.toml does not allow",
                "ring 0.17.14 is in the tree: one provider",
                "rand is in the tree as 0.8.1 and 0.9.1: agree on one, or give a reason in deny.toml",
                "deny.toml skips syn@2, which is not there twice: remove the line",
            ]
        );
    }

    #[test]
    fn a_version_is_matched_by_whole_numbers() {
        assert!(has_prefix("2.0.1", "2") && has_prefix("2.0.1", "2.0") && has_prefix("2.0.1", ""));
        assert!(!has_prefix("20.0.1", "2"));
    }
}
