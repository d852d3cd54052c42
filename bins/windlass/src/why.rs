//! `windlass why`: what a repository, a job or the owner of a tree waits for, from what the API's objects say.
#![expect(clippy::print_stdout, reason = "its answer goes to standard output")]

mod budget;
mod findings;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};
use windlass_api::{HistoricJob, Job, Repository, labels};
use windlass_auth::ApiClients;

use self::findings::{Known, Report};

/// Options of `windlass why`.
#[derive(clap::Args)]
pub(crate) struct WhyArgs {
    /// What is asked about: `repository/NAME`, `job/NAME`, or `PLURAL.GROUP/NAME` of another kind, whose controller is a
    /// tree of provisioners.
    #[arg(value_name = "KIND/NAME")]
    object: String,
    /// The namespace that it is in.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// The kubeconfig to reach the API server with [default: the variable KUBECONFIG].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The metrics of the repository controller, which say what is left of rate limits
    /// [default: those on port 3000 of this machine, if somebody answers there].
    #[arg(long, value_name = "URL")]
    metrics: Option<String>,
    /// How to answer.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Answers the question.
pub(crate) async fn run(args: WhyArgs) -> Result<ExitCode> {
    let kubeconfig = args.kubeconfig.or_else(|| std::env::var_os("KUBECONFIG").map(PathBuf::from));
    let kubeconfig =
        kubeconfig.context("no API server was named: give --kubeconfig FILE, or set KUBECONFIG")?;
    let clients = ApiClients::from_kubeconfig(&kubeconfig, args.context.as_deref()).await;
    let client = clients.context("failed to set up the connection to the API server")?.provisioning;
    let report = match args.object.split_once('/') {
        Some(("repository" | "repositories" | "repo", name)) => {
            repository(&client, &args.namespace, name, args.metrics.as_deref()).await?
        }
        Some(("job" | "jobs" | "pjob", name)) => job(&client, &args.namespace, name).await?,
        Some((kind, name)) if kind.contains('.') => tree::ask(&client, &args.namespace, kind, name).await?,
        _ => bail!("{:?} is neither repository/NAME nor job/NAME nor PLURAL.GROUP/NAME", args.object),
    };
    match args.output {
        Output::Text => print!("{report}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(ExitCode::SUCCESS)
}

async fn queue(client: &Client, namespace: &str) -> Result<Vec<Job>> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), namespace);
    Ok(jobs.list(&ListParams::default()).await.context("failed to list the jobs")?.items)
}

async fn repository(client: &Client, namespace: &str, name: &str, metrics: Option<&str>) -> Result<Report> {
    let repositories: Api<Repository> = Api::namespaced(client.clone(), namespace);
    let found = repositories.get_opt(name).await.context("failed to read the repository")?;
    let found =
        found.with_context(|| format!("there is no repository {name} in the namespace {namespace}"))?;
    let known = Known {
        queue: queue(client, namespace).await?,
        ended: ended(client, namespace, name).await,
        metrics: budget::read(metrics).await?,
    };
    Ok(findings::of_repository(&found, &known, Timestamp::now()))
}

/// The records of a repository's jobs that ended, where those are objects that this account may list.
async fn ended(client: &Client, namespace: &str, repository: &str) -> Vec<HistoricJob> {
    let history: Api<HistoricJob> = Api::namespaced(client.clone(), namespace);
    let of_it = ListParams::default().labels(&format!("{}={repository}", labels::REPOSITORY));
    history.list(&of_it).await.map(|list| list.items).unwrap_or_default()
}

async fn job(client: &Client, namespace: &str, name: &str) -> Result<Report> {
    let queue = queue(client, namespace).await?;
    if let Some(job) = queue.iter().find(|job| job.metadata.name.as_deref() == Some(name)) {
        let repositories: Api<Repository> = Api::namespaced(client.clone(), namespace);
        let repository =
            repositories.get_opt(&job.spec.repository).await.context("failed to read the repository")?;
        return Ok(findings::of_job(job, repository.as_ref(), &queue, Timestamp::now()));
    }
    let history: Api<HistoricJob> = Api::namespaced(client.clone(), namespace);
    let ended = match history.list(&ListParams::default()).await {
        Err(kube::Error::Api(answer)) if answer.code == 404 => bail!(
            "there is no job {name} queued in the namespace {namespace}; jobs that ended are not objects here: ask for \
             repositories/REPOSITORY/jobs"
        ),
        ended => ended.context("failed to list the jobs that ended")?,
    };
    // A record is named after its job and the job's UID.
    let of_it = |record: &&HistoricJob| {
        let rest =
            record.metadata.name.as_deref().and_then(|found| found.strip_prefix(name)?.strip_prefix('-'));
        rest.is_some_and(|uid| uid.len() == 36)
    };
    let newest = ended.items.iter().filter(of_it).max_by_key(|record| record.status.finished);
    match newest {
        Some(record) => Ok(findings::of_ended(name, record)),
        None => bail!("there is no job {name} in the namespace {namespace}, queued or ended"),
    }
}
