//! A Git repository whose history a test writes: times, merges and forced pushes included.

use std::fmt::Write as _;
use std::ops::Deref;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::GitServer;

/// Name of the branch.
pub(super) const BRANCH: &str = "main";

/// A commit to be made.
#[derive(Clone, Debug)]
pub struct NewCommit {
    /// The message; its first line is the subject.
    pub message: String,
    /// The committer's date; Git keeps whole seconds.
    pub committed: Timestamp,
    /// Ids of its parents; empty for a commit on top of the branch.
    pub parents: Vec<String>,
    /// Files that it writes, and their content. Other files stay as in the first parent.
    pub files: Vec<(String, String)>,
}

impl NewCommit {
    /// A commit on top of the branch that writes one file.
    pub fn new(
        message: impl Into<String>,
        committed: Timestamp,
        path: impl Into<String>,
        content: impl Into<String>,
    ) -> Self {
        Self {
            message: message.into(),
            committed,
            parents: Vec::new(),
            files: vec![(path.into(), content.into())],
        }
    }

    /// The same with these parents.
    #[must_use]
    pub fn on(mut self, parents: &[&str]) -> Self {
        self.parents = parents.iter().map(|parent| (*parent).to_owned()).collect();
        self
    }
}

/// A bare repository behind Git's own `http-backend`, until it is dropped.
pub struct GitRemote(GitServer);

impl Deref for GitRemote {
    type Target = GitServer;

    fn deref(&self) -> &GitServer {
        &self.0
    }
}

impl GitRemote {
    /// An empty one.
    pub async fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = GitServer::new(folder, "fleet.git", |backend| backend).await?;
        run(Command::new("git").args(["init", "--quiet", "--bare", "-b", BRANCH]).arg(server.path()), "")
            .await?;
        Ok(Self(server))
    }

    /// Makes a commit and moves the branch to it, wherever it was before. Answers its id.
    pub async fn commit(&self, commit: NewCommit) -> Result<String> {
        self.commits(vec![commit]).await?.pop().context("no commit was made")
    }

    /// Makes commits one after the other, and moves the branch to the last. Answers their ids.
    pub async fn commits(&self, commits: Vec<NewCommit>) -> Result<Vec<String>> {
        let mut stream = String::from("feature done\n");
        let branch_exists = self.git(&["rev-parse", "--verify", "--quiet", BRANCH]).await.is_ok();
        for (number, commit) in commits.iter().enumerate() {
            let mark = number + 1;
            write_commit(&mut stream, mark, commit, branch_exists)?;
        }
        stream.push_str("done\n");
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(self.path()).args(["fast-import", "--quiet", "--force"]);
        let said = run(&mut command, &stream).await?;
        let ids: Vec<String> = said.lines().map(str::to_owned).collect();
        if ids.len() != commits.len() {
            bail!("git made {} commits of {}", ids.len(), commits.len());
        }
        Ok(ids)
    }

    /// Moves the branch to a commit that is there.
    pub async fn force(&self, commit: &str) -> Result<()> {
        self.git(&["update-ref", &format!("refs/heads/{BRANCH}"), commit]).await.map(drop)
    }

    /// Runs a command of Git in the repository and answers what it printed.
    pub async fn git(&self, arguments: &[&str]) -> Result<String> {
        self.git_with(arguments, "").await
    }

    /// The same with `input` on its standard input.
    pub async fn git_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        run(Command::new("git").arg("--git-dir").arg(self.path()).args(arguments), input).await
    }

    /// The files of a commit as source-controller packs them: a tar.gz.
    pub async fn archive(&self, commit: &str) -> Result<Vec<u8>> {
        // Of the tree, not of the commit, whose id would stand in a header of the archive.
        archive(&self.path(), &format!("{commit}^{{tree}}")).await
    }
}

/// Writes a commit in the format of `git fast-import`.
fn write_commit(stream: &mut String, mark: usize, commit: &NewCommit, branch_exists: bool) -> Result<()> {
    let NewCommit { message, committed, parents, files } = commit;
    if parents.is_empty() && mark == 1 && branch_exists {
        write!(stream, "reset refs/heads/{BRANCH}\nfrom refs/heads/{BRANCH}^0\n\n")?;
    } else if let Some(first) = parents.first() {
        write!(stream, "reset refs/heads/{BRANCH}\nfrom {first}\n\n")?;
    }
    let seconds = committed.as_second();
    writeln!(stream, "commit refs/heads/{BRANCH}\nmark :{mark}")?;
    writeln!(stream, "author A. Writer <a.writer@example.org> {seconds} +0000")?;
    writeln!(stream, "committer A. Writer <a.writer@example.org> {seconds} +0000")?;
    writeln!(stream, "data {}\n{message}", message.len())?;
    for parent in parents.iter().skip(1) {
        writeln!(stream, "merge {parent}")?;
    }
    for (path, content) in files {
        writeln!(stream, "M 644 inline {path}\ndata {}\n{content}", content.len())?;
    }
    write!(stream, "\nget-mark :{mark}\n")?;
    Ok(())
}

async fn archive(repository: &Path, tree: &str) -> Result<Vec<u8>> {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(repository).args(["archive", "--format=tar.gz", tree]);
    output(&mut command, "").await
}

async fn run(command: &mut Command, input: &str) -> Result<String> {
    Ok(String::from_utf8(output(command, input).await?)?)
}

/// Runs a command to its end and answers what it printed; a failure carries what it complained of.
async fn output(command: &mut Command, input: &str) -> Result<Vec<u8>> {
    let mut child = command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("failed to start git")?;
    let mut stdin = child.stdin.take().context("git has no standard input")?;
    let give = async move {
        // A git that does not read ends the pipe, which is no failure.
        let _ = stdin.write_all(input.as_bytes()).await;
    };
    let ((), ended) = tokio::join!(give, child.wait_with_output());
    let ended = ended?;
    if !ended.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(ended.stdout)
}
