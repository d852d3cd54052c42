use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::given::histogram;

/// How many values are above `low` and not above `high`.
fn between(micros: &[u64], low: f64, high: f64) -> u64 {
    let seconds = micros.iter().map(|micros| seconds_of(*micros));
    seconds.filter(|seconds| *seconds > low && *seconds <= high).count().try_into().unwrap()
}

/// The finest scale at which all values fit into the buckets.
fn finest_scale(micros: &[u64]) -> i8 {
    let above = || micros.iter().filter(|micros| **micros > 0);
    let (Some(least), Some(most)) = (above().min(), above().max()) else { return MAX_SCALE };
    let [least, most] = [least, most].map(|micros| seconds_of(*micros));
    let fits = |scale: &i8| span(index(least, *scale), index(most, *scale)) <= MAX_SIZE;
    (-10..=MAX_SCALE).rev().find(fits).unwrap()
}

fn of(values: &[f64]) -> Histogram {
    histogram(values.iter().copied())
}

fn durations() -> impl Strategy<Value = Vec<f64>> {
    let duration = prop_oneof![
        8 => 0.0..3600.0_f64,
        2 => (0..4000_u32).prop_map(f64::from),
        1 => (-20..40_i32).prop_map(|exponent| f64::from(exponent).exp2()),
        1 => 0.0..1e9_f64,
        1 => Just(0.0),
        1 => proptest::sample::select(&CLASSIC_BOUNDS[..]),
    ];
    vec(duration, 0..300)
}

proptest! {
    #[test]
    fn buckets_hold_exactly_the_values_between_their_bounds(values in durations()) {
        let histogram = of(&values);
        let all: Vec<u64> = values.iter().map(|value| micros(*value).unwrap()).collect();
        prop_assert_eq!((histogram.count(), histogram.sum), (all.len() as u64, all.iter().sum()));
        prop_assert_eq!(histogram.zero_count(), between(&all, -1.0, 0.0));
        prop_assert_eq!((histogram.scale(), histogram.check()), (finest_scale(&all), Ok(())));
        for (index, count) in (histogram.offset()..).zip(histogram.buckets()) {
            let (low, high) = (bound(index, histogram.scale()), bound(index + 1, histogram.scale()));
            prop_assert_eq!(u64::from(*count), between(&all, low, high), "above {}, up to {}", low, high);
        }
        let mut low = -1.0;
        for (count, high) in histogram.classic().iter().zip(CLASSIC_BOUNDS.into_iter().chain([f64::INFINITY])) {
            prop_assert_eq!(*count, between(&all, low, high), "above {}, up to {}", low, high);
            low = high;
        }
    }

    #[test]
    fn the_order_of_adding_makes_no_difference(values in durations(), seed in any::<u64>()) {
        let mut other = values.clone();
        other.sort_by_key(|value| value.to_bits().wrapping_mul(seed | 1).rotate_left(17));
        prop_assert_eq!(of(&values), of(&other));
    }
}

#[test]
fn what_is_no_duration_is_refused_and_changes_nothing() {
    let mut histogram = of(&[1.0]);
    for value in [-0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e13] {
        assert!(histogram.add(value).is_err(), "{value}");
    }
    assert_eq!(histogram, of(&[1.0]));
}
