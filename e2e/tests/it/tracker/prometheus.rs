//! A real Prometheus on what the tracker shows, and on what it pushes through the compose stack's collector: every rule
//! and every query of the dashboard.

mod collector;
mod native;
mod server;

use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::{Value, json};
use windlass_e2e::{Peers, eventually, page};
use windlass_otlp_receiver::Receiver;

use self::collector::Collector;
use self::native::Native;
use self::server::{Prometheus, check_with_promtool};
use super::{DEADLINE, Delivery, borrowed, says, tells};

const DASHBOARD: &str = "deploy/compose/grafana/dashboards/commit-delivery.json";
/// Queries of the dashboard that have no answer here: there is no exporter that a commit could have waited for.
const EMPTY: &str = "flux_commit_tracker_stage_export_time_seconds";
/// What the recording rules are there for.
const RECORDED: &str = "commit_delivery:late_ratio:rate5m";
/// The histogram of whole ways.
const END_TO_END: &str = "flux_commit_tracker_e2e_export_time_seconds";

/// Title, and query as Grafana would send it, of each panel that asks Prometheus.
fn queries() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(page::root().join(DASHBOARD)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            if panel["datasource"]["type"] != "prometheus" {
                continue;
            }
            let query = [
                ("$namespace", ".*"),
                ("$kustomization", ".*"),
                ("$__rate_interval", "5m"),
                ("$__range", "5m"),
            ];
            let asked = target["expr"].as_str().unwrap().to_owned();
            let asked = query.iter().fold(asked, |asked, (name, value)| asked.replace(name, value));
            assert!(!asked.contains('$'), "{asked}");
            queries.push((format!("{}, {}", panel["title"], target["refId"]), asked));
        }
    }
    assert!(queries.len() > 10, "{queries:#?}");
    queries
}

/// Waits until every rule was evaluated without an error, and every query of the dashboard has an answer.
async fn check(prometheus: &Prometheus) {
    let rules = async || -> Result<Option<()>> {
        let groups = prometheus.ask("rules", &[]).await?["groups"].take();
        let rules: Vec<&Value> = groups.as_array().into_iter().flatten().flat_map(each_rule).collect();
        let expressions = prometheus.expressions();
        assert_eq!(rules.len(), expressions, "{rules:#?}");
        for rule in rules {
            assert_ne!(rule["health"], "err", "{rule:#}");
            if rule["health"] != "ok" {
                bail!("{rule:#}");
            }
        }
        Ok(Some(()))
    };
    eventually("every rule is evaluated", rules).await.unwrap();
    for (title, query) in queries().into_iter().chain([("recorded".to_owned(), RECORDED.to_owned())]) {
        if query.contains(EMPTY) {
            assert_eq!(prometheus.query(&query).await.unwrap(), [0.0; 0], "{title}: is there an exporter?");
            continue;
        }
        let what = format!("{title} is answered: {query}");
        let answered = eventually(&what, || async {
            let values = prometheus.query(&query).await?;
            // Where nothing increased yet there is no share of it.
            if values.iter().any(|value| value.is_finite()) { Ok(Some(())) } else { bail!("{values:?}") }
        });
        answered.await.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", prometheus.said()));
    }
}

fn each_rule(group: &Value) -> impl Iterator<Item = &Value> {
    group["rules"].as_array().into_iter().flatten()
}

#[tokio::test]
async fn a_prometheus_evaluates_every_rule_and_every_query_of_the_dashboard_on_both_forms_of_histogram() {
    if !Peers::present(&["prometheus", "promtool"]).unwrap() {
        return;
    }
    check_with_promtool().await.unwrap();
    let Some(mut fleet) = Delivery::with(json!({"wait": true})).await else { return };
    let receiver = Arc::new(Receiver::start().unwrap());
    let Some(collector) = Collector::start(&receiver).await.unwrap() else { return };
    let environment = tells(&collector.address);
    let tracker = fleet.tracker(&[], &borrowed(&environment)).await;
    says(&tracker, "leading").await;
    let native = Native::serve(Arc::clone(&receiver)).await.unwrap();
    let scraped = Prometheus::start(tracker.metrics).await.unwrap();
    let pushed = Prometheus::start(native.port).await.unwrap();

    // Counts have to grow while somebody looks, and the stages begin with their first commit.
    for delivered in 1..=2 {
        fleet.deliver(1).await;
        fleet.counted(&tracker, delivered).await;
        for prometheus in [&scraped, &pushed] {
            let sum = format!("sum(histogram_count({END_TO_END}) or {END_TO_END}_count)");
            let seen = eventually("it is scraped", || async {
                let values = prometheus.query(&sum).await?;
                if values == [delivered as f64] { Ok(Some(())) } else { bail!("{values:?}") }
            });
            seen.await.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", prometheus.said()));
        }
    }
    fleet.kustomization.patch(json!({"spec": {"suspend": true}})).await.unwrap();
    let waits = fleet.commit().await;
    fleet.publish(&waits).await;

    tokio::join!(check(&scraped), check(&pushed));
    let forms = async |prometheus: &Prometheus| {
        let native = prometheus.query(&format!("histogram_count({END_TO_END})")).await.unwrap().len();
        (native, prometheus.query(&format!("{END_TO_END}_count")).await.unwrap().len())
    };
    assert_eq!(forms(&scraped).await, (0, 1), "what is scraped has classic buckets");
    assert_eq!(forms(&pushed).await, (1, 0), "what is pushed has exponential ones");
    // Both forms tell the same: the sum is exact, and the quantile as far as buckets go.
    let sum = |form: &str| format!("sum({form})");
    let classic = scraped.query(&sum(&format!("{END_TO_END}_sum"))).await.unwrap();
    let exponential = pushed.query(&sum(&format!("histogram_sum({END_TO_END})"))).await.unwrap();
    assert!((classic[0] - exponential[0]).abs() < 1e-6, "{classic:?} and {exponential:?}");
    let (least, most) = {
        let commits = fleet.commits.split_off(2);
        let bounds = fleet.all_bounds().unwrap();
        fleet.commits.extend(commits);
        bounds
    };
    assert!((least..=most).contains(&classic[0]), "{classic:?} of {least} to {most}");

    // Each signal has a way of its own through the collector.
    let handed_on = receiver.until(DEADLINE, |received| {
        let mut spans = received.spans_of("reconcile");
        let mut lines = received.logs_of("leading");
        spans.next().and(lines.next()).is_some().then_some(())
    });
    assert!(handed_on.await.is_some(), "the collector said:\n{}", collector.said());
}
