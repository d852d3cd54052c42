//! Durations as cumulative histograms: base-2 exponential as OpenTelemetry's data model has it, with classic buckets
//! beside it.
//!
//! Durations are kept in whole microseconds, so that the sum is exact: adding the same ones in any order, in any number of
//! processes, makes the same histogram.

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
///
/// Those above zero are in exponential buckets: bucket *i* holds those above `base^i`, up to and with `base^(i+1)`, where
/// `base` is 2^(2^-scale).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    count: u64,
    #[serde(rename = "sum_us")]
    sum: u64,
    classic: [u32; CLASSIC_BUCKETS],
    zero: u64,
    scale: i8,
    offset: i32,
    /// From the first bucket that is not empty to the last one.
    buckets: Vec<u32>,
}

impl Default for Histogram {
    fn default() -> Self {
        let classic = [0; CLASSIC_BUCKETS];
        Self { count: 0, sum: 0, classic, zero: 0, scale: MAX_SCALE, offset: 0, buckets: Vec::new() }
    }
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
            self.add_to_buckets(value);
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

    /// How many there are in each classic bucket alone (not cumulative); the last is above every bound.
    pub fn classic(&self) -> [u64; CLASSIC_BUCKETS] {
        self.classic.map(u64::from)
    }

    /// How many durations are zero, to the microsecond.
    pub fn zero_count(&self) -> u64 {
        self.zero
    }

    /// The scale of the exponential buckets: the higher, the finer.
    pub fn scale(&self) -> i8 {
        self.scale
    }

    /// The index of the first exponential bucket.
    pub fn offset(&self) -> i32 {
        self.offset
    }

    /// The counts of the exponential buckets from [`Self::offset`] on; the first and the last are not empty.
    pub fn buckets(&self) -> &[u32] {
        &self.buckets
    }

    /// Why these numbers do not belong together, where somebody else has written them.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(-10..=MAX_SCALE).contains(&self.scale) {
            return Err(format!("{} is no scale", self.scale));
        }
        if self.buckets.len() > MAX_SIZE || [self.buckets.first(), self.buckets.last()].contains(&Some(&0)) {
            return Err(format!(
                "there are at most {MAX_SIZE} buckets, and the first and the last are not empty"
            ));
        }
        let sum = |counts: &[u32]| counts.iter().copied().map(u64::from).sum::<u64>();
        if sum(&self.classic) != self.count || self.zero.checked_add(sum(&self.buckets)) != Some(self.count) {
            return Err(format!("the count is {}, and the buckets hold others", self.count));
        }
        Ok(())
    }

    /// Adds a value above zero.
    fn add_to_buckets(&mut self, value: f64) {
        let mut index = index(value, self.scale);
        if self.buckets.is_empty() {
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
            self.buckets.splice(0..0, std::iter::repeat_n(0, span(low, self.offset) - 1));
            self.offset = low;
        }
        let place = span(self.offset, index) - 1;
        if place >= self.buckets.len() {
            // No more than needed: most histograms stay small.
            self.buckets.reserve_exact(place + 1 - self.buckets.len());
            self.buckets.resize(place + 1, 0);
        }
        self.buckets[place] = self.buckets[place].saturating_add(1);
    }

    /// The index of the last bucket, or the offset where there is none.
    fn last(&self) -> i32 {
        let further = self.buckets.len().saturating_sub(1);
        self.offset.saturating_add(i32::try_from(further).unwrap_or(i32::MAX))
    }

    /// Merges each 2^`steps` buckets into one: bucket *i* becomes part of bucket *i* / 2^`steps`, rounded down.
    fn downscale(&mut self, steps: u8) {
        if steps == 0 {
            return;
        }
        let offset = self.offset >> steps;
        let mut merged =
            vec![0_u32; if self.buckets.is_empty() { 0 } else { span(offset, self.last() >> steps) }];
        for (index, count) in (self.offset..).zip(&self.buckets) {
            let place = span(offset, index >> steps) - 1;
            merged[place] = merged[place].saturating_add(*count);
        }
        self.buckets = merged;
        self.offset = offset;
        self.scale = self.scale.saturating_sub_unsigned(steps);
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

#[cfg(test)]
mod tests;
