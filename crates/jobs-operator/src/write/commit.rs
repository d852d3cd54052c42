//! What a job's commit says.

use windlass_api::{Repository, annotations};
use windlass_repository::{Commit, Signature};

use crate::worker::{JobContext, JobError};

/// Who commits when nobody is named. Grafana: `repository/signature.go`.
const NAME: &str = "Grafana";
const EMAIL: &str = "noreply@grafana.com";

/// The commit of a job: its date and identity are the job's, so that a repeated job makes the same one. Its message is the
/// job's own, else the one of the action's options, else `default`.
pub(super) fn of(
    job: &JobContext,
    repository: &Repository,
    message: &str,
    default: String,
) -> Result<Commit, JobError> {
    if repository.spec.commit.as_ref().is_some_and(|commit| commit.signing_method.is_some()) {
        return Err(JobError::Signing);
    }
    let given = [&*job.job.spec.message, message].into_iter().map(str::trim).find(|text| !text.is_empty());
    let metadata = &job.job.metadata;
    Ok(Commit {
        message: given.map_or(default, str::to_owned),
        author: author(job, repository),
        seconds: metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        job: metadata.uid.clone().unwrap_or_default(),
    })
}

/// Whoever asked for the job, if an address is known; else whom the repository names.
fn author(job: &JobContext, repository: &Repository) -> Signature {
    let marks = job.job.metadata.annotations.as_ref();
    let mark = |key| marks.and_then(|marks| marks.get(key)).cloned().unwrap_or_default();
    let (name, email) = (mark(annotations::AUTHOR), mark(annotations::AUTHOR_EMAIL));
    if !email.is_empty() {
        return Signature { name, email };
    }
    let options = repository.spec.commit.clone().unwrap_or_default();
    let first = |texts: [String; 2], other: &str| {
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_else(|| other.to_owned())
    };
    Signature {
        name: first([options.author_name, options.signer_name], NAME),
        email: first([options.author_email, options.signer_email], EMAIL),
    }
}
