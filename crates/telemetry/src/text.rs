//! The Prometheus text format, of the registry's metrics and of what sources say, in pieces.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use opentelemetry::KeyValue;
use prometheus::TextEncoder;
use prometheus::proto::MetricFamily;

use crate::{Buckets, ClassicHistogram, CumulativePoint, CumulativeValue, CumulativeView, FamilyKind};

/// A piece is full once it is as long as this, in bytes.
const PIECE: usize = 64 * 1024;

/// One scrape: the pieces of the text, each put together when it is asked for.
pub(crate) struct Scrape {
    families: std::collections::btree_map::IntoIter<String, TextFamily>,
    current: Option<Current>,
}

/// What is to be written under one name.
struct TextFamily {
    /// The `# HELP` and `# TYPE` lines.
    head: String,
    kind: &'static str,
    /// The lines of the process's own instruments.
    samples: String,
    /// The views with such a family, and its place in each.
    views: Vec<(Arc<dyn CumulativeView>, usize)>,
}

/// The family that is being written.
struct Current {
    name: String,
    /// Not written yet: a family without samples has none.
    head: Option<String>,
    views: std::vec::IntoIter<(Arc<dyn CumulativeView>, usize)>,
    /// The view that is being written, the family's place in it, and the next series.
    view: Option<(Arc<dyn CumulativeView>, usize, usize)>,
}

impl Scrape {
    pub(crate) fn new(
        registry: Vec<MetricFamily>,
        views: Vec<Arc<dyn CumulativeView>>,
    ) -> Result<Self, prometheus::Error> {
        let mut families = BTreeMap::new();
        for family in registry {
            let name = family.name().to_owned();
            let text = TextEncoder::new().encode_to_string(&[family])?;
            let samples = text.find("\n# TYPE").map_or(0, |at| at + 1);
            let samples = text[samples..].find('\n').map_or(text.len(), |end| samples + end + 1);
            let (head, samples) = text.split_at(samples);
            let kind = match head.trim_end().rsplit(' ').next() {
                Some("counter") => "counter",
                Some("gauge") => "gauge",
                Some("histogram") => "histogram",
                _ => "untyped",
            };
            let (head, samples) = (head.to_owned(), samples.to_owned());
            families.insert(name, TextFamily { head, kind, samples, views: Vec::new() });
        }
        for view in views {
            for (place, family) in view.families().iter().enumerate() {
                let name = family.prometheus_name();
                let kind = match family.kind {
                    FamilyKind::Counter => "counter",
                    FamilyKind::Gauge => "gauge",
                    FamilyKind::Histogram(_) => "histogram",
                };
                let text = families.entry(name).or_insert_with_key(|name| TextFamily {
                    head: head(name, &family.description, kind),
                    kind,
                    samples: String::new(),
                    views: Vec::new(),
                });
                // One name has one type: who came first has it.
                if text.kind == kind {
                    text.views.push((Arc::clone(&view), place));
                }
            }
        }
        Ok(Self { families: families.into_iter(), current: None })
    }
}

impl Iterator for Scrape {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut piece = String::new();
        while piece.len() < PIECE {
            let Some(current) = &mut self.current else {
                let Some((name, family)) = self.families.next() else { break };
                let mut head = Some(family.head);
                if !family.samples.is_empty() {
                    piece.extend(head.take());
                    piece.push_str(&family.samples);
                }
                let views = family.views.into_iter();
                self.current = Some(Current { name, head, views, view: None });
                continue;
            };
            if !current.write(&mut piece) {
                self.current = None;
            }
        }
        (!piece.is_empty()).then_some(piece)
    }
}

impl Current {
    /// Writes series until the piece is full; whether there may be more.
    fn write(&mut self, piece: &mut String) -> bool {
        while piece.len() < PIECE {
            let Some((view, family, series)) = &mut self.view else {
                let Some((view, family)) = self.views.next() else { return false };
                self.view = Some((view, family, 0));
                continue;
            };
            if *series >= view.series(*family) {
                self.view = None;
                continue;
            }
            let point = view.point(*family, *series, Buckets::Classic);
            *series += 1;
            if let Some(point) = point {
                piece.extend(self.head.take());
                sample(piece, &self.name, &point);
            }
        }
        true
    }
}

fn head(name: &str, description: &str, kind: &str) -> String {
    let description = description.replace('\\', "\\\\").replace('\n', "\\n");
    format!("# HELP {name} {description}\n# TYPE {name} {kind}\n")
}

/// Writes the lines of one point. (Writing to a string does not fail.)
fn sample(text: &mut String, name: &str, point: &CumulativePoint) {
    let labels = labels(&point.attributes);
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    match &point.value {
        CumulativeValue::Counter(value) => {
            let _ = writeln!(text, "{name}{braced} {value}");
        }
        CumulativeValue::Gauge(value) => {
            let _ = writeln!(text, "{name}{braced} {}", number(*value));
        }
        CumulativeValue::Classic(histogram) => {
            buckets(text, name, &labels, histogram);
            let _ = writeln!(text, "{name}_sum{braced} {}", number(histogram.sum));
            let _ = writeln!(text, "{name}_count{braced} {}", histogram.count);
        }
        // The text has no form for it; classic buckets were asked for.
        CumulativeValue::Exponential(_) => {}
    }
}

fn buckets(text: &mut String, name: &str, labels: &str, histogram: &ClassicHistogram) {
    let labels = if labels.is_empty() { String::new() } else { format!("{labels},") };
    let mut below = 0;
    for (bound, count) in histogram.bounds.iter().zip(&histogram.buckets) {
        below += count;
        let _ = writeln!(text, "{name}_bucket{{{labels}le=\"{}\"}} {below}", number(*bound));
    }
    let _ = writeln!(text, "{name}_bucket{{{labels}le=\"+Inf\"}} {}", histogram.count);
}

fn labels(attributes: &[KeyValue]) -> String {
    let mut labels = String::new();
    for attribute in attributes {
        if !labels.is_empty() {
            labels.push(',');
        }
        let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        labels.extend(attribute.key.as_str().chars().map(allowed));
        let value = attribute.value.as_str();
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(labels, "=\"{value}\"");
    }
    labels
}

fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    value.to_string()
}
