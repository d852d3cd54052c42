//! The webhook at GitHub: made, adopted, kept as it should be, its secret changed from time to time, made again when
//! somebody deleted it, removed with the repository. Grafana: `controller/webhook.go`.
//!
//! What is wanted is decided here, and is pure; `check.rs` does it. Whatever fails is said in the condition `Webhook` with
//! what to do about it, and stands in nobody's way: without a hook a repository is polled.

mod check;
mod failure;
mod missed;
mod secret;

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::conditions::reasons;
use windlass_api::{GROUP, Repository, RepositoryType, VERSION, WebhookStatus};
use windlass_github::Hook;

pub(crate) use self::check::{provision, remove};
pub(crate) use self::failure::CleanUpError;
pub(crate) use self::secret::own_name;

/// What the hook tells us of, sorted.
const EVENTS: [&str; 2] = ["pull_request", "push"];
/// How old a secret becomes.
const SECRET_AGE: Duration = Duration::from_hours(30 * 24);
/// How often a hook is looked at.
const EVERY: Duration = Duration::from_mins(1);
/// What each repository adds to that: looking at one takes two requests, and GitHub wants fewer than 15 a second.
const PER_REPOSITORY: Duration = Duration::from_millis(400);

/// How often a hook is looked at where there are so many repositories.
pub(crate) fn every(repositories: usize) -> Duration {
    EVERY.max(one_round(repositories))
}

/// How long it takes to look at the hooks of so many repositories, one after the other, at a pace that GitHub likes.
pub(crate) fn one_round(repositories: usize) -> Duration {
    PER_REPOSITORY * u32::try_from(repositories).unwrap_or(u32::MAX)
}

/// What there should be at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Its hooks are nobody's business here.
    Unmanaged,
    /// A hook that posts to this URL.
    Hook {
        /// Where it posts to.
        url: String,
    },
    /// None.
    None {
        /// The condition's reason.
        reason: &'static str,
        /// Why, and what to do about it.
        message: String,
    },
}

/// What there should be at the provider of the repository. `public` is the URL that providers reach this server at.
pub(crate) fn wanted(repository: &Repository, public: &str) -> Wanted {
    let spec = &repository.spec;
    if !matches!(spec.kind, RepositoryType::Github | RepositoryType::GithubEnterprise) {
        return Wanted::Unmanaged;
    }
    let none = |reason, message: &str| Wanted::None { reason, message: message.to_owned() };
    let settings = spec.webhook.as_ref();
    if settings.is_some_and(|settings| settings.disabled) {
        return none(reasons::WEBHOOK_DISABLED, "spec.webhook.disabled is set: the repository is polled");
    }
    let own = settings.map(|settings| settings.base_url.as_str()).filter(|url| !url.is_empty());
    let base = own.unwrap_or(public).trim_end_matches('/');
    if base.is_empty() {
        let message = "no URL is known that GitHub reaches this server at, so the repository is polled: set \
                       [operator] provisioning_server_public_url, or spec.webhook.baseUrl";
        return none(reasons::NO_PUBLIC_URL, message);
    }
    if spec.workflows.is_empty() {
        let message = "a repository without workflows is only read, which takes no permission to make hooks, so it is \
                       polled: set spec.workflows to have a hook";
        return none(reasons::READ_ONLY, message);
    }
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let url = format!("{base}/apis/{GROUP}/{VERSION}/namespaces/{namespace}/repositories/{name}/webhook");
    Wanted::Hook { url }
}

/// Whether the hook is what it should be.
fn is_as_wanted(hook: &Hook, url: &str) -> bool {
    hook.active && hook.json && hook.url.as_deref() == Some(url) && hook.events == EVENTS
}

/// Whether the secret is so old that another one is made. A time that lies ahead is some other clock's, and is not
/// believed.
fn is_old(status: &WebhookStatus, now: Timestamp) -> bool {
    let age = now.as_millisecond().saturating_sub(status.last_rotated);
    status.last_rotated == 0 || u128::try_from(age).is_ok_and(|age| age >= SECRET_AGE.as_millis())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn repository(change: impl FnOnce(&mut Value)) -> Repository {
        let mut document = json!({
            "metadata": {"name": "dash", "namespace": "team"},
            "spec": {"title": "D", "type": "github", "workflows": ["write"], "sync": {"enabled": true},
                "github": {"url": "https://github.com/o/r", "branch": "main"}},
        });
        change(&mut document);
        serde_json::from_value(document).unwrap()
    }

    fn reason(wanted: &Wanted) -> &str {
        match wanted {
            Wanted::None { reason, .. } => reason,
            Wanted::Hook { url } => url,
            Wanted::Unmanaged => "",
        }
    }

    #[test]
    fn a_hook_is_wanted_where_github_may_tell_and_we_may_be_told() {
        let path = "/apis/provisioning.grafana.app/v0alpha1/namespaces/team/repositories/dash/webhook";
        let public = "https://windlass.example/";
        let plain = repository(|_| {});
        assert_eq!(reason(&wanted(&plain, public)), format!("https://windlass.example{path}"));
        let own = repository(|it| it["spec"]["webhook"] = json!({"baseUrl": "https://own.example"}));
        assert_eq!(reason(&wanted(&own, public)), format!("https://own.example{path}"));
        assert_eq!(reason(&wanted(&own, "")), format!("https://own.example{path}"));
        assert_eq!(reason(&wanted(&plain, "")), reasons::NO_PUBLIC_URL);
        let off = repository(|it| it["spec"]["webhook"] = json!({"disabled": true}));
        assert_eq!(reason(&wanted(&off, public)), reasons::WEBHOOK_DISABLED);
        let read_only = repository(|it| it["spec"]["workflows"] = json!([]));
        assert_eq!(reason(&wanted(&read_only, public)), reasons::READ_ONLY);
        let git = repository(|it| it["spec"]["type"] = json!("git"));
        assert_eq!(wanted(&git, public), Wanted::Unmanaged);
    }

    #[test]
    fn a_hook_that_differs_in_anything_is_noticed() {
        let url = "https://windlass.example/hook";
        let events = EVENTS.map(str::to_owned).to_vec();
        let good = Hook { id: 1, url: Some(url.to_owned()), events, active: true, json: true };
        assert!(is_as_wanted(&good, url));
        for bad in [
            Hook { active: false, ..good.clone() },
            Hook { json: false, ..good.clone() },
            Hook { url: None, ..good.clone() },
            Hook { events: vec!["push".to_owned()], ..good.clone() },
        ] {
            assert!(!is_as_wanted(&bad, url), "{bad:?}");
        }
        assert!(!is_as_wanted(&good, "https://windlass.example/other"));
    }

    #[test]
    fn a_secret_is_old_after_thirty_days() {
        let now = Timestamp::from_second(100 * 86_400).unwrap();
        let rotated =
            |days: i64| WebhookStatus { last_rotated: days * 86_400_000, ..WebhookStatus::default() };
        assert!(!is_old(&rotated(71), now) && is_old(&rotated(70), now));
        assert!(!is_old(&rotated(200), now), "another machine's clock is ahead");
        assert!(is_old(&rotated(0), now));
    }

    #[test]
    fn many_repositories_are_looked_at_less_often() {
        assert_eq!(every(1), Duration::from_mins(1));
        assert_eq!(every(1_000), Duration::from_secs(400));
    }
}
