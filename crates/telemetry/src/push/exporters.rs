//! The SDK's exporters: what each of its batches is to a collector.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::logs::tonic::group_logs_by_resource_and_scope;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLogRecord};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tonic::transport::Channel;

use super::chunks::WEIGHT;
use super::client::{Client, Service};
use super::weight;

/// Sends the batches of one signal.
pub(crate) struct Exporter<S> {
    client: Arc<Client<S>>,
    resource: ResourceAttributesWithSchema,
    temporality: Temporality,
}

impl<S: Service> Exporter<S> {
    pub(crate) fn new(client: Client<S>) -> Self {
        let resource = ResourceAttributesWithSchema::default();
        Self { client: Arc::new(client), resource, temporality: Temporality::Cumulative }
    }
}

impl<S> Exporter<S> {
    /// Metrics are asked for like this.
    pub(crate) fn with_temporality(self, temporality: Temporality) -> Self {
        Self { temporality, ..self }
    }
}

impl<S> fmt::Debug for Exporter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl SpanExporter for Exporter<TraceServiceClient<Channel>> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let mut result = Ok(());
        for spans in pieces(batch, weight::of_span) {
            let items = spans.len();
            let resource_spans = group_spans_by_resource_and_scope(spans, &self.resource);
            let sent = self.client.deliver(ExportTraceServiceRequest { resource_spans }, items).await;
            result = result.and(sent);
        }
        result
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

impl LogExporter for Exporter<LogsServiceClient<Channel>> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let all: Vec<(&SdkLogRecord, &InstrumentationScope)> = batch.iter().collect();
        let mut result = Ok(());
        for logs in pieces(all, |(record, _)| weight::of_log(record)) {
            let resource_logs = group_logs_by_resource_and_scope(&LogBatch::new(&logs), &self.resource);
            let sent = self.client.deliver(ExportLogsServiceRequest { resource_logs }, logs.len()).await;
            result = result.and(sent);
        }
        result
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}

impl PushMetricExporter for Exporter<MetricsServiceClient<Channel>> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        // Sums are told again, so no item is lost with a request; a difference that is lost shows in the failures.
        self.client.deliver(ExportMetricsServiceRequest::from(metrics), 0).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        self.temporality
    }
}

/// A batch in pieces that fit into one request each; what is too large for any stands alone.
fn pieces<T>(batch: Vec<T>, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut pieces: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for item in batch {
        let weight = weight(&item);
        match pieces.last_mut() {
            Some(piece) if weight <= room => {
                room -= weight;
                piece.push(item);
            }
            _ => {
                room = WEIGHT.saturating_sub(weight);
                pieces.push(vec![item]);
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_cut_where_a_request_is_full() {
        let weights = vec![WEIGHT / 2, WEIGHT / 2, 1, 3 * WEIGHT, 1, 1];
        let cut = pieces(weights, |weight| *weight);
        assert_eq!(cut, [vec![WEIGHT / 2, WEIGHT / 2], vec![1], vec![3 * WEIGHT], vec![1, 1]]);
        assert_eq!(pieces(Vec::<usize>::new(), |weight| *weight), Vec::<Vec<usize>>::new());
    }
}
