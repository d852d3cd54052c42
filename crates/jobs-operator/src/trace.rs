//! The trace of a job: created, claimed, started, its phases, finished.
//!
//! It goes on with the trace of whoever asked for the job, where the job names it. Else its ids are made from the job's
//! uid; so every attempt is in the one trace of its job, whichever process made it.

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, SpanContext, SpanId, Status, TraceId};
use windlass_api::{JobState, JobStatus, annotations};
use windlass_lease_queue::Record;
use windlass_lease_queue::progress::{Phase, Work};
use windlass_telemetry::{FinishedSpan, parse_traceparent};

const SCOPE: &str = "windlass-jobs-operator";

/// One attempt at a job.
pub(crate) struct JobTrace<'a> {
    pub(crate) record: &'a Record,
    pub(crate) attempt: u32,
    /// When the claim was taken up.
    pub(crate) started: Timestamp,
}

impl JobTrace<'_> {
    /// The trace's id: that of the span that the job is a part of, or else the job's uid, which is as long.
    pub(crate) fn id(&self) -> TraceId {
        if let Some(parent) = self.parent() {
            return parent.trace_id();
        }
        let hex: String = self.record.uid.chars().filter(char::is_ascii_hexdigit).collect();
        match TraceId::from_hex(&hex) {
            Ok(id) if hex.len() == 32 => id,
            _ => TraceId::from_bytes(hash(&self.record.uid).to_be_bytes()),
        }
    }

    /// The span that the job is a part of, where it says so.
    fn parent(&self) -> Option<SpanContext> {
        parse_traceparent(self.record.annotations.get(annotations::TRACEPARENT)?)
    }

    /// The span of this attempt, which the process's own spans and log lines are a part of.
    pub(crate) fn attempt_span(&self) -> SpanId {
        self.span(&format!("attempt {}", self.attempt))
    }

    fn span(&self, what: &str) -> SpanId {
        let whole = hash(&format!("{} {what}", self.record.uid));
        let low = u64::try_from(whole & u128::from(u64::MAX)).unwrap_or_default();
        // 0 is no id.
        SpanId::from_bytes(low.max(1).to_be_bytes())
    }

    /// Everything, once the job has ended with this status.
    pub(crate) fn spans(&self, status: &JobStatus, phases: &[Phase], filed: Timestamp) -> Vec<FinishedSpan> {
        let created = self.record.created.min(self.started);
        let at = |milliseconds| Timestamp::from_millisecond(milliseconds).unwrap_or(filed);
        let finished = at(status.finished).max(self.started);
        let filed = filed.max(finished);
        let claimed =
            self.record.status["started"].as_i64().filter(|time| *time > 0).map_or(self.started, at);
        let claimed = claimed.clamp(created, self.started);
        let (root, attempt) = (self.span("job"), self.attempt_span());
        let above = self.parent().map(|parent| parent.span_id());
        let ended = match status.state {
            JobState::Error => Status::error(status.message.clone()),
            _ => Status::Ok,
        };
        let span = |name: String, id, parent, times| FinishedSpan {
            parent,
            ..FinishedSpan::new(SCOPE, name, (self.id(), id), times)
        };
        let event = |name: &'static str, time: Timestamp| Event::new(name, time.into(), Vec::new(), 0);
        let mut spans = vec![
            FinishedSpan {
                attributes: self.attributes(status),
                events: vec![
                    event("created", created),
                    event("claimed", claimed),
                    event("started", self.started),
                    event("finished", finished),
                ],
                status: ended.clone(),
                ..span("provisioning.jobs.job".to_owned(), root, above, (created, filed))
            },
            span("provisioning.jobs.wait".to_owned(), self.span("wait"), Some(root), (created, claimed)),
            FinishedSpan {
                attributes: vec![KeyValue::new("attempt", i64::from(self.attempt))],
                status: ended,
                ..span("provisioning.jobs.process_job".to_owned(), attempt, Some(root), (claimed, finished))
            },
            span(
                "provisioning.jobs.complete".to_owned(),
                self.span("complete"),
                Some(root),
                (finished, filed),
            ),
        ];
        for (number, phase) in phases.iter().enumerate() {
            let work = match phase.work {
                Work::FullSync => "provisioning.sync.full",
                Work::IncrementalSync => "provisioning.sync.incremental",
                Work::Write => "provisioning.write",
            };
            let name = phase.name.map_or_else(|| work.to_owned(), |name| format!("{work}.{name}"));
            let id = self.span(&format!("{name} {number} of {}", self.attempt));
            let end = phase.start.checked_add(phase.took).unwrap_or(phase.start);
            spans.push(span(name, id, Some(attempt), (phase.start, end)));
        }
        spans
    }

    fn attributes(&self, status: &JobStatus) -> Vec<KeyValue> {
        let record = self.record;
        vec![
            KeyValue::new("namespace", record.key.namespace.clone()),
            KeyValue::new("job", record.key.name.clone()),
            KeyValue::new("job.uid", record.uid.clone()),
            KeyValue::new("action", record.action().to_owned()),
            KeyValue::new("repository", record.repository().to_owned()),
            KeyValue::new("outcome", status.state.as_str()),
        ]
    }
}

