//! Every condition that is said of repositories and connections: with which status and reason, what that means, and what
//! to do about it. [`new`](super::new) says none that is not here, and the reference is made of it.

use std::fmt::Write as _;

use super::{reasons, types};

/// One thing that a condition may say.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The condition's type.
    pub condition: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// The condition's reason.
    pub reason: &'static str,
    /// What it means, and what to do, in Markdown.
    pub meaning: &'static str,
}

const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";

/// Said of a `Repository`.
pub const REPOSITORY: &[Row] = &rows(&[
    (types::READY, TRUE, reasons::AVAILABLE, "the last check passed"),
    (
        types::READY,
        FALSE,
        reasons::INVALID_SPEC,
        "the specification breaks a rule, or names what is not there: `status.fieldErrors` names the field",
    ),
    (
        types::READY,
        FALSE,
        reasons::REPOSITORY_EMPTY,
        "the Git repository has no commit yet: push one, or have a file or a `push` or `migrate` job written, which makes the first",
    ),
    (
        types::READY,
        FALSE,
        reasons::AUTHENTICATION_FAILED,
        "the Git server refused the token, or there is none: set `secure.token`",
    ),
    (
        types::READY,
        FALSE,
        reasons::PERMISSION_DENIED,
        "the connection's App may not what repositories need: the message names the permission; grant it",
    ),
    (
        types::READY,
        FALSE,
        reasons::SERVICE_UNAVAILABLE,
        "the Git server, or whoever has its token, does not answer as it should; it is asked again every minute",
    ),
    (
        types::READY,
        FALSE,
        reasons::RATE_LIMITED,
        "the Git server wants to be left alone; the message says how long, and it is not asked before. Nothing is wrong with the token",
    ),
    (
        types::READY,
        FALSE,
        reasons::PATH_CONFLICT,
        "an older repository covers the same files: see `PathConflict`",
    ),
    (types::READY, FALSE, reasons::QUOTA_EXCEEDED, "there are too many repositories: see `NamespaceQuota`"),
    (
        types::READY,
        FALSE,
        reasons::UNAVAILABLE,
        "anything else, a deletion that is blocked among it: `status.deletion`",
    ),
    (
        types::PATH_CONFLICT,
        TRUE,
        reasons::NO_PATH_CONFLICT,
        "nothing is in the way; younger repositories that wait for this one are named",
    ),
    (
        types::PATH_CONFLICT,
        FALSE,
        reasons::PATH_CONFLICT,
        "an older repository covers the same files, or one of the two takes the whole namespace; it is named. Move or delete one of them",
    ),
    (types::NAMESPACE_QUOTA, TRUE, reasons::QUOTA_UNLIMITED, "there is no limit"),
    (types::NAMESPACE_QUOTA, TRUE, reasons::WITHIN_QUOTA, "there is room for more repositories"),
    (
        types::NAMESPACE_QUOTA,
        TRUE,
        reasons::QUOTA_REACHED,
        "there is room for this repository, and for no more",
    ),
    (
        types::NAMESPACE_QUOTA,
        FALSE,
        reasons::QUOTA_EXCEEDED,
        "the namespace has more than `max_repositories`, and this one is among the youngest: delete some, or raise it",
    ),
    (types::RESOURCE_QUOTA, TRUE, reasons::QUOTA_UNLIMITED, "there is no limit"),
    (types::RESOURCE_QUOTA, TRUE, reasons::WITHIN_QUOTA, "there is room for more resources"),
    (types::RESOURCE_QUOTA, TRUE, reasons::QUOTA_REACHED, "there is room for what there is, and for no more"),
    (
        types::RESOURCE_QUOTA,
        FALSE,
        reasons::QUOTA_EXCEEDED,
        "some resources were not created: remove some, or raise `max_resources_per_repository`",
    ),
    (types::PULL_STATUS, TRUE, reasons::SUCCESS, "the last pull left nothing out"),
    (
        types::PULL_STATUS,
        FALSE,
        reasons::COMPLETED_WITH_WARNINGS,
        "the last pull left something out, which stays in `status.unsynced` until it is mended",
    ),
    (
        types::PULL_STATUS,
        FALSE,
        reasons::QUOTA_EXCEEDED,
        "the last pull left out what there is no room for: see `ResourceQuota`",
    ),
    (types::PULL_STATUS, FALSE, reasons::FAILURE, "the last pull failed: `status.sync.message`"),
    (
        types::WRITABLE,
        TRUE,
        reasons::BRANCH_WRITABLE,
        "nothing is known that keeps the workflow `write` from pushing to the branch",
    ),
    (
        types::WRITABLE,
        FALSE,
        reasons::BRANCH_PROTECTED,
        "the branch is protected, covered by a ruleset, or its repository archived: the message says by what. Let the token bypass it, or use the workflow `branch`",
    ),
    (
        types::WRITABLE,
        FALSE,
        reasons::PERMISSION_DENIED,
        "the token may not push: give it \"Contents: read and write\"",
    ),
    (types::WRITABLE, FALSE, reasons::READ_ONLY, "`write` is not among `spec.workflows` any more"),
    (
        types::WRITABLE,
        UNKNOWN,
        reasons::PROTECTION_UNKNOWN,
        "the branch is protected, and the token may not see by what, or the server does not say: a push is tried",
    ),
    (types::WRITABLE, UNKNOWN, reasons::AUTHENTICATION_FAILED, "the server refused the token: see `Ready`"),
    (
        types::WRITABLE,
        UNKNOWN,
        reasons::RATE_LIMITED,
        "the server wants to be left alone; it is asked again when that is over",
    ),
    (
        types::WRITABLE,
        UNKNOWN,
        reasons::SERVICE_UNAVAILABLE,
        "the server does not answer as it should; it is asked again",
    ),
    (
        types::WEBHOOK,
        TRUE,
        reasons::WEBHOOK_CONFIGURED,
        "GitHub tells of pushes and pull requests by the hook that is named",
    ),
    (types::WEBHOOK, FALSE, reasons::WEBHOOK_DISABLED, "`spec.webhook.disabled` is set"),
    (
        types::WEBHOOK,
        FALSE,
        reasons::NO_PUBLIC_URL,
        "it is not known where GitHub reaches this server: set `provisioning_server_public_url` or `spec.webhook.baseUrl`",
    ),
    (types::WEBHOOK, FALSE, reasons::READ_ONLY, "a repository without workflows has no hook made for it"),
    (
        types::WEBHOOK,
        FALSE,
        reasons::AUTHENTICATION_FAILED,
        "GitHub does not accept the token: set `secure.token`",
    ),
    (
        types::WEBHOOK,
        FALSE,
        reasons::PERMISSION_DENIED,
        "the token may not administer hooks: give it the permission \"Webhooks: read and write\"",
    ),
    (
        types::WEBHOOK,
        FALSE,
        reasons::WEBHOOK_REJECTED,
        "GitHub takes no hook with this URL: it has to be reachable from the internet",
    ),
    (
        types::WEBHOOK,
        FALSE,
        reasons::RATE_LIMITED,
        "GitHub wants to be left alone; the hook is looked at again when that is over",
    ),
    (
        types::WEBHOOK,
        FALSE,
        reasons::SERVICE_UNAVAILABLE,
        "GitHub does not answer, or the secret could not be stored; it is tried again every minute",
    ),
    (
        types::WEBHOOK,
        FALSE,
        reasons::INVALID_SPEC,
        "`spec.githubEnterprise.serverUrl` or the URL names no repository of GitHub's",
    ),
    (
        types::TOKEN,
        TRUE,
        reasons::TOKEN_VALID,
        "the connection gave a token, and until when it is good; it is replaced before",
    ),
    (
        types::TOKEN,
        FALSE,
        reasons::TOKEN_INVALID,
        "the connection gives none, and why; what there is is used until it ends",
    ),
    (
        types::TOKEN,
        FALSE,
        reasons::TOKEN_EXPIRED,
        "the same, and it has ended: the repository is neither checked nor synced",
    ),
]);

