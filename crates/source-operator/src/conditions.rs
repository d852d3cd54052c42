//! Every condition that is said of a `GitRepository`: with which status and reason, what that means, and what to do about
//! it. The types and reasons are Flux's.

use windlass_api::conditions::{Row, is_described, rows};

use crate::failure::types;

/// Said of a `GitRepository`, of which `Ready` being false and `Stalled` repeat the reason of what failed.
pub const CONDITIONS: &[Row] = &rows(&[
    (types::READY, "True", "Succeeded", "the artifact is what the object asks for"),
    (
        types::RECONCILING,
        "True",
        "ProgressingWithRetry",
        "something failed that is tried again, later each time",
    ),
    (
        types::FETCH_FAILED,
        "True",
        "AuthenticationFailed",
        "the server refused the credentials, or the Secret is not as it should be: correct the Secret that `spec.secretRef` names",
    ),
    (
        types::FETCH_FAILED,
        "True",
        "GitOperationFailed",
        "the server does not answer as it should, or has no such branch, tag or commit: the message says which",
    ),
    (types::FETCH_FAILED, "True", "EmptyGitRepository", "the repository has no commit yet: push one"),
    (types::FETCH_FAILED, "True", "URLInvalid", "`spec.url` is none that may be used: correct it"),
    (
        types::FETCH_FAILED,
        "True",
        "InvalidProviderConfiguration",
        "the provider is none that this controller knows, or the Secret does not have what it needs: the message says which",
    ),
    (
        types::STORAGE_FAILED,
        "True",
        "ArchiveOperationFailed",
        "the archive could not be made or kept: look at the disk",
    ),
    (types::STORAGE_FAILED, "True", "CopyFailure", "an included artifact cannot be put where it is to go"),
    (
        types::STORAGE_FAILED,
        "True",
        "SourceIgnoreError",
        "the rules of what is left out cannot be read: correct them",
    ),
    (
        types::STORAGE_FAILED,
        "True",
        "IllegalPath",
        "a path of `spec.include` leads out of the repository: correct it",
    ),
    (types::STORAGE_FAILED, "True", "InvalidPath", "the object's name is no name of a directory"),
    (types::INCLUDE_UNAVAILABLE, "True", "NotFound", "an object that is included is not there"),
    (types::INCLUDE_UNAVAILABLE, "True", "NoArtifact", "an object that is included has no artifact yet"),
    (types::INCLUDE_UNAVAILABLE, "True", "IncludeCycle", "objects include each other in a circle: break it"),
    (types::ARTIFACT_IN_STORAGE, "True", "Succeeded", "the artifact is served"),
    (types::SOURCE_VERIFIED, "True", "Succeeded", "the artifact is of what one of the keys has signed"),
    (
        types::SOURCE_VERIFIED,
        "False",
        "VerificationError",
        "the Secret with the keys is not there, or not as it should be: correct what `spec.verify.secretRef` names",
    ),
    (
        types::SOURCE_VERIFIED,
        "False",
        "InvalidVerificationMode",
        "the mode needs a tag, or is none: correct `spec.verify.mode` or `spec.ref`",
    ),
    (
        types::SOURCE_VERIFIED,
        "False",
        "InvalidGitObject",
        "the tag is not signed, is no annotated one, or is of something else than it says",
    ),
    (types::SOURCE_VERIFIED, "False", "InvalidCommitSignature", "none of the keys has signed the commit"),
    (types::SOURCE_VERIFIED, "False", "InvalidTagSignature", "none of the keys has signed the tag"),
]);

/// Said of a `Receiver`, of which `Stalled` repeats the reason that it is not ready for.
pub const RECEIVER_CONDITIONS: &[Row] = &rows(&[
    (types::READY, "True", "Succeeded", "deliveries are taken in at `status.webhookPath`"),
    (
        types::READY,
        "False",
        "TokenNotFound",
        "the Secret that `spec.secretRef` names is not there, or has no `token`: correct it",
    ),
    (
        types::READY,
        "False",
        "Unsupported",
        "`spec.type` is none that is verified here: the message says which are",
    ),
    (
        types::READY,
        "False",
        "InvalidCELExpression",
        "a filter, a variable or a validation is no CEL expression, or none that is true or false: correct it",
    ),
    (
        types::READY,
        "False",
        "ValidationFailed",
        "`spec.secretRef` or `spec.oidcProviders` does not go with `spec.type`, or lacks something: correct it",
    ),
    (types::RECONCILING, "True", "ProgressingWithRetry", "the Secret is looked for again, later each time"),
]);

/// Whether the table has it, or has the reason where two conditions repeat those of others.
pub(crate) fn is_known(condition: &str, status: &str, reason: &str) -> bool {
    let repeats = matches!((condition, status), (types::READY, "False") | (types::STALLED, "True"));
    let tables = [CONDITIONS, RECEIVER_CONDITIONS];
    is_described(&tables, condition, status, reason)
        || (repeats && tables.iter().any(|table| table.iter().any(|row| row.reason == reason)))
}
