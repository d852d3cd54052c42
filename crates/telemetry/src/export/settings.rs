//! Where a collector is and how it is spoken to, from settings and the `OTEL_EXPORTER_OTLP_…` variables.
//!
//! A setting wins over a variable, a variable of one signal over that of all.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_otlp::Protocol;
use opentelemetry_sdk::metrics::Temporality;

use super::error::CollectorError;
use crate::variables::{self, Variables};

/// How long a collector may take to answer when nothing says so.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often metrics are exported when nothing says so.
const METRIC_INTERVAL: Duration = Duration::from_secs(15);

/// Where a collector listens.
#[derive(Clone, Debug)]
pub struct Collector {
    /// `host:port`, or a URL, below which OTLP over HTTP has its paths. Empty: `OTEL_EXPORTER_OTLP_ENDPOINT` and the
    /// variables for one signal, or else this machine.
    pub endpoint: String,
    /// No TLS, where neither the endpoint says `http` or `https` itself nor `OTEL_EXPORTER_OTLP_INSECURE` says
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
        self.variable("TIMEOUT", variables).and_then(|(_, text)| milliseconds(&text)).unwrap_or(TIMEOUT)
    }

    /// The protocol: gRPC, unless a variable says HTTP with protobuf.
    pub(crate) fn protocol(self, variables: Variables<'_>) -> Protocol {
        match self.variable("PROTOCOL", variables) {
            Some((_, value)) if value.trim() == HTTP_PROTOBUF => Protocol::HttpBinary,
            _ => Protocol::Grpc,
        }
    }

    /// What is sent beside each request: `key=value,…`, values percent-encoded. What cannot be sent is left out, and a
    /// value that cannot be decoded is sent as it is, both as the library does it.
    pub(crate) fn headers(self, variables: Variables<'_>) -> HeaderMap {
        let text = self.variable("HEADERS", variables).map_or(String::new(), |(_, text)| text);
        let header = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            let value = value.trim();
            let value = variables::percent_decoded(value).unwrap_or_else(|| value.to_owned());
            Some((HeaderName::try_from(name.trim()).ok()?, HeaderValue::try_from(value).ok()?))
        };
        text.split(',').filter_map(header).collect()
    }

    /// Whether requests are compressed.
    pub(crate) fn gzip(self, variables: Variables<'_>) -> bool {
        self.variable("COMPRESSION", variables).is_some_and(|(_, value)| value.eq_ignore_ascii_case("gzip"))
    }

    /// Certificates of the collector's authorities and of ours.
    pub(crate) fn tls_files(self, variables: Variables<'_>) -> Result<TlsFiles, CollectorError> {
        let read = |what: &str| {
            let Some((variable, path)) = self.variable(what, variables) else { return Ok(None) };
            match std::fs::read(&path) {
                Ok(pem) => Ok(Some(pem)),
                Err(source) => Err(CollectorError::ReadFile { path, variable, source }),
            }
        };
        let identity = match (read("CLIENT_CERTIFICATE")?, read("CLIENT_KEY")?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(CollectorError::HalfIdentity),
        };
        Ok(TlsFiles { authorities: read("CERTIFICATE")?, identity })
    }
}

/// The value of a protocol variable for OTLP over HTTP.
pub(super) const HTTP_PROTOBUF: &str = "http/protobuf";

