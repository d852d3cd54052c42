//! What the server fills in.

use serde_json::{Value, json};

use super::RepositoryRules;
use crate::{consts::finalizers, patch::merge_diff, repository::Repository};

/// Fills in what the server decides: finalizers, the interval, trimmed URLs.
///
/// Secrets that an update leaves out are the API server's to carry over: here a removal looks the same.
///
/// `cleanup` is only put on a new repository: taking it off is the way out when the credentials are dead.
pub fn mutate(new: &mut Repository, old: Option<&Repository>, rules: &RepositoryRules) {
    seed_finalizers(new, old.is_none());
    let spec = &mut new.spec;
    // What is below zero is refused by the schema.
    if spec.sync.interval_seconds >= 0 {
        spec.sync.interval_seconds = spec.sync.interval_seconds.max(rules.min_interval_seconds);
    }
    if let Some(webhook) = &mut spec.webhook {
        trim_slashes(&mut webhook.base_url);
    }
    if let Some(trimmed) = spec.url().map(str::to_owned)
        && let Some(url) = spec.url_mut()
    {
        *url = trimmed;
    }
    if let Some(enterprise) = &mut spec.github_enterprise {
        trim_slashes(&mut enterprise.server_url);
    }
}

/// [`mutate`] on a document, whose unknown fields survive.
///
/// # Errors
///
/// The document is no repository; the error names the place.
pub fn mutate_value(
    new: &mut Value,
    old: Option<&Repository>,
    rules: &RepositoryRules,
) -> Result<(), serde_json::Error> {
    let before: Repository = serde_json::from_value(new.clone())?;
    let mut after = before.clone();
    mutate(&mut after, old, rules);
    if let Some(patch) = merge_diff(&serde_json::to_value(&before)?, &serde_json::to_value(&after)?) {
        json_patch::merge(new, &patch);
    }
    // Always written on this wire, and the typed value has it already.
    if new["spec"].get("workflows").is_none_or(Value::is_null) {
        new["spec"]["workflows"] = json!([]);
    }
    Ok(())
}

fn seed_finalizers(new: &mut Repository, create: bool) {
    let deleting = new.metadata.deletion_timestamp.is_some();
    if deleting || new.metadata.finalizers.as_ref().is_some_and(|list| !list.is_empty()) {
        return;
    }
    let mut seeded = vec![finalizers::REMOVE_PENDING_JOBS.to_owned()];
    if create {
        seeded.push(finalizers::CLEANUP.to_owned());
    }
    seeded.push(finalizers::REMOVE_ORPHAN_RESOURCES.to_owned());
    new.metadata.finalizers = Some(seeded);
}

fn trim_slashes(text: &mut String) {
    text.truncate(text.trim_end_matches('/').len());
}
