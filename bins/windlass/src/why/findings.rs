//! What objects say about what a repository or a job waits for. Pure.

use std::fmt;

use jiff::Timestamp;
use kube::api::ObjectMeta;
use serde::Serialize;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{HistoricJob, Job, JobState, Repository, annotations, labels};

use super::budget;

/// How often a look that found nothing is written down at most, in milliseconds.
const NOTED_EVERY: i64 = 300_000;
/// How long until a repository that is not healthy is looked at again, in milliseconds.
const UNHEALTHY_FOR: i64 = 60_000;

/// What there is to answer from, beside the repository.
#[derive(Default)]
pub(super) struct Known {
    /// The jobs that are queued in its namespace.
    pub(super) queue: Vec<Job>,
    /// Its jobs that ended.
    pub(super) ended: Vec<HistoricJob>,
    /// What its controller tells of itself.
    pub(super) metrics: Option<String>,
}

/// How long a claim holds that is not renewed, in milliseconds, unless the settings say otherwise.
const LEASE: i64 = 60_000;

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    object: String,
    namespace: String,
    /// Whether something that is wrong keeps it from going on.
    blocked: bool,
    findings: Vec<Finding>,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Weight {
    /// It does not go on before this is over.
    Blocked,
    /// It goes on by itself.
    Waits,
    /// Good to know.
    Note,
}

#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) weight: Weight,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Timestamp>,
}

pub(super) fn finding(weight: Weight, text: impl Into<String>) -> Finding {
    Finding { weight, text: text.into(), since: None, until: None }
}

impl Finding {
    fn since(self, millis: i64) -> Self {
        Self { since: moment(millis), ..self }
    }

    fn until(self, millis: i64) -> Self {
        Self { until: moment(millis), ..self }
    }
}

/// A moment of Unix milliseconds; 0 is none.
fn moment(millis: i64) -> Option<Timestamp> {
    let whole_seconds = millis.checked_div(1_000).filter(|seconds| *seconds > 0)?;
    Timestamp::from_second(whole_seconds).ok()
}

