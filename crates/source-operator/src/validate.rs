//! What a specification says, once it makes sense.

use std::time::Duration;

use url::Url;
use windlass_api::GoDuration;
use windlass_api::flux::GitRepositorySpec;

use crate::failure::{Failure, PROVIDER};
use crate::reference::Reference;
use crate::verify::Verify;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A specification that can be worked on.
#[derive(Clone, Debug)]
pub(crate) struct Valid {
    /// Without user-info, but for the user of an ssh: URL.
    pub(crate) url: String,
    /// User and password in the URL, percent-decoded by nobody.
    pub(crate) user_info: Option<(String, String)>,
    pub(crate) reference: Reference,
    /// What has to be signed, and the Secret with the keys.
    pub(crate) verify: Option<Verify>,
    pub(crate) timeout: Duration,
    pub(crate) content: Wanted,
}

/// What decides, beside the commit, what is in the artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub(crate) ignore: Option<String>,
    /// Directories, relative to the root; all of it when empty.
    pub(crate) directories: Vec<String>,
    /// For each include where it is taken from and where it is put.
    pub(crate) includes: Vec<Include>,
    /// Whether the files of submodules are among them.
    pub(crate) submodules: bool,
}

/// An artifact that is put into another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Include {
    pub(crate) repository: String,
    pub(crate) from: String,
    pub(crate) to: String,
}

/// How often an object is looked at; a minute where that makes no sense.
pub(crate) fn interval(spec: &GitRepositorySpec) -> Duration {
    let parsed = spec.interval.parse::<GoDuration>().ok().and_then(GoDuration::to_std);
    parsed.filter(|interval| !interval.is_zero()).unwrap_or(Duration::from_mins(1))
}

/// `filter` is the expression of tags that a range chooses from.
pub(crate) fn validate(
    spec: &GitRepositorySpec,
    filter: Option<&str>,
    default_branch: Option<&str>,
) -> Result<Valid, Failure> {
    let (url, user_info) = parse_url(&spec.url)?;
    refuse_what_is_missing(spec)?;
    let timeout = spec.timeout.as_deref().and_then(|text| text.parse::<GoDuration>().ok());
    let reference = Reference::parse(spec.reference.as_ref(), filter, default_branch)?;
    Ok(Valid {
        url,
        user_info,
        verify: spec.verify.as_ref().map(|verify| Verify::parse(verify, &reference)).transpose()?,
        reference,
        timeout: timeout.and_then(GoDuration::to_std).filter(|it| !it.is_zero()).unwrap_or(TIMEOUT),
        content: wanted(spec)?,
    })
}

/// What decides what is in the artifact of this specification.
pub(crate) fn wanted(spec: &GitRepositorySpec) -> Result<Wanted, Failure> {
    let directories = spec.sparse_checkout.iter().map(|path| {
        clean(path).ok_or_else(|| {
            Failure::fetch(
                "GitOperationFailed",
                format!("spec.sparseCheckout: {path:?} leads out of the repository"),
            )
        })
    });
    let mut directories = directories.collect::<Result<Vec<_>, _>>()?;
    if directories.iter().any(String::is_empty) {
        directories.clear();
    }
    let includes = spec.include.iter().map(|include| {
        let path = |path: Option<&str>| {
            clean(path.unwrap_or_default()).ok_or_else(|| {
                let message =
                    format!("spec.include: {:?} leads out of the repository", path.unwrap_or_default());
                Failure::storage("IllegalPath", message)
            })
        };
        let repository = include.repository.name.clone();
        let to = include.to_path.as_deref().filter(|to| !to.is_empty()).unwrap_or(&repository);
        Ok(Include { from: path(include.from_path.as_deref())?, to: path(Some(to))?, repository })
    });
    Ok(Wanted {
        ignore: spec.ignore.clone(),
        directories,
        includes: includes.collect::<Result<_, _>>()?,
        submodules: spec.recurse_submodules,
    })
}

/// A relative path without `.` and empty segments; none for one that leads out.
fn clean(path: &str) -> Option<String> {
    let segments = path.split('/').filter(|segment| !matches!(*segment, "" | "."));
    let segments: Vec<&str> = segments.collect();
    let plain = |segment: &&str| *segment != ".." && !segment.chars().any(char::is_control);
    segments.iter().all(plain).then(|| segments.join("/"))
}

