//! Repositories that nothing happens to: what they cost the repository operator, and their Git host.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use windlass_e2e::{Kubectl, Operator, Server, dashboard, eventually, secret};
use windlass_git_server::HttpBackend;
use windlass_git_server::seed::{self, Edit};
use windlass_github_stand_in::{Repository, StandIn};

use crate::api::{Api, REPOSITORIES};
use crate::samples::Samples;
use crate::scene::{self, Fleet};
use crate::table::{Row, Table, Target, Unit};

/// Repositories without hooks, all of one host.
const REPOSITORIES_MADE: usize = 1_000;
/// How often each is polled, and for how many such times is measured.
const INTERVAL: Duration = Duration::from_mins(1);
const INTERVALS: u32 = 2;
/// What a host is sent at most, as the settings have it unless told otherwise.
const A_SECOND: f64 = 100.0;
const AT_ONCE: f64 = 200.0;
/// As many as would send more than that, if nothing held them back.
const WORKERS: &[(&str, &str)] = &[("GF_OPERATOR_WORKER_COUNT", "64")];
/// Repositories that are changed at a time.
const CHANGERS: usize = 16;
/// Repositories with hooks.
const HOOKED: usize = 100;
const TOKEN: &str = "ghp_bench_t0ken";

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let fleet = Fleet::start(REPOSITORIES_MADE, |document| {
        document["spec"]["sync"] =
            json!({"enabled": true, "target": "folder", "intervalSeconds": INTERVAL.as_secs()});
    });
    let mut fleet = fleet.await?;
    let jobs = Operator::start(&fleet.server, "provisioning-jobs", &[]).await?;
    fleet.all("/status/sync/state", &json!("success")).await?;
    drop(jobs);
    idle(table, &fleet).await?;
    budget(table, &mut fleet).await?;
    drop(fleet);
    hooked(table).await
}

/// Nothing happens, for some intervals.
async fn idle(table: &mut Table, fleet: &Fleet) -> Result<()> {
    let operator = &fleet.operator.process;
    let id = operator.id().context("the operator is gone")?;
    let (asked, used, begun) = (fleet.remote.requests(), scene::processor_seconds(id)?, Instant::now());
    let mut memory = Vec::new();
    for _ in 0..INTERVALS * 6 {
        tokio::time::sleep(INTERVAL / 6).await;
        memory.push(scene::memory(operator, "VmRSS")?);
    }
    let took = begun.elapsed().as_secs_f64();
    let share = 100.0 * (scene::processor_seconds(id)? - used) / took;
    let requests = (fleet.remote.requests() - asked) as f64;
    let each = requests / REPOSITORIES_MADE as f64 / (took / INTERVAL.as_secs_f64());
    let figure = "idle: the repository operator with 1,000 repositories, of a processor";
    table.add(Row::new(figure, Target::AtMost(1.0), Unit::Percent, Samples::one(share)));
    let figure = "idle: the same, resident memory";
    table.add(Row::new(figure, Target::AtMost(80.0), Unit::Megabytes, Samples::new(memory)));
    let figure = "idle: Git requests a repository and interval, without hooks";
    let row = Row::new(figure, Target::AtMost(1.0), Unit::Times, Samples::one(each));
    table.add(row.note("polled every minute; health is a part of it"));
    Ok(())
}

