//! How the API is asked.

use std::time::Duration;

use windlass_runtime::CallOptions;

/// Calls to the API. What does not succeed is tried again by the next pass.
pub(crate) const CALL: CallOptions = CallOptions::new(Duration::from_secs(15));
