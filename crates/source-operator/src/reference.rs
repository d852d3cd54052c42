//! Which commit a reference stands for. The strongest of several counts: commit, name, semver, tag, branch, as Flux's
//! documents have it (its code takes a tag before a range).

use regex::{Regex, RegexBuilder};
use windlass_api::flux::{GitRepositoryRef, SEMVER_FILTER};
use windlass_git::{ObjectId, Ref};
use windlass_runtime::{VersionRange, version_of_tag};

use crate::failure::Failure;

/// What is wanted of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Commit {
        id: ObjectId,
        branch: Option<String>,
    },
    Name(String),
    Semver {
        text: String,
        range: VersionRange,
        filter: Option<TagFilter>,
    },
    Tag(String),
    Branch(String),
    /// Whatever the repository's `HEAD` is.
    Default,
}

/// What it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) commit: ObjectId,
    /// As `status.artifact.revision` has it.
    pub(crate) revision: String,
    /// The tag that was asked for.
    pub(crate) tag: Option<TagRef>,
}

/// A tag as the server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagRef {
    /// Without `refs/tags/`.
    pub(crate) name: String,
    /// The tag itself where it is annotated, else the commit.
    pub(crate) id: ObjectId,
    pub(crate) annotated: bool,
}

/// Which tags are chosen from, and what of each is its version.
#[derive(Clone, Debug)]
pub(crate) struct TagFilter(Regex);

impl TagFilter {
    fn parse(text: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(text).size_limit(1 << 20).build();
        built.map(Self).map_err(|error| format!("{text:?} is no regular expression: {error}"))
    }

    fn version<'a>(&self, tag: &'a str) -> Option<&'a str> {
        let found = self.0.captures(tag)?;
        let part = found.name("version").or_else(|| found.get(1)).or_else(|| found.get(0));
        part.map(|part| part.as_str())
    }
}

