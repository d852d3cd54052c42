//! The signals that ask a process to stop.

use std::fmt;
use std::io;

use futures::Stream;
use futures::stream::{self, StreamExt as _};
use tokio::signal::unix::{self, SignalKind};

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// What a service manager or a kubelet sends.
    Terminate,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        })
    }
}

/// SIGINT and SIGTERM as they arrive. From this call on they no longer end the process by themselves.
pub fn signals() -> io::Result<impl Stream<Item = Signal> + Send + Unpin> {
    let of = |kind, signal| {
        let receiver = unix::signal(kind)?;
        Ok::<_, io::Error>(
            stream::unfold(receiver, move |mut receiver| async move {
                receiver.recv().await.map(|()| (signal, receiver))
            })
            .boxed(),
        )
    };
    let interrupt = of(SignalKind::interrupt(), Signal::Interrupt)?;
    let terminate = of(SignalKind::terminate(), Signal::Terminate)?;
    Ok(stream::select(interrupt, terminate))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn signals_arrive_by_name_and_do_not_end_the_process() {
        let mut signals = signals().unwrap();
        for (name, expected) in [("TERM", Signal::Terminate), ("INT", Signal::Interrupt)] {
            let command = format!("kill -{name} {}", std::process::id());
            let sent = std::process::Command::new("sh").args(["-c", &command]).status().unwrap();
            assert!(sent.success());
            let signal = tokio::time::timeout(Duration::from_secs(10), signals.next()).await;
            assert_eq!(signal.expect("a signal"), Some(expected));
        }
    }
}
