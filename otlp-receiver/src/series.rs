//! Metrics as series: what tells one from another, and what each said last.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
    metric, number_data_point,
};

use crate::Attributes;
use crate::decode::attributes;

/// What makes a series one: a point that differs in any of these belongs to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Series {
    /// Who sends it.
    pub resource: Attributes,
    /// The instrumentation scope's name.
    pub scope: String,
    /// The metric's name.
    pub name: String,
    /// The point's attributes.
    pub attributes: Attributes,
    /// When it began, nanoseconds since 1970; 0 where that is not said.
    pub start: u64,
}

/// What a series said at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When, nanoseconds since 1970.
    pub time: u64,
    /// The metric's unit.
    pub unit: String,
    /// The metric's description.
    pub description: String,
    /// What its values mean over time; a gauge has none.
    pub temporality: Temporality,
    /// The value.
    pub value: Value,
}

/// What the values of a series mean over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// Each is all since the start.
    Cumulative,
    /// Each is what came since the one before.
    Delta,
    /// Each stands for itself.
    None,
}

/// A value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of a gauge.
    Gauge(f64),
    /// Of a counter (or of a sum that can go down).
    Sum {
        /// The sum.
        value: f64,
        /// Whether it only grows.
        monotonic: bool,
    },
    /// Of a histogram with buckets between bounds.
    Histogram {
        /// How many observations.
        count: u64,
        /// Their sum.
        sum: f64,
        /// The upper bounds of all buckets but the last.
        bounds: Vec<f64>,
        /// The count of each bucket.
        buckets: Vec<u64>,
    },
    /// Of a histogram with exponential buckets.
    Exponential {
        /// How many observations.
        count: u64,
        /// Their sum.
        sum: f64,
        /// The smallest value; none where it is not kept.
        min: Option<f64>,
        /// The largest value; none where it is not kept.
        max: Option<f64>,
        /// Bucket `i` ends at `2^((i + 1) / 2^scale)`.
        scale: i32,
        /// How many were zero.
        zero_count: u64,
        /// The index of the first positive bucket.
        offset: i32,
        /// The count of each positive bucket.
        buckets: Vec<u64>,
    },
}

impl Value {
    /// How many observations a histogram holds; none for what is no histogram.
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Histogram { count, .. } | Self::Exponential { count, .. } => Some(*count),
            Self::Gauge(_) | Self::Sum { .. } => None,
        }
    }

    /// The sum of a histogram, or the value of a counter or gauge.
    pub fn total(&self) -> f64 {
        match self {
            Self::Histogram { sum, .. } | Self::Exponential { sum, .. } => *sum,
            Self::Gauge(value) | Self::Sum { value, .. } => *value,
        }
    }

    /// What contradicts that this follows `before` in a cumulative series.
    pub(crate) fn went_down_from(&self, before: &Self) -> Option<String> {
        let went_down = match (before, self) {
            (Self::Sum { value: before, monotonic: true }, Self::Sum { value: now, .. }) => now < before,
            _ => before.count() > self.count(),
        };
        went_down.then(|| format!("{self:?} after {before:?}"))
    }
}

/// Each point of a metric, with its attributes and its start.
pub(crate) fn points(metric: Metric) -> Vec<(Attributes, u64, Sample)> {
    let (unit, description) = (metric.unit, metric.description);
    let with = |temporality| {
        let (unit, description) = (unit.clone(), description.clone());
        move |(time, value)| Sample {
            time,
            unit: unit.clone(),
            description: description.clone(),
            temporality,
            value,
        }
    };
    match metric.data {
        Some(metric::Data::Gauge(gauge)) => {
            let sample = with(Temporality::None);
            let point = |point: NumberDataPoint| {
                let value = Value::Gauge(number(point.value));
                let sample = sample((point.time_unix_nano, value));
                (attributes(point.attributes), point.start_time_unix_nano, sample)
            };
            gauge.data_points.into_iter().map(point).collect()
        }
        Some(metric::Data::Sum(sum)) => {
            let monotonic = sum.is_monotonic;
            let sample = with(temporality(sum.aggregation_temporality()));
            let point = |point: NumberDataPoint| {
                let value = Value::Sum { value: number(point.value), monotonic };
                let sample = sample((point.time_unix_nano, value));
                (attributes(point.attributes), point.start_time_unix_nano, sample)
            };
            sum.data_points.into_iter().map(point).collect()
        }
        Some(metric::Data::Histogram(histogram)) => {
            let sample = with(temporality(histogram.aggregation_temporality()));
            let point = |point: HistogramDataPoint| {
                let value = Value::Histogram {
                    count: point.count,
                    sum: point.sum.unwrap_or_default(),
                    bounds: point.explicit_bounds,
                    buckets: point.bucket_counts,
                };
                let sample = sample((point.time_unix_nano, value));
                (attributes(point.attributes), point.start_time_unix_nano, sample)
            };
            histogram.data_points.into_iter().map(point).collect()
        }
        Some(metric::Data::ExponentialHistogram(histogram)) => {
            let sample = with(temporality(histogram.aggregation_temporality()));
            let point = |point: ExponentialHistogramDataPoint| {
                let Buckets { offset, bucket_counts } = point.positive.unwrap_or_default();
                let value = Value::Exponential {
                    count: point.count,
                    sum: point.sum.unwrap_or_default(),
                    min: point.min,
                    max: point.max,
                    scale: point.scale,
                    zero_count: point.zero_count,
                    offset,
                    buckets: bucket_counts,
                };
                let sample = sample((point.time_unix_nano, value));
                (attributes(point.attributes), point.start_time_unix_nano, sample)
            };
            histogram.data_points.into_iter().map(point).collect()
        }
        Some(metric::Data::Summary(_)) | None => Vec::new(),
    }
}

fn number(value: Option<number_data_point::Value>) -> f64 {
    match value {
        Some(number_data_point::Value::AsDouble(value)) => value,
        Some(number_data_point::Value::AsInt(value)) => value as f64,
        None => f64::NAN,
    }
}

fn temporality(temporality: AggregationTemporality) -> Temporality {
    match temporality {
        AggregationTemporality::Cumulative => Temporality::Cumulative,
        AggregationTemporality::Delta => Temporality::Delta,
        AggregationTemporality::Unspecified => Temporality::None,
    }
}