/// Certificates and a key, PEM.
#[derive(Default)]
pub(crate) struct TlsFiles {
    /// Who vouches for the collector; the system's authorities where there is nothing.
    pub(crate) authorities: Option<Vec<u8>>,
    /// Our certificate and its key.
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Collector {
    /// The URL that a signal goes to, with its scheme and, for OTLP over HTTP, its path.
    pub(crate) fn url(&self, signal: Signal, variables: Variables<'_>) -> String {
        // Who wants TLS gets it: credentials may go with what is sent.
        let insecure = || {
            let set = signal.variable("INSECURE", variables);
            self.insecure && set.is_none_or(|(_, value)| variables::is_true(&value))
        };
        let is_http = signal.protocol(variables) == Protocol::HttpBinary;
        let variable = signal.variable("ENDPOINT", variables);
        let (base, is_whole) = match (self.endpoint.trim(), &variable) {
            ("", Some((name, endpoint))) => {
                // Of one signal alone, it is the URL to post to.
                (with_scheme(endpoint.trim(), insecure), name != "OTEL_EXPORTER_OTLP_ENDPOINT")
            }
            ("", None) => {
                (format!("http://localhost:{}", if is_http { HTTP_PORT } else { GRPC_PORT }), false)
            }
            (set, _) => (with_scheme(set, insecure), false),
        };
        if is_http && !is_whole {
            format!("{}/v1/{}", base.trim_end_matches('/'), signal.name())
        } else {
            base
        }
    }
}

/// Where a collector listens for gRPC.
const GRPC_PORT: u16 = 4317;
/// Where a collector listens for HTTP.
const HTTP_PORT: u16 = 4318;

fn with_scheme(endpoint: &str, insecure: impl FnOnce() -> bool) -> String {
    if endpoint.contains("://") {
        return endpoint.to_owned();
    }
    format!("{}://{endpoint}", if insecure() { "http" } else { "https" })
}

/// How often metrics are exported.
pub(crate) fn interval(variables: Variables<'_>) -> Duration {
    variables("OTEL_METRIC_EXPORT_INTERVAL").and_then(|text| milliseconds(&text)).unwrap_or(METRIC_INTERVAL)
}

/// So many milliseconds; nothing for what is no number above zero.
fn milliseconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().filter(|number| *number > 0).map(Duration::from_millis)
}

/// What the process's own metrics are exported as: sums since the start, or since the export before.
pub(crate) fn temporality(variables: Variables<'_>) -> Temporality {
    let preference = variables("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE");
    preference.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
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
    fn over_http_each_signal_has_its_path_below_the_endpoint_of_all() {
        let http = ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
        let all = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://all:1/otlp/");
        let one = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://one:2/push");
        assert_eq!(url("", true, &[http]), "http://localhost:4318/v1/metrics");
        assert_eq!(url("collector:4318", true, &[http]), "http://collector:4318/v1/metrics");
        assert_eq!(url("", true, &[http, all]), "https://all:1/otlp/v1/metrics");
        assert_eq!(url("", true, &[http, all, one]), "https://one:2/push");
        assert_eq!(url("https://set:3", true, &[http, one]), "https://set:3/v1/metrics");
        let of_traces = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf");
        assert_eq!(url("", true, &[of_traces]), "http://localhost:4317");
        let of_metrics = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc");
        assert_eq!(url("", true, &[http, of_metrics]), "http://localhost:4317");
    }

    #[test]
    fn a_time_that_is_none_is_left_out() {
        for nonsense in ["0", "-1", "10s"] {
            let set = [("OTEL_EXPORTER_OTLP_TIMEOUT", nonsense), ("OTEL_METRIC_EXPORT_INTERVAL", nonsense)];
            let variables = variables(&set);
            assert_eq!((Signal::Logs.timeout(&variables), interval(&variables)), (TIMEOUT, METRIC_INTERVAL));
        }
        let set = [("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", " 250 ")];
        assert_eq!(Signal::Logs.timeout(&variables(&set)), Duration::from_millis(250));
    }

    #[test]
    fn headers_are_percent_decoded() {
        let set =
            [("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20YTpi, x-tenant=a=b,bad,b d=c,raw=%zz")];
        let headers = Signal::Metrics.headers(&variables(&set));
        assert_eq!(headers.get("authorization").unwrap(), "Basic YTpi");
        assert_eq!(headers.get("x-tenant").unwrap(), "a=b");
        assert_eq!(headers.get("raw").unwrap(), "%zz");
        assert_eq!(headers.len(), 3);
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
