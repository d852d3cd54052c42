//! Tokens of GitHub Apps, for `spec.provider: github`. Flux: `auth/githubapp`.
//!
//! A client is kept for each version of a Secret; it renews its token before that ends. The token reads contents and no
//! more, and of the one repository alone unless submodules are wanted, which may be others of the installation.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use url::Url;
use windlass_api::flux::GitRepositorySpec;
use windlass_git::{Git, Tls};
use windlass_github::{Access, App, Credentials, Github, Options, Permissions, TokenRequest};
use windlass_telemetry::ErrorChain;

use crate::failure::{Failure, PROVIDER};
use crate::secret::{Contents, value};

/// Clients that are kept.
const MAX_KEPT: usize = 256;

/// What a Secret says of an App.
pub(crate) struct AppSecret {
    id: String,
    installation: Installation,
    key: SecretString,
    api: String,
}

/// Which installation of the App.
enum Installation {
    /// The one with this number.
    Id(String),
    /// That of this organisation or user.
    Of(String),
}

impl AppSecret {
    /// # Errors
    /// What is wrong with it, as it goes on after the Secret's name.
    pub(crate) fn of(secret: &Contents) -> Result<Self, String> {
        let text = |key: &str| {
            let found = value(secret, &[key])
                .map(|text| secrecy::ExposeSecret::expose_secret(text).trim().to_owned());
            found.ok_or_else(|| format!("has no {key}, which spec.provider github needs"))
        };
        let key = value(secret, &["githubAppPrivateKey"]).cloned();
        let id = text("githubAppID")?;
        let installation = match (text("githubAppInstallationID"), text("githubAppInstallationOwner")) {
            (Ok(id), Err(_)) => Installation::Id(id),
            (Err(_), Ok(owner)) => Installation::Of(owner),
            (found, _) => {
                let how_many = if found.is_ok() { "both" } else { "neither" };
                return Err(format!(
                    "has {how_many} of githubAppInstallationID and githubAppInstallationOwner; give one of them"
                ));
            }
        };
        Ok(Self {
            id,
            installation,
            key: key.ok_or("has no githubAppPrivateKey, which spec.provider github needs")?,
            api: text("githubAppBaseURL").unwrap_or_else(|_| Options::PUBLIC_API.to_owned()),
        })
    }
}

/// The Apps that sources are read as.
pub(crate) struct Apps {
    git: Git,
    known: Mutex<HashMap<String, Github>>,
}

impl Apps {
    pub(crate) fn new(git: Git) -> Self {
        Self { git, known: Mutex::default() }
    }

    /// A token to read the source with. `version` are uid and version of the Secret.
    pub(crate) async fn token(
        &self,
        app: &AppSecret,
        version: Option<&(String, String)>,
        spec: &GitRepositorySpec,
        tls: &Tls,
        cancel: &CancellationToken,
    ) -> Result<SecretString, Failure> {
        let repositories = repositories(spec);
        let what = format!("{version:?} {repositories:?}");
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&what).cloned();
        let github = match known {
            Some(github) => github,
            None => {
                let github = self.client(app, repositories, tls, cancel).await?;
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                if known.len() >= MAX_KEPT {
                    known.clear();
                }
                known.entry(what).or_insert(github).clone()
            }
        };
        let minted = tokio::select! {
            minted = github.git_token() => minted,
            () = cancel.cancelled() => return Err(failed("the process ends")),
        };
        let token = minted.map_err(|error| failed(&ErrorChain(&error).to_string()))?;
        token.ok_or_else(|| failed("GitHub gave none"))
    }

    async fn client(
        &self,
        app: &AppSecret,
        repositories: Vec<String>,
        tls: &Tls,
        cancel: &CancellationToken,
    ) -> Result<Github, Failure> {
        let request =
            TokenRequest { permissions: Permissions::new([("contents", Access::Read)]), repositories };
        let installation = match &app.installation {
            Installation::Id(id) => id.clone(),
            Installation::Of(owner) => {
                let itself = App::of_no_installation(&app.id, &app.key).map_err(|error| invalid(&error))?;
                let github = self.github(&app.api, itself, tls)?;
                let apps = github.apps().ok_or_else(|| failed("the credentials are none of an App"))?;
                let found = tokio::select! {
                    found = apps.installation_of(owner) => found,
                    () = cancel.cancelled() => return Err(failed("the process ends")),
                };
                let found = found.map_err(|error| failed(&ErrorChain(&error).to_string()))?;
                let missing = || failed(&format!("the App is not installed by {owner:?}"));
                found.ok_or_else(missing)?.to_string()
            }
        };
        let made = App::new(&app.id, &installation, &app.key).map_err(|error| invalid(&error))?;
        self.github(&app.api, made.requesting(request), tls)
    }

    fn github(&self, api: &str, app: App, tls: &Tls) -> Result<Github, Failure> {
        let addresses = self.git.addresses_of(api).map_err(|error| invalid(&error))?;
        let (api, tls) = (api.to_owned(), tls.clone());
        let options = Options { api, addresses, tls, ..Options::new(Credentials::App(app)) };
        Github::new(options).map_err(|error| invalid(&error))
    }
}

fn invalid(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::fetch(PROVIDER, ErrorChain(error).to_string())
}

fn failed(what: &str) -> Failure {
    Failure::fetch("AuthenticationFailed", format!("failed to get a token of the GitHub App: {what}"))
}

/// The repositories that a token is for; all of the installation's if it is none.
fn repositories(spec: &GitRepositorySpec) -> Vec<String> {
    let url = Url::parse(&spec.url).ok().filter(|_| !spec.recurse_submodules);
    let name = url.and_then(|url| Some(url.path().trim_end_matches('/').rsplit('/').next()?.to_owned()));
    name.map(|name| name.trim_end_matches(".git").to_owned())
        .filter(|name| !name.is_empty())
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_repository_unless_submodules_are_wanted() {
        let mut spec = GitRepositorySpec {
            url: "https://github.com/a/b.git/".to_owned(),
            ..GitRepositorySpec::default()
        };
        assert_eq!(repositories(&spec), ["b"]);
        spec.recurse_submodules = true;
        assert!(repositories(&spec).is_empty());
    }

    #[test]
    fn an_app_is_named_whole() {
        let of = |keys: &[&str]| {
            AppSecret::of(&keys.iter().map(|key| ((*key).to_owned(), "x".into())).collect()).err()
        };
        assert!(of(&["githubAppID"]).unwrap().contains("has neither of githubAppInstallationID"));
        let [id, owner] = ["githubAppInstallationID", "githubAppInstallationOwner"];
        assert!(of(&["githubAppID", id, owner]).unwrap().contains("has both of"));
        for installation in [id, owner] {
            assert!(of(&["githubAppID", installation]).unwrap().contains("has no githubAppPrivateKey"));
            assert!(of(&["githubAppID", installation, "githubAppPrivateKey"]).is_none());
        }
    }
}
