//! Where programs are.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::PathBuf;

use anyhow::{Result, bail};

/// Foreign programs that tests talk to.
pub struct Peers;

impl Peers {
    /// Whether every one of these programs is there. Outside CI a missing one is a printed skip; with `CI=true` it is a
    /// failure.
    pub fn present(programs: &[&str]) -> Result<bool> {
        for program in programs {
            if Self::find(program).is_some() {
                continue;
            }
            if std::env::var("CI").is_ok_and(|value| value == "true") {
                bail!("{program} is missing; `cargo xtask peers` installs it");
            }
            eprintln!("skipped: {program} is missing; install it, or run `CI=true cargo xtask peers`");
            return Ok(false);
        }
        Ok(true)
    }

    fn find(program: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
    }
}

/// Our own programs, as cargo built them beside this one.
pub struct Programs;

impl Programs {
    /// The program of this name in the folder that this process was built into.
    pub fn path(name: &str) -> Result<PathBuf> {
        let me = std::env::current_exe()?;
        let found = me.ancestors().map(|folder| folder.join(name)).find(|file| file.is_file());
        match found {
            Some(file) => Ok(file),
            None => bail!("{name} is not built; run `cargo build --workspace --bins` first"),
        }
    }

    /// An example of one of our crates, which is built if that was not done with the tests.
    pub fn example(package: &str, name: &str) -> Result<PathBuf> {
        let path = format!("examples/{name}");
        if let Ok(found) = Self::path(&path) {
            return Ok(found);
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let arguments = ["build", "--quiet", "--locked", "--package", package, "--example", name];
        let built = std::process::Command::new(cargo).args(arguments).status()?;
        if !built.success() {
            bail!("failed to build the example {name} of {package}: {built}");
        }
        Self::path(&path)
    }
}
