//! A file whose failed syncs end the process.
//!
//! After a failed sync the system may take for written what is not on disk: it is read back from memory, and a further sync
//! succeeds. Nothing that goes on from there can be believed, so the process ends, and the next start reads what is on disk.

use std::fmt::Debug;
use std::io;
use std::ops::Bound;

use redb::{BackendError, StorageBackend};
use tracing::error;

/// What is done when a sync has failed.
type Failed = fn(&io::Error);

/// Storage whose failed syncs are not gone on from.
#[derive(Debug)]
pub(super) struct Durable<B> {
    backend: B,
    failed: Failed,
}

impl<B> Durable<B> {
    /// Ends the process when a sync fails.
    pub(super) fn new(backend: B) -> Self {
        Self { backend, failed: end }
    }
}

fn end(error: &io::Error) {
    error!(%error, "failed to sync the object store: ending, since nobody knows what is on disk until the next start");
    std::process::abort();
}

impl<B: StorageBackend> StorageBackend for Durable<B> {
    fn sync_data(&self) -> Result<(), io::Error> {
        self.backend.sync_data().inspect_err(self.failed)
    }

    fn len(&self) -> Result<u64, io::Error> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.backend.set_len(len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.backend.write(offset, data)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use redb::backends::InMemoryBackend;

    use super::*;

    /// Storage that cannot be synced.
    #[derive(Debug)]
    struct Unsynced(InMemoryBackend);

    impl StorageBackend for Unsynced {
        fn sync_data(&self) -> Result<(), io::Error> {
            Err(io::Error::other("the disk is gone"))
        }

        fn len(&self) -> Result<u64, io::Error> {
            self.0.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
            self.0.read(offset, out)
        }

        fn set_len(&self, len: u64) -> Result<(), io::Error> {
            self.0.set_len(len)
        }

        fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
            self.0.write(offset, data)
        }
    }

    #[test]
    fn a_sync_that_fails_is_not_gone_on_from() {
        static ENDED: AtomicBool = AtomicBool::new(false);
        let backend = Unsynced(InMemoryBackend::new());
        let durable = Durable { backend, failed: |_| ENDED.store(true, Ordering::SeqCst) };
        assert!(redb::Database::builder().create_with_backend(durable).is_err());
        assert!(ENDED.load(Ordering::SeqCst));
    }
}
