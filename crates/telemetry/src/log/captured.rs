//! What a thread logs, kept in memory: tests read what a process would have logged.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use super::{InitLogsError, LogFormat, Output, set_thread_default, subscriber};

/// What this thread logs, until it is dropped.
pub struct CapturedLog {
    buffer: Buffer,
    _subscriber: DefaultGuard,
}

impl CapturedLog {
    /// As [`init`](super::init), for this thread.
    ///
    /// # Errors
    /// The filter is none.
    pub fn start(format: LogFormat, filter: &str) -> Result<Self, InitLogsError> {
        let buffer = Buffer::default();
        let subscriber = subscriber(format, filter, buffer.output())?;
        Ok(Self { buffer, _subscriber: set_thread_default(subscriber) })
    }

    /// The lines so far.
    pub fn text(&self) -> String {
        self.buffer.text()
    }
}

impl fmt::Debug for CapturedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CapturedLog").field(&self.text()).finish()
    }
}

/// An output in memory. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Buffer {
    pub(crate) fn output(&self) -> Output {
        let buffer = self.clone();
        Output::new(BoxMakeWriter::new(move || buffer.clone()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
