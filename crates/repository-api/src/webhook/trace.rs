//! The span of a delivery, which the job that comes of it is a part of.

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, SpanKind, TraceId};
use uuid::Uuid;
use windlass_repository::webhook::Announced;
use windlass_telemetry::{FinishedSpan, traceparent};

use crate::request::Target;

const SCOPE: &str = "windlass-repository-api";

/// A trace that begins with a delivery.
pub(super) struct DeliveryTrace {
    trace: TraceId,
    span: SpanId,
    began: Timestamp,
}

impl DeliveryTrace {
    /// Of a delivery that began to come in at this time.
    pub(super) fn new(began: Timestamp) -> Self {
        let (_, low) = Uuid::new_v4().as_u64_pair();
        Self {
            trace: TraceId::from_bytes(*Uuid::new_v4().as_bytes()),
            span: SpanId::from_bytes(low.to_be_bytes()),
            began,
        }
    }

    /// The ids of the trace and of the delivery's span.
    pub(super) fn ids(&self) -> (TraceId, SpanId) {
        (self.trace, self.span)
    }

    /// The delivery's span as a job names it.
    pub(super) fn traceparent(&self) -> String {
        traceparent(self.trace, self.span)
    }

    /// The delivery's span, once it is answered with this status.
    pub(super) fn span(&self, target: &Target, announced: &Announced, answered: u16) -> FinishedSpan {
        let attributes = vec![
            KeyValue::new("namespace", target.namespace.clone()),
            KeyValue::new("repository", target.name.clone()),
            KeyValue::new("delivery", announced.delivery().unwrap_or_default().to_owned()),
            KeyValue::new("http.response.status_code", i64::from(answered)),
        ];
        let times = (self.began, Timestamp::now().max(self.began));
        let name = "provisioning.webhook.delivery";
        FinishedSpan {
            kind: SpanKind::Server,
            attributes,
            ..FinishedSpan::new(SCOPE, name, self.ids(), times)
        }
    }
}
