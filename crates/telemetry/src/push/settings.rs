//! Where a collector is and how it is spoken to, from settings and the `OTEL_EXPORTER_OTLP_…` variables.
//!
//! A setting wins over a variable, a variable of one signal over that of all.

use std::time::Duration;

use opentelemetry_sdk::metrics::Temporality;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::error::CollectorError;

/// Where a collector listens when nothing says so.
const DEFAULT: &str = "http://localhost:4317";
/// How long a collector may take to answer when nothing says so.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where a collector listens.
#[derive(Clone, Debug)]
pub struct Collector {
    /// `host:port`, or a URL. Empty: `OTEL_EXPORTER_OTLP_ENDPOINT` and the variables for one signal, or else
    /// `http://localhost:4317`.
    pub endpoint: String,
    /// Plain gRPC, where neither the endpoint says `http` or `https` itself nor `OTEL_EXPORTER_OTLP_INSECURE` is set.
    pub insecure: bool,
}

/// What is sent, as the variables name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Logs,
    Metrics,
}

/// The variables of a process.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process; an empty one is none.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Signal {
    pub(crate) const ALL: [Self; 3] = [Self::Traces, Self::Logs, Self::Metrics];

    /// Its name, in log lines and as an attribute.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Logs => "logs",
            Self::Metrics => "metrics",
        }
    }

    /// The variable `OTEL_EXPORTER_OTLP_…` for this signal, or else for all; with the name of the one that is set.
    fn variable(self, what: &str, variables: Variables<'_>) -> Option<(String, String)> {
        let signal = self.name().to_ascii_uppercase();
        [format!("OTEL_EXPORTER_OTLP_{signal}_{what}"), format!("OTEL_EXPORTER_OTLP_{what}")]
            .into_iter()
            .find_map(|name| variables(&name).map(|value| (name, value)))
    }

    /// How long a collector may take to answer.
    pub(crate) fn timeout(self, variables: Variables<'_>) -> Duration {
        let set = self.variable("TIMEOUT", variables).and_then(|(_, text)| text.trim().parse().ok());
        set.map_or(TIMEOUT, Duration::from_millis)
    }

    /// What is sent beside each request: `key=value,…`, values percent-encoded. What cannot be sent is left out.
    pub(crate) fn headers(self, variables: Variables<'_>) -> MetadataMap {
        let text = self.variable("HEADERS", variables).map_or(String::new(), |(_, text)| text);
        let mut headers = MetadataMap::new();
        for (key, value) in text.split(',').filter_map(|pair| pair.split_once('=')) {
            let key = key.trim().to_ascii_lowercase();
            if let (Ok(key), Some(Ok(value))) =
                (opentelemetry_key(&key), percent_decoded(value.trim()).map(|value| value.parse()))
            {
                headers.append(key, value);
            }
        }
        headers
    }

    /// Whether requests are compressed.
    pub(crate) fn gzip(self, variables: Variables<'_>) -> bool {
        self.variable("COMPRESSION", variables).is_some_and(|(_, value)| value.eq_ignore_ascii_case("gzip"))
    }
}

type Key = tonic::metadata::MetadataKey<tonic::metadata::Ascii>;

