//! Series that outlive the process, on the wire and on `/metrics`.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_otlp_receiver::{Behaviour, Code, Receiver, Temporality, Value};

use super::kit::{BEGAN, DEADLINE, Ledger, PROTOCOLS, Set, options, start, start_with};
use crate::export::connection::Connection;
use crate::export::cumulative::{CollectorExporter, CumulativeExporter};
use crate::export::report::ExportReports;
use crate::export::settings::{self, Collector, Signal};
use crate::resource::ProcessResource;
use crate::sources::Sources;
use crate::variables::tests::variables;
use crate::{ExportError, FlushError, TelemetryMode};

/// An exporter to this collector, as if these variables were set.
fn exporter(ledger: &Arc<Ledger>, endpoint: &str, set: Set<'_>) -> (CumulativeExporter, Arc<ExportReports>) {
    let variables = variables(set);
    let collector = Collector { endpoint: endpoint.to_owned(), insecure: true };
    let reports = Arc::new(ExportReports::default());
    let connection = Connection::new(Signal::Metrics, &collector, &variables, &reports, &Handle::current());
    let to = CollectorExporter::new(connection.unwrap().unwrap(), settings::temporality(&variables));
    let sources = Arc::new(Sources::default());
    sources.add(Arc::clone(ledger) as _);
    let resource = ProcessResource::new("test", "1", &variables);
    (CumulativeExporter::new(sources, resource, None, Some(to)), reports)
}

/// These variables and those.
fn both<'a>(some: Set<'a>, others: Set<'a>) -> Vec<(&'a str, &'a str)> {
    some.iter().chain(others).copied().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_series_reaches_a_collector_under_the_sources_identity() {
    for protocol in PROTOCOLS {
        every_kind_of_series_reaches_a_collector(protocol).await;
    }
}

