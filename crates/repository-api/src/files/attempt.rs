//! One change, one commit, one base: tried again where somebody else was faster, and given up with a word of what happened.

use windlass_git::{GitError, Revision, Tree};
use windlass_repository::{Authorship, Base, Commit, MessageVariables, ReadError, WriteError};
use windlass_runtime::{Clock as _, SystemClock};
use windlass_telemetry::ErrorChain;

use super::change::{Before, Change};
use super::message;
use super::options::Options;
use super::trial::{DryRunner, Trial, TriedObject};
use super::write::Branch;
use crate::answer::Refusal;
use crate::author;

/// Tries of a change: the first, and three on what others wrote meanwhile.
const TRIES: usize = 4;

/// A change to be written.
pub(super) struct Attempt<'a> {
    pub(super) runner: &'a DryRunner<'a>,
    pub(super) options: &'a Options,
    pub(super) change: &'a Change,
    pub(super) branch: &'a Branch,
}

/// A change that was written.
pub(super) struct Written {
    pub(super) before: Tree,
    /// Nothing if it could not be read back.
    pub(super) after: Option<Tree>,
    pub(super) trial: Trial,
    pub(super) errors: Vec<String>,
}

impl Attempt<'_> {
    pub(super) async fn run(&self) -> Result<Written, Refusal> {
        let place = self.runner.place;
        let writer = place.opened.writer.as_ref();
        let writer = writer.ok_or_else(|| Refusal::new(501, "the repository cannot be written to"))?;
        let mut first: Option<(Before, Trial, Commit)> = None;
        let mut seen: Vec<String> = Vec::new();
        let mut change = self.change.clone();
        for _ in 0..TRIES {
            let (base, tree) = match self.base().await {
                Ok(base) => base,
                Err(Retry::Moved(at)) => {
                    seen.push(at);
                    continue;
                }
                Err(Retry::Refused(refusal)) => return Err(refusal),
            };
            let before = change.fits(&tree)?;
            if first.is_none() {
                if let Some(content) = self.runner.as_yaml(&change, &tree).await? {
                    change.content = Some(content);
                }
                let trial = self.runner.run(&change, &tree, !self.options.skip_dry_run).await?;
                let commit = self.commit(&trial)?;
                first = Some((before.clone(), trial, commit));
            }
            let Some((looked_at, trial, commit)) = &mut first else { continue };
            if *looked_at != before {
                return Err(self.overtaken(&base.revision));
            }
            let revision = base.revision.to_string();
            let mut stage = writer.stage(base);
            change.stage(&mut stage)?;
            match stage.push(commit, &place.cancel).await {
                Ok(pushed) => {
                    let revision = pushed.revision;
                    let trial = std::mem::take(trial);
                    return Ok(self.written(tree, &revision, trial).await);
                }
                Err(error) if is_overtaken(&error) => seen.push(revision),
                Err(error) => return Err(error.into()),
            }
        }
        Err(self.given_up(&seen))
    }

    /// What the change is made to now.
    async fn base(&self) -> Result<(Base, Tree), Retry> {
        let place = self.runner.place;
        let refused = |error: ReadError| Retry::Refused(error.into());
        let branch = self.branch.name.clone();
        let (revision, is_new) = if self.branch.is_pulled {
            match place.opened.reader.resolve(place.repository.spec.branch(), &place.cancel).await {
                Ok(revision) => (revision, false),
                Err(ReadError::Git(GitError::Empty { .. })) if !branch.is_empty() => {
                    let base = Base { branch, revision: Revision::nothing(), is_new: true };
                    return Ok((base, Tree::default()));
                }
                Err(error) => return Err(refused(error)),
            }
        } else {
            match place.opened.reader.resolve(&branch, &place.cancel).await {
                Ok(revision) => (revision, false),
                Err(ReadError::Git(GitError::BranchNotFound { .. })) => {
                    (place.revision("").await.map_err(Retry::Refused)?, true)
                }
                Err(error) => return Err(refused(error)),
            }
        };
        match place.tree(&revision).await {
            Ok(tree) => Ok((Base { branch, revision, is_new }, tree)),
            Err(error) if error.http_code() == 409 => Err(Retry::Moved(revision.to_string())),
            Err(error) => Err(refused(error)),
        }
    }

    fn commit(&self, trial: &Trial) -> Result<Commit, Refusal> {
        let options = self.runner.place.repository.spec.commit.as_ref();
        let user = author::of(self.runner.caller, options);
        let tried = trial.only();
        let resource = tried.map(|tried| &tried.resource);
        let variables = MessageVariables {
            action: message::action(self.change.action),
            kind: resource.map_or("", |resource| &*resource.kind.kind),
            name: resource.map_or("", |resource| &resource.name),
            title: tried.map_or("", TriedObject::title),
            user_name: &user.name,
            user_email: &user.email,
        };
        let message = message::of(self.change, self.options.message.as_deref(), options, &variables)?;
        let Authorship { author, committer } = Authorship::of(options, Some(user));
        let seconds = SystemClock.now().as_second();
        Ok(Commit { message, author, committer, seconds, job: String::new() })
    }

    /// The write is made: what fails from here on is told beside it.
    async fn written(&self, before: Tree, revision: &Revision, trial: Trial) -> Written {
        match self.runner.place.tree(revision).await {
            Ok(after) => Written { before, after: Some(after), trial, errors: Vec::new() },
            Err(error) => {
                let message =
                    format!("it is written as {revision}, and was not read back: {}", ErrorChain(&error));
                Written { before, after: None, trial, errors: vec![message] }
            }
        }
    }

    fn name(&self) -> &str {
        if self.branch.name.is_empty() { "the folder" } else { &self.branch.name }
    }

    fn overtaken(&self, now: &Revision) -> Refusal {
        let message = format!(
            "{:?} was not written: somebody else changed it meanwhile, and {} is at {now}; read it again and repeat the change on that",
            self.change.path.text,
            self.name()
        );
        Refusal::new(409, message)
    }

    fn given_up(&self, seen: &[String]) -> Refusal {
        let message = format!(
            "{:?} was not written: {} moved {} times while it was tried, from {}; others are writing, send the request again",
            self.change.path.text,
            self.name(),
            seen.len(),
            seen.join(", from ")
        );
        Refusal::new(409, message)
    }
}

/// Why there is no base.
enum Retry {
    /// It moved from this revision while it was read.
    Moved(String),
    Refused(Refusal),
}

/// Whether somebody else was faster: the same may work on what they wrote.
fn is_overtaken(error: &WriteError) -> bool {
    match error {
        WriteError::Conflict { .. } => true,
        WriteError::Read(source) => source.http_code() == 409,
        WriteError::Write { source, .. } => source.http_code() == 409,
        _ => false,
    }
}