fn parse_url(text: &str) -> Result<(String, Option<(String, String)>), Failure> {
    let invalid = |what: &str| Failure::fetch("URLInvalid", format!("spec.url {what}")).stalled();
    let mut url = Url::parse(text).map_err(|error| invalid(&format!("is no URL: {error}")))?;
    match url.scheme() {
        "http" | "https" => {}
        // Whom the session is of is part of the URL; the rest is in the Secret.
        "ssh" if url.password().is_some() => return Err(invalid("has a password, which SSH keys replace")),
        "ssh" if url.host_str().is_none_or(str::is_empty) => return Err(invalid("names no host")),
        "ssh" => return Ok((url.to_string(), None)),
        _ => return Err(invalid("has to begin with http://, https:// or ssh://")),
    }
    let user = url.username().to_owned();
    let password = url.password().unwrap_or_default().to_owned();
    let _ = (url.set_username(""), url.set_password(None));
    let user_info = (!user.is_empty() || !password.is_empty()).then_some((user, password));
    Ok((url.to_string(), user_info))
}

/// What the type has and this controller does not do yet is told, never passed over.
fn refuse_what_is_missing(spec: &GitRepositorySpec) -> Result<(), Failure> {
    let unsupported =
        |what: &str| Err(Failure::fetch(PROVIDER, format!("{what} not supported; remove it")).stalled());
    match spec.provider.as_deref() {
        None | Some("" | "generic") => {}
        Some("github") if spec.secret_ref.is_some() && !spec.url.starts_with("ssh:") => {}
        Some("github") => {
            let message = "spec.provider \"github\" needs an https: URL and spec.secretRef: a Secret with githubAppID, \
                           githubAppInstallationID or githubAppInstallationOwner, and githubAppPrivateKey";
            return Err(Failure::fetch(PROVIDER, message).stalled());
        }
        Some(provider) => {
            let what = format!(
                "spec.provider {provider:?}: identities of clouds are not known here; use a Secret with username and \
                 password, or bearerToken, and spec.provider generic. It is"
            );
            return unsupported(&what);
        }
    }
    if spec.service_account_name.is_some() {
        return unsupported("spec.serviceAccountName is");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use windlass_api::flux::{GitRepositoryInclude, LocalReference};

    use super::*;
    use crate::failure::NextTry;

    fn spec(url: &str) -> GitRepositorySpec {
        GitRepositorySpec { url: url.to_owned(), interval: "1m".to_owned(), ..GitRepositorySpec::default() }
    }

    #[test]
    fn urls_that_cannot_be_used_stall() {
        for (url, reason) in [
            ("https://", "URLInvalid"),
            ("git@github.com:a/b", "URLInvalid"),
            ("ftp://a/b", "URLInvalid"),
            ("ssh://git:pw@github.com/a/b", "URLInvalid"),
            ("ssh:///a/b", "URLInvalid"),
        ] {
            let failure = validate(&spec(url), None, None).unwrap_err();
            assert_eq!((failure.reason, failure.next_try), (reason, NextTry::Stall), "{url}");
        }
        let valid = validate(&spec("https://u:p@host/a"), None, None).unwrap();
        assert_eq!(valid.url, "https://host/a");
        assert_eq!(valid.user_info, Some(("u".to_owned(), "p".to_owned())));
        let valid = validate(&spec("ssh://git@host:2222/a"), None, None).unwrap();
        assert_eq!((&*valid.url, valid.user_info), ("ssh://git@host:2222/a", None));
    }

    #[test]
    fn what_is_not_supported_is_told_and_never_passed_over() {
        for spec in [
            GitRepositorySpec { provider: Some("azure".to_owned()), ..spec("https://a/b") },
            GitRepositorySpec { provider: Some("aws".to_owned()), ..spec("https://a/b") },
        ] {
            assert_eq!(validate(&spec, None, None).unwrap_err().next_try, NextTry::Stall, "{spec:?}");
        }
    }

    #[test]
    fn paths_are_cleaned_and_lead_nowhere_else() {
        let mut own = spec("https://a/b");
        own.sparse_checkout = vec!["./deploy//a/".to_owned(), "/x".to_owned()];
        own.include = vec![GitRepositoryInclude {
            repository: LocalReference { name: "base".to_owned() },
            from_path: Some("./deploy".to_owned()),
            to_path: None,
        }];
        let found = wanted(&own).unwrap();
        assert_eq!(found.directories, ["deploy/a", "x"]);
        assert_eq!((&*found.includes[0].from, &*found.includes[0].to), ("deploy", "base"));
        own.sparse_checkout = vec!["a/../../b".to_owned()];
        assert_eq!(wanted(&own).unwrap_err().reason, "GitOperationFailed");
        own.sparse_checkout.clear();
        own.include[0].to_path = Some("../x".to_owned());
        assert_eq!(wanted(&own).unwrap_err().reason, "IllegalPath");
        own.sparse_checkout = vec![".".to_owned(), "a".to_owned()];
        own.include.clear();
        assert!(wanted(&own).unwrap().directories.is_empty(), "the root is everything");
    }
}
