//! What the parts stand on: repositories of many dashboards, and servers that pull them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use windlass_e2e::{
    Operator, Process, Programs, Remote, Server, dashboard, free_port, kubernetes_dashboard, repository,
};

use crate::api::{Api, REPOSITORIES};

/// How long many repositories may take.
const DEADLINE: Duration = Duration::from_mins(5);

/// `USER_HZ`, the same on every Linux.
const TICKS_A_SECOND: f64 = 100.0;

/// The directory of a dashboard: a hundred directories, ten at the top with nine in each.
pub(crate) fn directory(number: usize) -> String {
    let (team, area) = (number % 100 / 10, number % 10);
    if area == 0 { format!("team-{team}") } else { format!("team-{team}/area-{area}") }
}

/// The file of a dashboard: half of them classic exports, a quarter each Kubernetes-style JSON and YAML.
pub(crate) fn file(number: usize, edition: usize) -> Result<(String, String)> {
    let (name, title) = (format!("dashboard-{number:05}"), format!("Dashboard {number}, edition {edition}"));
    let directory = directory(number);
    Ok(match number / 100 % 4 {
        0 | 2 => (format!("{directory}/{name}.json"), dashboard(&name, &title)),
        1 => (format!("{directory}/{name}.json"), kubernetes_dashboard(&name, &title)),
        _ => {
            let document: serde_json::Value = serde_json::from_str(&kubernetes_dashboard(&name, &title))?;
            (format!("{directory}/{name}.yaml"), windlass_api::yaml::to_string(&document)?)
        }
    })
}

/// The files of a repository of `count` dashboards.
pub(crate) fn files(count: usize) -> Result<Vec<(String, String)>> {
    (0..count).map(|number| file(number, 0)).collect()
}

/// `windlass serve` and the two operators that a pull needs, each a process of its own, over TLS.
pub(crate) struct Separate {
    pub(crate) api: Api,
    pub(crate) jobs: Operator,
    pub(crate) server: Server,
    _repository: Operator,
}

impl Separate {
    /// Starts them, with one repository that is healthy and not pulled yet.
    pub(crate) async fn start(remote: &Remote, repository: &str) -> Result<Self> {
        let server = Server::start(&[remote.origin()]).await?;
        let health = Operator::start(&server, "provisioning-repo", &[]).await?;
        let jobs = Operator::start(&server, "provisioning-jobs", &[]).await?;
        server.create_repository(repository, &remote.url()).await?;
        server.healthy(repository).await?;
        Ok(Self { api: Api::of(&server).await?, jobs, server, _repository: health })
    }
}

/// A server with many healthy repositories, each a directory of one remote, and no jobs operator.
pub(crate) struct Fleet {
    pub(crate) server: Server,
    pub(crate) api: Api,
    pub(crate) remote: Remote,
    /// The repositories' names, which are their directories'.
    pub(crate) names: Vec<String>,
    /// Who looks after them.
    pub(crate) operator: Operator,
}

impl Fleet {
    /// Starts it; `change` has a say in each repository before it is created.
    pub(crate) async fn start(count: usize, change: impl Fn(&mut Value)) -> Result<Self> {
        let names: Vec<String> = (0..count).map(|number| format!("bench-{number}")).collect();
        let files = names.iter().map(|name| (format!("{name}/a.json"), dashboard(name, name)));
        let remote = Remote::new(files.collect()).await?;
        let server = Server::start(&[remote.origin()]).await?;
        let operator = Operator::start(&server, "provisioning-repo", &[]).await?;
        let api = Api::of(&server).await?;
        for name in &names {
            let mut document = repository(name, &remote.url());
            document["spec"]["git"]["path"] = name.as_str().into();
            change(&mut document);
            api.post(REPOSITORIES, document.to_string()).await?;
        }
        let fleet = Self { server, api, remote, names, operator };
        fleet.all("/status/health/healthy", &Value::Bool(true)).await?;
        Ok(fleet)
    }

    /// Waits until every repository says this at a place.
    pub(crate) async fn all(&self, pointer: &str, wished: &Value) -> Result<()> {
        let until = Instant::now() + DEADLINE;
        loop {
            let list = self.api.get_json(REPOSITORIES).await?;
            let items = list["items"].as_array().context("no list of repositories")?;
            let others = items.iter().filter(|item| item.pointer(pointer) != Some(wished)).count();
            if others == 0 && items.len() == self.names.len() {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("{others} of {} repositories do not have {wished} at {pointer}", items.len());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// `windlass demo` of a repository.
pub(crate) struct Demo {
    pub(crate) process: Process,
    pub(crate) api: Api,
    /// From the creation of the job to its end, as the demo shows it.
    pub(crate) first_pull: Duration,
    _folder: tempfile::TempDir,
}

impl Demo {
    /// Starts it and waits until it has pulled.
    pub(crate) async fn start(remote: &Remote) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        let (api, exchange) = (free_port()?, free_port()?);
        let (api_address, exchange_address) = (format!("127.0.0.1:{api}"), format!("127.0.0.1:{exchange}"));
        let data_text = data.display().to_string();
        let url = remote.url();
        let arguments = [
            "demo",
            "--url",
            &url,
            "--api-address",
            &api_address,
            "--exchange-address",
            &exchange_address,
            "--data-dir",
            &data_text,
        ];
        let output = folder.path().join("log");
        let mut process = Process::start(&Programs::path("windlass")?, &arguments, &[], &output)?;
        let started = Instant::now();
        let text = loop {
            match process.says("job run and filed").await {
                Ok(()) => break process.output(),
                Err(_) if started.elapsed() < Duration::from_mins(5) && process.id().is_some() => {}
                Err(error) => return Err(error),
            }
        };
        let first_pull = stage(&text, "job claimed")? + stage(&text, "job run and filed")?;
        let ca: PathBuf = data.join("server/keys/ca.crt");
        let api = Api::connect(
            &format!("https://localhost:{api}"),
            &format!("http://localhost:{exchange}/sign/access-token"),
            &ca,
        )
        .await?;
        Ok(Self { process, api, first_pull, _folder: folder })
    }
}

/// The time of a stage in the demo's table.
fn stage(output: &str, name: &str) -> Result<Duration> {
    let line = output.lines().find(|line| line.trim_start().starts_with(name));
    let millis =
        line.and_then(|line| line.split_whitespace().rev().nth(1)).and_then(|text| text.parse().ok());
    match millis {
        Some(millis) => Ok(Duration::from_millis(millis)),
        None => bail!("no stage {name:?} in:\n{output}"),
    }
}

/// A line of `/proc/<pid>/status` in megabytes: `VmHWM` is the most memory that the process ever had.
pub(crate) fn memory(process: &Process, line: &str) -> Result<f64> {
    memory_of(process.id().context("the process is gone")?, line)
}

/// The same of a process by its id.
pub(crate) fn memory_of(id: u32, line: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    let kilobytes =
        found.and_then(|text| text.split_whitespace().next()).and_then(|text| text.parse::<f64>().ok());
    Ok(kilobytes.context("no such line in /proc")? * 1024.0 / 1e6)
}

/// Seconds of processor time that the process has used so far, in user and kernel mode. Unlike time on the clock it
/// hardly depends on what else the machine does.
pub(crate) fn processor_seconds(id: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The program's name, in parentheses, may hold spaces; user and system time are the 12th and 13th after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11).take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_A_SECOND)
}
