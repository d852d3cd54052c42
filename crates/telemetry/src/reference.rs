//! The reference page of telemetry, with the table of modes from the code.

use std::fmt::Write as _;

use crate::TelemetryMode;
use crate::mode::ALL;

/// `docs/reference/telemetry.md`.
pub fn reference_markdown() -> String {
    let mut modes = String::from(
        "| mode | logs on standard output | traces and metrics there | logs, traces and metrics to a collector |\n\
         | --- | --- | --- | --- |\n",
    );
    let shown = |is: bool| if is { "yes" } else { "–" };
    for mode in ALL {
        let default = if mode == TelemetryMode::default() { " (default)" } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(
            modes,
            "| `{mode}`{default} | {} | {} | {} |",
            shown(mode.stdout_logs()),
            shown(mode.stdout_signals()),
            shown(mode.otlp()),
        );
    }
    include_str!("reference.md").replace("{modes}\n", &modes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_line_for_each_mode() {
        let page = reference_markdown();
        for line in [
            "| `stdout-logs` (default) | yes | – | – |",
            "| `stdout-all` | yes | yes | – |",
            "| `stdout-logs+otlp` | yes | – | yes |",
            "| `stdout-all+otlp` | yes | yes | yes |",
            "| `otlp` | – | – | yes |",
        ] {
            assert!(page.lines().any(|other| other == line), "no {line:?} in\n{page}");
        }
    }
}
