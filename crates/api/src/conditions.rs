//! Conditions: their names, what they may say, and the rule by which they are set.

mod table;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

pub use self::table::{CONNECTION, REPOSITORY, Row, is_described, markdown, rows};

/// Condition types.
pub mod types {
    /// The object can be used.
    pub const READY: &str = "Ready";
    /// The namespace has room for its repositories.
    pub const NAMESPACE_QUOTA: &str = "NamespaceQuota";
    /// The repository has room for its resources.
    pub const RESOURCE_QUOTA: &str = "ResourceQuota";
    /// The last pull succeeded wholly.
    pub const PULL_STATUS: &str = "PullStatus";
    /// No other repository covers the same path.
    pub const PATH_CONFLICT: &str = "PathConflict";
    /// The provider tells of changes by a webhook.
    pub const WEBHOOK: &str = "Webhook";
    /// Tokens can be had by way of the connection.
    pub const TOKEN: &str = "Token";
    /// What the branch is protected by lets the workflow `write` push to it.
    pub const WRITABLE: &str = "Writable";
}

/// Condition reasons.
pub mod reasons {
    /// Ready: the check passed.
    pub const AVAILABLE: &str = "Available";
    /// Not ready, for no reason that is known better.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// Not ready: something in the spec is wrong.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Not ready: the Git repository has no commit yet.
    pub const REPOSITORY_EMPTY: &str = "RepositoryEmpty";
    /// Not ready: the credentials were refused.
    pub const AUTHENTICATION_FAILED: &str = "AuthenticationFailed";
    /// Not ready: the remote does not answer as it should.
    pub const SERVICE_UNAVAILABLE: &str = "ServiceUnavailable";
    /// Not ready: the remote asks us to wait.
    pub const RATE_LIMITED: &str = "RateLimited";
    /// Within the limit.
    pub const WITHIN_QUOTA: &str = "WithinQuota";
    /// There is no limit.
    pub const QUOTA_UNLIMITED: &str = "QuotaUnlimited";
    /// At the limit.
    pub const QUOTA_REACHED: &str = "QuotaReached";
    /// Above the limit.
    pub const QUOTA_EXCEEDED: &str = "QuotaExceeded";
    /// The pull succeeded.
    pub const SUCCESS: &str = "Success";
    /// The pull failed.
    pub const FAILURE: &str = "Failure";
    /// The pull left something out.
    pub const COMPLETED_WITH_WARNINGS: &str = "CompletedWithWarnings";
    /// No other repository covers the path.
    pub const NO_PATH_CONFLICT: &str = "NoPathConflict";
    /// Another repository covers the path.
    pub const PATH_CONFLICT: &str = "PathConflict";
    /// The webhook is as it should be.
    pub const WEBHOOK_CONFIGURED: &str = "WebhookConfigured";
    /// The specification wants no webhook.
    pub const WEBHOOK_DISABLED: &str = "WebhookDisabled";
    /// The provider takes no webhook of this kind.
    pub const WEBHOOK_REJECTED: &str = "WebhookRejected";
    /// It is not known where a provider reaches this server.
    pub const NO_PUBLIC_URL: &str = "NoPublicURL";
    /// The repository is only read.
    pub const READ_ONLY: &str = "ReadOnly";
    /// The credentials do not suffice.
    pub const PERMISSION_DENIED: &str = "PermissionDenied";
    /// The token is good.
    pub const TOKEN_VALID: &str = "TokenValid";
    /// The token has ended, and there is no new one.
    pub const TOKEN_EXPIRED: &str = "TokenExpired";
    /// There is no new token.
    pub const TOKEN_INVALID: &str = "TokenInvalid";
    /// Nothing keeps the workflow `write` from pushing.
    pub const BRANCH_WRITABLE: &str = "BranchWritable";
    /// The branch takes changes by pull request only, or none.
    pub const BRANCH_PROTECTED: &str = "BranchProtected";
    /// Whether the branch is protected is not known.
    pub const PROTECTION_UNKNOWN: &str = "ProtectionUnknown";
}

/// Condition messages that clients may compare with.
pub mod messages {
    /// Ready is true.
    pub const AVAILABLE: &str = "Resource is available";
    /// Ready is false and the check said nothing more.
    pub const UNAVAILABLE: &str = "Resource is unavailable";
    /// The pull succeeded.
    pub const PULL_SUCCESS: &str = "Pull completed successfully";
    /// The pull went over the limit.
    pub const PULL_QUOTA_EXCEEDED: &str = "Pull completed with quota exceeded";
    /// The pull left something out.
    pub const PULL_WARNINGS: &str = "Pull completed with warnings";
    /// The pull failed.
    pub const PULL_ERRORS: &str = "Pull completed with errors";
    /// No limit on the number of repositories.
    pub const QUOTA_UNLIMITED: &str = "No quota limits configured";
    /// No other repository covers the path.
    pub const NO_PATH_CONFLICT: &str = "no other repository shares this URL, branch, and path";
}

/// A condition about a generation of the spec, as of a moment. It is one that the tables have ([`REPOSITORY`],
/// [`CONNECTION`]).
pub fn new(
    kind: &str,
    holds: bool,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    with_status(kind, if holds { "True" } else { "False" }, reason, message, generation, now)
}

/// A condition of which it is not known whether it holds.
pub fn unknown(
    kind: &str,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    with_status(kind, "Unknown", reason, message, generation, now)
}

fn with_status(
    kind: &str,
    status: &str,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    debug_assert!(
        is_described(&[REPOSITORY, CONNECTION], kind, status, reason),
        "{kind}={status} {reason} is not described: add it to the table of conditions"
    );
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: Time(now),
    }
}

/// Sets a condition by its type and answers whether anything changed.
///
/// The time of the last transition is kept unless the status flips.
pub fn set(conditions: &mut Vec<Condition>, mut condition: Condition) -> bool {
    let Some(existing) = conditions.iter_mut().find(|existing| existing.type_ == condition.type_) else {
        conditions.push(condition);
        return true;
    };
    if existing.status == condition.status {
        condition.last_transition_time = existing.last_transition_time.clone();
    }
    if *existing == condition {
        return false;
    }
    *existing = condition;
    true
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of a type is there and true.
pub fn is_true(conditions: &[Condition], kind: &str) -> bool {
    find(conditions, kind).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn ready(holds: bool, message: &str, second: i64) -> Condition {
        let reason = if holds { reasons::AVAILABLE } else { reasons::UNAVAILABLE };
        new(types::READY, holds, reason, message, Some(1), at(second))
    }

    #[test]
    fn a_condition_keeps_its_transition_time_until_its_status_flips() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, ready(true, "a", 1)));
        assert!(!set(&mut conditions, ready(true, "a", 2)), "the same again is no change");
        assert!(set(&mut conditions, ready(true, "b", 3)), "another message is a change");
        assert_eq!(conditions[0].last_transition_time.0, at(1));
        assert!(set(&mut conditions, ready(false, "b", 4)));
        assert_eq!(conditions[0].last_transition_time.0, at(4));
        assert_eq!(conditions.len(), 1);
        assert!(!is_true(&conditions, types::READY));
        assert!(find(&conditions, types::PULL_STATUS).is_none());
    }
}
