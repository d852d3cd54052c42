use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use windlass_telemetry::{CapturedLog, LogFormat};

use super::*;
use crate::BackoffPolicy;
use crate::testing::{Server, config_map, config_maps, list, status};

const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(1), max: Duration::from_secs(8), factor: 2.0, jitter: 0.0 };

/// A watch that runs against a scripted server, and what its handler was told.
struct Bench {
    server: Server,
    told: mpsc::UnboundedReceiver<String>,
    store: Store<ConfigMap>,
    health: Health,
    shutdown: CancellationToken,
    run: JoinHandle<()>,
}

fn start() -> Bench {
    start_with(|_| {})
}

fn start_with(change: impl FnOnce(&mut WatchConfig)) -> Bench {
    let (server, client) = Server::new();
    let mut config = WatchConfig { backoff: BACKOFF, ..WatchConfig::new("configmaps") };
    change(&mut config);
    let watch = Watch::new(config_maps(client), config);
    let (tell, told) = mpsc::unbounded_channel();
    let (store, health, shutdown) = (watch.store(), Health::new(), CancellationToken::new());
    let run = tokio::spawn(watch.run(health.clone(), shutdown.clone(), move |event| {
        let _ = tell.send(describe(&event));
    }));
    Bench { server, told, store, health, shutdown, run }
}

/// `+a@1` created, `a@1>2` changed, `-a@2` deleted, `=` synced.
fn describe(event: &Event<ConfigMap>) -> String {
    let at = |object: &ConfigMap| object.metadata.resource_version.clone().unwrap();
    let name = |object: &ConfigMap| object.metadata.name.clone().unwrap();
    match event {
        Event::Applied { old: None, new } => format!("+{}@{}", name(new), at(new)),
        Event::Applied { old: Some(old), new } => format!("{}@{}>{}", name(new), at(old), at(new)),
        Event::Deleted(object) => format!("-{}@{}", name(object), at(object)),
        Event::Synced => "=".to_owned(),
    }
}

impl Bench {
    /// Expects the handler to be told exactly this next.
    async fn expect(&mut self, events: &str) {
        let mut told = Vec::new();
        for _ in events.split_whitespace() {
            let event = tokio::time::timeout(Duration::from_hours(24), self.told.recv()).await;
            told.push(event.unwrap_or_else(|_| panic!("only {told:?} of {events:?} was told")).unwrap());
        }
        assert_eq!(told.join(" "), events);
        if let Ok(more) = self.told.try_recv() {
            panic!("{more:?} was told after {events:?}");
        }
    }

    /// Answers the first list with these objects at this version.
    async fn synced(&mut self, version: &str, objects: &[(&str, &str)]) {
        let items: Vec<_> = objects.iter().map(|(name, version)| config_map(name, version)).collect();
        self.server.next_list().await.list(version, &items);
        let told: Vec<_> = objects.iter().map(|(name, version)| format!("+{name}@{version} ")).collect();
        self.expect(&format!("{}=", told.concat())).await;
    }

    fn not_ready(&self) -> Option<String> {
        self.health.not_ready().first().map(ToString::to_string)
    }

    fn names(&self) -> Vec<String> {
        self.store.list().iter().map(|object| object.metadata.name.clone().unwrap()).collect()
    }

