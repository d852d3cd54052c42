//! Where a collector is and how it is spoken to, from settings and the `OTEL_EXPORTER_OTLP_…` variables.
//!
//! A setting wins over a variable, a variable of one signal over that of all.

use std::time::Duration;

use opentelemetry_sdk::metrics::Temporality;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::error::CollectorError;
use crate::variables::{self, Variables};

/// Where a collector listens when nothing says so.
const DEFAULT: &str = "http://localhost:4317";
/// How long a collector may take to answer when nothing says so.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often metrics are told when nothing says so.
const METRIC_INTERVAL: Duration = Duration::from_secs(15);

/// Where a collector listens.
#[derive(Clone, Debug)]
pub struct Collector {
    /// `host:port`, or a URL. Empty: `OTEL_EXPORTER_OTLP_ENDPOINT` and the variables for one signal, or else
    /// `http://localhost:4317`.
    pub endpoint: String,
    /// Plain gRPC, where neither the endpoint says `http` or `https` itself nor `OTEL_EXPORTER_OTLP_INSECURE` says
    /// otherwise.
    pub insecure: bool,
}

/// What is sent, as the variables name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Logs,
    Metrics,
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

    /// Whether it goes to a collector, where the mode has one.
    pub(crate) fn is_wanted(self, variables: Variables<'_>) -> bool {
        if variables("OTEL_SDK_DISABLED").is_some_and(|value| variables::is_true(&value)) {
            return false;
        }
        variables(&self.exporter_variable()).is_none_or(|value| !value.trim().eq_ignore_ascii_case("none"))
    }

    /// The variable that says where it goes.
    pub(crate) fn exporter_variable(self) -> String {
        format!("OTEL_{}_EXPORTER", self.name().to_ascii_uppercase())
    }

    /// The variable `OTEL_EXPORTER_OTLP_…` for this signal, or else for all; with the name of the one that is set.
    pub(crate) fn variable(self, what: &str, variables: Variables<'_>) -> Option<(String, String)> {
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
        for (key, value) in variables::pairs(&text).flatten() {
            if let (Ok(key), Ok(value)) = (header_name(key), value.parse()) {
                headers.append(key, value);
            }
        }
        headers
    }

    /// Whether requests are compressed.
    pub(crate) fn gzip(self, variables: Variables<'_>) -> bool {
        self.variable("COMPRESSION", variables).is_some_and(|(_, value)| value.eq_ignore_ascii_case("gzip"))
    }

    /// How the collector's certificate is verified, and who we are to it.
    pub(crate) fn tls(self, variables: Variables<'_>) -> Result<ClientTlsConfig, CollectorError> {
        let read = |what: &str| {
            let Some((variable, path)) = self.variable(what, variables) else { return Ok(None) };
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

type Key = tonic::metadata::MetadataKey<tonic::metadata::Ascii>;

fn header_name(text: &str) -> Result<Key, tonic::metadata::errors::InvalidMetadataKey> {
    Key::from_bytes(text.to_ascii_lowercase().as_bytes())
}

impl Collector {
    /// The endpoint of a signal, with its scheme.
    pub(crate) fn url(&self, signal: Signal, variables: Variables<'_>) -> String {
        // Who wants TLS gets it: credentials may go with what is sent.
        let insecure = || {
            let said = signal.variable("INSECURE", variables);
            self.insecure && said.is_none_or(|(_, value)| variables::is_true(&value))
        };
        let set = self.endpoint.trim();
        if !set.is_empty() {
            return with_scheme(set, insecure);
        }
        match signal.variable("ENDPOINT", variables) {
            Some((_, endpoint)) => with_scheme(endpoint.trim(), insecure),
            None => DEFAULT.to_owned(),
        }
    }
}

fn with_scheme(endpoint: &str, insecure: impl FnOnce() -> bool) -> String {
    if endpoint.contains("://") {
        return endpoint.to_owned();
    }
    format!("{}://{endpoint}", if insecure() { "http" } else { "https" })
}

/// How often metrics are told.
pub(crate) fn interval(variables: Variables<'_>) -> Duration {
    let millis = variables("OTEL_METRIC_EXPORT_INTERVAL").and_then(|text| text.trim().parse().ok());
    millis.filter(|millis| *millis > 0).map_or(METRIC_INTERVAL, Duration::from_millis)
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
    use crate::variables::tests::variables;

    fn url(endpoint: &str, insecure: bool, set: &[(&str, &str)]) -> String {
        Collector { endpoint: endpoint.to_owned(), insecure }.url(Signal::Metrics, &variables(set))
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
    fn whoever_wants_tls_gets_it_wherever_the_endpoint_is_from() {
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317");
        let secure = ("OTEL_EXPORTER_OTLP_INSECURE", "false");
        let plain = ("OTEL_EXPORTER_OTLP_INSECURE", "True");
        let of_signal = ("OTEL_EXPORTER_OTLP_METRICS_INSECURE", "false");
        for (endpoint, from) in [("collector:4317", None), ("", Some(all))] {
            let check = |insecure, variable, scheme| {
                let set: Vec<_> = from.into_iter().chain(variable).collect();
                assert_eq!(url(endpoint, insecure, &set), format!("{scheme}://collector:4317"), "{set:?}");
            };
            check(true, None, "http");
            check(true, Some(plain), "http");
            check(true, Some(secure), "https");
            check(true, Some(of_signal), "https");
            check(false, None, "https");
            check(false, Some(plain), "https");
        }
        assert_eq!(url("http://collector:4317", true, &[secure]), "http://collector:4317");
    }

    #[test]
    fn variables_say_which_signals_are_wanted() {
        let wanted = |set: &[(&str, &str)]| Signal::ALL.map(|signal| signal.is_wanted(&variables(set)));
        assert_eq!(wanted(&[("OTEL_SDK_DISABLED", "false"), ("OTEL_LOGS_EXPORTER", "otlp")]), [true; 3]);
        assert_eq!(wanted(&[("OTEL_SDK_DISABLED", "TRUE")]), [false; 3]);
        assert_eq!(wanted(&[("OTEL_LOGS_EXPORTER", "none")]), [true, false, true]);
        assert_eq!(
            wanted(&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]),
            [false, true, false]
        );
    }
}
