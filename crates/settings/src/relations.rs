//! Values that have to go together, and values that stand for others.

use std::time::Duration;

use windlass_api::GoDuration;

use crate::{
    error::SettingError,
    keys,
    sections::{ExporterInfoSource, Sections},
    values::{DEFAULT, Layer, Merged},
};

const SECTION: &str = "operator";
const TRACKER: &str = "commit_tracker";
/// What a `job_interval` of 0 stands for.
const JOB_INTERVAL: &str = "30s";

/// Everything that does not go together, once each value is good by itself.
pub(crate) fn check(values: &Merged, sections: &Sections) -> Vec<SettingError> {
    [
        lease_renewal(values, sections).map(drop),
        client_certificate(values),
        leader_election(values, sections),
        github_credentials(values, sections),
        selection(values, sections),
    ]
    .into_iter()
    .filter_map(Result::err)
    .map(|message| SettingError::Combine { message })
    .collect()
}

/// Values in the place of those that stand for another, so that what is printed is what is in force. `runs_jobs` says
/// whether this is an operator whose requests are its drivers'.
pub(crate) fn substitutes(values: &Merged, sections: &Sections, runs_jobs: bool) -> Layer {
    let operator = &sections.operator;
    let mut layer = Layer::default();
    let mut set = |key: &str, text: &str, origin: &str| layer.set(SECTION, key, text, origin);
    let mut stand_in =
        |key: &str, other: &str| set(key, values.text(SECTION, other), values.origin(SECTION, other));
    for key in ["dashboards_server_url", "folders_server_url"] {
        if !values.is_set(SECTION, key) {
            stand_in(key, "provisioning_server_url");
        }
    }
    if values.origin(SECTION, "history_max_age") == DEFAULT && !operator.history_expiration.is_zero() {
        stand_in("history_max_age", "history_expiration");
    }
    if operator.job_interval.is_zero() {
        set("job_interval", JOB_INTERVAL, values.origin(SECTION, "job_interval"));
    }
    let all_but_one = operator.concurrent_drivers.saturating_sub(1).max(1);
    if operator.max_jobs_per_namespace == 0 {
        let origin = values.origin(SECTION, "max_jobs_per_namespace");
        set("max_jobs_per_namespace", &all_but_one.to_string(), origin);
    }
    let per_host = operator.git_max_requests_per_host;
    if runs_jobs && values.origin(SECTION, "git_max_requests_per_host") == DEFAULT && per_host > all_but_one {
        set("git_max_requests_per_host", &all_but_one.to_string(), DEFAULT);
    }
    if let Ok(renewal) = lease_renewal(values, sections)
        && renewal != operator.lease_renewal_interval
    {
        let key = "lease_renewal_interval";
        set(key, &GoDuration::from(renewal).to_string(), values.origin(SECTION, key));
    }
    let servers = &sections.provisioning.allowed_git_urls;
    if !servers.is_empty() {
        let key = "allowed_git_origins";
        let all = [operator.allowed_git_origins.join("|"), servers.join("|")].join("|");
        let theirs = values.origin("provisioning", "allowed_git_urls");
        let ours = values.is_set(SECTION, key).then(|| format!("{}, ", values.origin(SECTION, key)));
        let origin = ours.unwrap_or_default() + theirs;
        set(key, all.trim_start_matches('|'), &origin);
    }
    layer
}

/// How often a claim is renewed: as set, or a third of the expiry.
///
/// # Errors
///
/// It is more than that, so that two renewals which fail in a row lose the lease of a worker that is well.
fn lease_renewal(values: &Merged, sections: &Sections) -> Result<Duration, String> {
    let (expiry, renewal) = (sections.operator.lease_expiry, sections.operator.lease_renewal_interval);
    let origin = |key| values.origin(SECTION, key);
    let most = expiry / 3;
    if origin("lease_renewal_interval") == DEFAULT || renewal.is_zero() {
        return Ok(most);
    }
    if renewal <= most {
        return Ok(renewal);
    }
    Err(format!(
        "{}: `lease_renewal_interval` in [{SECTION}] section is {}, more than a third of `lease_expiry` ({}, {}): \
         a lease could lapse while its owner is at work. Set lease_renewal_interval to {} or less (or leave it \
         out), or lease_expiry to {} or more",
        origin("lease_renewal_interval"),
        GoDuration::from(renewal),
        GoDuration::from(expiry),
        origin("lease_expiry"),
        GoDuration::from(most),
        GoDuration::from(renewal * 3),
    ))
}

