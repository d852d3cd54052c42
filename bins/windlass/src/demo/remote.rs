//! The repository that the demo pulls.

use anyhow::{Context as _, Result};
use secrecy::SecretString;
use windlass_api::{
    GitRepository, InlineSecureValue, Repository, RepositorySpec, RepositoryType, SyncOptions, SyncTarget,
    Workflow,
};
use windlass_git::Origin;

use super::sample::{Sample, USER};

/// The namespace of everything in the demo.
pub(crate) const NAMESPACE: &str = "default";
/// The repository that is pulled.
pub(crate) struct Remote {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) branch: String,
    pub(crate) path: String,
    pub(crate) token: Option<SecretString>,
    pub(crate) token_user: Option<String>,
    /// Whether jobs may write to it.
    pub(crate) writable: bool,
    /// What deliveries of its webhook are signed with, if it has one.
    pub(crate) hook: Option<SecretString>,
}

impl Remote {
    /// The sample repository, which takes pushes.
    pub(crate) fn sample(sample: &Sample, branch: String, path: String) -> Self {
        let (name, title, url) = ("sample".to_owned(), "Sample company".to_owned(), sample.url());
        let (token, token_user) = (Some(sample.token()), Some(USER.to_owned()));
        let hook = Some(SecretString::from(uuid::Uuid::new_v4().to_string()));
        Self { name, title, url, branch, path, token, token_user, writable: true, hook }
    }

    /// Where it is reached: the one origin that the demo allows whatever its address.
    pub(crate) fn origin(&self) -> Result<Origin> {
        let url = self.url.parse().with_context(|| format!("--url {} is not a URL", self.url))?;
        Origin::of(&url).with_context(|| format!("--url {} is not an http or https URL", self.url))
    }

    /// The object that stands for it in the API.
    pub(crate) fn object(&self) -> Repository {
        let mut repository = Repository {
            spec: RepositorySpec {
                title: self.title.clone(),
                description: "Made by `windlass demo`".to_owned(),
                kind: RepositoryType::Git,
                workflows: if self.writable { vec![Workflow::Write, Workflow::Branch] } else { Vec::new() },
                sync: SyncOptions { enabled: false, target: Some(SyncTarget::Folder), interval_seconds: 60 },
                git: Some(GitRepository {
                    url: self.url.clone(),
                    branch: self.branch.clone(),
                    path: self.path.clone(),
                    token_user: self.token_user.clone().unwrap_or_default(),
                }),
                ..RepositorySpec::default()
            },
            ..Repository::default()
        };
        repository.metadata.name = Some(self.name.clone());
        repository.metadata.namespace = Some(NAMESPACE.to_owned());
        if let Some(token) = &self.token {
            repository.secure.token =
                InlineSecureValue { create: Some(token.clone()), ..InlineSecureValue::default() };
        }
        if let Some(secret) = &self.hook {
            repository.secure.webhook_secret =
                InlineSecureValue { create: Some(secret.clone()), ..InlineSecureValue::default() };
        }
        repository
    }
}
