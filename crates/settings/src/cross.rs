//! Values that have to go together.

use std::time::Duration;

use windlass_api::GoDuration;

use crate::{
    error::SettingError,
    keys::{KEYS, position},
    load::{Origin, Values},
    value,
};

const SECTION: &str = "operator";
/// What a `job_interval` of 0 stands for.
const JOB_INTERVAL: &str = "30s";

/// Everything that does not go together, once each value is good by itself.
pub(crate) fn check(values: &Values) -> Vec<SettingError> {
    let mut errors = Vec::new();
    if let Err(message) = lease_renewal(values) {
        errors.push(SettingError::Combine { message });
    }
    if let Err(message) = client_certificate(values) {
        errors.push(SettingError::Combine { message });
    }
    if let Err(message) = leader_election(values) {
        errors.push(SettingError::Combine { message });
    }
    for message in [github_credentials(values), selection(values)].into_iter().filter_map(Result::err) {
        errors.push(SettingError::Combine { message });
    }
    errors
}

/// Puts values in the place of those that stand for another, so that what is printed is what is in force.
pub(crate) fn settle(values: &mut Values) {
    let provisioning = values.get(SECTION, "provisioning_server_url").clone();
    for key in ["dashboards_server_url", "folders_server_url"] {
        values.change(SECTION, key, |url| {
            if url.text.is_empty() {
                *url = provisioning.clone();
            }
        });
    }
    values.change(SECTION, "job_interval", |interval| {
        if value::duration(&interval.text).is_zero() {
            JOB_INTERVAL.clone_into(&mut interval.text);
        }
    });
    if let Ok(renewal) = lease_renewal(values) {
        values.change(SECTION, "lease_renewal_interval", |interval| {
            if value::duration(&interval.text) != renewal {
                interval.text = GoDuration::from(renewal).to_string();
            }
        });
    }
}

/// How often a claim is renewed: as set, or a third of the expiry.
///
/// # Errors
///
/// It is more than that, so that two renewals which fail in a row lose the lease of a worker that is well.
pub(crate) fn lease_renewal(values: &Values) -> Result<Duration, String> {
    let expiry_value = values.get(SECTION, "lease_expiry");
    let renewal_value = values.get(SECTION, "lease_renewal_interval");
    let expiry = value::duration(&expiry_value.text);
    let renewal = value::duration(&renewal_value.text);
    let most = expiry / 3;
    if renewal_value.origin == Origin::Default || renewal.is_zero() {
        return Ok(most);
    }
    if renewal <= most {
        return Ok(renewal);
    }
    Err(format!(
        "{}: `lease_renewal_interval` in [{SECTION}] section is {}, more than a third of `lease_expiry` ({}, {}): \
         a lease could lapse while its owner is at work. Set lease_renewal_interval to {} or less (or leave it \
         out), or lease_expiry to {} or more",
        renewal_value.origin,
        GoDuration::from(renewal),
        GoDuration::from(expiry),
        expiry_value.origin,
        GoDuration::from(most),
        GoDuration::from(renewal * 3),
    ))
}

/// A leader stops before another one begins, and may miss a renewal.
fn leader_election(values: &Values) -> Result<(), String> {
    let value = |key| values.get(SECTION, key);
    let lease = value("leader_election_lease_duration");
    let deadline = value("leader_election_renew_deadline");
    let retry = value("leader_election_retry_period");
    let of = |effective: &crate::load::Effective| value::duration(&effective.text);
    if of(deadline) >= of(lease) {
        return Err(format!(
            "{}: `leader_election_renew_deadline` in [{SECTION}] section is {}, which is not less than \
             `leader_election_lease_duration` ({}, {}): two replicas could lead at a time",
            deadline.origin, deadline.text, lease.text, lease.origin,
        ));
    }
    if of(retry) * 2 > of(deadline) {
        return Err(format!(
            "{}: `leader_election_retry_period` in [{SECTION}] section is {}, more than half of \
             `leader_election_renew_deadline` ({}, {}): one lost renewal would cost the leadership",
            retry.origin, retry.text, deadline.text, deadline.origin,
        ));
    }
    Ok(())
}

/// A client certificate has a key, and a key a certificate.
fn client_certificate(values: &Values) -> Result<(), String> {
    let (cert, key) = (values.get(SECTION, "tls_cert_file"), values.get(SECTION, "tls_key_file"));
    let (set, missing) = match (cert.text.is_empty(), key.text.is_empty()) {
        (false, true) => (cert, "tls_key_file"),
        (true, false) => (key, "tls_cert_file"),
        _ => return Ok(()),
    };
    Err(format!(
        "{}: `tls_cert_file` and `tls_key_file` in [{SECTION}] section go together, and `{missing}` is not set",
        set.origin
    ))
}

/// GitHub is asked with a token, or as an App, which has three values.
fn github_credentials(values: &Values) -> Result<(), String> {
    const TRACKER: &str = "commit_tracker";
    const APP: [&str; 3] = ["github_app_id", "github_app_private_key", "github_app_installation_id"];
    let named = |key: &&'static str| {
        let variable = position(TRACKER, key).and_then(|index| KEYS[index].original).unwrap_or_default();
        format!("{variable} (`{key}` in [{TRACKER}] section)")
    };
    let is_set = |key: &&'static str| !values.text(TRACKER, key).is_empty();
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
    if values.text(TRACKER, "exporter_info") == "github" && !token && set.is_empty() {
        return Err(format!(
            "{}: `exporter_info` in [{TRACKER}] section is github, which takes {}, or {}",
            values.get(TRACKER, "exporter_info").origin,
            named(&"github_token"),
            list(&APP),
        ));
    }
    Ok(())
}

/// The commit tracker follows one Kustomization, those with labels, or all.
fn selection(values: &Values) -> Result<(), String> {
    let value = |key| values.get("commit_tracker", key);
    let all = value::boolean(&value("all").text).unwrap_or_default();
    let named = ["kustomization", "selector"].into_iter().filter(|key| !value(key).text.is_empty());
    let said: Vec<&str> = named.chain(all.then_some("all")).collect();
    let [first, second, ..] = said[..] else { return Ok(()) };
    Err(format!(
        "{}: `{second}` in [commit_tracker] section does not go with `{first}` ({}): set one of them",
        value(second).origin,
        value(first).origin,
    ))
}
