//! What was measured, as a table for a reader.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the table is what the program is for")]

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table as Sheet};
use serde_json::{Value, json};

use crate::samples::Samples;

/// What a figure should be; its median is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// Measured to compare the others with.
    None,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Millis,
    Megabytes,
    PerSecond,
    Times,
    Count,
    Percent,
    GigabytesPerSecond,
}

/// One figure.
pub(crate) struct Row {
    figure: String,
    target: Target,
    unit: Unit,
    samples: Samples,
    note: String,
}

/// All figures.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Unit {
    /// In what [`Row`]'s values are, in the report.
    fn name(self) -> &'static str {
        match self {
            Self::Millis => "ms",
            Self::Megabytes => "MB",
            Self::PerSecond => "/s",
            Self::Times => "times",
            Self::Count => "",
            Self::Percent => "%",
            Self::GigabytesPerSecond => "GB/s",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Millis if value >= 1000.0 => format!("{:.2} s", value / 1000.0),
            Self::Millis if value >= 100.0 => format!("{value:.0} ms"),
            Self::Millis => format!("{value:.1} ms"),
            Self::Megabytes => format!("{value:.0} MB"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Times => format!("{value:.2}×"),
            Self::Count => format!("{value:.0}"),
            Self::Percent => format!("{value:.1} %"),
            Self::GigabytesPerSecond => format!("{value:.2} GB/s"),
        }
    }
}

impl Row {
    /// What is measured, and by what.
    pub(crate) fn new(figure: impl Into<String>, target: Target, unit: Unit, samples: Samples) -> Self {
        Self { figure: figure.into(), target, unit, samples, note: String::new() }
    }

    /// Something that a reader of the figure should know.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    fn target(&self) -> String {
        match self.target {
            Target::AtMost(limit) => format!("≤ {}", self.unit.show(limit)),
            Target::AtLeast(limit) => format!("≥ {}", self.unit.show(limit)),
            Target::None => String::new(),
        }
    }

    fn measured(&self) -> String {
        let median = self.unit.show(self.samples.median());
        let mut text = median.clone();
        if self.samples.len() > 1 {
            let (min, max) = (self.unit.show(self.samples.min()), self.unit.show(self.samples.max()));
            text = format!("{median} ({min} – {max}, n={})", self.samples.len());
        }
        if !self.note.is_empty() {
            text = format!("{text}; {}", self.note);
        }
        text
    }

    /// The figure for programs: what the table shows, with numbers as they were measured.
    fn report(&self) -> Value {
        let (at_most, at_least) = match self.target {
            Target::AtMost(limit) => (Some(limit), None),
            Target::AtLeast(limit) => (None, Some(limit)),
            Target::None => (None, None),
        };
        json!({
            "figure": self.figure,
            "unit": self.unit.name(),
            "median": self.samples.median(),
            "min": self.samples.min(),
            "max": self.samples.max(),
            "samples": self.samples.len(),
            "atMost": at_most,
            "atLeast": at_least,
            "verdict": self.verdict(),
            "note": self.note,
        })
    }

    fn verdict(&self) -> &'static str {
        let value = self.samples.median();
        match self.target {
            Target::AtMost(limit) if value <= limit => "met",
            Target::AtLeast(limit) if value >= limit => "met",
            Target::AtMost(_) | Target::AtLeast(_) => "MISSED",
            Target::None => "",
        }
    }
}

impl Table {
    /// Adds a figure, and says it at once.
    pub(crate) fn add(&mut self, row: Row) {
        eprintln!("   {}: {} {} {}", row.figure, row.measured(), row.target(), row.verdict());
        self.rows.push(row);
    }

    /// Everything, for programs.
    pub(crate) fn report(&self) -> Value {
        json!({ "figures": self.rows.iter().map(Row::report).collect::<Vec<_>>() })
    }

    /// Prints everything.
    pub(crate) fn print(&self) {
        let mut sheet = Sheet::new();
        sheet.load_style(ASCII_MARKDOWN);
        sheet.set_header(["figure", "target", "measured: median (min – max)", "verdict"]);
        for row in &self.rows {
            sheet.add_row([row.figure.as_str(), &row.target(), &row.measured(), row.verdict()]);
        }
        if let Some(column) = sheet.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        println!("{sheet}");
    }
}