/// All are changed at once, and have to be looked at.
async fn budget(table: &mut Table, fleet: &mut Fleet) -> Result<()> {
    fleet.operator.process.signal("TERM").await?;
    fleet.operator.process.end(windlass_e2e::DEADLINE).await?;
    fleet.operator = Operator::start(&fleet.server, "provisioning-repo", WORKERS).await?;
    let (fleet, before) = (&*fleet, fleet.remote.requests());
    let changed = stream::iter(&fleet.names)
        .map(|name| {
            let body = json!({"spec": {"title": format!("{name}, changed")}});
            async move { fleet.api.merge(&format!("{REPOSITORIES}/{name}"), &body).await }
        })
        .buffer_unordered(CHANGERS)
        .try_for_each(|()| async { Ok(()) });
    let counting = async {
        let mut counts = vec![(Instant::now(), before)];
        while fleet.remote.requests() < before + REPOSITORIES_MADE as u64 {
            let begun = counts[0].0;
            ensure!(
                begun.elapsed() < Duration::from_mins(5),
                "not every repository was looked at in five minutes"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
            counts.push((Instant::now(), fleet.remote.requests()));
        }
        Ok(counts)
    };
    let (_changed, counts) = tokio::try_join!(changed, counting)?;
    let within = |from: usize| {
        let (start, sent) = counts[from];
        let last = counts[from..].iter().take_while(|(at, _)| *at - start <= Duration::from_secs(1)).last();
        last.map_or(0, |(_, then)| then - sent)
    };
    let most = (0..counts.len()).map(within).max().unwrap_or_default() as f64;
    let took = counts.last().map_or(Duration::ZERO, |(at, _)| *at - counts[0].0);
    let figure = "idle: 1,000 repositories of one host, changed at once: most requests to it within a second";
    let row = Row::new(figure, Target::AtMost(A_SECOND + AT_ONCE), Unit::Count, Samples::one(most));
    table.add(row.note(format!(
        "{A_SECOND:.0} a second and {AT_ONCE:.0} at once are its share; all within {took:.1?}"
    )));
    fleet.all("/status/health/healthy", &json!(true)).await
}

/// Repositories whose hooks work, and tell of something within each interval.
async fn hooked(table: &mut Table) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let names: Vec<String> = (0..HOOKED).map(|number| format!("hooked-{number}")).collect();
    for name in &names {
        let files: PathBuf = folder.path().join(format!("grafana/{name}.git"));
        seed::commit(&files, "main", [Edit::put("a.json", dashboard(name, name))], "first")?;
    }
    let github = StandIn::start_beside(HttpBackend::new(folder.path()).router()).await?;
    github.allow_token(&secret(TOKEN));
    let server = Server::start(&[github.api().to_owned()]).await?;
    let url = server.url().replace("localhost", "127.0.0.1");
    let public = [("GF_OPERATOR_PROVISIONING_SERVER_PUBLIC_URL", url.as_str())];
    let operator = Operator::start(&server, "provisioning-repo", &public).await?;
    let jobs = Operator::start(&server, "provisioning-jobs", &[]).await?;
    let api = Api::of(&server).await?;
    let mut upstreams = Vec::new();
    for name in &names {
        let upstream = github.repository(&format!("grafana/{name}"));
        upstream.trust(&server.ca_file());
        let at = json!({"serverUrl": github.api(), "url": github.url_of(&upstream), "branch": "main"});
        let object = json!({
            "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "metadata": {"name": name},
            "spec": {"title": name, "type": "githubEnterprise", "workflows": ["write"],
                "sync": {"enabled": true, "target": "folder", "intervalSeconds": INTERVAL.as_secs()},
                "githubEnterprise": at},
            "secure": {"token": {"create": TOKEN}},
        });
        api.post(REPOSITORIES, object.to_string()).await?;
        upstreams.push(upstream);
    }
    settled(&server).await?;
    drop(jobs);
    tell(&upstreams).await?;
    let before = git_requests(&operator).await?;
    for _ in 0..INTERVALS * 2 {
        tokio::time::sleep(INTERVAL / 2).await;
        tell(&upstreams).await?;
    }
    let each = (git_requests(&operator).await? - before) / HOOKED as f64 / f64::from(INTERVALS);
    let figure = "idle: Git requests a repository and interval, with hooks that tell of something in each";
    let row = Row::new(figure, Target::AtMost(0.0), Unit::Times, Samples::one(each));
    table.add(row.note(format!(
        "{HOOKED} repositories; health, every five minutes, is asked for outside of the time"
    )));
    Ok(())
}

/// Waits until all have their hooks and are pulled.
async fn settled(server: &Kubectl) -> Result<()> {
    eventually("all repositories are pulled and have hooks", || async {
        let list = server.kubectl(&["get", "repositories", "-o", "json"]).await?;
        let list: Value = serde_json::from_str(&list)?;
        let is_settled = |item: &&Value| {
            let conditions = item["status"]["conditions"].as_array();
            let hook = conditions.and_then(|all| all.iter().find(|it| it["type"] == "Webhook"));
            item["status"]["sync"]["state"] == "success" && hook.is_some_and(|hook| hook["status"] == "True")
        };
        let count = list["items"].as_array().map_or(0, |items| items.iter().filter(is_settled).count());
        ensure!(count == HOOKED, "{count} of {HOOKED} are");
        Ok(Some(()))
    })
    .await
}

/// Somebody pushes to a branch that is not pulled, at each.
async fn tell(upstreams: &[Repository]) -> Result<()> {
    for upstream in upstreams {
        let answers = upstream.tell_of_push("other", &"1".repeat(40)).await;
        ensure!(answers == [200], "a delivery was answered with {answers:?}");
    }
    Ok(())
}

/// The requests that the operator has sent to Git servers.
async fn git_requests(operator: &Operator) -> Result<f64> {
    let (_, text) = operator.ask("/metrics").await?;
    let name = "grafana_provisioning_git_client_http_requests_total{";
    let samples = text.lines().filter(|line| line.starts_with(name));
    Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}
