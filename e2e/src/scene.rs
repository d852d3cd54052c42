//! A namespace of a real API server with our operators in it, each under exactly the Roles that `deploy/` grants.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use windlass_cluster::{Cluster, Identity, Namespace};

use crate::{Kubectl, Operator, Programs};

/// One test's place on a real API server. kubectl and the test's own checks are the administrator's; the operators are
/// not.
pub struct Scene {
    /// The cluster.
    pub cluster: Cluster,
    /// Logs, caches and settings of everything that belongs to the scene.
    pub folder: tempfile::TempDir,
    /// The namespace of the test.
    pub namespace: Namespace,
    /// Who the jobs controller is.
    pub jobs: Identity,
    /// Who the repository controller is.
    pub repositories: Identity,
    origins: Vec<String>,
    kubectl: Kubectl,
}

impl Deref for Scene {
    type Target = Kubectl;

    fn deref(&self) -> &Kubectl {
        &self.kubectl
    }
}

impl Scene {
    /// A scene on the cluster of this test run; repositories may use `origins` although they are local. `None`: there
    /// is no cluster, and that was said.
    pub async fn shared(origins: &[String]) -> Result<Option<Self>> {
        match Cluster::shared().await? {
            Some(cluster) => Ok(Some(Self::on(&cluster, origins).await?)),
            None => Ok(None),
        }
    }

    /// A scene on this cluster.
    pub async fn on(cluster: &Cluster, origins: &[String]) -> Result<Self> {
        let namespace = cluster.namespace("e2e").await?;
        let jobs = namespace.service_account(&deployed("rbac/jobs-controller.yaml")).await?;
        let repositories = namespace.service_account(&deployed("rbac/repository-controller.yaml")).await?;
        let folder = tempfile::tempdir()?;
        let kubectl = Kubectl::administrator(cluster, &namespace, folder.path())?;
        let cluster = cluster.clone();
        Ok(Self { cluster, folder, namespace, jobs, repositories, origins: origins.to_vec(), kubectl })
    }

    /// Starts a repository controller and waits until it is ready.
    pub async fn repository_controller(&self, more: &[(&str, &str)]) -> Result<Operator> {
        self.ready(self.spawn(Controller::Repositories, &[], more)?).await
    }

    /// Starts a jobs controller and waits until it is ready.
    pub async fn jobs_controller(&self, more: &[(&str, &str)]) -> Result<Operator> {
        self.ready(self.spawn(Controller::Jobs, &[], more)?).await
    }

    /// Starts a controller, which need not become ready. `more` wins over what is set by itself.
    pub fn spawn(
        &self,
        controller: Controller,
        arguments: &[&str],
        more: &[(&str, &str)],
    ) -> Result<Operator> {
        let (program, identity) = match controller {
            Controller::Jobs => ("jobs-controller", &self.jobs),
            Controller::Repositories => ("repository-controller", &self.repositories),
        };
        let kubeconfig = identity.kubeconfig.display().to_string();
        let own = [
            ("GF_OPERATOR_KUBECONFIG", kubeconfig.as_str()),
            ("GF_OPERATOR_NAMESPACE", self.namespace.name()),
        ];
        let environment = [&own, more].concat();
        let program = Programs::path(program)?;
        Operator::spawn(self.folder.path(), &self.origins, &program, arguments, &environment)
    }

    async fn ready(&self, operator: Operator) -> Result<Operator> {
        operator.ready().await?;
        Ok(operator)
    }

    /// Fails when anything that the scene's programs wrote holds one of their tokens or one of `secrets`.
    pub fn holds_no_secret(&self, secrets: &[&str]) -> Result<()> {
        let tokens = [self.jobs.token.as_str(), &self.repositories.token, self.cluster.admin_token()];
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
                if tokens.iter().chain(secrets).any(|secret| text.contains(secret)) {
                    bail!("a secret is readable in {}", path.display());
                }
            }
        }
        Ok(())
    }
}

/// Which of our programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// `jobs-controller`.
    Jobs,
    /// `repository-controller`.
    Repositories,
}

/// A file under `deploy/`.
pub fn deployed(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(path)
}
