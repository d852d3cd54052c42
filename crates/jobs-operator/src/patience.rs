//! Calls that outlast an API server's restart.

use windlass_lease_queue::LeaseGuard;
use windlass_runtime::{Backoff, BackoffPolicy, CallError};

/// Makes a call until it is answered, for as long as the lease holds: an API server that is being started again costs a
/// job time, not its life. A refusal is an answer.
///
/// The last failure is answered once the lease is lost; the caller finds that out by asking it.
pub(crate) async fn while_held<T, F>(lease: &LeaseGuard, mut call: impl FnMut() -> F) -> Result<T, CallError>
where
    F: Future<Output = Result<T, CallError>>,
{
    let mut backoff = Backoff::new(BackoffPolicy::CONNECTION);
    let lost = lease.lost();
    loop {
        match call().await {
            Err(error) if is_passing(&error) && lease.valid() => {
                tracing::debug!(error = %windlass_telemetry::ErrorChain(&error), "asking the API again");
                lost.run_until_cancelled(tokio::time::sleep(backoff.delay())).await;
            }
            answered => return answered,
        }
    }
}

fn is_passing(error: &CallError) -> bool {
    match error {
        CallError::Send { .. } | CallError::Deadline { .. } => true,
        _ => matches!(error.code(), Some(429 | 500..)),
    }
}
