//! What the definitions refuse, on a real kube-apiserver and on the embedded server: the same text for the same object.

use kube::Client;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_cluster::Cluster;

/// Stands for every secret of the examples.
const CANARY: &str = "swordfish-4e1c7a";

/// The examples of `windlass-api`, each with a secret that may be seen nowhere.
fn examples() -> Value {
    let text = include_str!("../../../../crates/api/tests/rules.yaml").replace("canary", CANARY);
    windlass_api::yaml::parse(&text).unwrap()
}

/// An API server with a place for each example.
struct Place {
    client: Client,
    /// The namespace for an example.
    namespace: fn(&str, &str) -> String,
    own: String,
}

impl Place {
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let merge = method == "PATCH";
        let media = if merge { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .body(serde_json::to_vec(body).unwrap())
            .unwrap();
        match self.client.request::<Value>(request).await {
            Ok(answer) => Ok(answer),
            Err(kube::Error::Api(refusal)) => Err(serde_json::to_value(&*refusal).unwrap()),
            Err(other) => panic!("{method} {path}: {other:?}"),
        }
    }

    /// What becomes of one half of an example.
    async fn attempt(
        &self,
        kind: &str,
        rule: &str,
        base: &Value,
        example: &Value,
        half: &str,
    ) -> Result<(), Value> {
        let namespace = (self.namespace)(&self.own, rule);
        let collection = format!("/apis/provisioning.grafana.app/v0alpha1/namespaces/{namespace}/{kind}");
        let mut object = base.clone();
        object["metadata"]["name"] = format!("{rule}-{half}").into();
        json_patch::merge(&mut object, &example.get("given").cloned().unwrap_or_else(|| json!({})));
        if example["update"] != true {
            json_patch::merge(&mut object, &example[half]);
            return self.ask("POST", &format!("{collection}?dryRun=All"), &object).await.map(drop);
        }
        let path = format!("{collection}/{rule}-{half}");
        self.ask("POST", &collection, &object).await.unwrap();
        if let Some(status) = example.get("status") {
            self.ask("PATCH", &format!("{path}/status"), &json!({ "status": status })).await.unwrap();
        }
        let answer = self.ask("PATCH", &format!("{path}?dryRun=All"), &example[half]).await.map(drop);
        // Whoever guards its deletion is not here.
        let freed = json!({ "metadata": { "finalizers": null } });
        self.ask("DELETE", &path, &json!({})).await.unwrap();
        let _gone_already = self.ask("PATCH", &path, &freed).await;
        answer
    }
}

/// Message, reason and causes, the causes in one order: kube-apiserver walks its maps in any.
fn words(refusal: &Value) -> (Value, Vec<String>) {
    let mut causes: Vec<String> =
        refusal["details"]["causes"].as_array().into_iter().flatten().map(Value::to_string).collect();
    causes.sort();
    (refusal["reason"].clone(), causes)
}

#[tokio::test]
async fn every_rule_refuses_the_same_with_the_same_words_on_both_servers() {
    let Some(cluster) = Cluster::shared().await.unwrap() else { return };
    let namespace = cluster.namespace("rules").await.unwrap();
    let real = Place {
        client: cluster.admin().await.unwrap(),
        namespace: |own, _rule| own.to_owned(),
        own: namespace.name().to_owned(),
    };
    let server = ApiServer::builder(in_memory(&StoreOptions::default()).unwrap())
        .crds(windlass_api::crds::all())
        .admission(windlass_admission::Provisioning::default())
        .sealing_key(&secrecy::SecretBox::new(Box::new([7; 32])))
        .build()
        .unwrap();
    // Repositories are judged beside one another there: each example is alone in its namespace.
    let embedded = Place {
        client: server.client_for_tests(),
        namespace: |_own, rule| rule.to_owned(),
        own: String::new(),
    };
    let mut differences = Vec::new();
    let mut rules = 0;
    for (kind, of) in examples().as_object().unwrap() {
        for (rule, example) in of["rules"].as_object().unwrap() {
            rules += 1;
            for place in [&real, &embedded] {
                if let Err(refusal) = place.attempt(kind, rule, &of["base"], example, "good").await {
                    differences.push(format!("{kind} {rule}: the good one is refused: {refusal}"));
                }
            }
            let on_real = real.attempt(kind, rule, &of["base"], example, "bad").await;
            let on_embedded = embedded.attempt(kind, rule, &of["base"], example, "bad").await;
            match (on_real, on_embedded) {
                // Sealed there, refused here: an intended difference.
                (Err(refusal), Ok(())) if rule.starts_with("raw-") => {
                    let text = refusal.to_string();
                    assert!(text.contains("create a Secret") && !text.contains(CANARY), "{text}");
                }
                (Err(one), Err(other)) if words(&one) == words(&other) => {
                    assert!(!one.to_string().contains(CANARY), "{one}");
                }
                (one, other) => {
                    differences.push(format!("{kind} {rule}:\n  real {one:?}\n  embedded {other:?}"));
                }
            }
        }
    }
    assert!(rules > 100, "only {rules} rules were looked at");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
async fn a_raw_secret_never_reaches_etcd_nor_the_answer() {
    const RAW: &str = "swordfish-raw-93b1d0f2";
    let Some(cluster) = Cluster::own().await.unwrap() else { return };
    let namespace = cluster.namespace("raw").await.unwrap();
    let repository = json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository", "metadata": {"name": "raw"},
        "spec": {"title": "T", "type": "git", "git": {"url": "https://git.example.com/a/b"}},
        "secure": {"token": {"create": RAW}},
    });
    for verb in [&["create", "-f", "-"][..], &["apply", "-f", "-"], &["apply", "--server-side", "-f", "-"]] {
        let arguments = [&["--namespace", namespace.name()], verb].concat();
        let refusal = cluster.kubectl(&arguments, &repository.to_string()).await.unwrap_err();
        let text = format!("{refusal:#}");
        assert!(
            text.contains("secure.token.create: Forbidden") && text.contains("secure.token.name"),
            "{text}"
        );
        assert!(!text.contains(RAW), "{text}");
    }
    let mut files = 0;
    let mut folders = vec![cluster.folder().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = std::fs::read(&path) {
                files += 1;
                let found = bytes.windows(RAW.len()).any(|window| window == RAW.as_bytes());
                assert!(!found, "{} holds the secret", path.display());
            }
        }
    }
    assert!(files > 5, "etcd's files and the logs were not found in {}", cluster.folder().display());
}
