//! Measurements of one figure.

use std::time::Duration;

/// What was measured, in ascending order. Never empty.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        if values.is_empty() {
            values.push(f64::NAN);
        }
        Self(values)
    }

    pub(crate) fn one(value: f64) -> Self {
        Self(vec![value])
    }

    pub(crate) fn millis(times: impl IntoIterator<Item = Duration>) -> Self {
        Self::new(times.into_iter().map(|time| time.as_secs_f64() * 1000.0).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn min(&self) -> f64 {
        self.percentile(0)
    }

    pub(crate) fn max(&self) -> f64 {
        self.percentile(100)
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The nearest value at which `percent` of all are not above.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent).div_ceil(100).max(1) - 1;
        self.0.get(rank).copied().unwrap_or(f64::NAN)
    }
}