/// Said of a `Connection`.
pub const CONNECTION: &[Row] = &rows(&[
    (
        types::READY,
        TRUE,
        reasons::AVAILABLE,
        "the key signs for the App, which is installed and has the permissions",
    ),
    (
        types::READY,
        FALSE,
        reasons::INVALID_SPEC,
        "an ID or a URL names nothing, or another than the key is of: `status.fieldErrors` names the field",
    ),
    (
        types::READY,
        FALSE,
        reasons::AUTHENTICATION_FAILED,
        "the key fits no App, or the App or its installation is gone or suspended",
    ),
    (
        types::READY,
        FALSE,
        reasons::PERMISSION_DENIED,
        "the installation lacks permissions, each of which is named",
    ),
    (types::READY, FALSE, reasons::RATE_LIMITED, "GitHub wants to be left alone"),
    (
        types::READY,
        FALSE,
        reasons::SERVICE_UNAVAILABLE,
        "GitHub does not answer as it should; it is asked again every minute",
    ),
    (types::TOKEN, TRUE, reasons::TOKEN_VALID, "the installation gives tokens"),
    (types::TOKEN, FALSE, reasons::TOKEN_INVALID, "it gives none; why is said as in `Ready`"),
]);

/// Whether one of the tables has it.
pub fn is_described(tables: &[&[Row]], condition: &str, status: &str, reason: &str) -> bool {
    let same = |row: &Row| (row.condition, row.status, row.reason) == (condition, status, reason);
    tables.iter().any(|table| table.iter().any(same))
}

/// A table as Markdown.
pub fn markdown(table: &[Row]) -> String {
    let mut text =
        "| Condition | Status | Reason | What it means, and what to do |\n| --- | --- | --- | --- |\n"
            .to_owned();
    let mut before = "";
    for Row { condition, status, reason, meaning } in table {
        let shown = if *condition == before { String::new() } else { format!("`{condition}` ") };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {shown}| {status} | `{reason}` | {meaning} |");
        before = condition;
    }
    text
}

/// A table of tuples, which are shorter to write.
pub const fn rows<const N: usize>(
    tuples: &[(&'static str, &'static str, &'static str, &'static str); N],
) -> [Row; N] {
    let mut rows = [Row { condition: "", status: "", reason: "", meaning: "" }; N];
    let mut at = 0;
    while at < N {
        let (condition, status, reason, meaning) = tuples[at];
        rows[at] = Row { condition, status, reason, meaning };
        at += 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_each_thing_once_and_what_to_do() {
        for table in [REPOSITORY, CONNECTION] {
            for (at, row) in table.iter().enumerate() {
                let same = |other: &&Row| {
                    (other.condition, other.status, other.reason) == (row.condition, row.status, row.reason)
                };
                assert_eq!(table.iter().filter(same).count(), 1, "{row:?}");
                assert!(!row.meaning.is_empty() && !row.meaning.contains('|'), "{row:?}");
                // The table shows a type once, above all that it may say.
                let is_first = table.iter().position(|other| other.condition == row.condition) == Some(at);
                assert!(is_first || table[at - 1].condition == row.condition, "{row:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "is not described")]
    fn nothing_is_said_that_the_reference_does_not_have() {
        super::super::new(types::READY, true, reasons::PATH_CONFLICT, "", None, jiff::Timestamp::UNIX_EPOCH);
    }
}
