//! A view in pieces that fit into one request each.

use std::sync::Arc;

use crate::{CumulativePoint, CumulativeValue, CumulativeView, FamilyKind};

/// The most that the points of one request may weigh, in bytes as encoded: some ten times as much is in memory meanwhile.
/// Collectors take 4 MiB unless told otherwise.
pub(super) const WEIGHT: usize = 1 << 18;

/// Points of one family, by its place in the view.
pub(in crate::export) type Part = (usize, Vec<CumulativePoint>);

/// The pieces of a view, each put together when it is asked for.
pub(super) struct Chunks {
    view: Arc<dyn CumulativeView>,
    family: usize,
    series: usize,
}

impl Chunks {
    pub(super) fn new(view: Arc<dyn CumulativeView>) -> Self {
        Self { view, family: 0, series: 0 }
    }
}

impl Iterator for Chunks {
    type Item = Vec<Part>;

    fn next(&mut self) -> Option<Vec<Part>> {
        let mut parts: Vec<Part> = Vec::new();
        let mut weight = 0;
        while let Some(family) = self.view.families().get(self.family) {
            if self.series >= self.view.series(self.family) {
                self.family += 1;
                self.series = 0;
                continue;
            }
            if weight >= WEIGHT {
                break;
            }
            let buckets = match family.kind {
                FamilyKind::Histogram(buckets) => buckets,
                FamilyKind::Counter | FamilyKind::Gauge => crate::Buckets::Classic,
            };
            let point = self.view.point(self.family, self.series, buckets);
            self.series += 1;
            let Some(point) = point else { continue };
            weight += heaviness(&point);
            match parts.last_mut() {
                Some((last, points)) if *last == self.family => points.push(point),
                _ => parts.push((self.family, vec![point])),
            }
        }
        (!parts.is_empty()).then_some(parts)
    }
}

/// What a point weighs at most, in bytes as encoded.
fn heaviness(point: &CumulativePoint) -> usize {
    let attributes: usize = point
        .attributes
        .iter()
        .map(|attribute| attribute.key.as_str().len() + attribute.value.as_str().len() + 16)
        .sum();
    let value = match &point.value {
        CumulativeValue::Counter(_) | CumulativeValue::Gauge(_) => 0,
        CumulativeValue::Classic(histogram) => (histogram.bounds.len() + histogram.buckets.len()) * 8,
        // At most ten bytes each; so many observations would take a while.
        CumulativeValue::Exponential(histogram) => histogram.buckets.len() * 10,
    };
    attributes + value + 64
}
