//! Where logs, traces and metrics go: the five telemetry modes.

use std::fmt;
use std::str::FromStr;

/// A telemetry mode, by the name that flags and settings give it.
///
/// The names and what they mean are those of grafana/flux-commit-tracker (`--telemetry-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TelemetryMode {
    /// Logs on standard output; nothing is pushed.
    #[default]
    StdoutLogs,
    /// Logs, traces and metrics on standard output.
    StdoutAll,
    /// Logs on standard output; logs, traces and metrics to a collector.
    StdoutLogsOtlp,
    /// Logs, traces and metrics on standard output and to a collector.
    StdoutAllOtlp,
    /// Logs, traces and metrics to a collector only.
    Otlp,
}

/// What one mode does with each signal.
struct Row {
    mode: TelemetryMode,
    name: &'static str,
    /// Log lines are written to the process's output.
    stdout_logs: bool,
    /// Traces and metrics are written to the process's output.
    stdout_signals: bool,
    /// All three go to a collector.
    otlp: bool,
}

/// The modes, one a line.
const MODES: [Row; 5] = [
    Row::new(TelemetryMode::StdoutLogs, "stdout-logs", true, false, false),
    Row::new(TelemetryMode::StdoutAll, "stdout-all", true, true, false),
    Row::new(TelemetryMode::StdoutLogsOtlp, "stdout-logs+otlp", true, false, true),
    Row::new(TelemetryMode::StdoutAllOtlp, "stdout-all+otlp", true, true, true),
    Row::new(TelemetryMode::Otlp, "otlp", false, false, true),
];

/// The modes, in the order of the table.
pub(crate) const ALL: [TelemetryMode; 5] =
    [MODES[0].mode, MODES[1].mode, MODES[2].mode, MODES[3].mode, MODES[4].mode];

impl Row {
    const fn new(
        mode: TelemetryMode,
        name: &'static str,
        stdout_logs: bool,
        stdout_signals: bool,
        otlp: bool,
    ) -> Self {
        Self { mode, name, stdout_logs, stdout_signals, otlp }
    }
}

impl TelemetryMode {
    /// The names of all modes, as flags and settings take them.
    pub const NAMES: [&'static str; 5] =
        [MODES[0].name, MODES[1].name, MODES[2].name, MODES[3].name, MODES[4].name];

    fn row(self) -> &'static Row {
        // The table has a line for each mode, which a test holds; the first is the default.
        MODES.iter().find(|row| row.mode == self).unwrap_or(&MODES[0])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether log lines are written to the process's output.
    pub fn stdout_logs(self) -> bool {
        self.row().stdout_logs
    }

    /// Whether traces and metrics are written to the process's output.
    pub fn stdout_signals(self) -> bool {
        self.row().stdout_signals
    }

    /// Whether logs, traces and metrics go to a collector.
    pub fn otlp(self) -> bool {
        self.row().otlp
    }
}

impl fmt::Display for TelemetryMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A telemetry mode's name was not one of the five.
#[derive(Debug, thiserror::Error)]
#[error("unknown telemetry mode {0:?}, expected one of: {names}", names = TelemetryMode::NAMES.join(", "))]
pub struct ParseTelemetryModeError(String);

impl FromStr for TelemetryMode {
    type Err = ParseTelemetryModeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        MODES
            .iter()
            .find(|row| row.name == text)
            .map(|row| row.mode)
            .ok_or_else(|| ParseTelemetryModeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_has_one_line_in_the_table() {
        use TelemetryMode::{Otlp, StdoutAll, StdoutAllOtlp, StdoutLogs, StdoutLogsOtlp};
        for mode in [StdoutLogs, StdoutAll, StdoutLogsOtlp, StdoutAllOtlp, Otlp] {
            assert_eq!(MODES.iter().filter(|row| row.mode == mode).count(), 1, "{mode}");
            assert_eq!(mode.name().parse::<TelemetryMode>().unwrap(), mode);
        }
    }

    #[test]
    fn a_name_says_where_signals_go() {
        for row in &MODES {
            assert_eq!(row.otlp, row.name.contains("otlp"), "{}", row.name);
            assert_eq!(row.stdout_logs, row.name.contains("stdout"), "{}", row.name);
            assert_eq!(row.stdout_signals, row.name.contains("stdout-all"), "{}", row.name);
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = "stdout".parse::<TelemetryMode>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown telemetry mode \"stdout\", expected one of: stdout-logs, stdout-all, stdout-logs+otlp, \
             stdout-all+otlp, otlp"
        );
    }
}