/// A leader stops before another one begins, and may miss a renewal.
fn leader_election(values: &Merged, sections: &Sections) -> Result<(), String> {
    let operator = &sections.operator;
    let shown = |key| (values.text(SECTION, key), values.origin(SECTION, key));
    let (lease, lease_origin) = shown("leader_election_lease_duration");
    let (deadline, deadline_origin) = shown("leader_election_renew_deadline");
    let (retry, retry_origin) = shown("leader_election_retry_period");
    if operator.leader_election_renew_deadline >= operator.leader_election_lease_duration {
        return Err(format!(
            "{deadline_origin}: `leader_election_renew_deadline` in [{SECTION}] section is {deadline}, which is not less \
             than `leader_election_lease_duration` ({lease}, {lease_origin}): two replicas could lead at a time",
        ));
    }
    if operator.leader_election_retry_period * 2 > operator.leader_election_renew_deadline {
        return Err(format!(
            "{retry_origin}: `leader_election_retry_period` in [{SECTION}] section is {retry}, more than half of \
             `leader_election_renew_deadline` ({deadline}, {deadline_origin}): one lost renewal would cost the leadership",
        ));
    }
    Ok(())
}

/// A client certificate has a key, and a key a certificate.
fn client_certificate(values: &Merged) -> Result<(), String> {
    let is_set = |key| values.is_set(SECTION, key);
    let (set, missing) = match (is_set("tls_cert_file"), is_set("tls_key_file")) {
        (true, false) => ("tls_cert_file", "tls_key_file"),
        (false, true) => ("tls_key_file", "tls_cert_file"),
        _ => return Ok(()),
    };
    Err(format!(
        "{}: `tls_cert_file` and `tls_key_file` in [{SECTION}] section go together, and `{missing}` is not set",
        values.origin(SECTION, set)
    ))
}

/// GitHub is asked with a token, or as an App, which has three values.
fn github_credentials(values: &Merged, sections: &Sections) -> Result<(), String> {
    const APP: [&str; 3] = ["github_app_id", "github_app_private_key", "github_app_installation_id"];
    let named = |key: &&'static str| {
        let variable = keys::find(TRACKER, key).and_then(|key| key.original).unwrap_or_default();
        format!("{variable} (`{key}` in [{TRACKER}] section)")
    };
    let is_set = |key: &&'static str| values.is_set(TRACKER, key);
    let list = |keys: &[&'static str]| keys.iter().map(named).collect::<Vec<_>>().join(", ");
    let (set, missing): (Vec<_>, Vec<_>) = APP.into_iter().partition(is_set);
    let token = is_set(&"github_token");
    if token && !set.is_empty() {
        return Err(format!(
            "{} and {} are both set: GitHub is asked with a token or as an App, leave one of them out",
            named(&"github_token"),
            list(&set),
        ));
    }
    if !set.is_empty() && !missing.is_empty() {
        return Err(format!("{} set without {}: the three go together", list(&set), list(&missing)));
    }
    if sections.commit_tracker.exporter_info == ExporterInfoSource::Github && !token && set.is_empty() {
        return Err(format!(
            "{}: `exporter_info` in [{TRACKER}] section is github, which takes {}, or {}",
            values.origin(TRACKER, "exporter_info"),
            named(&"github_token"),
            list(&APP),
        ));
    }
    Ok(())
}

/// The commit tracker follows one Kustomization, those with labels, or all.
fn selection(values: &Merged, sections: &Sections) -> Result<(), String> {
    let named = ["kustomization", "selector"].into_iter().filter(|key| values.is_set(TRACKER, key));
    let set: Vec<&str> = named.chain(sections.commit_tracker.all.then_some("all")).collect();
    let [first, second, ..] = set[..] else { return Ok(()) };
    Err(format!(
        "{}: `{second}` in [{TRACKER}] section does not go with `{first}` ({}): set one of them",
        values.origin(TRACKER, second),
        values.origin(TRACKER, first),
    ))
}
