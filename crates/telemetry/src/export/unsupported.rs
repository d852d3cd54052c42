//! What variables ask for and this program does not do.

use opentelemetry_sdk::metrics::Temporality;

use super::settings::{Collector, HTTP_PROTOBUF, Signal, temporality};
use crate::variables::{self, Variables};

/// Variables of the specification that nothing here reads.
const UNREAD: [&str; 13] = [
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_CONFIG_FILE",
    "OTEL_EXPERIMENTAL_CONFIG_FILE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_METRICS_EXEMPLAR_FILTER",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_PROPAGATORS",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
];

/// Variables that are numbers above zero.
const NUMBERS: [&str; 7] = [
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_METRIC_EXPORT_INTERVAL",
];

/// What is asked for and not done, a line each. No line shows a value that may be secret.
pub(crate) fn unsupported(collector: &Collector, variables: Variables<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for signal in Signal::ALL {
        lines.extend(of_signal(collector, signal, variables));
    }
    let set = UNREAD.into_iter().filter(|name| variables(name).is_some());
    lines.extend(set.map(|name| format!("{name} is not read here")));
    for name in NUMBERS {
        if let Some(value) = variables(name)
            && !is_number(&value)
        {
            lines.push(format!("{name}={value} is no number above zero: it is left out"));
        }
    }
    // All there is is sampled, which these two come to.
    if let Some(value) = variables("OTEL_TRACES_SAMPLER")
        && !["always_on", "parentbased_always_on"].contains(&value.trim())
    {
        lines.push(format!("OTEL_TRACES_SAMPLER={value} is not done here: every trace is sent"));
    }
    let preference = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    if let Some(value) = variables(preference)
        && temporality(variables) == Temporality::Cumulative
        && !value.trim().eq_ignore_ascii_case("cumulative")
    {
        lines.push(format!("{preference}={value} is not known here: metrics are cumulative"));
    }
    if let Some(text) = variables("OTEL_RESOURCE_ATTRIBUTES")
        && variables::pairs(&text).any(|pair| pair.is_none())
    {
        let expected = "expected key=value,… with percent-encoded values";
        lines.push(format!("OTEL_RESOURCE_ATTRIBUTES cannot be read, {expected}: it is left out"));
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

fn of_signal(collector: &Collector, signal: Signal, variables: Variables<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some((name, value)) = signal.variable("PROTOCOL", variables)
        && !["grpc", HTTP_PROTOBUF].contains(&value.trim())
    {
        lines.push(format!(
            "{name}={value} is not spoken here: telemetry goes over gRPC; {HTTP_PROTOBUF} is known"
        ));
    }
    if let Some((name, value)) = signal.variable("COMPRESSION", variables)
        && !["gzip", "none"].contains(&value.to_ascii_lowercase().as_str())
    {
        lines.push(format!("{name}={value} is not known here: telemetry is not compressed; gzip is known"));
    }
    if let Some((name, value)) = signal.variable("TIMEOUT", variables)
        && !is_number(&value)
    {
        lines.push(format!("{name}={value} is no number above zero: it is left out"));
    }
    if let Some((name, text)) = signal.variable("HEADERS", variables)
        && (variables::pairs(&text).any(|pair| pair.is_none())
            || signal.headers(variables).len() < variables::pairs(&text).count())
    {
        lines.push(format!(
            "a part of {name} cannot be read, expected key=value,… with percent-encoded values"
        ));
    }
    let name = signal.exporter_variable();
    if let Some(value) = variables(&name)
        && !["otlp", "none"].contains(&value.trim().to_ascii_lowercase().as_str())
    {
        lines.push(format!("{name}={value} is not done here: otlp and none are, and the mode says the rest"));
    }
    let url = collector.url(signal, variables);
    if signal.is_wanted(variables) && !is_https(&url) {
        let url = crate::redact_url(&url);
        for what in ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"] {
            if let Some((name, _)) = signal.variable(what, variables) {
                lines.push(format!("{name} is set, and telemetry goes to {url} without TLS"));
            }
        }
    }
    lines
}

fn is_number(value: &str) -> bool {
    value.trim().parse().is_ok_and(|number: u64| number > 0)
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::tests::variables;

    fn lines(endpoint: &str, set: &[(&str, &str)]) -> Vec<String> {
        unsupported(&Collector { endpoint: endpoint.to_owned(), insecure: true }, &variables(set))
    }

    /// These variables are said, each once and with this in its line.
    fn check(set: &[(&str, &str)], expected: &[&str]) {
        let lines = lines("", set);
        for text in expected {
            assert_eq!(lines.iter().filter(|line| line.contains(text)).count(), 1, "{text}: {lines:?}");
        }
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
    }

    #[test]
    fn what_is_asked_for_and_done_is_not_said() {
        check(
            &[
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YTpi,x=y"),
                ("OTEL_EXPORTER_OTLP_TIMEOUT", "3000"),
                ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "LowMemory"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "16"),
                ("OTEL_TRACES_SAMPLER", "parentbased_always_on"),
                ("OTEL_SDK_DISABLED", "true"),
                ("OTEL_LOGS_EXPORTER", "none"),
                ("OTEL_RESOURCE_ATTRIBUTES", "a=b%20c"),
            ],
            &[],
        );
    }

    #[test]
    fn what_is_asked_for_and_not_done_is_said() {
        check(
            &[
                ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
                ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "zstd"),
                ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10s"),
                ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "rising"),
                ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
                ("OTEL_BSP_EXPORT_TIMEOUT", "100"),
                ("OTEL_TRACES_SAMPLER", "traceidratio"),
                ("OTEL_METRICS_EXPORTER", "prometheus"),
                ("OTEL_RESOURCE_ATTRIBUTES", "a=%zz"),
            ],
            &[
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
                "METRICS_COMPRESSION=zstd",
                "TRACES_TIMEOUT=10s",
                "PREFERENCE=rising",
                "QUEUE_SIZE=many",
                "OTEL_BSP_EXPORT_TIMEOUT is not read",
                "SAMPLER=traceidratio",
                "OTEL_METRICS_EXPORTER=prometheus",
                "OTEL_RESOURCE_ATTRIBUTES cannot be read",
            ],
        );
    }

    #[test]
    fn a_header_that_is_none_is_said_without_its_value() {
        let lines = lines("", &[("OTEL_EXPORTER_OTLP_HEADERS", "authorization=hunter2%zz")]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("a part of OTEL_EXPORTER_OTLP_HEADERS") && !lines[0].contains("hunter2"));
    }

    #[test]
    fn certificates_without_tls_are_said() {
        let set = [("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem")];
        let expected =
            "OTEL_EXPORTER_OTLP_CERTIFICATE is set, and telemetry goes to http://collector:4317 without TLS";
        assert_eq!(lines("u:hunter2@collector:4317", &set), [expected]);
        assert_eq!(lines("HTTPS://collector:4317", &set), [""; 0]);
    }
}
