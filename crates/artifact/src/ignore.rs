//! `.sourceignore`: which files are left out. Flux: `pkg/sourceignore`, over the patterns of go-git 5.
//!
//! It looks like gitignore(5) and differs in this: each path is matched by itself, so that a file is taken back although a
//! directory above it is left out; names are matched by the shell's rules; and `**` stands for directories only as a whole
//! segment.

mod wildcard;

use std::collections::BTreeMap;

use self::wildcard::Wildcard;

/// Name of the file, in any directory.
pub const IGNORE_FILE: &str = ".sourceignore";

/// What is left out of every archive, unless a pattern takes it back.
const VCS: [&str; 4] = [".git/", ".gitignore", ".gitmodules", ".gitattributes"];
/// What is left out where nobody says a pattern.
const DEFAULTS: [&str; 20] = [
    "*.jpg",
    "*.jpeg",
    "*.gif",
    "*.png",
    "*.wmv",
    "*.flv",
    "*.tar.gz",
    "*.zip",
    ".github/",
    ".circleci/",
    ".travis.yml",
    ".gitlab-ci.yml",
    "appveyor.yml",
    ".drone.yml",
    "cloudbuild.yaml",
    "codeship-services.yml",
    "codeship-steps.yml",
    "**/.goreleaser.yml",
    "**/.sops.yaml",
    "**/.flux.yaml",
];

/// An ignore file that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// It is not UTF-8.
    #[error("{path} is not UTF-8 text; write it anew")]
    NotText {
        /// Which one.
        path: String,
    },
}

/// The patterns that hold for a tree, the last the strongest.
#[derive(Debug, Clone)]
pub struct Rules {
    patterns: Vec<Pattern>,
}

impl Rules {
    /// The rules of a tree: its ignore files by their paths, then `more`, which wins over them. The defaults hold only where
    /// there is no pattern at all.
    pub fn new(files: &BTreeMap<String, Vec<u8>>, more: Option<&str>) -> Result<Self, IgnoreError> {
        let mut directories = Vec::new();
        for (path, content) in files {
            let text =
                std::str::from_utf8(content).map_err(|_| IgnoreError::NotText { path: path.clone() })?;
            let mut domain: Vec<String> = path.split('/').map(str::to_owned).collect();
            domain.pop();
            directories.push((domain, text));
        }
        // A directory before those in it, neighbours by name.
        directories.sort();
        let mut own = Vec::new();
        for (domain, text) in directories {
            own.extend(lines(text).map(|line| Pattern::parse(line, &domain)));
        }
        own.extend(more.into_iter().flat_map(lines).map(|line| Pattern::parse(line, &[])));
        let given: &[&str] = if own.is_empty() { &DEFAULTS } else { &[] };
        let mut patterns: Vec<Pattern> =
            VCS.iter().chain(given).map(|text| Pattern::parse(text, &[])).collect();
        patterns.extend(own);
        Ok(Self { patterns })
    }

    /// Whether the file or directory at `path` is left out.
    pub fn ignores(&self, path: &str, is_directory: bool) -> bool {
        let segments: Vec<&str> = path.split('/').collect();
        let strongest = self.patterns.iter().rev().find(|pattern| pattern.matches(&segments, is_directory));
        strongest.is_some_and(|pattern| !pattern.takes_back)
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty())
}

#[derive(Debug, Clone)]
struct Pattern {
    /// The directory that it holds in.
    domain: Vec<String>,
    segments: Vec<Wildcard>,
    takes_back: bool,
    directories_only: bool,
}

impl Pattern {
    fn parse(line: &str, domain: &[String]) -> Self {
        let (takes_back, text) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let text = if text.ends_with("\\ ") { text } else { text.trim_end_matches(' ') };
        let (directories_only, text) = text.strip_suffix('/').map_or((false, text), |rest| (true, rest));
        let segments = text.split('/').map(Wildcard::new).collect();
        Self { domain: domain.to_vec(), segments, takes_back, directories_only }
    }

    fn matches(&self, path: &[&str], is_directory: bool) -> bool {
        if path.len() <= self.domain.len() || self.domain.iter().zip(path).any(|(own, found)| own != found) {
            return false;
        }
        let path = &path[self.domain.len()..];
        match self.segments.as_slice() {
            [name] => self.matches_name(name, path, is_directory),
            _ => self.matches_anchored(path, is_directory),
        }
    }

    /// A name alone matches at any depth, and what is below what it matches.
    fn matches_name(&self, name: &Wildcard, path: &[&str], is_directory: bool) -> bool {
        let Some(at) = path.iter().position(|segment| name.matches(segment)) else { return false };
        at + 1 < path.len() || is_directory || !self.directories_only
    }

    /// A pattern with a slash in it matches from its directory on, and what is below what it matches.
    fn matches_anchored(&self, mut path: &[&str], is_directory: bool) -> bool {
        let mut matched = false;
        let mut any_depth = false;
        for (index, segment) in self.segments.iter().enumerate() {
            let is_last = index + 1 == self.segments.len();
            match segment.text() {
                "" => any_depth = false,
                "**" if is_last => break,
                "**" => any_depth = true,
                inner if inner.contains("**") => return false,
                _ => {
                    let [first, rest @ ..] = path else { return false };
                    if any_depth {
                        any_depth = false;
                        let at = path.iter().position(|found| segment.matches(found));
                        matched = at.is_some();
                        path = at.map_or(&[], |at| &path[at + 1..]);
                    } else {
                        if !segment.matches(first) {
                            return false;
                        }
                        path = rest;
                        matched = true;
                    }
                }
            }
        }
        matched && !(self.directories_only && !is_directory && path.is_empty())
    }
}

#[cfg(test)]
mod tests;