impl Report {
    pub(super) fn new(object: String, namespace: Option<&str>, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.weight);
        let blocked = findings.iter().any(|finding| finding.weight == Weight::Blocked);
        Self { object, namespace: namespace.unwrap_or_default().to_owned(), blocked, findings }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stands = self.findings.iter().map(|finding| finding.weight).min();
        let verdict = match stands {
            Some(Weight::Blocked) => "is blocked",
            Some(Weight::Waits) => "waits",
            Some(Weight::Note) | None => "waits for nothing",
        };
        writeln!(f, "{} {verdict}", self.object)?;
        for Finding { weight, text, since, until } in &self.findings {
            let mark = match weight {
                Weight::Blocked => "blocked",
                Weight::Waits => "waits",
                Weight::Note => "note",
            };
            write!(f, "  {mark:<8} {text}")?;
            if let Some(since) = since {
                write!(f, ", since {since}")?;
            }
            if let Some(until) = until {
                write!(f, ", until {until}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// What a repository waits for.
pub(super) fn of_repository(repository: &Repository, known: &Known, now: Timestamp) -> Report {
    let queue = known.queue.as_slice();
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let status = &repository.status;
    let mut findings = deletion(repository);
    let generation = repository.metadata.generation.unwrap_or_default();
    if status.observed_generation != generation {
        let text = format!(
            "its specification was not looked at yet (generation {generation}, looked at {}): is a repository controller running?",
            status.observed_generation
        );
        findings.push(finding(Weight::Waits, text));
    }
    for condition in status.conditions.iter().filter(|condition| condition.status != "True") {
        let blocks =
            matches!(condition.type_.as_str(), types::READY | types::PATH_CONFLICT | types::NAMESPACE_QUOTA);
        let weight = if blocks { Weight::Blocked } else { Weight::Note };
        let text = format!(
            "{} is {} ({}): {}",
            condition.type_, condition.status, condition.reason, condition.message
        );
        let mut found = finding(weight, text);
        found.since = Some(condition.last_transition_time.0).and_then(|time| moment(time.as_millisecond()));
        // A server that wants to be left alone says until when.
        let is_told = condition.reason == reasons::RATE_LIMITED;
        if condition.type_ == types::READY && is_told && status.health.retry_at != 0 {
            found = found.until(status.health.retry_at);
            found.text.push_str("; its server is left alone");
        } else if condition.type_ == types::READY && status.health.checked != 0 && !is_told {
            found = found.until(status.health.checked + UNHEALTHY_FOR);
            found.text.push_str("; it is checked again");
        }
        findings.push(found);
    }
    let own: Vec<&Job> = queue.iter().filter(|job| job.spec.repository == name).collect();
    for job in &own {
        findings.push(position(job, queue, now));
    }
    if let (JobState::Warning | JobState::Error, Some(messages)) = (status.sync.state, &status.sync.message) {
        let text = format!("the last pull left something undone: {}", messages.join("; "));
        findings.push(finding(Weight::Note, text).since(status.sync.finished));
    }
    if repository.spec.sync.enabled {
        // While a hook that works tells of it, its source need not be asked.
        let works = conditions::is_true(&status.conditions, types::WEBHOOK);
        let told = status.webhook.as_ref().filter(|_| works).map_or(0, |webhook| webhook.last_event);
        let looked = status.sync.finished.max(status.sync.checked).max(told);
        if own.is_empty() && looked > 0 {
            let next = looked + repository.spec.sync.interval_seconds * 1_000;
            let late = next + NOTED_EVERY < now.as_millisecond();
            let text = if late {
                "a look at its source is overdue: is a repository controller running?"
            } else {
                "nothing is known that is not synced; its source is looked at again"
            };
            let weight = if late { Weight::Waits } else { Weight::Note };
            let until = if next < now.as_millisecond() { 0 } else { next };
            findings.push(finding(weight, text).since(looked).until(until));
        }
    } else {
        findings.push(finding(Weight::Blocked, "spec.sync.enabled is false: it is not pulled by itself"));
    }
    if let Some(webhook) = status.webhook.as_ref().filter(|webhook| webhook.last_event > 0) {
        findings
            .push(finding(Weight::Note, "the last delivery of its webhook came").since(webhook.last_event));
    }
    findings.extend(delivered(&own, &known.ended));
    findings.extend(known.metrics.iter().flat_map(|metrics| budget::of_metrics(metrics, repository)));
    Report::new(format!("repository/{name}"), repository.metadata.namespace.as_deref(), findings)
}

/// What a queued job waits for, where these are queued in its namespace.
pub(super) fn of_job(job: &Job, repository: Option<&Repository>, queue: &[Job], now: Timestamp) -> Report {
    let mut findings = vec![position(job, queue, now)];
    match repository {
        None if !job.spec.action.is_orphan_cleanup() => {
            findings
                .push(finding(Weight::Blocked, format!("there is no repository {}", job.spec.repository)));
        }
        None => {}
        Some(repository) => {
            findings.extend(deletion(repository));
            let health = &repository.status.health;
            if !health.healthy {
                let text = format!("its repository is not healthy: {}", health.message.join("; "));
                findings.push(finding(Weight::Note, text).since(health.checked).until(health.retry_at));
            }
        }
    }
    let name = job.metadata.name.as_deref().unwrap_or_default();
    Report::new(format!("job/{name}"), job.metadata.namespace.as_deref(), findings)
}

/// What became of a job that is not queued any more.
pub(super) fn of_ended(name: &str, record: &HistoricJob) -> Report {
    let status = &record.status;
    let text = format!("it ended as {}: {}", status.state.as_str(), status.message);
    let found = finding(Weight::Note, text).since(status.finished);
    Report::new(format!("job/{name}"), record.metadata.namespace.as_deref(), vec![found])
}

fn deletion(repository: &Repository) -> Vec<Finding> {
    let Some(begun) = &repository.metadata.deletion_timestamp else { return Vec::new() };
    let left = repository.metadata.finalizers.clone().unwrap_or_default().join(", ");
    let mut text = format!("the repository is being deleted; still to do: {left}");
    if let Some(deletion) = &repository.status.deletion {
        text = format!("{text}; in the way of {}: {}", deletion.finalizer, deletion.message);
    }
    vec![finding(Weight::Blocked, text).since(begun.0.as_millisecond())]
}

/// The delivery that asked for the newest of these jobs that one asked for, and what came of it.
fn delivered(queued: &[&Job], ended: &[HistoricJob]) -> Option<Finding> {
    let delivery = |meta: &ObjectMeta| meta.annotations.as_ref()?.get(annotations::DELIVERY).cloned();
    if let Some((job, delivery)) = queued.iter().find_map(|job| Some((job, delivery(&job.metadata)?))) {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        return Some(finding(
            Weight::Note,
            format!("delivery {delivery} asked for job {name}, which is queued"),
        ));
    }
    let of_delivery = ended.iter().filter_map(|record| Some((record, delivery(&record.metadata)?)));
    let (record, delivery) = of_delivery.max_by_key(|(record, _)| record.status.finished)?;
    let status = &record.status;
    let text = format!(
        "delivery {delivery} asked for a job ({}), which ended as {}: {}",
        record.spec.action,
        status.state.as_str(),
        status.message
    );
    Some(finding(Weight::Note, text).since(status.finished))
}

fn label<'a>(job: &'a Job, name: &str) -> Option<&'a str> {
    job.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// Who works on a job, or how many are before it.
fn position(job: &Job, queue: &[Job], now: Timestamp) -> Finding {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let attempt = label(job, labels::ATTEMPT).unwrap_or("1");
    let created = |job: &Job| job.metadata.creation_timestamp.as_ref().map(|time| time.0);
    if let Some(claim) = label(job, labels::CLAIM) {
        let owner: String =
            label(job, labels::CLAIM_OWNER).unwrap_or("nobody known").chars().take(8).collect();
        let claimed: i64 = claim.parse().unwrap_or(0);
        let mut renewed = moment(claimed).map_or_else(String::new, |at| format!(", renewed {at}"));
        if claimed > 0 && now.as_millisecond() - claimed > LEASE {
            renewed.push_str(", which is long ago: somebody else takes it over, or it is given up");
        }
        let text = format!(
            "job {name} is worked on by {owner} (attempt {attempt}{renewed}): {}",
            job.status.message
        );
        return finding(Weight::Waits, text).since(job.status.started);
    }
    let key = |job: &Job| (created(job), job.metadata.name.clone());
    let unclaimed = queue.iter().filter(|other| label(other, labels::CLAIM).is_none());
    let before = unclaimed.filter(|other| key(other) < key(job)).count();
    let runs = queue
        .iter()
        .find(|other| other.spec.repository == job.spec.repository && label(other, labels::CLAIM).is_some());
    let mut text = format!("job {name} is queued, {before} of its namespace before it");
    if let Some(runs) = runs.and_then(|job| job.metadata.name.as_deref()) {
        text = format!("{text}; job {runs} of the same repository has to end first");
    }
    finding(Weight::Waits, text).since(created(job).map_or(0, Timestamp::as_millisecond))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn repository(change: impl FnOnce(&mut Value)) -> Repository {
        let mut document = json!({
            "metadata": {"name": "dash", "namespace": "team", "generation": 1},
            "spec": {"title": "D", "type": "git", "workflows": [], "sync": {"enabled": true, "intervalSeconds": 60}},
            "status": {"observedGeneration": 1, "health": {"healthy": true, "checked": 1_000_000},
                "sync": {"state": "success", "finished": 1_000_000}},
        });
        change(&mut document);
        serde_json::from_value(document).unwrap()
    }

    fn job(name: &str, repository: &str, created: &str, labels: &Value) -> Job {
        let document = json!({
            "metadata": {"name": name, "namespace": "team", "creationTimestamp": created, "labels": labels},
            "spec": {"action": "pull", "repository": repository}, "status": {"started": 1_005_000, "message": "applying"},
        });
        serde_json::from_value(document).unwrap()
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_030).unwrap()
    }

    #[test]
    fn a_repository_that_is_in_step_waits_for_nothing() {
        let report = of_repository(&repository(|_| {}), &Known::default(), now()).to_string();
        let expected = "repository/dash waits for nothing\n  note     nothing is known that is not synced; its source is \
                        looked at again, since 1970-01-01T00:16:40Z, until 1970-01-01T00:17:40Z\n";
        assert_eq!(report, expected);
        let late =
            of_repository(&repository(|_| {}), &Known::default(), Timestamp::from_second(5_000).unwrap())
                .to_string();
        assert!(late.contains("overdue"), "{late}");
    }

    #[test]
    fn what_blocks_comes_first_with_its_reason_and_times() {
        let blocked = repository(|document| {
            document["status"]["conditions"] = json!([
                {"type": "Webhook", "status": "False", "reason": "NoPublicURL", "message": "set it",
                    "lastTransitionTime": "1970-01-01T00:10:00Z"},
                {"type": "Ready", "status": "False", "reason": "ServiceUnavailable", "message": "no answer",
                    "lastTransitionTime": "1970-01-01T00:10:00Z"},
            ]);
        });
        let report = of_repository(&blocked, &Known::default(), now());
        assert!(report.blocked);
        let text = report.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "repository/dash is blocked");
        assert!(lines[1].contains("Ready is False (ServiceUnavailable): no answer"), "{text}");
        assert!(lines[1].ends_with("since 1970-01-01T00:10:00Z, until 1970-01-01T00:17:40Z"), "{text}");
        assert!(text.contains("note     Webhook is False (NoPublicURL)"), "{text}");
    }

    #[test]
    fn a_server_that_wants_to_be_left_alone_is_named_with_until_when() {
        let limited = repository(|document| {
            document["status"]["health"] = json!({"healthy": false, "checked": 1_000_000, "retryAt": 2_200_000,
                "message": ["git.example.com asks to slow down"]});
            document["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "reason": "RateLimited",
                "message": "git.example.com asks to slow down", "lastTransitionTime": "1970-01-01T00:16:40Z"}]);
        });
        let text = of_repository(&limited, &Known::default(), now()).to_string();
        let line = "asks to slow down; its server is left alone, since 1970-01-01T00:16:40Z, until 1970-01-01T00:36:40Z";
        assert!(text.contains(line), "{text}");
        let queue = [job("dash-sync", "dash", "1970-01-01T00:16:00Z", &json!({}))];
        let report = serde_json::to_value(of_job(&queue[0], Some(&limited), &queue, now())).unwrap();
        let of_host =
            report["findings"].as_array().unwrap().iter().find(|found| found["weight"] == "note").unwrap();
        assert_eq!(of_host["until"], "1970-01-01T00:36:40Z", "{report}");
    }

    #[test]
    fn a_job_says_who_holds_it_or_who_is_before_it() {
        let held =
            json!({labels::CLAIM: "1010000", labels::CLAIM_OWNER: "0123456789abcdef", labels::ATTEMPT: "2"});
        let queue = [
            job("dash-sync", "dash", "1970-01-01T00:16:00Z", &held),
            job("dash-move", "dash", "1970-01-01T00:16:10Z", &json!({})),
            job("other-sync", "other", "1970-01-01T00:16:05Z", &json!({})),
        ];
        let known = repository(|_| {});
        let text = of_job(&queue[0], Some(&known), &queue, now()).to_string();
        assert!(
            text.contains("worked on by 01234567 (attempt 2, renewed 1970-01-01T00:16:50Z): applying"),
            "{text}"
        );
        let text = of_job(&queue[1], Some(&known), &queue, now()).to_string();
        assert!(text.contains("queued, 1 of its namespace before it; job dash-sync of the same"), "{text}");
        assert!(of_job(&queue[2], None, &queue, now()).blocked, "its repository is gone");
        let late = Timestamp::from_second(1_100).unwrap();
        let text = of_job(&queue[0], Some(&known), &queue, late).to_string();
        assert!(text.contains("which is long ago: somebody else takes it over"), "{text}");
        let all = Known { queue: queue.to_vec(), ..Known::default() };
        assert!(of_repository(&known, &all, now()).to_string().contains("job dash-move is queued"));
    }

    #[test]
    fn a_repository_that_goes_says_what_is_still_to_do() {
        let going = repository(|document| {
            document["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:16:00Z");
            document["metadata"]["finalizers"] = json!(["cleanup"]);
            document["status"]["deletion"] =
                json!({"state": "blocked", "finalizer": "cleanup", "message": "GitHub says no"});
        });
        let report = of_repository(&going, &Known::default(), now());
        let text = report.to_string();
        assert!(report.blocked && text.contains("in the way of cleanup: GitHub says no"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["blocked"], &json["findings"][0]["weight"]), (&json!(true), &json!("blocked")));
        assert_eq!(json["findings"][0]["since"], "1970-01-01T00:16:00Z");
    }

    #[test]
    fn the_last_delivery_is_told_with_what_came_of_it() {
        let known =
            repository(|document| document["status"]["webhook"] = json!({"id": 1, "lastEvent": 1_020_000}));
        let record = |delivery: Option<&str>, finished: i64, state: &str| -> HistoricJob {
            let marks = delivery.map(|delivery| json!({annotations::DELIVERY: delivery}));
            let document = json!({"metadata": {"name": format!("dash-sync-{finished}"), "annotations": marks},
                "spec": {"action": "pull", "repository": "dash"},
                "status": {"state": state, "finished": finished, "message": "completed"}});
            serde_json::from_value(document).unwrap()
        };
        let ended = vec![
            record(Some("d-1"), 1_000_000, "error"),
            record(Some("d-2"), 1_021_000, "success"),
            record(None, 1_022_000, "error"),
        ];
        let text =
            of_repository(&known, &Known { ended: ended.clone(), ..Known::default() }, now()).to_string();
        assert!(text.contains("the last delivery of its webhook came, since 1970-01-01T00:17:00Z"), "{text}");
        let outcome = "delivery d-2 asked for a job (pull), which ended as success: completed, since 1970-01-01T00:17:01Z";
        assert!(text.contains(outcome) && !text.contains("d-1"), "{text}");
        let mut queued = job("dash-sync", "dash", "1970-01-01T00:16:00Z", &json!({}));
        queued.metadata.annotations = Some([(annotations::DELIVERY.to_owned(), "d-3".to_owned())].into());
        let text =
            of_repository(&known, &Known { queue: vec![queued], ended, metrics: None }, now()).to_string();
        assert!(
            text.contains("delivery d-3 asked for job dash-sync, which is queued") && !text.contains("d-2"),
            "{text}"
        );
    }
}
