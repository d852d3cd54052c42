use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Result<i64, ParseDurationError> {
    text.parse::<GoDuration>().map(GoDuration::as_nanos)
}

#[test]
fn durations_are_read_as_go_reads_them() {
    for (text, nanos) in [
        ("0", 0),
        ("-0", 0),
        ("5s", 5_000_000_000),
        ("1478s", 1_478_000_000_000),
        ("-5s", -5_000_000_000),
        ("+5s", 5_000_000_000),
        ("5.0s", 5_000_000_000),
        ("5.6s", 5_600_000_000),
        ("5.s", 5_000_000_000),
        (".5s", 500_000_000),
        ("1.0040s", 1_004_000_000),
        ("100.00100s", 100_001_000_000),
        ("10ns", 10),
        ("11us", 11_000),
        ("12\u{b5}s", 12_000),
        ("12\u{3bc}s", 12_000),
        ("13ms", 13_000_000),
        ("14s", 14_000_000_000),
        ("15m", 900_000_000_000),
        ("16h", 57_600_000_000_000),
        ("3h30m", 12_600_000_000_000),
        ("-1.5h", -5_400_000_000_000),
        ("39h9m14.425s", 140_954_425_000_000),
        ("0.3333333333333333333h", 1_200_000_000_000 - 1),
        ("9223372036854775807ns", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
    ] {
        assert_eq!(parse(text), Ok(nanos), "{text}");
    }
}

#[test]
fn what_go_refuses_is_refused() {
    for text in [
        "",
        "3",
        "-",
        "s",
        ".",
        "-.",
        ".s",
        "+.s",
        "1d",
        "1 s",
        " 1s",
        "--5s",
        "1M",
        "3000000h",
        "9223372036854775808ns",
        "1e3s",
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().contains("duration"), "{text:?}: {error}");
    }
}

#[test]
fn durations_are_printed_as_go_prints_them() {
    for (nanos, text) in [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1\u{b5}s"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (245_000_000_000, "4m5s"),
        (5_400_000_000_000, "1h30m0s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (-900_000_000_000, "-15m0s"),
        (i64::MAX, "2562047h47m16.854775807s"),
        (i64::MIN, "-2562047h47m16.854775808s"),
    ] {
        assert_eq!(GoDuration::from_nanos(nanos).to_string(), text);
    }
}

proptest! {
    #[test]
    fn every_duration_reads_back_from_its_text(nanos: i64) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[-+]?([0-9.]{0,25}(ns|us|ms|s|m|h|d)?){0,4}") {
        if let Ok(duration) = text.parse::<GoDuration>() {
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