    /// Expects the next request at that second, give or take the millisecond that timers round up by.
    fn expect_second(&self, second: f64) {
        let now = self.server.seconds();
        assert!((now - second).abs() < 0.05, "expected second {second}, it is {now}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_collection_is_listed_by_pages_then_watched_from_that_version() {
    let mut bench = start_with(|config| {
        config.labels = Some("app=x".into());
        config.page_size = 2;
    });
    let first = bench.server.next_list().await;
    assert_eq!(first.path, "/api/v1/namespaces/default/configmaps");
    assert_eq!((&*first.query["limit"], &*first.query["labelSelector"]), ("2", "app%3Dx"));
    let mut page = list("10", &[config_map("a", "1"), config_map("b", "2")]);
    page["metadata"]["continue"] = "more".into();
    first.answer(&page);

    let second = bench.server.next_list().await;
    assert_eq!(second.query["continue"], "more");
    assert!(!bench.store.is_synced());
    second.list("10", &[config_map("c", "3")]);
    bench.expect("+a@1 +b@2 +c@3 =").await;

    let watch = bench.server.next_watch("10").await;
    assert_eq!(watch.query["labelSelector"], "app%3Dx");
    assert_eq!((&*watch.query["timeoutSeconds"], &*watch.query["allowWatchBookmarks"]), ("60", "true"));
    bench.store.synced().await;
    assert_eq!(bench.names(), ["a", "b", "c"]);
    assert_eq!(bench.store.list_in("default").len(), 3);
    assert_eq!(bench.store.list_in("defaul").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_with_what_was_known_before_and_the_store_is_current() {
    let mut bench = start();
    bench.synced("10", &[("a", "1")]).await;
    let mut events = bench.server.next_watch("10").await.stream();
    events.send("ADDED", &config_map("b", "11")).await;
    events.send("MODIFIED", &config_map("a", "12")).await;
    events.send("DELETED", &config_map("a", "13")).await;
    bench.expect("+b@11 a@1>12 -a@13").await;
    assert_eq!(bench.names(), ["b"]);
    assert!(bench.store.get(&ObjectKey::new("default", "b")).is_some());
    // What the watch does not know cannot be deleted, and what it knows is no news.
    events.send("DELETED", &config_map("x", "14")).await;
    events.send("MODIFIED", &config_map("b", "11")).await;
    events.send("UNHEARD-OF", &config_map("b", "15")).await;
    events.send("ADDED", &config_map("c", "16")).await;
    bench.expect("+c@16").await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_gone_leads_to_a_new_list_and_the_difference_is_told() {
    let mut bench = start();
    bench.synced("10", &[("again", "4"), ("changed", "1"), ("same", "2"), ("vanished", "3")]).await;
    bench.server.next_watch("10").await.refuse(410, "Expired");

    let mut again = config_map("again", "40");
    again["metadata"]["uid"] = "another".into();
    let items = [config_map("changed", "20"), config_map("same", "2"), again, config_map("new", "21")];
    bench.server.next_list().await.list("50", &items);
    bench.expect("-vanished@3 -again@4 +again@40 changed@1>20 +new@21 =").await;
    assert_eq!(bench.names(), ["again", "changed", "new", "same"]);
    bench.server.next_watch("50").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_says_gone_in_its_stream_lists_again() {
    let mut bench = start();
    bench.synced("10", &[("a", "1")]).await;
    let mut events = bench.server.next_watch("10").await.stream();
    events.send("ERROR", &status(410, "Expired")).await;
    bench.server.next_list().await.list("20", &[]);
    bench.expect("-a@1 =").await;
    assert!(bench.store.is_empty() && bench.store.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_forgetting_is_listed_with_growing_delays() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    for second in [1.0, 3.0, 7.0, 15.0, 23.0] {
        bench.server.next_watch("10").await.refuse(410, "Expired");
        let asked = bench.server.next_list().await;
        bench.expect_second(second);
        asked.list("10", &[]);
        bench.expect("=").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_goes_on_from_the_last_version_without_loss() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    let mut events = bench.server.next_watch("10").await.stream();
    events.send("ADDED", &config_map("a", "11")).await;
    events.raw("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"half").await;
    events.break_off().await;
    bench.expect("+a@11").await;
    let mut events = bench.server.next_watch("11").await.stream();
    bench.expect_second(1.0);
    events.send("ADDED", &config_map("b", "12")).await;
    bench.expect("+b@12").await;
}

#[tokio::test(start_paused = true)]
async fn a_line_may_arrive_in_pieces() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    let mut events = bench.server.next_watch("10").await.stream();
    let line = format!("\n{}\r\n", json!({"type": "ADDED", "object": config_map("a", "11")}));
    let (head, tail) = line.split_at(line.len() / 2);
    events.raw(head).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    events.raw(tail).await;
    bench.expect("+a@11").await;
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_version_to_go_on_from() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    let mut events = bench.server.next_watch("10").await.stream();
    events.bookmark("99").await;
    drop(events);
    bench.server.next_watch("99").await;
    bench.expect_second(0.0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_server_ends_in_time_is_made_again_at_once() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    for minute in 1..4 {
        let events = bench.server.next_watch("10").await.stream();
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(events);
        bench.expect_second(f64::from(minute) * 60.0);
    }
    assert_eq!(bench.not_ready(), None);
}

#[tokio::test(start_paused = true)]
async fn connections_that_end_at_once_are_made_again_with_growing_delays() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    for second in [0.0, 1.0, 3.0, 7.0, 15.0, 23.0] {
        let asked = bench.server.next_watch("10").await;
        bench.expect_second(second);
        drop(asked.stream());
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_noticed_after_its_limit_and_margin() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    let silent = bench.server.next_watch("10").await.stream();
    bench.server.next_watch("10").await;
    bench.expect_second(71.0);
    silent.abandoned().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_not_answered_is_given_up_after_its_deadline() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    let _unanswered = bench.server.next_watch("10").await;
    bench.server.next_watch("10").await;
    bench.expect_second(31.0);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_asked_with_growing_delays_and_the_process_is_not_ready() {
    let mut bench = start();
    assert_eq!(bench.server.next_list().await.query.get("continue"), None);
    assert_eq!(bench.not_ready().unwrap(), "watch configmaps: the first list is not finished");
    // 30 s for each call, then 1, 2, 4, 8, 8 s.
    for second in [31.0, 63.0, 97.0, 135.0] {
        let _unanswered = bench.server.next_list().await;
        bench.expect_second(second);
    }
    assert_eq!(
        bench.not_ready().unwrap(),
        "watch configmaps: failed to list configmaps: no answer within 30s"
    );
    bench.synced("10", &[("a", "1")]).await;
    bench.expect_second(173.0);
    assert_eq!(bench.not_ready(), None);
}

#[tokio::test(start_paused = true)]
async fn a_failure_now_and_then_leaves_the_process_ready_and_the_delays_short() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    for version in 10..20 {
        let mut events = bench.server.next_watch(&version.to_string()).await.stream();
        bench.expect_second(f64::from(version - 10));
        events.bookmark(&(version + 1).to_string()).await;
        events.break_off().await;
    }
    assert_eq!(bench.not_ready(), None);
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_names_the_servers_reason_when_it_keeps_failing() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    for _ in 0..3 {
        bench.server.next_watch("10").await.refuse(403, "Forbidden");
    }
    let next = bench.server.next_watch("10").await;
    let expected = "watch configmaps: failed to watch configmaps: refused as Forbidden (403); \
                    give this account the right: see deploy/rbac";
    assert_eq!(bench.not_ready().unwrap(), expected);
    let mut events = next.stream();
    events.send("ADDED", &config_map("a", "11")).await;
    bench.expect("+a@11").await;
    assert_eq!(bench.not_ready(), None, "it mended itself");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_can_be_done_without_leaves_the_process_ready_and_is_told_of_once() {
    let logged = CapturedLog::start(LogFormat::Json, "info").unwrap();
    let lines = || logged.text();
    let mut bench = start_with(|config| config.fallback = Some("it is read now and then"));
    assert_eq!(bench.not_ready(), None);
    for _ in 0..5 {
        bench.server.next_list().await.refuse(403, "Forbidden");
    }
    bench.server.next_list().await.list("10", &[config_map("a", "1")]);
    bench.expect("+a@1 =").await;
    assert_eq!(bench.not_ready(), None);
    let told: Vec<String> = lines().lines().map(str::to_owned).collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].contains("deploy/rbac; until then it is read now and then"), "{told:#?}");
    assert!(told[1].contains("the watch works again"), "{told:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_endless_list_is_given_up() {
    let mut bench = start_with(|config| config.list_deadline = Duration::from_secs(100));
    for _ in 0..10 {
        let asked = bench.server.next_list().await;
        tokio::time::sleep(Duration::from_secs(9)).await;
        let mut page = list("10", &[]);
        page["metadata"]["continue"] = "more".into();
        asked.answer(&page);
    }
    let _unanswered = bench.server.next_list().await;
    let again = bench.server.next_list().await;
    bench.expect_second(101.0);
    assert_eq!(again.query.get("continue"), None);
}

#[tokio::test(start_paused = true)]
async fn liveness_follows_signs_of_life_of_the_server() {
    let mut bench = start();
    bench.synced("10", &[]).await;
    for version in 0..20 {
        let mut events = bench.server.next_watch("10").await.stream();
        tokio::time::sleep(Duration::from_secs(50)).await;
        events.bookmark("10").await;
        assert_eq!(bench.health.stalled(), [], "at bookmark {version}");
    }
    // Refusals are signs of life too.
    for _ in 0..50 {
        bench.server.next_watch("10").await.refuse(503, "ServiceUnavailable");
        assert_eq!(bench.health.stalled(), [], "at second {}", bench.server.seconds());
    }
    // From here on nothing is answered.
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(bench.health.stalled(), []);
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(bench.health.stalled()[0].name, "watch configmaps");
}

#[tokio::test(start_paused = true)]
async fn a_resync_tells_every_object_again() {
    let mut bench = start_with(|config| config.resync = Some(Duration::from_secs(20)));
    bench.synced("10", &[("a", "1"), ("b", "2")]).await;
    let _events = bench.server.next_watch("10").await.stream();
    bench.expect("a@1>1 b@2>2").await;
    bench.expect_second(20.0);
    bench.expect("a@1>1 b@2>2").await;
    bench.expect_second(40.0);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_watch_wherever_it_is() {
    let mut waiting_for_list = start();
    let _unanswered = waiting_for_list.server.next_list().await;
    let mut watching = start();
    watching.synced("10", &[]).await;
    let events = watching.server.next_watch("10").await.stream();
    for bench in [waiting_for_list, watching] {
        bench.shutdown.cancel();
        bench.run.await.unwrap();
        assert_eq!(bench.health.not_ready(), [], "what has ended holds nothing up");
    }
    events.abandoned().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_is_skipped_with_one_line_that_names_it() {
    let logged = CapturedLog::start(LogFormat::Json, "info").unwrap();
    let lines = || logged.text();
    let odd = |name: &str, version: &str| {
        let mut object = config_map(name, version);
        object["data"] = json!({"key": 5});
        object
    };

    let mut bench = start();
    bench.server.next_list().await.list("10", &[odd("odd", "1"), config_map("good", "2")]);
    bench.expect("+good@2 =").await;
    let mut events = bench.server.next_watch("10").await.stream();
    events.send("MODIFIED", &odd("good", "11")).await;
    events.send("MODIFIED", &odd("odd", "1")).await;
    events.send("ADDED", &config_map("b", "12")).await;
    bench.expect("+b@12").await;
    assert_eq!(bench.names(), ["b", "good"], "the last version that could be read is kept");
    assert_eq!(lines().lines().count(), 2, "{}", lines());
    assert!(lines().contains(r#""object":"default/odd""#) && lines().contains("invalid type"), "{}", lines());

    // Listed again, still odd: it exists, and it was logged.
    events.send("ERROR", &status(410, "Expired")).await;
    bench.server.next_list().await.list("20", &[odd("good", "11"), odd("odd", "1"), config_map("b", "12")]);
    bench.expect("=").await;
    assert_eq!(lines().matches("cannot be read").count(), 2, "{}", lines());

    let mut events = bench.server.next_watch("20").await.stream();
    events.send("MODIFIED", &config_map("odd", "21")).await;
    events.send("DELETED", &odd("good", "22")).await;
    bench.expect("+odd@21 -good@2").await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_list_and_an_event_that_is_no_json_are_failures() {
    let mut bench = start();
    bench.server.next_list().await.answer(&json!(["not a list"]));
    bench.synced("10", &[]).await;
    let mut events = bench.server.next_watch("10").await.stream();
    events.raw("<html>\n").await;
    let mut events = bench.server.next_watch("10").await.stream();
    events.send("ADDED", &config_map("a", "11")).await;
    bench.expect("+a@11").await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_overtaken_by_a_compaction_is_read_in_one_page() {
    let mut bench = start_with(|config| config.page_size = 1);
    let mut page = list("10", &[config_map("a", "1")]);
    page["metadata"]["continue"] = "more".into();
    bench.server.next_list().await.answer(&page);
    let next = bench.server.next_list().await;
    assert_eq!(next.query["continue"], "more");
    next.refuse(410, "Expired");
    let whole = bench.server.next_list().await;
    bench.expect_second(0.0);
    assert_eq!((whole.query.get("continue"), whole.query.get("limit")), (None, None), "{:?}", whole.query);
    whole.list("20", &[config_map("b", "12"), config_map("c", "15")]);
    bench.expect("+b@12 +c@15 =").await;
    bench.server.next_watch("20").await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sends_a_list_slowly_is_alive_and_one_that_falls_silent_is_not() {
    let mut bench = start();
    let mut slow = bench.server.next_list().await.stream();
    let whole = list("10", &[config_map("a", "1")]).to_string();
    let pieces: Vec<&str> =
        whole.as_bytes().chunks(7).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
    for piece in pieces {
        tokio::time::sleep(Duration::from_secs(29)).await;
        slow.raw(piece).await;
        assert_eq!(bench.health.stalled(), [], "at second {}", bench.server.seconds());
    }
    assert!(bench.server.seconds() > 600.0, "it took {} s", bench.server.seconds());
    drop(slow);
    bench.expect("+a@1 =").await;

    let mut bench = start();
    let mut silent = bench.server.next_list().await.stream();
    silent.raw("{").await;
    bench.server.next_list().await;
    bench.expect_second(31.0);
    silent.abandoned().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_named_and_taken_up_when_it_appears() {
    let (mut server, client) = Server::new();
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(client, "ours");
    let remedy = "kubectl apply -f deploy/crds or whatever else has them";
    let config = WatchConfig { backoff: BACKOFF, remedy, ..WatchConfig::new("deployments") };
    let watch = Watch::new(deployments, config);
    let (health, store) = (Health::new(), watch.store());
    tokio::spawn(watch.run(health.clone(), CancellationToken::new(), |_event| {}));
    let said = || health.not_ready()[0].to_string();

    for _ in 0..3 {
        server.next_list().await.refuse(404, "NotFound");
        let group = server.next().await;
        assert_eq!(group.path, "/apis/apps");
        group.refuse(404, "NotFound");
    }
    server.next_list().await.refuse(404, "NotFound");
    assert!(said().contains("deployments.apps is missing") && said().contains(remedy));
    server
        .next()
        .await
        .answer(&json!({"kind": "APIGroup", "versions": [{"version": "v2"}, {"version": "v3"}]}));
    let appeared = server.next_list().await;
    assert!(said().contains("has apps in version v2, v3, and this program needs v1"), "{}", said());
    appeared.list("10", &[]);
    store.synced().await;
    server.next_watch("10").await.refuse(404, "NotFound");
    server.next().await.answer(&json!({"kind": "APIGroup", "versions": [{"version": "v1"}]}));
    // Taken away and brought back: what it holds then is another collection.
    server.next_list().await.list("20", &[]);
    server.next_watch("20").await;
    assert_eq!(health.not_ready(), []);
}
