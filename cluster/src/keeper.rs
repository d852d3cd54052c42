//! The process that keeps the others.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};

use crate::folders::built_program;
use crate::state::Folder;
use crate::supervisor::{Answer, Order};

/// The supervising process, kept by the pipe to it. When this is dropped, everything ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    pipes: Option<Arc<Mutex<Pipes>>>,
}

#[derive(Debug)]
struct Pipes {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    pub(crate) fn start(folder: &Folder) -> Result<Self> {
        let program = built_program("windlass-cluster")?;
        let mut command = Command::new(&program);
        command.arg("--folder").arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for whoever holds the pipe, whose end is then ours.
        command.process_group(0);
        let mut child = command.spawn().with_context(|| format!("failed to start {}", program.display()))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the supervisor has no pipes")
        };
        let pipes = Pipes { orders, answers: BufReader::new(answers) };
        Ok(Self { child, pipes: Some(Arc::new(Mutex::new(pipes))) })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order and waits for the answer.
    pub(crate) async fn order(&self, order: Order) -> Result<Answer> {
        let pipes = self.pipes.clone().context("the supervisor was let go")?;
        let asked = tokio::task::spawn_blocking(move || {
            let mut pipes = pipes.lock().unwrap_or_else(PoisonError::into_inner);
            let mut line = serde_json::to_string(&order)?;
            line.push('\n');
            pipes.orders.write_all(line.as_bytes())?;
            line.clear();
            pipes.answers.read_line(&mut line)?;
            anyhow::Ok(serde_json::from_str(&line)?)
        });
        match asked.await?.context("failed to speak with the supervisor")? {
            Answer::Failed(why) => bail!(why),
            answer => Ok(answer),
        }
    }

    /// Lets the cluster go on without us.
    pub(crate) async fn detach(mut self) -> Result<()> {
        self.order(Order::Stay).await?;
        self.pipes = None;
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Without the pipe the supervisor kills what it keeps, which takes a few milliseconds.
        if self.pipes.take().is_some() {
            let _ = self.child.wait();
        }
    }
}
