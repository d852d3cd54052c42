//! Scripts that are played at once to the same objects end alike on both servers, whoever comes first.

use futures::future::join_all;
use serde_json::{Value, json};
use windlass_conformance::{Pair, Server, parse, play};

const CONFIG_MAPS: &str = "/api/v1/namespaces/{{ns}}/configmaps";
const WIDGETS: &str = "/apis/conformance.windlass.dev/v1/namespaces/{{ns}}/widgets";
const WIDGET: &str = "{apiVersion: conformance.windlass.dev/v1, kind: Widget, metadata: {name: a}";
/// How many scripts are played at once.
const WRITERS: usize = 8;
/// How often each of them writes.
const ROUNDS: usize = 5;

/// One server, and the namespace that scripts are played in.
struct Scene<'a> {
    server: &'a Server,
    namespace: &'a str,
}

impl Scene<'_> {
    /// The answers to the requests of a script.
    async fn play(&self, requests: &str) -> Vec<Value> {
        let script = parse("together", &format!("=== at once\n{requests}")).unwrap().remove(0);
        play(self.server, &script, self.namespace).await.into_iter().map(Result::unwrap).collect()
    }

    /// Plays what each writer asks for, at once: the status and reason of each answer, in an order of their own.
    async fn at_once(&self, requests: impl Fn(usize) -> String) -> Vec<String> {
        let answers = join_all((0..WRITERS).map(|writer| {
            let requests = requests(writer);
            async move { self.play(&requests).await }
        }));
        let brief = |answer: &Value| format!("{} {}", answer["status"], answer["body"]["reason"]);
        let mut outcomes: Vec<String> = answers.await.iter().flatten().map(brief).collect();
        outcomes.sort();
        outcomes
    }
}

/// An object without what differs between servers and runs.
fn comparable(answer: &Value) -> Value {
    let mut object = answer["body"].clone();
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    let managers = object["metadata"]["managedFields"].as_array_mut().unwrap();
    for manager in managers.iter_mut() {
        manager.as_object_mut().unwrap().remove("time");
    }
    managers.sort_by_key(|manager| manager["manager"].to_string());
    object
}

/// Each writer writes a field of its own, in a way of its own.
async fn fields(scene: &Scene<'_>) -> Value {
    let made =
        format!("POST {WIDGETS}?fieldManager=made\n{WIDGET}, spec: {{size: 1, free: {{kept: 1}}}}}}\n");
    scene.play(&made).await;
    let outcomes = scene.at_once(|writer| {
        let at = |part: &str| format!("{WIDGETS}/a{part}?fieldManager=m{writer}");
        let rounds = (0..ROUNDS).map(|round| match writer % 4 {
            0 => format!("MERGE {}\n{{spec: {{free: {{f{writer}: {round}}}}}}}\n", at("")),
            1 => format!("JSONPATCH {}\n[{{op: add, path: /spec/free/f{writer}, value: {round}}}]\n", at("")),
            2 => format!("APPLY {}\n{WIDGET}, spec: {{free: {{f{writer}: {round}}}}}}}\n", at("")),
            _ => format!("MERGE {}\n{{status: {{phase: Ready, observed: {round}}}}}\n", at("/status")),
        });
        rounds.collect()
    });
    let outcomes = outcomes.await;
    let mut left = comparable(&scene.play(&format!("GET {WIDGETS}/a\n")).await[0]);
    // Whose status is the last is nobody's to say.
    left.as_object_mut().unwrap().remove("status");
    let managers = left["metadata"]["managedFields"].as_array_mut().unwrap();
    managers.retain(|manager| manager["subresource"] != "status");
    json!({ "outcomes": outcomes, "left": left })
}

/// All of them want the same: one gets it.
async fn races(scene: &Scene<'_>) -> Value {
    let map = |writer: usize, version: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: b{version}}}, data: {{by: \"{writer}\"}}}}\n"
        )
    };
    let created = scene.at_once(|writer| format!("POST {CONFIG_MAPS}\n{}", map(writer, ""))).await;
    let found = scene.play(&format!("GET {CONFIG_MAPS}/b\n")).await;
    let version = format!(", resourceVersion: {}", found[0]["body"]["metadata"]["resourceVersion"]);
    let replaced = scene.at_once(|writer| {
        // One of them would write what is there already.
        format!("PUT {CONFIG_MAPS}/b\n{}", map(writer + WRITERS, &version))
    });
    let replaced = replaced.await;
    let deleted = scene.at_once(|_| format!("DELETE {CONFIG_MAPS}/b\n")).await;
    json!({ "created": created, "replaced": replaced, "deleted": deleted })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_played_at_once_end_alike() {
    let Some(pair) = Pair::start().await.unwrap() else { return };
    let namespace = &pair.namespace().await.unwrap();
    let real = Scene { server: &pair.real, namespace };
    let embedded = Scene { server: pair.embedded.server(), namespace };
    let expected = fields(&real).await;
    assert_eq!(expected["outcomes"], json!(vec!["200 null"; WRITERS * ROUNDS]));
    assert_eq!(fields(&embedded).await, expected);
    let expected = races(&real).await;
    assert_eq!(expected["replaced"][0], "200 null", "one of them is the first");
    assert_eq!(races(&embedded).await, expected);
}
