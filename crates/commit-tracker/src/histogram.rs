//! Durations as cumulative histograms: base-2 exponential as OpenTelemetry's data model has it, with classic buckets
//! beside it.
//!
//! Durations are kept in whole microseconds, so that the sum is exact: adding the same ones in any order, in any number of
//! processes, makes the same histogram.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::metrics::CLASSIC_BOUNDS;

/// The most buckets of an exponential histogram.
pub const MAX_SIZE: usize = 160;
/// The finest scale: a bucket's bounds differ by a factor of 2^(2^-20).
pub const MAX_SCALE: i8 = 20;

/// The number of classic buckets: one for each bound, and one for what is above.
pub const CLASSIC_BUCKETS: usize = CLASSIC_BOUNDS.len() + 1;

/// A duration that no histogram can hold.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} s is no duration: expected a number from 0 to 9e12")]
pub struct NoDuration(pub f64);

/// Durations that were observed since the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Histogram {
    count: u64,
    /// In microseconds.
    sum: u64,
    classic: [u32; CLASSIC_BUCKETS],
    zero: u64,
    exponential: Exponential,
}

/// The buckets of durations above zero: bucket *i* holds those above `base^i`, up to and with `base^(i+1)`, where `base`
/// is 2^(2^-scale).
#[derive(Clone, PartialEq, Eq)]
pub struct Exponential {
    scale: i8,
    offset: i32,
    /// From the first bucket that is not empty to the last one.
    counts: Vec<u32>,
}

impl Histogram {
    /// Adds a duration in seconds, to the nearest microsecond.
    ///
    /// # Errors
    /// It is negative, not finite, or longer than 285,000 years.
    pub fn add(&mut self, seconds: f64) -> Result<(), NoDuration> {
        let micros = micros(seconds)?;
        self.count += 1;
        self.sum = self.sum.saturating_add(micros);
        let value = seconds_of(micros);
        let classic = &mut self.classic[CLASSIC_BOUNDS.partition_point(|bound| *bound < value)];
        *classic = classic.saturating_add(1);
        if micros == 0 {
            self.zero += 1;
        } else {
            self.exponential.add(value);
        }
        Ok(())
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, in seconds.
    pub fn sum(&self) -> f64 {
        seconds_of(self.sum)
    }

    /// Their sum, exactly.
    pub fn sum_exactly(&self) -> Duration {
        Duration::from_micros(self.sum)
    }

    /// How many there are in each classic bucket alone (not cumulative); the last is above every bound.
    pub fn classic(&self) -> [u64; CLASSIC_BUCKETS] {
        self.classic.map(u64::from)
    }

    /// How many durations are zero, to the microsecond.
    pub fn zero_count(&self) -> u64 {
        self.zero
    }

    /// The exponential buckets of those above zero.
    pub fn exponential(&self) -> &Exponential {
        &self.exponential
    }

    /// Coarsens the exponential buckets until there are at most `size` of them.
    pub(crate) fn shrink(&mut self, size: usize) {
        self.exponential.fit(size.max(1));
    }
}

/// A histogram as it is written down: all of its numbers.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    count: u64,
    sum_us: u64,
    classic: [u32; CLASSIC_BUCKETS],
    zero: u64,
    scale: i8,
    offset: i32,
    buckets: Vec<u32>,
}

impl From<Histogram> for Parts {
    fn from(histogram: Histogram) -> Self {
        let Histogram { count, sum, classic, zero, exponential: Exponential { scale, offset, counts } } =
            histogram;
        Self { count, sum_us: sum, classic, zero, scale, offset, buckets: counts }
    }
}

impl TryFrom<Parts> for Histogram {
    type Error = String;

    /// Refuses numbers that do not belong together.
    fn try_from(parts: Parts) -> Result<Self, Self::Error> {
        let Parts { count, sum_us, classic, zero, scale, offset, buckets } = parts;
        if !(-10..=MAX_SCALE).contains(&scale) {
            return Err(format!("{scale} is no scale"));
        }
        if buckets.len() > MAX_SIZE || [buckets.first(), buckets.last()].contains(&Some(&0)) {
            return Err(format!(
                "there are at most {MAX_SIZE} buckets, and the first and the last are not empty"
            ));
        }
        let sum = |counts: &[u32]| counts.iter().copied().map(u64::from).sum::<u64>();
        if sum(&classic) != count || zero.checked_add(sum(&buckets)) != Some(count) {
            return Err(format!("the count is {count}, and the buckets hold others"));
        }
        let exponential = Exponential { scale, offset, counts: buckets };
        Ok(Self { count, sum: sum_us, classic, zero, exponential })
    }
}

