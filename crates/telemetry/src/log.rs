//! Process-wide logs.

mod captured;
mod fields;
mod json;
mod pretty;
#[cfg(test)]
mod tests;

use std::io;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use opentelemetry::trace::TraceContextExt as _;
use tracing::subscriber::{DefaultGuard, NoSubscriber, SetGlobalDefaultError};
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, ParseError};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

#[cfg(test)]
pub(crate) use self::captured::Buffer;
pub use self::captured::CapturedLog;

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line: `time`, `level`, `msg`, `logger`, then the fields of the event and of its spans.
    ///
    /// `logger` is the field of that name on the event, else on the nearest span that has one, else the
    /// event's target. An event's field wins over a span's, an inner span's over an outer one's. A field that
    /// is called like one of the four keys is written as `field_<name>`.
    Json,
    /// A line for a person: time, level, target, spans, message, fields; coloured when `ansi` is set.
    Pretty {
        /// Whether to colour it (the writer is a terminal).
        ansi: bool,
    },
}

/// A log format's name was not one of `json`, `pretty`.
#[derive(Debug, thiserror::Error)]
#[error("unknown log format {0:?}, expected json or pretty")]
pub struct ParseLogFormatError(String);

impl FromStr for LogFormat {
    type Err = ParseLogFormatError;

    /// `json`, or `pretty` (without colours; whoever knows the terminal sets them).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "pretty" => Ok(Self::Pretty { ansi: false }),
            _ => Err(ParseLogFormatError(text.to_owned())),
        }
    }
}

/// Where log lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard output.
    Stdout,
    /// Standard error, for programs whose output is something else.
    Stderr,
}

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum InitLogsError {
    /// The level filter is not one.
    #[error(
        "failed to read the log filter {filter:?}, expected a level (trace, debug, info, warn, error, off) \
         or directives like info,windlass_git=debug"
    )]
    ParseFilter {
        /// The filter as given.
        filter: String,
        /// Which part of it is wrong.
        #[source]
        source: ParseError,
    },
    /// Logs were set up before in this process.
    #[error("failed to set up logs")]
    Install(#[source] SetGlobalDefaultError),
}

/// Sets the logs of this process up, once, and reports panics there too.
///
/// `filter` is a level in any case, or comma-separated directives of levels by target: `info,windlass_git=debug`.
pub fn init(format: LogFormat, filter: &str, output: LogOutput) -> Result<(), InitLogsError> {
    install(subscriber(format, filter, Output::from(output))?)
}

/// Makes a subscriber this process's, and reports panics to it.
pub(crate) fn install(subscriber: impl Subscriber + Send + Sync + 'static) -> Result<(), InitLogsError> {
    tracing::subscriber::set_global_default(subscriber).map_err(InitLogsError::Install)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Makes a subscriber this thread's. While a process has a single one, `tracing` asks the thread that comes to a line first
/// whether anybody wants it, and a thread without a subscriber says no for all; so a second one is kept.
pub(crate) fn set_thread_default(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&SECOND);
    tracing::subscriber::set_default(subscriber)
}

fn subscriber(
    format: LogFormat,
    filter: &str,
    output: Output,
) -> Result<impl Subscriber + Send + Sync + 'static, InitLogsError> {
    let filter = self::filter(filter)?;
    Ok(Registry::default().with(layer(format, TraceIds::Hidden, output)).with(filter))
}

/// The process's output, for all who write lines to it.
#[derive(Clone)]
pub(crate) struct Output(Arc<BoxMakeWriter>);

impl Output {
    pub(crate) fn new(writer: BoxMakeWriter) -> Self {
        Self(Arc::new(writer))
    }
}

impl From<LogOutput> for Output {
    fn from(output: LogOutput) -> Self {
        Self::new(match output {
            LogOutput::Stdout => BoxMakeWriter::new(io::stdout),
            LogOutput::Stderr => BoxMakeWriter::new(io::stderr),
        })
    }
}

impl<'a> MakeWriter<'a> for Output {
    type Writer = <BoxMakeWriter as MakeWriter<'a>>::Writer;

    fn make_writer(&'a self) -> Self::Writer {
        self.0.make_writer()
    }
}

/// The internal logs of the OpenTelemetry libraries: a line for each export that fails, of which we log what is of use.
const INTERNAL_LOGS: &str = "opentelemetry";

/// Reads a level or directives; `info` where they say nothing, and no internal logs of the OpenTelemetry libraries.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, InitLogsError> {
    let failed = |source| InitLogsError::ParseFilter { filter: text.to_owned(), source };
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    let filter = builder.parse(text).map_err(failed)?;
    if text.contains(INTERNAL_LOGS) {
        return Ok(filter);
    }
    Ok(filter.add_directive(format!("{INTERNAL_LOGS}=off").parse().map_err(failed)?))
}

/// Whether a line names the span that is current, by `trace_id` and `span_id`: where the spans go to a collector too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceIds {
    /// It does.
    Shown,
    /// It does not.
    Hidden,
}

impl TraceIds {
    /// The ids of the current span, lower-case hex.
    fn current(self) -> Option<(String, String)> {
        if self == Self::Hidden {
            return None;
        }
        let context = opentelemetry::Context::current();
        let span = context.span().span_context().clone();
        span.is_valid().then(|| (span.trace_id().to_string(), span.span_id().to_string()))
    }
}

/// Writes log lines of this form.
pub(crate) fn layer(
    format: LogFormat,
    ids: TraceIds,
    output: Output,
) -> Box<dyn Layer<Registry> + Send + Sync> {
    match format {
        LogFormat::Json => json::JsonLayer::new(ids, output).boxed(),
        LogFormat::Pretty { ansi } => tracing_subscriber::fmt::layer()
            .with_ansi(ansi)
            .with_writer(output)
            .map_event_format(|inner| pretty::Pretty { inner, ids })
            .boxed(),
    }
}

fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    let thread = std::thread::current();
    tracing::error!(
        location = location.as_deref().unwrap_or("unknown"),
        thread = thread.name().unwrap_or("unnamed"),
        "panic: {}",
        panic.payload_as_str().unwrap_or("without a message"),
    );
}
