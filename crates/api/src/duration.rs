//! Durations as Go writes them.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A signed duration in nanoseconds that is read and printed exactly as Go's `time.Duration`.
///
/// `1h30m`, `1.5h`, `-2s`, `0` and `1m0.5s` are read; a unit is needed except for zero, and there is no unit
/// longer than an hour. Printing gives the largest unit first and keeps the zeros in between: `1h30m0s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GoDuration(i64);

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Neither zero nor numbers with units.
    #[error("invalid duration {0:?}: expected numbers with units such as 300ms, 20s or 1h30m")]
    Invalid(String),
    /// A number without a unit.
    #[error("missing unit in duration {0:?}: expected one of ns, us, ms, s, m, h")]
    MissingUnit(String),
    /// A unit that Go does not know.
    #[error("unknown unit {unit:?} in duration {text:?}: expected one of ns, us, ms, s, m, h")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unit.
        unit: String,
    },
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// Magnitude of the most negative duration.
const LIMIT: u64 = 1 << 63;

impl GoDuration {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// A duration of some nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A duration of some milliseconds; the longest one if that is too long.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A duration of some seconds; the longest one if that is too long.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// The nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The same as a standard duration, which has no sign; `None` below zero.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl From<Duration> for GoDuration {
    /// The longest duration if the given one is too long (292 years).
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    /// Go: `time.ParseDuration`, overflow included.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseDurationError::Invalid(text.to_owned());
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, after) = leading_digits(rest);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => leading_digits(after),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(invalid());
            }
            let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
            let (unit, after) = after.split_at(end);
            if unit.is_empty() {
                return Err(ParseDurationError::MissingUnit(text.to_owned()));
            }
            let unit = unit_nanos(unit).ok_or_else(|| ParseDurationError::UnknownUnit {
                text: text.to_owned(),
                unit: unit.to_owned(),
            })?;
            total = term(whole, fraction, unit)
                .and_then(|term| total.checked_add(term))
                .filter(|total| *total <= LIMIT)
                .ok_or_else(invalid)?;
            rest = after;
        }
        if negative {
            return Ok(Self(0_i64.checked_sub_unsigned(total).ok_or_else(invalid)?));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter look alike; Go reads both.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// Nanoseconds of one number with its unit; `None` when that is too long.
fn term(whole: &str, fraction: &str, unit: u64) -> Option<u64> {
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanos = whole.checked_mul(unit)?;
    // Digits beyond the eighteenth are below a nanosecond, even of an hour.
    let fraction = &fraction[..fraction.len().min(18)];
    if fraction.is_empty() {
        return Some(nanos);
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = fraction.parse::<u128>().ok()? * u128::from(unit) / scale;
    nanos.checked_add(u64::try_from(part).ok()?)
}

impl fmt::Display for GoDuration {
    /// Go: `time.Duration.String`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if nanos == 0 {
            return f.write_str("0s");
        }
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            ..MICROSECOND => return write!(f, "{nanos}ns"),
            MICROSECOND..MILLISECOND => return write!(f, "{}\u{b5}s", decimal(nanos, MICROSECOND)),
            MILLISECOND..SECOND => return write!(f, "{}ms", decimal(nanos, MILLISECOND)),
            _ => {}
        }
        if nanos >= HOUR {
            write!(f, "{}h", nanos / HOUR)?;
        }
        if nanos >= MINUTE {
            write!(f, "{}m", nanos % HOUR / MINUTE)?;
        }
        write!(f, "{}s", decimal(nanos % MINUTE, SECOND))
    }
}

/// `nanos` in units of `unit`, without zeros at the end.
fn decimal(nanos: u64, unit: u64) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    format!("{whole}.{}", format!("{rest:0width$}").trim_end_matches('0'))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "GoDuration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": 64,
            "pattern": r"^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
        })
    }
}

#[cfg(test)]
mod tests;