/// The nearest whole number of microseconds.
fn micros(seconds: f64) -> Result<u64, NoDuration> {
    // Up to here a microsecond is told apart from the next one.
    if !(0.0..=9e12).contains(&seconds) {
        return Err(NoDuration(seconds));
    }
    let micros = Duration::try_from_secs_f64(seconds).map_err(|_| NoDuration(seconds))?.as_nanos();
    u64::try_from((micros + 500) / 1000).map_err(|_| NoDuration(seconds))
}

fn seconds_of(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

impl Default for Exponential {
    fn default() -> Self {
        Self { scale: MAX_SCALE, offset: 0, counts: Vec::new() }
    }
}

impl Exponential {
    /// The scale: the higher, the finer.
    pub fn scale(&self) -> i8 {
        self.scale
    }

    /// The index of the first bucket.
    pub fn offset(&self) -> i32 {
        self.offset
    }

    /// The counts of the buckets from [`Self::offset`] on; the first and the last are not empty.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// The bound below bucket `index`, in seconds: what is in it is above.
    pub fn lower_bound(&self, index: i32) -> f64 {
        bound(index, self.scale)
    }

    /// Adds a value above zero.
    fn add(&mut self, value: f64) {
        let mut index = index(value, self.scale);
        if self.counts.is_empty() {
            self.offset = index;
        }
        let (mut low, mut high) = (self.offset.min(index), self.last().max(index));
        let mut steps = 0;
        while span(low, high) > MAX_SIZE {
            (low, high, steps) = (low >> 1, high >> 1, steps + 1);
        }
        self.downscale(steps);
        index >>= steps;
        if low < self.offset {
            self.counts.splice(0..0, std::iter::repeat_n(0, span(low, self.offset) - 1));
            self.offset = low;
        }
        let place = span(self.offset, index) - 1;
        if place >= self.counts.len() {
            // No more than needed: most histograms stay small.
            self.counts.reserve_exact(place + 1 - self.counts.len());
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(1);
    }

    /// Coarsens until there are at most `size` buckets.
    fn fit(&mut self, size: usize) {
        let (mut low, mut high, mut steps) = (self.offset, self.last(), 0);
        while self.counts.len() > size && span(low, high) > size {
            (low, high, steps) = (low >> 1, high >> 1, steps + 1);
        }
        self.downscale(steps);
    }

    /// The index of the last bucket, or the offset where there is none.
    fn last(&self) -> i32 {
        let further = self.counts.len().saturating_sub(1);
        self.offset.saturating_add(i32::try_from(further).unwrap_or(i32::MAX))
    }

    /// Merges each 2^`steps` buckets into one: bucket *i* becomes part of bucket *i* / 2^`steps`, rounded down.
    fn downscale(&mut self, steps: u8) {
        if steps == 0 {
            return;
        }
        let offset = self.offset >> steps;
        let mut merged =
            vec![0_u32; if self.counts.is_empty() { 0 } else { span(offset, self.last() >> steps) }];
        for (index, count) in (self.offset..).zip(&self.counts) {
            let place = span(offset, index >> steps) - 1;
            merged[place] = merged[place].saturating_add(*count);
        }
        self.counts = merged;
        self.offset = offset;
        self.scale = self.scale.saturating_sub_unsigned(steps);
    }
}

/// How many buckets there are from `low` to `high`, both included; `low` must not be above `high`.
fn span(low: i32, high: i32) -> usize {
    usize::try_from(i64::from(high) - i64::from(low) + 1).unwrap_or(0)
}

/// The bound below bucket `index` at `scale`.
///
/// The quotient is exact, so the bounds of a coarser scale are, to the last bit, every second one of the finer scale:
/// merging buckets and sorting into coarser ones come to the same.
fn bound(index: i32, scale: i8) -> f64 {
    (f64::from(index) * f64::from(-scale).exp2()).exp2()
}

/// The bucket of a value above zero.
fn index(value: f64, scale: i8) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "a logarithm of a double at scale 20 is below 2^31")]
    let mut index = (value.log2() * f64::from(scale).exp2()).ceil() as i32 - 1;
    // The logarithm may be off by its last bit.
    while value <= bound(index, scale) {
        index -= 1;
    }
    while value > bound(index + 1, scale) {
        index += 1;
    }
    index
}

impl fmt::Debug for Exponential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scale {} from {}: {:?}", self.scale, self.offset, self.counts)
    }
}

#[cfg(test)]
mod tests;
