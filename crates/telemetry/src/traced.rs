//! Spans of work that can fail.

use std::error::Error;

use opentelemetry::KeyValue;
use opentelemetry::trace::Status;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::ErrorChain;

/// Does `work` within `span`, which says afterwards how it ended: status `Ok`, or `Error` with the error and its causes,
/// also as an event `exception`.
pub async fn traced<T, E: Error + 'static>(
    span: Span,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let result = work.instrument(span.clone()).await;
    match &result {
        Ok(_) => span.set_status(Status::Ok),
        Err(error) => {
            let message = ErrorChain(error).to_string();
            let exception = vec![KeyValue::new("exception.message", message.clone())];
            span.add_event("exception", exception);
            span.set_status(Status::error(message));
        }
    }
    result
}
