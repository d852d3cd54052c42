//! An App as GitHub knows it, its installation, and tokens to hand on.

use octocrab::{Octocrab, Page};
use serde::Deserialize;
use windlass_http_client::printable;

use crate::repository::WireRepository;
use crate::route::segment;
use crate::service::mint;
use crate::{ErrorKind, Github, GithubError, InstallationToken, Permissions, RepositoryInfo, TokenRequest};

/// Repositories that one request lists.
const PER_PAGE: u8 = 100;
/// Pages of repositories that are looked through.
const PAGES: u32 = 50;

/// An App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppInfo {
    /// Its number.
    pub id: u64,
    /// Its name in URLs.
    pub slug: Option<String>,
    /// Its name.
    pub name: String,
    /// What it asks of those who install it.
    pub permissions: Permissions,
}

/// An installation of an App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallationInfo {
    /// Its number.
    pub id: u64,
    /// The App's number.
    pub app_id: u64,
    /// The user or organisation; nothing for an enterprise.
    pub account: Option<String>,
    /// Whether it was granted all repositories, or selected ones.
    pub all_repositories: bool,
    /// Whether its owner suspended it.
    pub suspended: bool,
    /// What it was granted.
    pub permissions: Permissions,
}

/// An App and its installation.
pub struct Apps<'a> {
    github: &'a Github,
    app: &'a Octocrab,
    installation: u64,
}

impl Github {
    /// The App, its installation and their tokens; nothing if the credentials are none of an App.
    pub fn apps(&self) -> Option<Apps<'_>> {
        let (app, installation) = self.as_app()?;
        Some(Apps::new(self, app, installation))
    }
}

#[derive(Deserialize)]
struct WireApp {
    id: u64,
    slug: Option<String>,
    name: String,
    #[serde(default)]
    permissions: Permissions,
}

#[derive(Deserialize)]
struct WireInstallation {
    id: u64,
    app_id: u64,
    account: Option<WireAccount>,
    repository_selection: String,
    suspended_at: Option<String>,
    #[serde(default)]
    permissions: Permissions,
}

#[derive(Deserialize)]
struct WireAccount {
    login: Option<String>,
}

impl<'a> Apps<'a> {
    pub(crate) fn new(github: &'a Github, app: &'a Octocrab, installation: u64) -> Self {
        Self { github, app, installation }
    }

    /// The App that the credentials are of.
    pub async fn app(&self) -> Result<AppInfo, GithubError> {
        let found: Result<WireApp, _> = self.app.get("/app", None::<&()>).await;
        let found = found.map_err(|error| self.github.error("read the App", error))?;
        let WireApp { id, slug, name, permissions } = found;
        Ok(AppInfo { id, slug, name, permissions })
    }

    /// The installation that the credentials name.
    pub async fn installation(&self) -> Result<InstallationInfo, GithubError> {
        let route = format!("/app/installations/{}", self.installation);
        let found: Result<WireInstallation, _> = self.app.get(route, None::<&()>).await;
        let action = format!("read the App's installation {}", self.installation);
        let found = found.map_err(|error| self.github.error(&action, error))?;
        Ok(InstallationInfo {
            id: found.id,
            app_id: found.app_id,
            account: found.account.and_then(|account| account.login),
            all_repositories: found.repository_selection == "all",
            suspended: found.suspended_at.is_some(),
            permissions: found.permissions,
        })
    }

    /// The App's installation for this organisation or user; nothing if it is not installed there.
    pub async fn installation_of(&self, owner: &str) -> Result<Option<u64>, GithubError> {
        let action = format!("look for the App's installation of {}", printable(owner, 100));
        for kind in ["orgs", "users"] {
            let route = format!("/{kind}/{}/installation", segment(owner));
            let found: Result<WireInstallation, _> = self.app.get(route, None::<&()>).await;
            match found.map_err(|error| self.github.error(&action, error)) {
                Ok(found) => return Ok(Some(found.id)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// A new token of the installation, to hand on: whoever has it may do what `request` says, and no more.
    pub async fn token(&self, request: &TokenRequest) -> Result<InstallationToken, GithubError> {
        mint(self.app, self.github.transport(), self.installation, request).await
    }

    /// The repositories of the installation; at most 5,000.
    pub async fn repositories(&self) -> Result<Vec<RepositoryInfo>, GithubError> {
        let action = format!("list the repositories of the App's installation {}", self.installation);
        let mut repositories = Vec::new();
        for page in 1..=PAGES {
            let route = format!("/installation/repositories?per_page={PER_PAGE}&page={page}");
            let found: Page<WireRepository> = self.github.get(&action, route, None::<&()>).await?;
            let more = found.next.is_some();
            let read = found.items.into_iter().map(WireRepository::read);
            let read = read.collect::<Result<Vec<_>, _>>();
            repositories.extend(read.map_err(|detail| self.github.malformed(&action, detail))?);
            if !more {
                break;
            }
        }
        Ok(repositories)
    }
}
