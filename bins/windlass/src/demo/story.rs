//! What happens in the demo, in order: a repository is made, becomes healthy, is pulled, and the result is shown.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use secrecy::SecretString;
use windlass_api::{
    GitRepository, InlineSecureValue, JobSpec, JobState, Repository, RepositorySpec, RepositoryType,
    SyncOptions, SyncTarget,
};
use windlass_git::Origin;
use windlass_launch::Context;
use windlass_lease_queue::kube::insert;

use super::follow;
use super::screen::{Screen, Stages};

/// The namespace of everything in the demo.
pub(crate) const NAMESPACE: &str = "default";
/// How long the repository may take to be checked.
const HEALTH: Duration = Duration::from_secs(60);

/// The repository that is pulled.
pub(crate) struct Remote {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) branch: String,
    pub(crate) path: String,
    pub(crate) token: Option<SecretString>,
    pub(crate) token_user: Option<String>,
}

impl Remote {
    /// The sample repository at this URL.
    pub(crate) fn sample(url: String, branch: String, path: String) -> Self {
        let (name, title) = ("sample".to_owned(), "Sample company".to_owned());
        Self { name, title, url, branch, path, token: None, token_user: None }
    }

    /// Where it is reached: the one origin that the demo allows whatever its address.
    pub(crate) fn origin(&self) -> Result<Origin> {
        let url = self.url.parse().with_context(|| format!("--url {} is not a URL", self.url))?;
        Origin::of(&url).with_context(|| format!("--url {} is not an http or https URL", self.url))
    }

    fn object(&self) -> Repository {
        let mut repository = Repository {
            spec: RepositorySpec {
                title: self.title.clone(),
                description: "Made by `windlass demo`".to_owned(),
                kind: RepositoryType::Git,
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
        repository
    }
}

/// Tells the story and answers how the pull ended.
pub(crate) async fn tell(context: &Context, remote: &Remote, screen: &Screen) -> Result<JobState> {
    let client = &context.clients.provisioning;
    let repositories: Api<Repository> = Api::namespaced(client.clone(), NAMESPACE);
    let mut stages = Stages::default();

    let started = Instant::now();
    let wanted = remote.object();
    if repositories.get_opt(&remote.name).await?.is_none() {
        repositories
            .create(&PostParams::default(), &wanted)
            .await
            .context("failed to create the repository")?;
    }
    let checked = await_condition(repositories.clone(), &remote.name, |found: Option<&Repository>| {
        found.is_some_and(|found| found.status.health.checked > 0)
    });
    let repository = tokio::time::timeout(HEALTH, checked)
        .await
        .context("the repository was not checked in time")??
        .context("the repository is gone")?;
    if !repository.status.health.healthy {
        let why = repository.status.health.message.join("; ");
        bail!("repository {:?} is not healthy: {why}", repository.name_any());
    }
    stages.add("repository checked", started.elapsed());
    screen.done("repository", &format!("{} is healthy", remote.name));

    let queued = Instant::now();
    let job = insert(client, NAMESPACE, &remote.name, JobSpec::pull(&remote.name, false), Default::default())
        .await
        .context("failed to queue the pull")?;
    screen.done("job", &format!("{} queued", job.name_any()));
    let followed = follow::job(client, &job, screen).await?;
    stages.add("job claimed", followed.claimed.saturating_duration_since(queued));
    stages.add("job run and filed", followed.ended.saturating_duration_since(followed.claimed));
    screen.result(&followed.status, &stages);
    Ok(followed.status.state)
}
