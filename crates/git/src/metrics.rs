//! What is told of requests to Git servers, under Grafana's names. Grafana: `git/client_metrics.go`.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use windlass_telemetry::{MetricKind as Kind, Metrics, metric_rows};

use windlass_http_client::HostRates;

use crate::hosts::Hosts;

/// Grafana's: ten that grow by the same factor, from 1 ms to 30 s.
const REQUEST: &[f64] =
    &[0.001, 0.003_144, 0.009_884, 0.031_07, 0.097_69, 0.307_1, 0.965_5, 3.035, 9.543, 30.0];

metric_rows! {
    pub METRICS, "grafana_provisioning_git_client_";
    REQUESTS = "http_requests_total", Kind::Counter, ["repository_type", "operation", "status_code"],
        "Requests to Git servers: `ls-refs`, `fetch`, `discover` (what older clients begin with) or `push`, by HTTP status; `ssh` where that is spoken, `none` where no answer came.";
    DURATION = "http_request_duration_seconds", Kind::Histogram(REQUEST), ["repository_type", "operation"],
        "Time of a request until the head of its answer.";
    OBJECTS = "objects_fetched_total", Kind::Counter, ["repository_type"],
        "Objects that came from Git servers.";
    BYTES = "fetched_bytes_total", Kind::Counter, ["repository_type"],
        "Bytes of the packfiles that they came in.";
    CACHE = "cache_accesses_total", Kind::Counter, ["repository_type", "result"],
        "Reads of revisions: `hit` if all was in the object cache, `miss` if the server had to be asked.";
}

metric_rows! {
    pub OWN_METRICS, "windlass_git_";
    HOST_REQUESTS = "host_requests", Kind::Gauge, ["host", "state"],
        "Requests of this process to a Git host: `under_way`, of which there are `git_max_requests_per_host` at most, and `waiting` for that.";
    HOST_LEFT = "host_requests_left", Kind::Gauge, ["host"],
        "Requests that this process may send to a Git host at once now, of `git_request_burst`; absent where `git_requests_per_second` sets no limit.";
}

/// The instruments of a process.
#[derive(Debug)]
pub struct GitMetrics {
    requests: Counter<u64>,
    duration: Histogram<f64>,
    objects: Counter<u64>,
    bytes: Counter<u64>,
    cache: Counter<u64>,
    meter: Meter,
}

impl GitMetrics {
    /// Makes them.
    pub fn new(metrics: &Metrics) -> Self {
        let meter = &metrics.meter("git");
        Self {
            meter: meter.clone(),
            requests: REQUESTS.counter(meter),
            duration: DURATION.seconds(meter),
            objects: OBJECTS.counter(meter),
            bytes: BYTES.counter(meter),
            cache: CACHE.counter(meter),
        }
    }

    /// Looks at the hosts whenever metrics are rendered, while there are any.
    pub(crate) fn observe(&self, hosts: &Arc<Hosts>, rates: &Arc<HostRates>) {
        let hosts = Arc::downgrade(hosts);
        let gauge = self.meter.u64_observable_gauge(HOST_REQUESTS.name);
        let looked_at = gauge.with_description(HOST_REQUESTS.meaning).with_callback(move |gauge| {
            for (host, under_way, waiting) in hosts.upgrade().iter().flat_map(|hosts| hosts.requests()) {
                for (state, count) in [("under_way", under_way), ("waiting", waiting)] {
                    let labels = [KeyValue::new("host", host.clone()), KeyValue::new("state", state)];
                    gauge.observe(count as u64, &labels);
                }
            }
        });
        looked_at.build();
        let rates = Arc::downgrade(rates);
        let gauge = self.meter.u64_observable_gauge(HOST_LEFT.name).with_description(HOST_LEFT.meaning);
        let looked_at = gauge.with_callback(move |gauge| {
            for (server, left) in rates.upgrade().iter().flat_map(|rates| rates.left()) {
                let host = server.split_once("://").map_or(server.as_str(), |(_, host)| host).to_owned();
                gauge.observe(left.into(), &[KeyValue::new("host", host)]);
            }
        });
        looked_at.build();
    }
}

/// Where it is told what a remote costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    metrics: Option<Arc<GitMetrics>>,
    kind: &'static str,
}

impl Figures {
    /// Of remotes of this kind, where it is to be told.
    pub(crate) fn new(metrics: Option<Arc<GitMetrics>>, kind: &'static str) -> Self {
        Self { metrics, kind: if kind.is_empty() { "git" } else { kind } }
    }

    /// A request was sent, and answered with this status after that time.
    pub(crate) fn requested(&self, operation: &'static str, status: String, took: Duration) {
        let Some(metrics) = &self.metrics else { return };
        let labels = [
            KeyValue::new("repository_type", self.kind),
            KeyValue::new("operation", operation),
            KeyValue::new("status_code", status),
        ];
        metrics.requests.add(1, &labels);
        metrics.duration.record(took.as_secs_f64(), &labels[..2]);
    }

    /// A packfile of so many objects and bytes came.
    pub(crate) fn fetched(&self, objects: u32, bytes: u64) {
        let Some(metrics) = &self.metrics else { return };
        let labels = [KeyValue::new("repository_type", self.kind)];
        metrics.objects.add(objects.into(), &labels);
        metrics.bytes.add(bytes, &labels);
    }

    /// Revisions were asked for, and were all in the cache or not.
    pub(crate) fn accessed(&self, hit: bool) {
        let Some(metrics) = &self.metrics else { return };
        let result = KeyValue::new("result", if hit { "hit" } else { "miss" });
        metrics.cache.add(1, &[KeyValue::new("repository_type", self.kind), result]);
    }
}
