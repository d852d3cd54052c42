//! Clients of tests that are written in Python and JavaScript, each in a folder of the user's cache with the packages that
//! its lock file names, made once for what its files say.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::folders::{cache_dir, in_ci, say};
use crate::go_program::hash_of;
use crate::programs::lock;

/// What runs a script, and how what it needs is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// `driver.py` with the packages of `requirements.txt`.
    Python,
    /// `driver.js` with the packages of `package-lock.json`.
    Node,
}

impl Script {
    /// The program and the script of `source`, after what it needs was installed. `None`: that could not be done, and it
    /// was said; with `CI=true` it is an error.
    pub fn ready(self, source: &Path) -> Result<Option<[PathBuf; 2]>> {
        let clients = cache_dir().join("clients");
        let name = match self {
            Self::Python => "python",
            Self::Node => "node",
        };
        let folder = clients.join(format!("{name}-{:016x}", hash_of(source)?));
        let found = match self {
            Self::Python => [folder.join("environment/bin/python"), folder.join("driver.py")],
            Self::Node => ["node".into(), folder.join("driver.js")],
        };
        let done = folder.join("done");
        if done.is_file() {
            return Ok(Some(found));
        }
        let _lock = lock(&clients)?;
        if done.is_file() {
            // Somebody else made it while we waited.
            return Ok(Some(found));
        }
        say(&format!("installing what the {name} client needs, once"));
        match self.install(source, &folder) {
            Ok(()) => std::fs::write(done, "")?,
            Err(error) if in_ci() => return Err(error),
            Err(error) => {
                say(&format!("skipped: {error:#}"));
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    fn install(self, source: &Path, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        for entry in std::fs::read_dir(source)? {
            let file = entry?.path();
            if let (true, Some(name)) = (file.is_file(), file.file_name()) {
                std::fs::copy(&file, folder.join(name))?;
            }
        }
        let steps: &[&[&str]] = match self {
            Self::Python => &[
                &["python3", "-m", "venv", "--clear", "environment"],
                &[
                    "environment/bin/python",
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                    "--requirement",
                    "requirements.txt",
                ],
            ],
            Self::Node => &[&["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]],
        };
        for step in steps {
            let [program, arguments @ ..] = step else { continue };
            // A path is one beneath the folder, whatever the platform takes it for.
            let program = if program.contains('/') { folder.join(program) } else { PathBuf::from(program) };
            let output = Command::new(&program).args(arguments).current_dir(folder).output();
            let output = output.with_context(|| format!("failed to start {}", program.display()))?;
            if !output.status.success() {
                bail!("failed to run {}: {}", step.join(" "), String::from_utf8_lossy(&output.stderr).trim());
            }
        }
        Ok(())
    }
}
