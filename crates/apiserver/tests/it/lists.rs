use serde_json::json;

use crate::common::*;

async fn seeded() -> windlass_apiserver::ApiServer {
    let server = server();
    for index in 0..10 {
        let mut body = widget(&format!("w{index}"));
        body["metadata"]["labels"] = json!({ "parity": if index % 2 == 0 { "even" } else { "odd" } });
        body["spec"]["color"] = json!(if index < 3 { "blue" } else { "red" });
        post(&server, WIDGETS, &body).await.expect(201);
    }
    let elsewhere = WIDGETS.replace("default", "other");
    post(&server, &elsewhere, &widget("w0")).await.expect(201);
    server
}

#[tokio::test]
async fn lists_span_a_namespace_or_all() {
    let server = seeded().await;
    let list = get(&server, WIDGETS).await.expect(200);
    assert_eq!(list["kind"], "WidgetList");
    assert_eq!(list["apiVersion"], "example.dev/v1");
    assert_eq!(names(&list).len(), 10);
    assert_eq!(version(&list), server.revision());
    assert_eq!(names(&get(&server, "/apis/example.dev/v1/widgets").await.expect(200)).len(), 11);
    assert!(names(&get(&server, GADGETS).await.expect(200)).is_empty());
}

#[tokio::test]
async fn selectors_narrow_a_list() {
    let server = seeded().await;
    for (query, expected) in [
        ("labelSelector=parity=even", 5),
        ("labelSelector=parity+in+(even,odd)", 10),
        ("labelSelector=!parity", 0),
        ("fieldSelector=metadata.name=w1", 1),
        ("fieldSelector=metadata.name!=w1", 9),
        ("fieldSelector=spec.color=blue", 3),
        ("fieldSelector=spec.color=blue&labelSelector=parity=even", 2),
    ] {
        let list = get(&server, &format!("{WIDGETS}?{query}")).await.expect(200);
        assert_eq!(names(&list).len(), expected, "{query}");
    }
    let bad = get(&server, &format!("{WIDGETS}?fieldSelector=spec.size=3")).await;
    assert_eq!(bad.message(), "field label not supported: spec.size");
    bad.expect(400);
    get(&server, &format!("{WIDGETS}?labelSelector=a=b=c")).await.expect(400);
}

