//! What a collector was sent so far.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

use crate::series::{self, Temporality};
use crate::{Attributes, Log, Sample, Series, Signal, Span, decode};

/// Everything that was taken so far; of metrics, what each series said last.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The spans, in the order they came.
    pub spans: Vec<Span>,
    /// The log records, in the order they came.
    pub logs: Vec<Log>,
    /// What each distinct series said last.
    pub series: BTreeMap<Series, Sample>,
    /// Every point of every series, in the order they came.
    pub points: Vec<(Series, Sample)>,
    /// The requests that brought metrics, in the order they came.
    pub metric_requests: Vec<MetricRequest>,
    /// The headers of every request whose values are text, in the order they came.
    pub headers: Vec<(Signal, Headers)>,
    /// What no cumulative series may do: values that went down under one start.
    pub contradictions: Vec<String>,
}

/// Headers by name.
pub type Headers = BTreeMap<String, String>;

/// A request that brought metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricRequest {
    /// How many points it carried.
    pub points: usize,
    /// What was sent beside it: the headers whose values are text.
    pub headers: Headers,
    /// Who sent it: each resource's attributes.
    pub resources: Vec<Attributes>,
}

impl Received {
    /// The series of this metric, with what each said last.
    pub fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a Series, &'a Sample)> {
        self.series.iter().filter(move |(series, _)| series.name == name)
    }

    /// The observations of this histogram over all its series, each with what it said last.
    pub fn count(&self, name: &str) -> u64 {
        self.of(name).filter_map(|(_, sample)| sample.value.count()).sum()
    }

    /// The sums of this histogram (or the values of this counter or gauge) over all its series.
    pub fn total(&self, name: &str) -> f64 {
        self.of(name).map(|(_, sample)| sample.value.total()).sum()
    }

    /// The spans of this name.
    pub fn spans_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Span> {
        self.spans.iter().filter(move |span| span.name == name)
    }

    /// The log records that say this.
    pub fn logs_of<'a>(&'a self, body: &'a str) -> impl Iterator<Item = &'a Log> {
        self.logs.iter().filter(move |log| log.body == body)
    }

    pub(crate) fn take_traces(&mut self, request: ExportTraceServiceRequest) {
        for part in request.resource_spans {
            let resource = decode::resource(part.resource);
            for scope in part.scope_spans {
                let name = scope.scope.unwrap_or_default().name;
                self.spans.extend(scope.spans.into_iter().map(|span| decode::span(&resource, &name, span)));
            }
        }
    }

    pub(crate) fn take_logs(&mut self, request: ExportLogsServiceRequest) {
        for part in request.resource_logs {
            let resource = decode::resource(part.resource);
            for scope in part.scope_logs {
                let name = scope.scope.unwrap_or_default().name;
                self.logs.extend(scope.log_records.into_iter().map(|log| decode::log(&resource, &name, log)));
            }
        }
    }

    pub(crate) fn take_metrics(&mut self, request: ExportMetricsServiceRequest, headers: Headers) {
        let mut taken = MetricRequest { points: 0, headers, resources: Vec::new() };
        for part in request.resource_metrics {
            let resource = decode::resource(part.resource);
            for scope in part.scope_metrics {
                let scope_name = scope.scope.unwrap_or_default().name;
                for metric in scope.metrics {
                    let name = metric.name.clone();
                    for (attributes, start, sample) in series::points(metric) {
                        taken.points += 1;
                        let series = Series {
                            resource: resource.clone(),
                            scope: scope_name.clone(),
                            name: name.clone(),
                            attributes,
                            start,
                        };
                        self.take_sample(series, sample);
                    }
                }
            }
            taken.resources.push(resource);
        }
        self.metric_requests.push(taken);
    }

    fn take_sample(&mut self, series: Series, sample: Sample) {
        self.points.push((series.clone(), sample.clone()));
        if let Some(before) = self.series.get(&series) {
            if sample.temporality == Temporality::Cumulative
                && let Some(what) = sample.value.went_down_from(&before.value)
            {
                self.contradictions.push(format!("{} {:?}: {what}", series.name, series.attributes));
            }
            // What was sent earlier and came later says nothing new.
            if before.time > sample.time {
                return;
            }
        }
        self.series.insert(series, sample);
    }
}
