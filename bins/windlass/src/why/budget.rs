//! What is left of the limits of a repository's servers, as the metrics of the repository controller say it.

use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use url::Url;
use windlass_api::{Repository, RepositoryType};
use windlass_http_client::{Deadlines, Failure, Tls};

use super::findings::{Finding, Weight, finding};

/// Where a controller tells its metrics unless its settings say otherwise.
const DEFAULT: &str = "http://127.0.0.1:3000/metrics";
const LIMIT: Duration = Duration::from_secs(5);
/// Bytes that metrics may have.
const LARGEST: u64 = 64 << 20;

/// The metrics at `url`. Where nobody was named, nobody needs to answer.
pub(super) async fn read(url: Option<&str>) -> Result<Option<String>> {
    match url {
        Some(url) => {
            Ok(Some(ask(url).await.with_context(|| format!("failed to read the metrics at {url}"))?))
        }
        None => Ok(ask(DEFAULT).await.ok()),
    }
}

async fn ask(url: &str) -> Result<String> {
    let client = windlass_http_client::builder(&Tls::default(), LIMIT).no_proxy().build()?;
    let deadline = Deadlines { connect: LIMIT, read: LIMIT, total: LIMIT }.begin();
    let answer = windlass_http_client::send(client.get(url), &deadline).await.map_err(failed)?;
    anyhow::ensure!(answer.status().is_success(), "it answers {}", answer.status());
    Ok(String::from_utf8(answer.body(LARGEST).await.map_err(failed)?.to_vec())?)
}

fn failed(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Timeout(after) => anyhow::anyhow!("no answer within {after:?}"),
        Failure::TooLarge(most) => anyhow::anyhow!("more than {most} bytes"),
        Failure::Refused(detail) | Failure::Broken(detail) => anyhow::anyhow!(detail),
    }
}

/// A sample of one of `gauge`'s series: the one whose labels are these.
fn sample(metrics: &str, gauge: &str, labels: &[(&str, &str)]) -> Option<u64> {
    metrics.lines().find_map(|line| {
        let (said, value) = line.strip_prefix(gauge)?.strip_prefix('{')?.rsplit_once("} ")?;
        let is_it = labels.iter().all(|(name, value)| {
            let wanted = format!("{name}=\"{value}\"");
            said.split(',').any(|label| label == wanted)
        });
        is_it.then(|| value.parse().ok())?
    })
}

/// What they say of the servers of a repository.
pub(super) fn of_metrics(metrics: &str, repository: &Repository) -> Vec<Finding> {
    let spec = &repository.spec;
    let url = spec.url().and_then(|url| Url::parse(url).ok());
    let Some((host, port)) = url.as_ref().and_then(|it| Some((it.host_str()?, it.port_or_known_default()?)))
    else {
        return Vec::new();
    };
    let git = format!("{host}:{port}");
    let mut findings = Vec::new();
    let requests = |state| sample(metrics, "windlass_git_host_requests", &[("host", &git), ("state", state)]);
    if let (Some(under_way), Some(waiting)) = (requests("under_way"), requests("waiting")) {
        let weight = if waiting > 0 { Weight::Waits } else { Weight::Note };
        let text = format!("{under_way} requests to {git} are under way, and {waiting} wait for a place");
        findings.push(finding(weight, text));
    }
    if let Some(left) = sample(metrics, "windlass_git_host_requests_left", &[("host", &git)]) {
        let weight = if left == 0 { Weight::Waits } else { Weight::Note };
        findings.push(finding(
            weight,
            format!("{left} more may be sent to {git} at once, of the process's share"),
        ));
    }
    let github = match spec.kind {
        RepositoryType::Github => "api.github.com:443",
        RepositoryType::GithubEnterprise => &git,
        _ => return findings,
    };
    let of =
        |gauge: &str| sample(metrics, &format!("windlass_github_rate_limit_{gauge}"), &[("host", github)]);
    if let Some(left) = of("remaining") {
        let weight = if left == 0 { Weight::Waits } else { Weight::Note };
        let text = format!("GitHub's API leaves {left} requests to the token or App with the fewest");
        let until =
            of("reset_timestamp_seconds").and_then(|at| Timestamp::from_second(i64::try_from(at).ok()?).ok());
        findings.push(Finding { until, ..finding(weight, text) });
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const METRICS: &str = "# TYPE windlass_git_host_requests gauge
windlass_git_host_requests{host=\"git.example:8443\",state=\"under_way\"} 3
windlass_git_host_requests{host=\"git.example:8443\",state=\"waiting\"} 2
windlass_git_host_requests{host=\"other.example:443\",state=\"waiting\"} 7
windlass_git_host_requests_left{host=\"git.example:8443\"} 12
windlass_github_rate_limit_remaining{host=\"git.example:8443\"} 0
windlass_github_rate_limit_reset_timestamp_seconds{host=\"git.example:8443\"} 2000
windlass_github_rate_limit_remaining{host=\"api.github.com:443\"} 4999
";

    fn repository(kind: &str, url: &str) -> Repository {
        let document = json!({"metadata": {"name": "dash"}, "spec": {"title": "D", "type": kind, "workflows": [],
            "sync": {"enabled": true}, kind: {"url": url, "branch": "main"}}});
        serde_json::from_value(document).unwrap()
    }

    fn told(kind: &str, url: &str) -> Vec<(Weight, String, Option<i64>)> {
        let found = of_metrics(METRICS, &repository(kind, url)).into_iter();
        found.map(|it| (it.weight, it.text, it.until.map(Timestamp::as_second))).collect()
    }

    #[test]
    fn what_is_left_is_told_of_the_repositorys_own_servers() {
        let own = told("githubEnterprise", "https://git.example:8443/o/r");
        let of = |weight, text: &str, until| (weight, text.to_owned(), until);
        assert_eq!(
            own,
            [
                of(
                    Weight::Waits,
                    "3 requests to git.example:8443 are under way, and 2 wait for a place",
                    None
                ),
                of(
                    Weight::Note,
                    "12 more may be sent to git.example:8443 at once, of the process's share",
                    None
                ),
                of(
                    Weight::Waits,
                    "GitHub's API leaves 0 requests to the token or App with the fewest",
                    Some(2_000)
                ),
            ]
        );
        let public = told("github", "https://github.com/o/r");
        assert_eq!(
            public,
            [of(Weight::Note, "GitHub's API leaves 4999 requests to the token or App with the fewest", None)]
        );
        assert_eq!(told("git", "https://git.example/o/r"), [], "another port");
    }
}