#[tokio::test]
async fn pages_are_of_one_snapshot() {
    let server = seeded().await;
    let first = get(&server, &format!("{WIDGETS}?limit=4")).await.expect(200);
    assert_eq!(names(&first), ["w0", "w1", "w2", "w3"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 6);
    delete(&server, &format!("{WIDGETS}/w5")).await.expect(200);
    post(&server, WIDGETS, &widget("w55")).await.expect(201);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = get(&server, &format!("{WIDGETS}?limit=4&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["w4", "w5", "w6", "w7"], "as of the first page");
    assert_eq!(version(&second), version(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = get(&server, &format!("{WIDGETS}?limit=4&continue={token}")).await.expect(200);
    assert_eq!(names(&third), ["w8", "w9"]);
    assert_eq!(third["metadata"]["continue"], "");
    assert_eq!(third["metadata"].get("remainingItemCount"), None);
}

#[tokio::test]
async fn pages_of_a_selection_are_full_and_complete() {
    let server = seeded().await;
    let mut path = format!("{WIDGETS}?limit=2&labelSelector=parity=odd");
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let page = get(&server, &path).await.expect(200);
        assert_eq!(page["metadata"].get("remainingItemCount"), None, "unknown under a selector");
        found.extend(names(&page).into_iter().map(str::to_owned));
        pages += 1;
        match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => path = format!("{WIDGETS}?limit=2&labelSelector=parity=odd&continue={token}"),
            None => break,
        }
    }
    assert_eq!(found, ["w1", "w3", "w5", "w7", "w9"]);
    assert_eq!(pages, 3);
}

#[tokio::test]
async fn a_continue_token_is_judged() {
    let server = seeded().await;
    get(&server, &format!("{WIDGETS}?continue=nonsense")).await.expect(400);
    let first = get(&server, &format!("{WIDGETS}?limit=4")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    get(&server, &format!("{WIDGETS}?continue={token}&resourceVersion=3")).await.expect(400);
    let elsewhere = WIDGETS.replace("default", "other");
    // A token is a place in the collection of the path.
    assert_eq!(names(&get(&server, &format!("{elsewhere}?continue={token}")).await.expect(200)), [""; 0]);
}

#[tokio::test]
async fn a_page_whose_snapshot_is_gone_says_how_to_go_on() {
    let store = windlass_store::in_memory(&windlass_store::StoreOptions {
        snapshots: 1,
        log_events: 1,
        log_grace: std::time::Duration::ZERO,
        ..Default::default()
    })
    .unwrap();
    let server = server_over(store);
    for index in 0..6 {
        post(&server, WIDGETS, &widget(&format!("w{index}"))).await.expect(201);
    }
    let first = get(&server, &format!("{WIDGETS}?limit=2")).await.expect(200);
    post(&server, WIDGETS, &widget("w8")).await.expect(201);
    post(&server, WIDGETS, &widget("w9")).await.expect(201);
    // Another snapshot takes the only place.
    get(&server, &format!("{WIDGETS}?limit=2")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let gone = get(&server, &format!("{WIDGETS}?limit=2&continue={token}")).await.expect(410);
    assert_eq!(gone["reason"], "Expired");
    let token = gone["metadata"]["continue"].as_str().unwrap();
    let rest = get(&server, &format!("{WIDGETS}?continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["w2", "w3", "w4", "w5", "w8", "w9"], "the latest state");
}

#[tokio::test]
async fn versions_of_lists_follow_the_rules() {
    let server = seeded().await;
    let now = server.revision();
    get(&server, &format!("{WIDGETS}?resourceVersion=0")).await.expect(200);
    get(&server, &format!("{WIDGETS}?resourceVersion={now}&resourceVersionMatch=Exact")).await.expect(200);
    get(&server, &format!("{WIDGETS}?resourceVersion=1&resourceVersionMatch=NotOlderThan")).await.expect(200);
    // What happened since is known, so the past is.
    let exact = format!("{WIDGETS}?resourceVersion={}&resourceVersionMatch=Exact", now - 2);
    let past = get(&server, &exact).await.expect(200);
    assert_eq!(version(&past), now - 2);
    let present = get(&server, WIDGETS).await.expect(200);
    assert_eq!(names(&past).len(), names(&present).len() - 1);
    let future = get(&server, &format!("{WIDGETS}?resourceVersion={}", now + 100)).await;
    assert_eq!(
        future.message(),
        format!("Timeout: Too large resource version: {}, current: {now}", now + 100)
    );
    future.expect(504);
    for query in [
        "resourceVersionMatch=Exact",
        "resourceVersion=1&resourceVersionMatch=What",
        "sendInitialEvents=true",
    ] {
        get(&server, &format!("{WIDGETS}?{query}")).await.expect(422);
    }
    get(&server, &format!("{WIDGETS}?resourceVersion=x")).await.expect(400);
}

#[tokio::test]
async fn long_answers_are_compressed_for_who_reads_that_and_short_ones_are_not() {
    use std::io::Read as _;
    let server = server();
    for index in 0..40 {
        let mut widget = widget(&format!("w{index}"));
        widget["metadata"]["annotations"] = json!({ "long": "text ".repeat(1000) });
        post(&server, WIDGETS, &widget).await.expect(201);
    }
    let plain = get(&server, WIDGETS).await.expect(200);
    let ask = async |path: &str| {
        let request = raw(http::Method::GET, path).header("accept-encoding", "br;q=0.5, gzip");
        let answer = request.response(&server).await;
        let coding = answer.headers().get("content-encoding").map(|value| value.to_str().unwrap().to_owned());
        (coding, axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap())
    };
    let (coding, bytes) = ask(WIDGETS).await;
    assert_eq!(coding.as_deref(), Some("gzip"));
    assert!(bytes.len() < 40_000, "{}", bytes.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), plain);
    let (coding, bytes) = ask(&format!("{WIDGETS}/w1")).await;
    assert_eq!(coding, None);
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()["metadata"]["name"], "w1");
}
