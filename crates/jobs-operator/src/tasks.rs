//! The operator's tasks, which run for as long as it does and are known by name.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// A task ended that nobody had asked to end; the others were asked to then, and have ended too.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TaskEnded {
    /// It returned.
    #[error("the task {name:?} ended unasked")]
    Returned {
        /// Its name.
        name: String,
    },
    /// It panicked.
    #[error("the task {name:?} panicked: {message}")]
    Panicked {
        /// Its name.
        name: String,
        /// The panic's message.
        message: String,
    },
}

/// Tasks that end together. Dropping it aborts them.
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, String>,
    stop: CancellationToken,
}

impl Tasks {
    /// No tasks yet; cancelling `stop` asks all of them to end.
    pub(crate) fn new(stop: CancellationToken) -> Self {
        Self { running: JoinSet::new(), names: HashMap::new(), stop }
    }

    /// What asks the tasks to end.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    pub(crate) fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.running.spawn(task);
        self.names.insert(handle.id(), name.into());
    }

    /// Waits for all tasks. One that panics, or ends before it is asked to, makes the others end, and is the answer.
    pub(crate) async fn join(mut self) -> Result<(), TaskEnded> {
        let mut first = Ok(());
        while let Some(ended) = self.running.join_next_with_id().await {
            let asked = self.stop.is_cancelled();
            let failed = match ended {
                Ok((_, ())) if asked => continue,
                Ok((id, ())) => TaskEnded::Returned { name: self.name(id) },
                Err(error) => {
                    let name = self.name(error.id());
                    let Ok(panic) = error.try_into_panic() else { continue };
                    TaskEnded::Panicked { name, message: crate::driver::panic_text(&*panic).to_owned() }
                }
            };
            self.stop.cancel();
            first = first.and(Err(failed));
        }
        first
    }

    fn name(&self, id: Id) -> String {
        self.names.get(&id).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_named_and_the_others_are_asked_to_end() {
        let mut tasks = Tasks::new(CancellationToken::new());
        let stop = tasks.stop().clone();
        tasks.spawn("notifications", async { panic!("out of the blue") });
        tasks.spawn("driver 0", async move { stop.cancelled().await });
        let (name, message) = ("notifications".to_owned(), "out of the blue".to_owned());
        assert_eq!(tasks.join().await, Err(TaskEnded::Panicked { name, message }));
    }

    #[tokio::test]
    async fn a_task_that_returns_unasked_is_named() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("reaper", async {});
        assert_eq!(tasks.join().await, Err(TaskEnded::Returned { name: "reaper".to_owned() }));
    }

    #[tokio::test]
    async fn tasks_that_were_asked_to_end_end_well() {
        let mut tasks = Tasks::new(CancellationToken::new());
        let stop = tasks.stop().clone();
        let waiting = stop.clone();
        tasks.spawn("driver 0", async move { waiting.cancelled().await });
        stop.cancel();
        assert_eq!(tasks.join().await, Ok(()));
    }
}
