//! How the API is asked.

use std::time::Duration;

use windlass_runtime::CallOptions;

/// Calls to the API. What fails is not tried again here: the answer says so, and the caller sends the request again.
pub(crate) const CALL: CallOptions = CallOptions::new(Duration::from_secs(10));
