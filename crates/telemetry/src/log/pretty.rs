//! Lines for a person, with the ids of the current span at their end.

use std::fmt;

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::TraceIds;

/// The form of the library, and the ids where they are shown.
pub(super) struct Pretty<F> {
    pub(super) inner: F,
    pub(super) ids: TraceIds,
}

impl<S, N, F> FormatEvent<S, N> for Pretty<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let Some((trace, span)) = self.ids.current() else {
            return self.inner.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.inner.format_event(context, Writer::new(&mut line), event)?;
        writeln!(writer, "{} trace_id={trace} span_id={span}", line.trim_end_matches('\n'))
    }
}
