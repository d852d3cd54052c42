//! Cumulative series as OTLP has them.

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram,
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, exemplar, metric,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::Attributes;

use super::chunks::Part;
use crate::{CumulativePoint, CumulativeValue, CumulativeView, Family, FamilyKind};

/// The request that carries these parts of a view, as it was at `time`.
pub(super) fn request(
    resource: Vec<KeyValue>,
    view: &dyn CumulativeView,
    time: Timestamp,
    parts: Vec<Part>,
) -> ExportMetricsServiceRequest {
    let families = view.families();
    let metrics = parts
        .into_iter()
        .filter_map(|(family, points)| Some(metric(families.get(family)?, nanoseconds(time), points)));
    let scope = InstrumentationScope { name: view.scope().to_owned(), ..Default::default() };
    let scope_metrics =
        vec![ScopeMetrics { scope: Some(scope), metrics: metrics.collect(), ..Default::default() }];
    let resource = Resource { attributes: Attributes::from(resource).0, ..Default::default() };
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource), scope_metrics, ..Default::default() }];
    ExportMetricsServiceRequest { resource_metrics }
}

fn metric(family: &Family, time: u64, points: Vec<CumulativePoint>) -> Metric {
    let cumulative = AggregationTemporality::Cumulative.into();
    let data = match family.kind {
        FamilyKind::Counter => metric::Data::Sum(Sum {
            data_points: points.into_iter().filter_map(|point| number(point, time)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        FamilyKind::Gauge => metric::Data::Gauge(Gauge {
            data_points: points.into_iter().filter_map(|point| number(point, time)).collect(),
        }),
        FamilyKind::Histogram(crate::Buckets::Classic) => metric::Data::Histogram(Histogram {
            data_points: points.into_iter().filter_map(|point| classic(point, time)).collect(),
            aggregation_temporality: cumulative,
        }),
        FamilyKind::Histogram(crate::Buckets::Exponential) => {
            metric::Data::ExponentialHistogram(ExponentialHistogram {
                data_points: points.into_iter().filter_map(|point| exponential(point, time)).collect(),
                aggregation_temporality: cumulative,
            })
        }
    };
    Metric {
        name: family.name.clone().into_owned(),
        description: family.description.clone().into_owned(),
        unit: family.unit.to_owned(),
        data: Some(data),
        ..Default::default()
    }
}

fn number(point: CumulativePoint, time: u64) -> Option<NumberDataPoint> {
    let (start, value) = match point.value {
        CumulativeValue::Counter(count) => {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            (nanoseconds(point.start), number_data_point::Value::AsInt(count))
        }
        CumulativeValue::Gauge(value) => (0, number_data_point::Value::AsDouble(value)),
        CumulativeValue::Classic(_) | CumulativeValue::Exponential(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: Attributes::from(point.attributes).0,
        start_time_unix_nano: start,
        time_unix_nano: time,
        value: Some(value),
        ..Default::default()
    })
}

fn classic(point: CumulativePoint, time: u64) -> Option<HistogramDataPoint> {
    let CumulativeValue::Classic(histogram) = point.value else { return None };
    Some(HistogramDataPoint {
        exemplars: point.exemplar.iter().map(exemplar).collect(),
        attributes: Attributes::from(point.attributes).0,
        start_time_unix_nano: nanoseconds(point.start),
        time_unix_nano: time,
        count: histogram.count,
        sum: Some(histogram.sum),
        bucket_counts: histogram.buckets,
        explicit_bounds: histogram.bounds.into_owned(),
        ..Default::default()
    })
}

fn exponential(point: CumulativePoint, time: u64) -> Option<ExponentialHistogramDataPoint> {
    let CumulativeValue::Exponential(histogram) = point.value else { return None };
    Some(ExponentialHistogramDataPoint {
        exemplars: point.exemplar.iter().map(exemplar).collect(),
        attributes: Attributes::from(point.attributes).0,
        start_time_unix_nano: nanoseconds(point.start),
        time_unix_nano: time,
        count: histogram.count,
        sum: Some(histogram.sum),
        scale: histogram.scale,
        zero_count: histogram.zero_count,
        positive: Some(Buckets { offset: histogram.offset, bucket_counts: histogram.buckets }),
        ..Default::default()
    })
}

fn exemplar(exemplar: &crate::Exemplar) -> Exemplar {
    Exemplar {
        filtered_attributes: Vec::new(),
        time_unix_nano: nanoseconds(exemplar.time),
        span_id: exemplar.span_id.to_bytes().into(),
        trace_id: exemplar.trace_id.to_bytes().into(),
        value: Some(exemplar::Value::AsDouble(exemplar.value)),
    }
}

/// Nanoseconds since 1970; nothing of ours is older.
fn nanoseconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_nanosecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exemplar_leads_from_a_histogram_to_its_trace() {
        let (trace_id, span_id) = (0xabc_u128.into(), 0x12_u64.into());
        let time = Timestamp::constant(1_772_000_000, 0);
        let exemplar = Some(crate::Exemplar { value: 74.2, time, trace_id, span_id });
        let point = |value| CumulativePoint { attributes: Vec::new(), start: time, value, exemplar };
        let classic =
            classic(point(CumulativeValue::Classic(crate::ClassicHistogram::default())), 0).unwrap();
        let exponential = CumulativeValue::Exponential(crate::ExponentialHistogram::default());
        let exponential = super::exponential(point(exponential), 0).unwrap();
        for exemplar in [&classic.exemplars[0], &exponential.exemplars[0]] {
            assert_eq!(exemplar.value, Some(exemplar::Value::AsDouble(74.2)));
            assert_eq!(
                (&exemplar.trace_id[..], &exemplar.span_id[..]),
                (&trace_id.to_bytes()[..], &span_id.to_bytes()[..])
            );
            assert_eq!(exemplar.time_unix_nano, 1_772_000_000_000_000_000);
        }
    }
}
