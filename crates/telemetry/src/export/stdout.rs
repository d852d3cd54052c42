//! Traces and metrics as JSON lines on the process's output, for looking at them without a collector.

use std::fmt;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, Status};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, Metric, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use serde_json::{Map, Value, json};
use tracing_subscriber::fmt::MakeWriter;

use super::cumulative::Part;
use crate::log::Output;
use crate::{CumulativePoint, CumulativeValue, CumulativeView};

/// Writes each span and each metric as a line of its own, beside the log lines.
#[derive(Clone)]
pub(crate) struct Lines {
    output: Output,
}

impl Lines {
    pub(crate) fn new(output: Output) -> Self {
        Self { output }
    }

    fn write(&self, message: &str, line: &Value) {
        let head = json!({
            "time": format!("{:.6}", Timestamp::now()), "level": "debug", "msg": message, "logger": "telemetry",
        });
        let mut all = Map::new();
        for part in [&head, line] {
            all.extend(
                part.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())),
            );
        }
        let text = format!("{}\n", Value::from(all));
        // An output that cannot be written has nowhere to say so.
        let _ = self.output.make_writer().write_all(text.as_bytes());
    }
}

impl Lines {
    /// Writes these parts of a view, a line for each family.
    pub(crate) fn cumulative(&self, view: &dyn CumulativeView, parts: &[Part]) {
        for (family, points) in parts {
            let Some(family) = view.families().get(*family) else { continue };
            let points: Vec<Value> = points.iter().map(cumulative_point).collect();
            let line = json!({
                "metric": family.name, "unit": family.unit, "scope": view.scope(),
                "service.instance.id": view.identity(), "points": points,
            });
            self.write("metric", &line);
        }
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").finish_non_exhaustive()
    }
}

impl SpanExporter for Lines {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &batch {
            self.write("span", &span_line(span));
        }
        Ok(())
    }
}

impl PushMetricExporter for Lines {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        for metric in metrics.scope_metrics().flat_map(ScopeMetrics::metrics) {
            self.write("metric", &metric_line(metric));
        }
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

fn span_line(span: &SpanData) -> Value {
    let mut line = json!({
        "span": span.name,
        "scope": span.instrumentation_scope.name(),
        "kind": format!("{:?}", span.span_kind).to_lowercase(),
        "trace_id": span.span_context.trace_id().to_string(),
        "span_id": span.span_context.span_id().to_string(),
        "start": time(span.start_time),
        "end": time(span.end_time),
        "attributes": attributes(span.attributes.iter()),
    });
    if span.parent_span_id != SpanId::INVALID {
        line["parent_span_id"] = span.parent_span_id.to_string().into();
    }
    match &span.status {
        Status::Unset => {}
        Status::Ok => line["status"] = "ok".into(),
        Status::Error { description } => {
            line["status"] = "error".into();
            line["error"] = description.as_ref().into();
        }
    }
    line
}

fn metric_line(metric: &Metric) -> Value {
    let points = match metric.data() {
        AggregatedMetrics::F64(data) => points(data),
        AggregatedMetrics::U64(data) => points(data),
        AggregatedMetrics::I64(data) => points(data),
    };
    json!({ "metric": metric.name(), "unit": metric.unit(), "points": points })
}

fn points<T: Copy + Into<Value>>(data: &MetricData<T>) -> Vec<Value> {
    let number = |attributes, value: T| json!({ "attributes": attributes, "value": value.into() });
    let histogram = |attributes, count: u64, sum: T| json!({ "attributes": attributes, "count": count, "sum": sum.into() });
    match data {
        MetricData::Gauge(data) => {
            data.data_points().map(|point| number(attributes(point.attributes()), point.value())).collect()
        }
        MetricData::Sum(data) => {
            data.data_points().map(|point| number(attributes(point.attributes()), point.value())).collect()
        }
        MetricData::Histogram(data) => data
            .data_points()
            .map(|point| histogram(attributes(point.attributes()), point.count(), point.sum()))
            .collect(),
        MetricData::ExponentialHistogram(data) => data
            .data_points()
            .map(|point| histogram(attributes(point.attributes()), point.count() as u64, point.sum()))
            .collect(),
    }
}

fn cumulative_point(point: &CumulativePoint) -> Value {
    let mut value = match &point.value {
        CumulativeValue::Counter(value) => json!({ "value": value }),
        CumulativeValue::Gauge(value) => {
            return json!({ "attributes": attributes(point.attributes.iter()), "value": value });
        }
        CumulativeValue::Classic(histogram) => json!({ "count": histogram.count, "sum": histogram.sum }),
        CumulativeValue::Exponential(histogram) => json!({ "count": histogram.count, "sum": histogram.sum }),
    };
    value["attributes"] = attributes(point.attributes.iter()).into();
    value["start"] = format!("{:.6}", point.start).into();
    value
}

fn attributes<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Map<String, Value> {
    attributes
        .map(|attribute| (attribute.key.to_string(), Value::from(attribute.value.as_str().into_owned())))
        .collect()
}

fn time(time: SystemTime) -> Option<String> {
    Timestamp::try_from(time).ok().map(|time| format!("{time:.6}"))
}
