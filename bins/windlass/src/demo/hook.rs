//! The webhook of the sample repository: whoever pushes to it sees the dashboards change at once, and how long each stage
//! took.
//!
//! The sample's server plays the provider: when a push has ended it posts what GitHub would, signed, over TLS, to the
//! repository's webhook.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::hmac;
use kube::Api;
use kube::api::{Patch, PatchParams};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use windlass_api::{Job, Repository};
use windlass_http_client::Tls;
use windlass_launch::Context;

use super::follow;
use super::remote::{NAMESPACE, Remote};
use super::screen::{Screen, Stages};

/// How long a delivery may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// The provider's side of the webhook.
pub(crate) struct Hook {
    /// Where deliveries go.
    pub(crate) url: String,
    /// Whose certificate is shown there, PEM.
    pub(crate) authority: PathBuf,
    /// What deliveries are signed with.
    pub(crate) secret: SecretString,
    /// The bare repository.
    pub(crate) bare: PathBuf,
    /// The branch that is pulled.
    pub(crate) branch: String,
}

impl Hook {
    /// The path of a repository's webhook at the API server on this port.
    pub(crate) fn url(port: u16, repository: &str) -> String {
        format!(
            "https://localhost:{port}/apis/provisioning.grafana.app/v0alpha1/namespaces/{NAMESPACE}/repositories/{repository}/webhook"
        )
    }

    /// Delivers each push until `stop`. What goes wrong is shown, and the next push is delivered again.
    pub(crate) async fn run(
        self,
        context: std::sync::Arc<Context>,
        mut pushes: UnboundedReceiver<Instant>,
        screen: Screen,
        stop: CancellationToken,
    ) {
        let mut last = None;
        while let Some(Some(pushed)) = stop.run_until_cancelled(pushes.recv()).await {
            match self.follow(&context, pushed, &mut last, &screen).await {
                Ok(()) => {}
                Err(error) => tracing::warn!("the push was not delivered: {error:#}"),
            }
        }
        stop.cancelled().await;
    }

    /// Delivers a push of the branch, and shows what became of it.
    async fn follow(
        &self,
        context: &Context,
        pushed: Instant,
        last: &mut Option<String>,
        screen: &Screen,
    ) -> Result<()> {
        let commit = tip(&self.bare, &self.branch).await?;
        if last.replace(commit.clone()).as_ref() == Some(&commit) {
            return Ok(());
        }
        let job = self.deliver(&commit).await?;
        let mut stages = Stages::default();
        let delivered = Instant::now();
        stages.add("delivered and queued", delivered.saturating_duration_since(pushed));
        screen.done("push", &format!("{} is delivered", commit.get(..7).unwrap_or(&commit)));
        let followed = follow::job(&context.clients.provisioning, &job, screen).await?;
        stages.add("claimed", followed.claimed.saturating_duration_since(delivered));
        stages.add("applied and filed", followed.ended.saturating_duration_since(followed.claimed));
        stages.add("from push to dashboard", followed.ended.saturating_duration_since(pushed));
        screen.result(&followed.status, &stages);
        Ok(())
    }

    /// Posts the delivery, and answers the job that it queued.
    async fn deliver(&self, commit: &str) -> Result<Job> {
        let body = json!({
            "ref": format!("refs/heads/{}", self.branch), "after": commit,
            "repository": {"full_name": "sample", "pushed_at": jiff::Timestamp::now().as_second()},
        })
        .to_string();
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.expose_secret().as_bytes());
        let signature = hex::encode(hmac::sign(&key, body.as_bytes()).as_ref());
        let tls = Tls::of_bundle(&self.authority).context("failed to trust the API server")?;
        let client = windlass_http_client::builder(&tls, DEADLINE).no_proxy().timeout(DEADLINE).build()?;
        let request = client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("x-github-event", "push")
            .header("x-github-delivery", uuid::Uuid::new_v4().to_string())
            .header("x-hub-signature-256", format!("sha256={signature}"));
        let answer = request.body(body).send().await.context("the webhook does not answer")?;
        let code = answer.status().as_u16();
        let said = answer.bytes().await?;
        ensure!(code == 202, "the webhook answers {code}: {}", String::from_utf8_lossy(&said));
        serde_json::from_slice(&said).context("the webhook answers no job")
    }
}

/// Has the repository follow its branch from now on: its webhook is heard then.
pub(crate) async fn listen(context: &Context, remote: &Remote) -> Result<()> {
    let api: Api<Repository> = Api::namespaced(context.clients.provisioning.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"sync": {"enabled": true}}}));
    api.patch(&remote.name, &PatchParams::default(), &patch).await.context("failed to enable syncs")?;
    Ok(())
}

async fn tip(bare: &Path, branch: &str) -> Result<String> {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(bare)
        .args(["rev-parse", &format!("refs/heads/{branch}")])
        .output()
        .await
        .context("failed to run git")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
