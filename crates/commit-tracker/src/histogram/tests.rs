use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A histogram as anybody would write it who has room for every value.
struct Naive {
    micros: Vec<u64>,
}

impl Naive {
    fn of(values: &[f64]) -> Self {
        Self { micros: values.iter().map(|value| micros(*value).unwrap()).collect() }
    }

    /// How many values are above `low` and not above `high`.
    fn between(&self, low: f64, high: f64) -> usize {
        self.micros
            .iter()
            .filter(|micros| (low..=high).contains(&seconds_of(**micros)) && seconds_of(**micros) > low)
            .count()
    }

    /// The finest scale at which all values fit into the buckets.
    fn scale(&self) -> i8 {
        let above: Vec<f64> = self.micros.iter().filter(|n| **n > 0).map(|n| seconds_of(*n)).collect();
        let least = above.iter().copied().fold(f64::INFINITY, f64::min);
        let most = above.iter().copied().fold(0.0, f64::max);
        let fits = |scale: &i8| span(index(least, *scale), index(most, *scale)) <= MAX_SIZE;
        if above.is_empty() { MAX_SCALE } else { (-10..=MAX_SCALE).rev().find(fits).unwrap() }
    }
}

fn of(values: &[f64]) -> Histogram {
    let mut histogram = Histogram::default();
    for value in values {
        histogram.add(*value).unwrap();
    }
    histogram
}

fn durations() -> impl Strategy<Value = Vec<f64>> {
    let duration = prop_oneof![
        8 => 0.0..3600.0_f64,
        2 => (0..4000_u32).prop_map(f64::from),
        1 => (-20..40_i32).prop_map(|exponent| f64::from(exponent).exp2()),
        1 => 0.0..1e9_f64,
        1 => Just(0.0),
    ];
    vec(duration, 0..300)
}

/// Each bucket of `histogram` holds exactly the values that are between its bounds.
fn check(histogram: &Histogram, naive: &Naive) {
    assert_eq!(usize::try_from(histogram.count()).unwrap(), naive.micros.len());
    assert_eq!(histogram.sum, naive.micros.iter().sum::<u64>());
    let zeros = naive.micros.iter().filter(|micros| **micros == 0).count();
    assert_eq!(usize::try_from(histogram.zero_count()).unwrap(), zeros);
    assert!(histogram.buckets().len() <= MAX_SIZE && histogram.check().is_ok());
    for (index, count) in (histogram.offset()..).zip(histogram.buckets()) {
        let (low, high) = (bound(index, histogram.scale()), bound(index + 1, histogram.scale()));
        assert_eq!(usize::try_from(*count).unwrap(), naive.between(low, high), "above {low}, up to {high}");
    }
    let mut low = -1.0;
    for (count, high) in histogram.classic().iter().zip(CLASSIC_BOUNDS.into_iter().chain([f64::INFINITY])) {
        assert_eq!(usize::try_from(*count).unwrap(), naive.between(low, high), "above {low}, up to {high}");
        low = high;
    }
}

proptest! {
    #[test]
    fn buckets_hold_exactly_the_values_between_their_bounds(values in durations()) {
        let (histogram, naive) = (of(&values), Naive::of(&values));
        check(&histogram, &naive);
        prop_assert_eq!(histogram.scale(), naive.scale(), "the finest scale that fits");
    }

    #[test]
    fn the_order_of_adding_makes_no_difference(values in durations(), seed in any::<u64>()) {
        let mut other = values.clone();
        other.sort_by_key(|value| value.to_bits().wrapping_mul(seed | 1).rotate_left(17));
        prop_assert_eq!(of(&values), of(&other));
    }

    #[test]
    fn bounds_of_a_coarser_scale_are_every_second_one_of_the_finer(index in -2_000_000..2_000_000_i32, scale in -9..=MAX_SCALE) {
        prop_assert_eq!(bound(index, scale - 1).to_bits(), bound(index * 2, scale).to_bits());
    }
}

#[test]
fn a_power_of_two_is_the_upper_bound_of_its_bucket_at_every_scale() {
    for exponent in -20..40_i32 {
        for scale in 0..=MAX_SCALE {
            assert_eq!(
                index(f64::from(exponent).exp2(), scale),
                (exponent << scale) - 1,
                "2^{exponent} at {scale}"
            );
        }
    }
}

#[test]
fn one_value_is_kept_as_finely_as_can_be() {
    let histogram = of(&[100.0]);
    assert_eq!((histogram.scale(), histogram.buckets()), (MAX_SCALE, &[1][..]));
    let bound = |index| bound(index, MAX_SCALE);
    assert!(bound(histogram.offset()) < 100.0 && bound(histogram.offset() + 1) >= 100.0);
}

#[test]
fn a_bound_belongs_to_the_classic_bucket_below_it() {
    let histogram = of(&[15.0, 15.000_001, 1800.0, 1801.0]);
    assert_eq!(histogram.classic(), [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn what_is_no_duration_is_refused_and_changes_nothing() {
    let mut histogram = of(&[1.0]);
    for value in [-0.001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e13] {
        assert!(histogram.add(value).is_err(), "{value}");
    }
    assert_eq!(histogram, of(&[1.0]));
}