/// FNV-1a of 128 bits: the same in every process and version, and never zero in practice.
fn hash(text: &str) -> u128 {
    text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use windlass_api::JobStatus;
    use windlass_lease_queue::Key;

    use super::*;

    pub(crate) fn record(uid: &str) -> Record {
        Record {
            key: Key::new("default", "repo-sync"),
            uid: uid.to_owned(),
            version: "1".to_owned(),
            created: Timestamp::from_second(100).unwrap(),
            deleting: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            spec: serde_json::json!({"action": "pull", "repository": "repo"}),
            status: serde_json::json!({"started": 101_000}),
        }
    }

    #[test]
    fn one_trace_tells_of_the_job_from_its_creation_to_its_end() {
        let record = record("6f1c2f5e-9a52-4f0e-a8ad-1d1f8e0c9b11");
        let trace = JobTrace { record: &record, attempt: 2, started: Timestamp::from_second(102).unwrap() };
        let status = JobStatus {
            state: JobState::Error,
            finished: 110_000,
            message: "no".to_owned(),
            ..JobStatus::default()
        };
        let phase = Phase {
            work: Work::FullSync,
            name: Some("compare"),
            start: Timestamp::from_second(103).unwrap(),
            took: Duration::from_secs(2),
        };
        let spans = trace.spans(&status, &[phase], Timestamp::from_second(111).unwrap());
        assert_eq!(trace.id().to_string(), "6f1c2f5e9a524f0ea8ad1d1f8e0c9b11");
        let shown: Vec<_> = spans
            .iter()
            .map(|span| (&*span.name, span.start.as_second(), span.end.as_second(), span.parent))
            .collect();
        let (root, attempt) = (Some(spans[0].span_id), Some(trace.attempt_span()));
        assert_eq!(
            shown,
            [
                ("provisioning.jobs.job", 100, 111, None),
                ("provisioning.jobs.wait", 100, 101, root),
                ("provisioning.jobs.process_job", 101, 110, root),
                ("provisioning.jobs.complete", 110, 111, root),
                ("provisioning.sync.full.compare", 103, 105, attempt),
            ]
        );
        assert!(spans.iter().all(|span| span.trace_id == trace.id()));
        let mut ids: Vec<_> = spans.iter().map(|span| span.span_id).collect();
        ids.sort_by_key(|id| id.to_bytes());
        ids.dedup();
        assert_eq!(ids.len(), spans.len());
        assert_eq!(spans[0].status, Status::error("no"));
        let events: Vec<_> = spans[0].events.iter().map(|event| &*event.name).collect();
        assert_eq!(events, ["created", "claimed", "started", "finished"]);
    }

    #[test]
    fn a_job_that_names_a_span_is_a_part_of_it() {
        let mut record = record("6f1c2f5e-9a52-4f0e-a8ad-1d1f8e0c9b11");
        let named = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        record.annotations.insert(annotations::TRACEPARENT.to_owned(), named.to_owned());
        let trace = JobTrace { record: &record, attempt: 1, started: Timestamp::from_second(102).unwrap() };
        let spans = trace.spans(&JobStatus::default(), &[], Timestamp::from_second(111).unwrap());
        assert_eq!(spans[0].parent.unwrap().to_string(), "b7ad6b7169203331");
        assert!(spans.iter().all(|span| span.trace_id.to_string() == "0af7651916cd43dd8448eb211c80319c"));
        record.annotations.insert(annotations::TRACEPARENT.to_owned(), "00-x".to_owned());
        let trace = JobTrace { record: &record, attempt: 1, started: Timestamp::from_second(102).unwrap() };
        assert_eq!(trace.id().to_string(), "6f1c2f5e9a524f0ea8ad1d1f8e0c9b11");
    }
}
