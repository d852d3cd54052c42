//! Commits in a bare repository of this machine, made by `git fast-import`: samples, tests and benches.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A change to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Write this content at this path.
    Put(String, Vec<u8>),
    /// Delete what is at this path.
    Delete(String),
}

impl Edit {
    /// Writes `content` at `path`.
    pub fn put(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self::Put(path.into(), content.into())
    }

    /// Deletes what is at `path`.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::Delete(path.into())
    }
}

/// Why no commit was made.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The program could not be run.
    #[error("failed to run git in {}; is it installed?", path.display())]
    Run {
        /// The repository.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program refused.
    #[error("failed to commit to {}: {message}", path.display())]
    Refused {
        /// The repository.
        path: PathBuf,
        /// What it wrote to its standard error.
        message: String,
    },
}

/// Commits `edits` on top of `branch` of the bare repository at `path`, and returns the commit's id in hexadecimal.
/// The repository and the branch are made when they are not there; files that no edit names stay. Deletions are
/// done first. All new objects go into one pack.
pub fn commit(
    path: &Path,
    branch: &str,
    edits: impl IntoIterator<Item = Edit>,
    message: &str,
) -> Result<String, SeedError> {
    if !path.join("HEAD").exists() {
        let mut init = git();
        init.args(["init", "--quiet", "--bare", "--template="]).arg(format!("--initial-branch={branch}"));
        run(init.arg(path), path, |_| Ok(()))?;
    }
    let reference = format!("refs/heads/{branch}");
    let exists = path.join(&reference).exists() || {
        let mut verify = git();
        verify.arg("-C").arg(path).args(["rev-parse", "--quiet", "--verify", &reference]);
        run(&mut verify, path, |_| Ok(())).is_ok()
    };
    let mut import = git();
    import.arg("-C").arg(path).args(["-c", "fastimport.unpackLimit=1", "-c", "core.fsync=none"]);
    import.args(["fast-import", "--quiet", "--date-format=now", "--cat-blob-fd=1"]);
    let output = run(&mut import, path, |input| {
        let mut input = BufWriter::new(input);
        writeln!(input, "commit {reference}\nmark :1\ncommitter Windlass <windlass@localhost> now")?;
        data(&mut input, message.as_bytes())?;
        if exists {
            writeln!(input, "from {reference}^0")?;
        }
        let (deleted, put): (Vec<Edit>, Vec<Edit>) =
            edits.into_iter().partition(|edit| matches!(edit, Edit::Delete(_)));
        for edit in deleted.into_iter().chain(put) {
            match edit {
                Edit::Put(path, content) => {
                    writeln!(input, "M 100644 inline {}", quoted(&path))?;
                    data(&mut input, &content)?;
                }
                Edit::Delete(path) => writeln!(input, "D {}", quoted(&path))?,
            }
        }
        writeln!(input, "get-mark :1")?;
        input.flush()
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn data(input: &mut impl Write, content: &[u8]) -> io::Result<()> {
    writeln!(input, "data {}", content.len())?;
    input.write_all(content)?;
    writeln!(input)
}

/// A path as `fast-import` reads it, whatever is in it.
fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Git without anybody's configuration.
fn git() -> Command {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        // The folder is the caller's choice, whoever owns it.
        .args(["-c", "safe.directory=*"]);
    command
}

fn run(
    command: &mut Command,
    path: &Path,
    feed: impl FnOnce(std::process::ChildStdin) -> io::Result<()>,
) -> Result<Output, SeedError> {
    let failed = |source| SeedError::Run { path: path.to_owned(), source };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    // What it says when it stops reading matters more than that it does.
    let written = child.stdin.take().map_or(Ok(()), feed);
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(SeedError::Refused { path: path.to_owned(), message });
    }
    written.map_err(failed)?;
    Ok(output)
}