impl PartialEq for TagFilter {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for TagFilter {}

const HEADS: &str = "refs/heads/";
const TAGS: &str = "refs/tags/";

fn set(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

impl Reference {
    /// `filter` is the expression of tags that a range chooses from; `default` the branch of whom names nothing.
    pub(crate) fn parse(
        wanted: Option<&GitRepositoryRef>,
        filter: Option<&str>,
        default: Option<&str>,
    ) -> Result<Self, Failure> {
        let failed = |message: String| Failure::fetch("GitOperationFailed", message);
        let wanted = wanted.cloned().unwrap_or_default();
        let branch = set(wanted.branch.as_ref());
        if let Some(commit) = set(wanted.commit.as_ref()) {
            let id = commit.parse();
            let id = id.map_err(|_| {
                failed(format!("spec.ref.commit {commit:?} is no commit: 40 hexadecimal digits are needed"))
            })?;
            return Ok(Self::Commit { id, branch: branch.map(str::to_owned) });
        }
        if let Some(name) = set(wanted.name.as_ref()) {
            if name.starts_with('/') || name.ends_with('/') || name.chars().any(char::is_whitespace) {
                return Err(failed(format!(
                    "spec.ref.name {name:?} is no name of a ref, such as refs/heads/main"
                )));
            }
            return Ok(Self::Name(name.to_owned()));
        }
        if let Some(text) = set(wanted.semver.as_ref()) {
            let range =
                VersionRange::parse(text).map_err(|what| failed(format!("spec.ref.semver: {what}")))?;
            let filter = filter.filter(|text| !text.is_empty()).map(TagFilter::parse).transpose();
            let filter = filter.map_err(|what| failed(format!("the annotation {SEMVER_FILTER}: {what}")))?;
            return Ok(Self::Semver { text: text.to_owned(), range, filter });
        }
        if let Some(tag) = set(wanted.tag.as_ref()) {
            return Ok(Self::Tag(tag.to_owned()));
        }
        Ok(match branch.or(default) {
            Some(branch) => Self::Branch(branch.to_owned()),
            None => Self::Default,
        })
    }

    /// Which refs have to be listed; none for a commit.
    pub(crate) fn prefix(&self) -> Option<String> {
        match self {
            Self::Commit { .. } => None,
            Self::Name(name) => Some(name.strip_suffix("^{}").unwrap_or(name).to_owned()),
            Self::Semver { .. } => Some(TAGS.to_owned()),
            Self::Tag(tag) => Some(format!("{TAGS}{tag}")),
            Self::Branch(branch) => Some(format!("{HEADS}{branch}")),
            Self::Default => Some("HEAD".to_owned()),
        }
    }

    /// Whether it can stand for a tag.
    pub(crate) fn is_tag(&self) -> bool {
        match self {
            Self::Tag(_) | Self::Semver { .. } => true,
            Self::Name(name) => name.starts_with(TAGS),
            _ => false,
        }
    }

    /// What it stands for among these refs.
    pub(crate) fn resolve(&self, refs: &[Ref]) -> Result<Resolved, Failure> {
        let find = |name: &str| refs.iter().find(|found| found.name == name);
        let of = |found: &Ref, name: &str| {
            let commit = found.peeled.unwrap_or(found.id);
            let tag = found.name.strip_prefix(TAGS).map(|name| TagRef {
                name: name.to_owned(),
                id: found.id,
                annotated: found.peeled.is_some(),
            });
            Resolved { commit, revision: format!("{name}@sha1:{commit}"), tag }
        };
        let missing =
            |what: String| Failure::fetch("GitOperationFailed", format!("the repository has no {what}"));
        match self {
            Self::Commit { id, branch: None } => {
                Ok(Resolved { commit: *id, revision: format!("sha1:{id}"), tag: None })
            }
            Self::Commit { id, branch: Some(branch) } => {
                Ok(Resolved { commit: *id, revision: format!("{branch}@sha1:{id}"), tag: None })
            }
            Self::Name(name) => {
                let plain = name.strip_suffix("^{}").unwrap_or(name);
                find(plain).map(|found| of(found, name)).ok_or_else(|| missing(format!("ref {plain:?}")))
            }
            Self::Tag(tag) => {
                let found = find(&format!("{TAGS}{tag}"));
                found.map(|found| of(found, tag)).ok_or_else(|| missing(format!("tag {tag:?}")))
            }
            Self::Branch(branch) => {
                let found = find(&format!("{HEADS}{branch}"));
                found.map(|found| of(found, branch)).ok_or_else(|| missing(format!("branch {branch:?}")))
            }
            Self::Default => {
                let head = find("HEAD").ok_or_else(|| {
                    Failure::fetch(
                        "EmptyGitRepository",
                        "the repository is empty, or its default branch is; push to it, or name a branch in spec.ref",
                    )
                })?;
                let name = head.symref_target.as_deref().and_then(|name| name.strip_prefix(HEADS));
                Ok(of(head, name.unwrap_or("HEAD")))
            }
            Self::Semver { text, range, filter } => {
                let tags = refs.iter().filter_map(|found| {
                    let tag = found.name.strip_prefix(TAGS)?;
                    let version = filter.as_ref().map_or(Some(tag), |filter| filter.version(tag))?;
                    Some((version_of_tag(version).filter(|version| range.contains(version))?, tag, found))
                });
                // Of equal versions the one whose build metadata and text come last, whatever order they are listed in.
                let best = tags.max_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(b.1)));
                best.map(|(_, tag, found)| of(found, tag))
                    .ok_or_else(|| missing(format!("tag within the range {text:?}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ObjectId {
        ObjectId::from_bytes([n; 20])
    }

    fn refs() -> Vec<Ref> {
        let plain =
            |name: &str, n| Ref { name: name.to_owned(), id: id(n), peeled: None, symref_target: None };
        vec![
            Ref { symref_target: Some("refs/heads/trunk".to_owned()), ..plain("HEAD", 1) },
            plain("refs/heads/trunk", 1),
            plain("refs/heads/feature/x", 2),
            Ref { peeled: Some(id(4)), ..plain("refs/tags/v1.0.0", 3) },
            plain("refs/tags/v1.10.0", 5),
            plain("refs/tags/v1.9.0", 6),
            plain("refs/tags/v2.0.0-rc.1", 7),
            plain("refs/pull/7/merge", 8),
        ]
    }

    fn resolve(wanted: &GitRepositoryRef) -> Result<Resolved, Failure> {
        Reference::parse(Some(wanted), None, None)?.resolve(&refs())
    }

    fn revision(name: &str, n: u8) -> String {
        format!("{name}@sha1:{}", id(n))
    }

    #[test]
    fn the_strongest_reference_counts() {
        let text = |text: &str| Some(text.to_owned());
        let mut wanted = GitRepositoryRef::default();
        assert_eq!(resolve(&wanted).unwrap().revision, revision("trunk", 1));
        wanted.branch = text("feature/x");
        assert_eq!(resolve(&wanted).unwrap().revision, revision("feature/x", 2));
        wanted.tag = text("v1.0.0");
        let tag = resolve(&wanted).unwrap();
        assert_eq!((tag.revision, tag.commit), (revision("v1.0.0", 4), id(4)));
        wanted.semver = text("1.x");
        assert_eq!(resolve(&wanted).unwrap().revision, revision("v1.10.0", 5));
        wanted.name = text("refs/pull/7/merge");
        assert_eq!(resolve(&wanted).unwrap().revision, revision("refs/pull/7/merge", 8));
        wanted.commit = Some(id(9).to_string());
        assert_eq!(resolve(&wanted).unwrap().revision, revision("feature/x", 9));
        wanted.branch = None;
        assert_eq!(resolve(&wanted).unwrap().revision, format!("sha1:{}", id(9)));
    }

    #[test]
    fn a_filter_says_which_tags_a_range_chooses_from_and_what_their_versions_are() {
        let tags = ["app/v1.2.0", "app/v1.10.0", "lib/v1.11.0", "1.12.0", "app/v2.0.0"];
        let all = tags.iter().zip(1..);
        let refs: Vec<Ref> = all
            .map(|(tag, n)| Ref {
                name: format!("{TAGS}{tag}"),
                id: id(n),
                peeled: None,
                symref_target: None,
            })
            .collect();
        let wanted = GitRepositoryRef { semver: Some("1.x".to_owned()), ..GitRepositoryRef::default() };
        let chosen = |filter: &str| {
            let reference = Reference::parse(Some(&wanted), Some(filter), None)?;
            reference.resolve(&refs).map(|found| found.tag.unwrap().name)
        };
        assert_eq!(chosen("").unwrap(), "1.12.0");
        assert_eq!(chosen("^app/(.*)$").unwrap(), "app/v1.10.0");
        assert_eq!(chosen("^(app|lib)/(?<version>.*)$").unwrap(), "lib/v1.11.0");
        assert_eq!(chosen(r"^1\..*").unwrap(), "1.12.0");
        assert!(chosen("^none").unwrap_err().message.contains("no tag within the range"));
        assert!(chosen("(").unwrap_err().message.contains("is no regular expression"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let failed = |wanted: GitRepositoryRef| resolve(&wanted).unwrap_err();
        let text = |text: &str| Some(text.to_owned());
        let branch = failed(GitRepositoryRef { branch: text("gone"), ..GitRepositoryRef::default() });
        assert_eq!((branch.reason, branch.message.contains("branch \"gone\"")), ("GitOperationFailed", true));
        let range = failed(GitRepositoryRef { semver: text(">=3"), ..GitRepositoryRef::default() });
        assert!(range.message.contains("\">=3\""), "{}", range.message);
        failed(GitRepositoryRef { semver: text("x y"), ..GitRepositoryRef::default() });
        failed(GitRepositoryRef { commit: text("abc"), ..GitRepositoryRef::default() });
        failed(GitRepositoryRef { name: text("/refs/heads/a"), ..GitRepositoryRef::default() });
        let empty = Reference::parse(None, None, None).unwrap().resolve(&[]).unwrap_err();
        assert_eq!(empty.reason, "EmptyGitRepository");
        assert!(Reference::parse(None, None, Some("master")).unwrap().resolve(&refs()).is_err());
    }
}
