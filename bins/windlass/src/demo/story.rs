//! What happens in the demo, in order: a repository is made, becomes healthy, is pulled, and the result is shown.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use windlass_api::{JobSpec, JobState, Repository};
use windlass_launch::Context;
use windlass_lease_queue::kube::insert;
use windlass_runtime::CallError;

use super::follow;
use super::remote::{NAMESPACE, Remote};
use super::screen::{Screen, Stages};

/// How long the repository may take to be checked.
const HEALTH: Duration = Duration::from_mins(1);

/// Tells the story and answers how the pull ended.
pub(crate) async fn tell(context: &Context, remote: &Remote, screen: &Screen) -> Result<JobState> {
    let client = &context.clients.provisioning;
    let repositories: Api<Repository> = Api::namespaced(client.clone(), NAMESPACE);
    let mut stages = Stages::default();

    let started = Instant::now();
    state(&repositories, remote).await?;
    let checked = await_condition(repositories.clone(), &remote.name, |found: Option<&Repository>| {
        found.is_some_and(|found| {
            found.status.health.checked > 0
                && Some(found.status.observed_generation) == found.metadata.generation
        })
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
    let job = insert(client, NAMESPACE, &remote.name, JobSpec::pull(&remote.name, false), BTreeMap::new())
        .await
        .context("failed to queue the pull")?;
    screen.done("job", &format!("{} queued", job.name_any()));
    let followed = follow::job(client, &job, screen).await?;
    stages.add("job claimed", followed.claimed.saturating_duration_since(queued));
    stages.add("job run and filed", followed.ended.saturating_duration_since(followed.claimed));
    screen.result(&followed.status, &stages);
    Ok(followed.status.state)
}

/// Makes the repository, or points the one that an earlier run left in the data folder at this remote.
async fn state(repositories: &Api<Repository>, remote: &Remote) -> Result<(), CallError> {
    let wanted = remote.object();
    let found = repositories.get_opt(&remote.name).await;
    match found.map_err(|error| CallError::new("read the repository", error))? {
        None => {
            let created = repositories.create(&PostParams::default(), &wanted).await;
            created.map_err(|error| CallError::new("create the repository", error))?;
        }
        Some(mut found) => {
            found.spec.git = wanted.spec.git;
            found.spec.workflows = wanted.spec.workflows;
            if remote.token.is_some() {
                found.secure.token = wanted.secure.token;
            }
            if remote.hook.is_some() {
                found.secure.webhook_secret = wanted.secure.webhook_secret;
            }
            let changed = repositories.replace(&remote.name, &PostParams::default(), &found).await;
            changed.map_err(|error| CallError::new("change the repository", error))?;
        }
    }
    Ok(())
}
