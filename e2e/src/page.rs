//! The project's own pages, as a reader follows them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tokio::process::Command;

use crate::{Process, free_port};

/// Languages of blocks that a reader types into a shell.
const SHELL: [&str; 3] = ["console", "sh", "bash"];

/// The commands of one shell block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence.
    pub line: usize,
    /// Its commands; a here document, or what a backslash continues, belongs to its command.
    pub commands: Vec<String>,
}

/// The workspace's root, which is where a reader stands.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every page for users, by path from the root: README and everything below `docs`.
pub fn pages() -> Result<Vec<String>> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path.strip_prefix(root())?.display().to_string());
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The shell blocks of a page.
pub fn blocks(page: &str) -> Result<Vec<Block>> {
    let text =
        std::fs::read_to_string(root().join(page)).with_context(|| format!("failed to read {page}"))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut inside, mut fenced, mut prompts) = (false, false, false);
    for (number, line) in text.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            inside = !fenced && SHELL.contains(&language);
            fenced = !fenced;
            if inside {
                // In `console` blocks a prompt tells commands from what they print.
                prompts = language == "console";
                blocks.push(Block { line: number + 1, commands: Vec::new() });
            }
            continue;
        }
        let Some(block) = blocks.last_mut().filter(|_| inside) else { continue };
        // Without prompts a command's further lines are indented.
        let goes_on = block.commands.last().is_some_and(|command| is_open(command))
            || (!prompts && line.starts_with(' '));
        let starts = if prompts {
            line.strip_prefix("$ ")
        } else {
            (!goes_on && !line.trim().is_empty()).then_some(line)
        };
        match (starts, block.commands.last_mut()) {
            (Some(command), _) => block.commands.push(command.to_owned()),
            (None, Some(command)) if goes_on => {
                command.push('\n');
                command.push_str(line);
            }
            (None, _) => {}
        }
    }
    blocks
}

/// Whether the next line belongs to this command.
fn is_open(command: &str) -> bool {
    if command.ends_with('\\') {
        return true;
    }
    let Some((_, word)) = command.lines().next().unwrap_or_default().split_once("<<") else { return false };
    let word = word.trim_start_matches('-').split_whitespace().next().unwrap_or_default().trim_matches('\'');
    !command.lines().skip(1).any(|line| line.trim() == word)
}

/// Whether a command only says what a function or a variable of the shell is.
fn is_definition(command: &str) -> bool {
    let end = command.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(command.len());
    let (name, rest) = command.split_at(end);
    !name.is_empty()
        && (rest.starts_with("()") || (rest.starts_with('=') && !rest.contains(char::is_whitespace)))
}

/// A reader who types what pages say, in one shell whose variables stay.
pub struct Reader {
    home: tempfile::TempDir,
    /// What is typed instead of what is written: this machine's ports and folders.
    replacements: Vec<(String, String)>,
    exports: Vec<String>,
    /// Programs that stay, by the command's first words; one that is started again is ended before.
    running: Vec<(String, Process)>,
    printed: String,
}

impl Reader {
    /// A reader with a home folder of their own.
    pub fn new() -> Result<Self> {
        let home = tempfile::tempdir()?;
        Ok(Self {
            home,
            replacements: Vec::new(),
            exports: Vec::new(),
            running: Vec::new(),
            printed: String::new(),
        })
    }

    /// The home folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Types `with` wherever a page says `written`; the first replacements are made first.
    pub fn replace(&mut self, written: &str, with: impl Into<String>) {
        self.replacements.push((written.to_owned(), with.into()));
    }

    /// Sets a variable in the reader's shell.
    pub fn export(&mut self, name: &str, value: &str) {
        self.exports.push(format!("export {name}='{value}'"));
    }

    /// Everything that was printed so far, with the commands.
    pub fn printed(&self) -> String {
        let logs = self.running.iter().map(|(name, process)| format!("--- {name}\n{}", process.output()));
        std::iter::once(self.printed.clone()).chain(logs).collect::<Vec<_>>().join("\n")
    }

    /// Runs a command to its end, which has to be a good one, and answers what it printed.
    pub async fn run(&mut self, command: &str) -> Result<String> {
        let command = self.typed(command);
        self.printed.extend(["$ ", &command, "\n"]);
        if let Some(assignments) = command.strip_prefix("export ") {
            // Evaluated once, as by the reader's shell.
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let names = assignments.split_whitespace().filter_map(|word| Some(word.split_once('=')?.0));
            for name in names.filter(|name| !name.is_empty() && name.chars().all(is_name)) {
                let script = format!("{{ {command}\n}} >&2\nprintf %s \"${name}\"");
                let (value, _said) = self.shell(&script).await?;
                self.export(name, &value);
            }
            return Ok(String::new());
        }
        if is_definition(&command) {
            self.exports.push(command);
            return Ok(String::new());
        }
        let (printed, said) = self.shell(&command).await?;
        self.printed.extend([&*printed, &*said]);
        Ok(printed)
    }

    /// Starts a command that stays, and waits until it says `ready`.
    pub async fn start(&mut self, name: &str, command: &str, ready: &str) -> Result<()> {
        let command = self.typed(command);
        self.printed.extend(["$ ", &command, "   (stays)\n"]);
        for (_, process) in self.running.extract_if(.., |(running, _)| running == name) {
            let mut process = process;
            process.signal("TERM").await?;
            process.end(crate::DEADLINE).await?;
        }
        let script = format!("{}\nexec env {command}", self.exports.join("\n"));
        let log = self.home.path().join(format!("{name}-{}.log", free_port()?));
        let home = root().display().to_string();
        let arguments = ["-euo", "pipefail", "-c", &format!("cd {home}\n{script}")];
        let mut process = Process::start(Path::new("/bin/bash"), &arguments, &[], &log)?;
        let said = process.says(ready).await;
        self.running.push((name.to_owned(), process));
        said
    }

    fn typed(&self, command: &str) -> String {
        self.replacements.iter().fold(command.to_owned(), |text, (written, with)| text.replace(written, with))
    }

    /// What a command printed, and what it said on its error output.
    async fn shell(&self, command: &str) -> Result<(String, String)> {
        let script = format!("{}\n{command}", self.exports.join("\n"));
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(root())
            .env("HOME", self.home.path())
            .kill_on_drop(true)
            .output()
            .await
            .context("failed to start bash")?;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            bail!("{command}\nended with {}:\n{out}{err}\n{}", output.status, self.printed());
        }
        Ok((out.into_owned(), err.into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, parse};

    #[test]
    fn commands_are_told_from_what_they_print_and_keep_their_lines() {
        let text = "```console\n$ a \\\n  b\nprinted\n$ cat <<END\nx\nEND\n```\n```yaml\n$ no\n```\n```sh\none\n\ntwo \\\n  more\nthree |\n  last\n```\n";
        let command = |text: &str| text.to_owned();
        let expected = [
            Block { line: 1, commands: vec![command("a \\\n  b"), command("cat <<END\nx\nEND")] },
            Block {
                line: 12,
                commands: vec![command("one"), command("two \\\n  more"), command("three |\n  last")],
            },
        ];
        assert_eq!(parse(text), expected);
    }
}
