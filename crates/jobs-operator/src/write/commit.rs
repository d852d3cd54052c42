//! What a job's commit says, and whose it is.

use bytes::Bytes;
use windlass_api::{Repository, annotations};
use windlass_repository::{Authorship, Commit, MessageVariables, Signature, Stage, StagedChange};
use windlass_resources::parse::Document;
use windlass_resources::{Preview, SyncContext};

use super::{Files, Writing};
use crate::worker::{JobContext, JobError};

/// The commit of a job, its message as it is unless the repository's template makes another.
pub(super) struct Draft {
    commit: Commit,
    /// The repository's template for a commit that changes one resource, where it applies.
    template: Option<String>,
}

impl Draft {
    /// The date and the identity of the commit are the job's, so that a repeated job makes the same one. Its message is
    /// the job's own, else the one of the action's options, else `default`. Grafana: `repository/signature.go`.
    pub(super) fn of(job: &JobContext, repository: &Repository, message: &str, default: String) -> Self {
        let given =
            [&*job.job.spec.message, message].into_iter().map(str::trim).find(|text| !text.is_empty());
        let options = repository.spec.commit.as_ref();
        let template = options
            .filter(|options| given.is_none() || options.enforce_template)
            .map(|options| options.single_resource_message_template.clone())
            .filter(|template| !template.is_empty());
        let metadata = &job.job.metadata;
        let Authorship { author, committer } = Authorship::of(options, user(job));
        let commit = Commit {
            message: given.map_or(default, str::to_owned),
            author,
            committer,
            seconds: metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
            job: metadata.uid.clone().unwrap_or_default(),
        };
        Self { commit, template }
    }

    /// UID of the job.
    pub(super) fn job(&self) -> &str {
        &self.commit.job
    }
}

/// Whoever asked for the job, if an address is known.
fn user(job: &JobContext) -> Option<Signature> {
    let marks = job.job.metadata.annotations.as_ref()?;
    let mark = |key| marks.get(key).cloned().unwrap_or_default();
    let (name, email) = (mark(annotations::AUTHOR), mark(annotations::AUTHOR_EMAIL));
    (!email.is_empty()).then_some(Signature { name, email })
}

impl Writing<'_> {
    /// The commit of these changes to `files`.
    pub(super) async fn commit_of(&self, files: &Files, staged: &Stage) -> Result<Commit, JobError> {
        let mut commit = self.draft.commit.clone();
        if let Some(message) = self.by_template(files, staged).await? {
            commit.message = message;
        }
        Ok(commit)
    }

    /// The message by the repository's template; nothing where there is none, or it is not one resource that changes.
    async fn by_template(&self, files: &Files, staged: &Stage) -> Result<Option<String>, JobError> {
        let (Some(template), [change]) = (&self.draft.template, staged.changes()) else { return Ok(None) };
        let (action, path, content) = match change {
            // What is left of several documents says nothing of the one that goes.
            StagedChange::Put { path, .. } if files.file(path).is_some() => return Ok(None),
            StagedChange::Put { path, content } => ("create", path, Some(content.clone())),
            StagedChange::Delete { path } => ("delete", path, self.content(files, path).await?),
            StagedChange::Rename { from, .. } => ("move", from, self.content(files, from).await?),
        };
        let Some(content) = content else { return Ok(None) };
        let preview = Preview::new(&self.pull.clients, &SyncContext::for_repository(self.repository));
        // A file that stands for no resource, or for several, has no name and no title.
        let documents = preview.parse(path, &content, None, "").await.unwrap_or_default();
        let [Document { content: Ok(resource), .. }] = &documents[..] else { return Ok(None) };
        let document = preview.document(resource);
        let author = &self.draft.commit.author;
        let variables = MessageVariables {
            action,
            kind: &resource.kind.kind,
            name: &resource.name,
            title: document["spec"]["title"].as_str().unwrap_or_default(),
            user_name: &author.name,
            user_email: &author.email,
        };
        Ok(Some(variables.fill_in(template)))
    }

    /// What the file at `path` says before the change; nothing of one that is too large to look at.
    async fn content(&self, files: &Files, path: &str) -> Result<Option<Bytes>, JobError> {
        let reader = &self.opened.reader;
        let entry = files.file(path).filter(|entry| entry.size <= reader.limits().blob_bytes);
        let Some(entry) = entry else { return Ok(None) };
        let content = reader.blob(entry.id, self.job.cancel()).await;
        content
            .map(Some)
            .map_err(|source| JobError::Repository { what: "read the file that changes", source })
    }
}