fn opentelemetry_key(text: &str) -> Result<Key, tonic::metadata::errors::InvalidMetadataKey> {
    Key::from_bytes(text.as_bytes())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(digit(digits[0])? * 16 + digit(digits[1])?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

impl Collector {
    /// The endpoint of a signal, with its scheme.
    pub(crate) fn url(&self, signal: Signal, variables: Variables<'_>) -> String {
        let set = self.endpoint.trim();
        if !set.is_empty() {
            return with_scheme(set, self.insecure);
        }
        let Some((_, endpoint)) = signal.variable("ENDPOINT", variables) else { return DEFAULT.to_owned() };
        let insecure = signal.variable("INSECURE", variables);
        let insecure = insecure.map_or(self.insecure, |(_, value)| value.eq_ignore_ascii_case("true"));
        with_scheme(endpoint.trim(), insecure)
    }

    /// How the collector's certificate is verified, and who we are to it.
    pub(crate) fn tls(
        &self,
        signal: Signal,
        variables: Variables<'_>,
    ) -> Result<ClientTlsConfig, CollectorError> {
        let read = |what: &str| {
            let Some((variable, path)) = signal.variable(what, variables) else { return Ok(None) };
            match std::fs::read(&path) {
                Ok(pem) => Ok(Some(pem)),
                Err(source) => Err(CollectorError::ReadFile { path, variable, source }),
            }
        };
        let config = ClientTlsConfig::new();
        let config = match read("CERTIFICATE")? {
            Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
            None => config.with_native_roots(),
        };
        match (read("CLIENT_CERTIFICATE")?, read("CLIENT_KEY")?) {
            (Some(certificate), Some(key)) => Ok(config.identity(Identity::from_pem(certificate, key))),
            (None, None) => Ok(config),
            _ => Err(CollectorError::HalfIdentity),
        }
    }
}

fn with_scheme(endpoint: &str, insecure: bool) -> String {
    if endpoint.contains("://") {
        return endpoint.to_owned();
    }
    format!("{}://{endpoint}", if insecure { "http" } else { "https" })
}

/// What variables ask for and this program does not do, one line each.
pub(crate) fn unmet(variables: Variables<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for signal in Signal::ALL {
        if let Some((name, value)) = signal.variable("PROTOCOL", variables)
            && value != "grpc"
        {
            lines.push(format!("{name}={value} is not spoken here: telemetry goes over gRPC"));
        }
        if let Some((name, value)) = signal.variable("COMPRESSION", variables)
            && !["gzip", "none"].contains(&value.to_ascii_lowercase().as_str())
        {
            lines.push(format!(
                "{name}={value} is not known here: telemetry is not compressed; gzip is known"
            ));
        }
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// What the process's own metrics are told as: sums since the start, or since the telling before.
pub(crate) fn temporality(variables: Variables<'_>) -> Temporality {
    let preference = variables("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE").unwrap_or_default();
    match preference.to_ascii_lowercase().as_str() {
        "delta" => Temporality::Delta,
        "lowmemory" => Temporality::LowMemory,
        _ => Temporality::Cumulative,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(endpoint: &str, insecure: bool, set: &[(&str, &str)]) -> String {
        Collector { endpoint: endpoint.to_owned(), insecure }.url(Signal::Metrics, &variables(set))
    }

    fn variables<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn an_endpoint_without_a_scheme_gets_one() {
        assert_eq!(url("localhost:4317", true, &[]), "http://localhost:4317");
        assert_eq!(url("collector:4317", false, &[]), "https://collector:4317");
        assert_eq!(url("https://collector:4317", true, &[]), "https://collector:4317");
        assert_eq!(url("", false, &[]), "http://localhost:4317");
    }

    #[test]
    fn variables_say_where_the_collector_is_when_no_setting_does() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://all:1");
        let one = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "one:2");
        let secure = ("OTEL_EXPORTER_OTLP_INSECURE", "false");
        assert_eq!(url("set:3", true, &[all, one]), "http://set:3");
        assert_eq!(url("", true, &[all]), "https://all:1");
        assert_eq!(url("", true, &[all, one]), "http://one:2");
        assert_eq!(url("", true, &[all, one, secure]), "https://one:2");
    }

    #[test]
    fn headers_are_percent_decoded() {
        let set = [("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20YTpi, x-tenant=a=b,bad,b%d=%zz")];
        let headers = Signal::Metrics.headers(&variables(&set));
        assert_eq!(headers.get("authorization").unwrap(), "Basic YTpi");
        assert_eq!(headers.get("x-tenant").unwrap(), "a=b");
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn what_is_asked_for_and_not_done_is_said() {
        assert_eq!(unmet(&variables(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")])), [""; 0]);
        let set = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "zstd"),
        ];
        let lines = unmet(&variables(&set));
        assert!(
            lines.iter().any(|line| line.contains("OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")),
            "{lines:?}"
        );
        assert!(lines.iter().any(|line| line.contains("METRICS_COMPRESSION=zstd")), "{lines:?}");
        assert_eq!(lines.len(), 2, "each once: {lines:?}");
    }
}