async fn every_kind_of_series_reaches_a_collector(protocol: Set<'_>) {
    let collector = Receiver::start().unwrap();
    let (telemetry, _written, _guard) = start_with(&options(TelemetryMode::Otlp, &collector.url()), protocol);
    telemetry.metrics().add_source(Ledger::of(2));
    telemetry.metrics().flush_sources(DEADLINE).await.unwrap();

    collector.look(|received| {
        assert_eq!(received.metric_requests.len(), 1, "what fits goes into one request");
        let expected_start = u64::try_from(BEGAN.as_nanosecond()).unwrap();
        for (name, temporality, start) in [
            ("ledger.export-time", Temporality::Cumulative, expected_start),
            ("ledger.stage-time", Temporality::Cumulative, expected_start),
            ("ledger.commits", Temporality::Cumulative, expected_start),
            ("ledger.age", Temporality::None, 0),
        ] {
            let (series, sample) = received.of(name).next().unwrap();
            assert_eq!(series.resource["service.instance.id"], "the-ledger");
            assert_eq!(series.resource["service.name"], "windlass-test");
            assert_eq!(
                series.resource.get("process.pid"),
                None,
                "a process's attribute: {:?}",
                series.resource
            );
            assert_eq!((series.scope.as_str(), series.start), ("tracker", start), "{name}");
            assert_eq!(series.attributes["k8s.resource.name"], "thing-0");
            assert_eq!((sample.temporality, sample.description.as_str()), (temporality, "What it means."));
            assert_eq!(received.of(name).count(), 2);
        }
        let value = |name| &received.of(name).next().unwrap().1.value;
        let mut buckets = vec![0; 160];
        buckets[0] = 2;
        assert_eq!(
            *value("ledger.export-time"),
            Value::Exponential {
                count: 3,
                sum: 100.5,
                min: None,
                max: None,
                scale: 4,
                zero_count: 1,
                offset: 60,
                buckets
            }
        );
        assert_eq!(
            *value("ledger.stage-time"),
            Value::Histogram { count: 3, sum: 100.5, bounds: vec![15.0, 60.0], buckets: vec![1, 0, 2] }
        );
        assert_eq!(*value("ledger.commits"), Value::Sum { value: 7.0, monotonic: true });
        assert_eq!(*value("ledger.age"), Value::Gauge(1.5));
    });
    let before = collector.look(|received| received.series.len());
    // Told again, by the end of the process, it is the same series.
    telemetry.shutdown(DEADLINE).await;
    collector.look(|received| {
        let of_source = |received: &windlass_otlp_receiver::Received| {
            received.series.keys().filter(|series| series.name.starts_with("ledger.")).count()
        };
        assert!(received.metric_requests.len() >= 2);
        assert_eq!(of_source(received), before);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_not_told_here_is_nowhere() {
    let collector = Receiver::start().unwrap();
    let (telemetry, written, _guard) = start(TelemetryMode::StdoutAllOtlp, &collector.url());
    let ledger = Ledger::of(2);
    ledger.leading.store(false, Ordering::SeqCst);
    telemetry.metrics().add_source(Arc::clone(&ledger) as _);
    assert_eq!(telemetry.metrics().render().unwrap(), "");
    telemetry.shutdown(DEADLINE).await;
    assert_eq!(collector.look(|received| received.series.len()), 0);
    assert!(!written.text().contains("ledger."), "{}", written.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_lost_its_term_between_two_requests_sends_no_more() {
    let collector = Receiver::start().unwrap();
    let ledger = Ledger::of(2_000);
    ledger.checks_left.store(1, Ordering::SeqCst);
    let (exporter, _) = exporter(&ledger, &collector.url(), &[]);
    exporter.flush(DEADLINE).await.unwrap();
    let requests = collector.look(|received| received.metric_requests.len());
    assert_eq!(requests, 1);
    assert_eq!(ledger.exported.load(Ordering::SeqCst), 0, "the rest is for somebody else to tell");
    assert!(ledger.copied() < 4 * 2_000, "{}", ledger.copied());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_view_is_sent_in_requests_that_a_collector_takes() {
    const THINGS: usize = 3_000;
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        let ledger = Ledger::of(THINGS);
        let (exporter, reports) = exporter(&ledger, &collector.url(), protocol);
        // The collector refuses what is larger than 4 MiB.
        exporter.flush(DEADLINE).await.unwrap();
        collector.look(|received| {
            assert_eq!(received.series.len(), 4 * THINGS);
            assert!(received.metric_requests.len() > 3, "{} requests", received.metric_requests.len());
        });
        assert_eq!((reports.failures(), ledger.exported.load(Ordering::SeqCst)), (0, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_that_is_rejected_does_not_keep_the_others_from_the_collector() {
    const THINGS: usize = 3_000;
    let behaviours = [(Behaviour::Reject(1), 4 * THINGS), (Behaviour::Refuse(Code::InvalidArgument), 0)];
    for (protocol, (behaviour, kept)) in
        PROTOCOLS.into_iter().flat_map(|it| behaviours.map(|each| (it, each)))
    {
        let collector = Receiver::start().unwrap();
        collector.behave(behaviour);
        let ledger = Ledger::of(THINGS);
        let (exporter, reports) = exporter(&ledger, &collector.url(), protocol);
        let error = exporter.flush(DEADLINE).await.unwrap_err();
        assert!(matches!(error, FlushError::Refused(_)), "{error:?}");
        assert_eq!(ledger.copied(), 4 * THINGS, "each point was told once");
        assert_eq!(collector.look(|received| received.series.len()), kept, "{behaviour:?}");
        let requests = reports.failures();
        assert!(requests > 3, "{behaviour:?}: {requests} requests");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_collector_does_not_answer_one_piece_is_held_and_no_more() {
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        collector.behave(Behaviour::Hang);
        let ledger = Ledger::of(100_000);
        let set = both(protocol, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "50")]);
        let (exporter, reports) = exporter(&ledger, &collector.url(), &set);
        let many = async {
            while reports.failures() < 5 {
                tokio::task::yield_now().await;
            }
        };
        // Many intervals pass; each attempt waits for its answer alone.
        tokio::select! {
            () = exporter.run(Duration::from_millis(1)) => {}
            tried = tokio::time::timeout(DEADLINE, many) => tried.unwrap(),
        }
        let attempts = usize::try_from(reports.failures()).unwrap();
        let at_once = ledger.copied() / attempts;
        assert!(at_once < 1_000, "{at_once} of 400000 points at once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_waits_for_a_collector_that_comes_back() {
    for protocol in PROTOCOLS {
        // Connections wait until somebody serves the port.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let set = both(protocol, &[("OTEL_EXPORTER_OTLP_TIMEOUT", "500")]);
        let (exporter, reports) = exporter(&Ledger::of(2), &url, &set);
        let back = async {
            while reports.failures() == 0 {
                tokio::task::yield_now().await;
            }
            Receiver::start_at(listener).unwrap()
        };
        let (flushed, collector) = tokio::join!(exporter.flush(DEADLINE), back);
        flushed.unwrap();
        assert_eq!(collector.look(|received| received.series.len()), 8);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_does_not_wait_for_what_a_slow_collector_was_told_before() {
    let collector = Receiver::start().unwrap();
    collector.behave(Behaviour::Hang);
    let ledger = Ledger::of(2);
    let (exporter, reports) = exporter(&ledger, &collector.url(), &[]);
    let exporter = Arc::new(exporter);
    let running = tokio::spawn({
        let exporter = Arc::clone(&exporter);
        async move { exporter.run(Duration::from_millis(1)).await }
    });
    let told = async |times: usize| {
        let copied = async {
            while ledger.copied() < 8 * times {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(DEADLINE, copied).await.unwrap();
    };
    told(1).await;
    let flushed = tokio::spawn(async move { exporter.flush(DEADLINE).await });
    told(2).await;
    assert_eq!(reports.failures(), 0, "the first telling did not come to its end");
    running.abort();
    collector.behave(Behaviour::Answer);
    flushed.await.unwrap().unwrap();
    assert_eq!(collector.look(|received| received.series.len()), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_gives_up_when_the_collector_denies_it() {
    for protocol in PROTOCOLS {
        let collector = Receiver::start().unwrap();
        collector.behave(Behaviour::Refuse(Code::Unauthenticated));
        // More than one request would carry.
        let ledger = Ledger::of(3_000);
        let (exporter, reports) = exporter(&ledger, &collector.url(), protocol);
        let error = exporter.flush(DEADLINE).await.unwrap_err();
        assert!(matches!(error, FlushError::Refused(ExportError::Denied(_))), "{error:?}");
        assert_eq!((reports.failures(), ledger.exported.load(Ordering::SeqCst)), (1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_that_ends_in_vain_says_how_the_last_attempt_failed() {
    for (protocol, said) in PROTOCOLS.into_iter().zip(["Unavailable", "503"]) {
        let collector = Receiver::start().unwrap();
        collector.behave(Behaviour::Refuse(Code::Unavailable));
        let (exporter, _) = exporter(&Ledger::of(2), &collector.url(), protocol);
        let mut deadline = Duration::from_millis(100);
        let last = loop {
            match exporter.flush(deadline).await.unwrap_err() {
                FlushError::Deadline { last: Some(last), .. } => break last,
                // Too short for an answer on this machine.
                FlushError::Deadline { last: None, .. } => deadline *= 2,
                refused => panic!("{refused:?}"),
            }
            assert!(deadline < DEADLINE);
        };
        assert!(last.to_string().contains(said), "{last}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preference_for_deltas_is_refused_once() {
    let collector = Receiver::start().unwrap();
    let set = [("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta")];
    let (_telemetry, written, _guard) = start(TelemetryMode::StdoutLogs, "");
    let (exporter, _) = exporter(&Ledger::of(2), &collector.url(), &set);
    for _ in 0..2 {
        exporter.flush(DEADLINE).await.unwrap();
    }
    collector.look(|received| {
        let (_, sample) = received.of("ledger.commits").next().unwrap();
        assert_eq!(sample.temporality, Temporality::Cumulative);
    });
    assert_eq!(written.count("asks for deltas"), 1, "{}", written.text());
}

#[test]
fn the_text_has_one_head_a_family_whoever_says_it() {
    let metrics = crate::Metrics::new().unwrap();
    metrics.meter("a").u64_counter("ledger_commits_total").with_description("Of ours.").build().add(1, &[]);
    metrics.meter("a").u64_counter("zebras_total").build().add(1, &[]);
    metrics.add_source(Ledger::of(1));
    metrics.add_source(Ledger::of(2));
    let text = metrics.render().unwrap();
    let thing = r#"k8s_resource_name="thing-0""#;
    let samples: Vec<_> = text.lines().take(6).collect();
    assert_eq!(
        samples,
        [
            "# HELP ledger_age_seconds What it means.",
            "# TYPE ledger_age_seconds gauge",
            &format!("ledger_age_seconds{{{thing}}} 1.5"),
            &format!("ledger_age_seconds{{{thing}}} 1.5"),
            r#"ledger_age_seconds{k8s_resource_name="thing-1"} 1.5"#,
            "# HELP ledger_commits_total Of ours.",
        ]
    );
    assert_eq!(text.matches("# TYPE ledger_commits_total counter\n").count(), 1, "{text}");
    for line in [
        "ledger_commits_total 1".to_owned(),
        format!("ledger_commits_total{{{thing}}} 7"),
        format!("ledger_export_time_seconds_bucket{{{thing},le=\"15\"}} 1"),
        format!("ledger_export_time_seconds_bucket{{{thing},le=\"60\"}} 1"),
        format!("ledger_export_time_seconds_bucket{{{thing},le=\"+Inf\"}} 3"),
        format!("ledger_export_time_seconds_sum{{{thing}}} 100.5"),
        format!("ledger_export_time_seconds_count{{{thing}}} 3"),
        "zebras_total 1".to_owned(),
    ] {
        assert!(text.lines().any(|other| other == line), "no {line} in {text}");
    }
}

#[test]
fn a_scrape_of_a_large_view_comes_in_pieces() {
    let metrics = crate::Metrics::new().unwrap();
    let ledger = Ledger::of(2_000);
    metrics.add_source(Arc::clone(&ledger) as _);
    let mut scrape = metrics.scrape().unwrap();
    let first = scrape.next().unwrap();
    assert!(ledger.copied() < 2_000, "{} of 8000 points for the first piece", ledger.copied());
    let all = scrape.fold(first, |text, piece| {
        assert!(piece.len() < 80 * 1024, "a piece of {} bytes", piece.len());
        text + &piece
    });
    assert_eq!(all.matches("ledger_export_time_seconds_count{").count(), 2_000);
}
